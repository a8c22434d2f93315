"""`tidemill serve` under load: a million rows a second into fifty views, twenty psql readers, twenty subscribers."""
