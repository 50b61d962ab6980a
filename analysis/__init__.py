"""What a run means: metrics, statistics, plots and the report. Reads run folders only."""
