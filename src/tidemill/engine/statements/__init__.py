"""What each statement does: one handler for each class of statement."""
