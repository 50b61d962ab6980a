"""A topology made live on a Linux kernel, and its tasks; both live engines use it."""
