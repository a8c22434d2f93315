"""What ticks tell of a micro-batch: counts of tables and joins for the next plan, times of sources."""
