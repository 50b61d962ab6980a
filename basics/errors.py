"""What can go wrong, and the exit code each kind of trouble ends with.

GivewayError
├── BadInput      2  the file or the command line is wrong; nothing has been started
├── CannotRun     3  the machine cannot do what was asked
└── RunFailed     4  a run was started and did not finish
"""


class GivewayError(Exception):
    """A message for the person at the keyboard: what, where, what to do."""

    exit_code = 4


class BadInput(GivewayError):
    exit_code = 2


class CannotRun(GivewayError):
    exit_code = 3


class RunFailed(GivewayError):
    exit_code = 4
