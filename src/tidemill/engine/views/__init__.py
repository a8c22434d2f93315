"""From the text of a query to a bound view: what its names mean, what is refused, what is stored of it."""
