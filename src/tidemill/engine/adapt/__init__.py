"""Plans that follow the data: statistics, drift, the history of plans, previews, calibration."""
