"""Names, types, keys and times of a parsed query: a relation of the algebra comes out.

Read `query` first: it calls the others in the order of the clauses.

names        `scope` what they mean; `aliases`, `field_paths`, `stars`, `using`, `unfolding`, `imported_names`
FROM         `from_clause`, `from_items`; `values`, `unnest`, `recursion`, `set_operations`, `subqueries/`
joins        `joins`, `asof_joins`, `kept_joins`
times        `windows`, `sessions`, `table_windows`, `window_bounds`, `group_windows`, `epochs`, `clock_points`
expressions  `scalar` checks and types them, `trees` makes scalars of the plan; `functions` and `catalogue` list what
             there is, `lengths` and `lambdas` bound what one value may take, `user_functions` are those of users
groupings    `groups`, `grouping_sets`, `aggregate_calls`, `collected_calls`
SELECT       `projection`, `ordering`; `window_functions` with `window_syntax` and `windowed_select`
result       `bound`; `read_fields` refuses what nothing above has read
"""
