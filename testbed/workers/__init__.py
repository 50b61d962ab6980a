"""Runs of a sweep on Dask's workers: elsewhere, or here. docs/scale.md says when to take them."""
