"""The shared vocabulary of sql, optimize and runtime, none of which it imports: statements, relations, plans.

`relations/` and `scalars/` are the algebra, `physical/` is what runs, `points/` when it is shown; `statements` is
what the parser makes.

nodes        `node` interns them, `cached` keeps what is computed of them, `validate` refuses endless state
sources      `sources`, and how far their rows have come: `released`, `below`, `homes`, `measured/`
windows      `windows`, `periods`, `empty_windows`, `unshared`; of functions `window_calls`, `window_frames`
aggregates   `aggregates`, `fragments`, `two_level`, `collected`, `user_aggregates`; over joins `aggregation_joins`
programs     small languages that kernels run: `predicate_programs`, `row_programs`; `user_functions` are Python's
values       `nested_types`, `python_values`, `value_text`, `html`, `sort_keys`
costs, show  `operator_rows`, `show/`; joins between sites: `sites/`
"""
