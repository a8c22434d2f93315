"""Sites: what leaves for other sites, what is read from them, and the conversations with them.

Read `sites` first: what this site answers is `service`, what it asks is `sessions`.

access     `exports` says who may read what, `flight` connects, `descriptions` checks what others say
names      `imports` for single streams, `edges` for what is shipped, `edge_ends` for both ends
joins      `site_joins`; `placing` and `choosing` price the ways, `measures` has the statistics, `realisation` makes the
           `fragments` and `queries` of the chosen one
in mid-run `changing` brings another plan into force, `changeable` says whether and when, `reducers` counts what passes
EXPLAIN    `remarks`, `traffic`
"""
