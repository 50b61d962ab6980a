"""Published results as commands: an entry is a sweep, the published numbers, and verdicts."""
