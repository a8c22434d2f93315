"""The end of a micro-batch: stored views, sinks, subscriptions, dead letters, feedback."""
