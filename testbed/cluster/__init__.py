"""Jobs that arrive, wait, run and leave: the mechanism below the schedulers of policies/cluster."""
