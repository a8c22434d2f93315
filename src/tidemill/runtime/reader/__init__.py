"""One reader partition of a micro-batch: decode, event time, linear operators, split by shard."""
