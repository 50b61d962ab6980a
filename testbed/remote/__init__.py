"""Another machine, for `giveway on`: ship, set up, run, fetch."""
