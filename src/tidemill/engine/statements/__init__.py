"""What each statement does: one handler for each class of statement.

`executor` has the table from classes of statements to handlers.

what stands  `definitions`, `replacing`, `users`, `sites`, `settings`, `failures`
functions    `functions` and `aggregates` of users, checked by `given_functions`
questions    `adhoc`, `adhoc_streams`, `moment`, `subscribe`, `explain`
several      `partial_scripts`
"""
