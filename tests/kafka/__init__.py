"""Kafka as a source and as a sink, with a real broker."""
