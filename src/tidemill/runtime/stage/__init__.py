"""One shard of a micro-batch: messages in, operators over its state, messages out."""
