"""Subqueries in expressions: each becomes joins below the query around it, and a column or condition of that query.

A subquery is bound once for all outer rows (Neumann and Kemper, Unnesting Arbitrary Queries, 2015):

    conditions inner = outer     the subquery is grouped, or made distinct, by `inner`, and joined where it is `outer`
    any other mention of outer   the subquery also reads the distinct values of the columns that it mentions

`forms` finds subqueries, `names` the outer columns in them, `inner` binds them, `attach` joins them to the outer rows,
`marks` says what IN, ANY and ALL are of counts and extremes, and `apply` puts these together.
"""
