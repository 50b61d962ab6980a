"""Giveway from Python: docs/api.md. It brings no other module of Giveway into your process."""
