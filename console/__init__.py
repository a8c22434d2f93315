"""The page of the console: its sources (src), and what its bundle was made from (stamp.py)."""
