"""Running totals in the place of hash tables, where many queries share one raw relation."""
