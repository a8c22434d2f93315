"""What all operators share: change batches, the operator interface, value codes, annotations."""
