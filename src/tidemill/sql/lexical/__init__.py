"""Text to tokens, with positions and limits; durations and column types."""
