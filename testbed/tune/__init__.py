"""`giveway tune`: which settings of a transfer policy are best for a job, found by simulation."""
