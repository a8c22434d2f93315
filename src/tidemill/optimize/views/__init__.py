"""Queries answered from views that already run: matching, costs, shared pipelines.

Read `answer` first, then `match`.

matching   `peel` takes synchronizers off, `block` is what is compared; `canonical`, `columns`, `implication`, `total`,
           `window_bounds` and `groups` say when one contains the other
costs      `cost` (section 9 of paper 004), `added_cost`, `predict`, `streams`
pipelines  `figure12` names them, `tagging` chooses; `shared_taggers`, `joint_groups`, `disjunction` and `phantoms`
           build them
"""
