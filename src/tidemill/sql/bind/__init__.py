"""Names, types, keys and times of a parsed query: a relation of the algebra comes out."""
