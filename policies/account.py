"""What a worker may still be late, from iteration to iteration: an integral controller of slack.

A worker cannot see what an iteration would take beside the flows while it gives way to them. It
can count: whenever nothing is left on its account it sends beside the flows for an iteration or
more, and those say what is usual. What an iteration waits beyond that is what giving way cost.
"""

# In tolerances. Earning half of one leaves the other half to chance: a run has few iterations, and
# a mean of those that is right in the long run is beyond the bound every other time.
EARNED = 0.5
# Eight iterations that cost nothing fill it from empty; one that is very late (a timeout of TCP)
# costs no more than all of it, so eight iterations later it is forgotten.
FULL = 4.0
# It begins carefully: nobody knows yet what is usual.
FIRST = 1.0
# Weight of the last iteration beside the flows in what is usual, once there were ten.
RECENT = 0.1


class Account:
    """Each iteration pays in what is earned, and draws what it waited beyond what is usual."""

    def __init__(self, tolerance_ns: float) -> None:
        self._tolerance_ns = tolerance_ns
        self._least_ns = float("inf")
        self._mean_ns = 0.0
        self._measured = 0  # iterations beside the flows
        self.left = FIRST if tolerance_ns else 0.0  # in tolerances

    def iterated(self, waited_ns: int, *, beside: bool) -> None:
        """An iteration is over; `beside`: the worker gave way at no time of it."""
        self._least_ns = min(self._least_ns, waited_ns)
        if beside:
            self._measured += 1
            self._mean_ns += max(1 / self._measured, RECENT) * (waited_ns - self._mean_ns)
        if self._tolerance_ns:
            late = (waited_ns - self.usual_ns) / self._tolerance_ns
            self.left = min(FULL, max(0.0, self.left + EARNED - late))

    @property
    def usual_ns(self) -> float:
        """What iterations beside the flows wait; before there was one, the least that any did."""
        return self._mean_ns if self._measured else self._least_ns

    @property
    def sure(self) -> float:
        """The part of the mean rate that it can afford to count on; 0: it does not give way."""
        return self.left / FULL
