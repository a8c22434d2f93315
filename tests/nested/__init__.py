"""Types that hold others."""
