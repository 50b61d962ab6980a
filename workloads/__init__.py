"""What runs: training jobs, flow schedules, and the processes that play them."""
