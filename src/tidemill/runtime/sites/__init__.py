"""Delivery between sites: messages on disk, the outbox and the inbox of an edge, and Arrow Flight."""
