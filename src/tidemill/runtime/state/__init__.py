"""The state of a shard: arrangements of sorted segments, and copies of it."""
