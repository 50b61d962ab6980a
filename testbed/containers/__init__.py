"""Hosts that are Docker containers: the engine, the images, the containers of one run."""
