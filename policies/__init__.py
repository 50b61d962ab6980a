"""Who yields: at a link (link/), and which job runs where (cluster/). All of it is pure."""
