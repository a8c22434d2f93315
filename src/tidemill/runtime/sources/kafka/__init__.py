"""A topic of Kafka as a source, without a consumer group: a log of our own says which records were taken."""
