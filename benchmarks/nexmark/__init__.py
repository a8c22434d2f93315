"""Nexmark: an online auction with persons, auctions and bids, and the queries q0 to q23 over it."""
