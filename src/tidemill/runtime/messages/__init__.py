"""What travels between readers, shards and the outlet: messages, dead letters, counts, files."""
