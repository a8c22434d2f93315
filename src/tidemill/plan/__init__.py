"""The shared vocabulary of sql, optimize and runtime, none of which it imports: statements, relations, plans."""
