"""What readers and shards count of a micro-batch for the next plan: dataclasses that ticks carry to the optimizer."""
