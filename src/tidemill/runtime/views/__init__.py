"""The end of a micro-batch: stored views, sinks, subscriptions, dead letters, feedback.

Read `outlet` first: it applies a micro-batch, in one transaction of `store`.

a batch        `batch_summary` of the ticks, `changes` of the views, `feedback` into the next batch
where rows go  `pools` or a view's own `tables`; `growing_views`; `stored_view` describes a view
shown earlier  `history`, `past` and `moments`: views as of one time; `stand_ins`, `successions` of replaced views
shown early    `provisional_rows`: as if the input ended here
subscribers    `subscriptions`, `joint_subscriptions`, `resumable_subscriptions`, `batch_times`
sinks          `sink`, `sinks`, `sink_beginnings`, `undelivered`; other sites: `shipping`
what went ill  `dead_letter_table`, `stopped_views`, `source_totals`
"""
