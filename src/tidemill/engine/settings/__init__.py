"""Options and settings: every value is checked when it is given."""
