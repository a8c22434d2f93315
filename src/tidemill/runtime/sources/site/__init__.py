"""What another site delivers, as a source: the inbox of an edge."""
