"""What Dask's workers call: this package, of the same version, is all that they need to find."""

from giveway.launch import use_home


def do(order: bytes, *answers: bytes) -> bytes:
    """Do what an order of `giveway sweep --dask` says (testbed/workers/orders.py)."""
    use_home()
    from testbed.workers.orders import answered

    return answered(order, answers)
