"""Text to statements to relations: what users write ends here as a checked tree."""
