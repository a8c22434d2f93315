"""Users of the server: verifiers of their passwords, what each may do, and their sessions."""
