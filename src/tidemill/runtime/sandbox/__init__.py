"""Ad hoc queries in a process of their own: `worker` answers, `pool` starts, limits and ends it."""
