"""Stateful and linear operators, one a file.

The interface is `runtime/dataflow/operator.py`; `evaluation/evaluate.py` has the table of all operators.

without state  `linear`; `plain_columns`, its fast path
keyed streams  `tagger`, `shedding`
joins          `join`, `joined_pairs`, `band`, `join_at`, `set_operations`
times          `synchronizer`, `windows`, `sessions`, `session_revisions`, `catch_up`
whole answers  `rstream`, `numbered_answers`, `change_stream`
plans          `alternatives`, which changes from one to another
recursion      `recursive`
in folders     `grouping/`, `ranking/`
"""
