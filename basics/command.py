"""The outermost frame of a command: whatever happens, one line for the person and an exit code.

Imports little, and what it runs is imported inside of it, so that Ctrl-C is answered from the first
moment on. GIVEWAY_DEBUG=1 shows the traceback of what nobody foresaw; else a file has it.
"""

import codecs
import errno
import io
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from basics.errors import BadInput, CannotRun, GivewayError, RunFailed

INTERRUPTED = 130
PIPE_CLOSED = 141  # as the shell says of a program that SIGPIPE ended
DEBUG = "GIVEWAY_DEBUG"
PLAINLY = "giveway-plainly"  # how what cannot be encoded is written


# For terminals that show ASCII alone; a minus that becomes a question mark is another number.
PLAIN = {
    "\N{MINUS SIGN}": "-", "\N{EN DASH}": "-", "\N{NO-BREAK SPACE}": " ", "\N{MICRO SIGN}": "u",
    "\N{MULTIPLICATION SIGN}": "x", "\N{SUPERSCRIPT TWO}": "2", "\N{HORIZONTAL ELLIPSIS}": "...",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"', "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHTWARDS ARROW}": "->",
}  # fmt: skip


class OutputLost(Exception):
    """Standard output takes nothing more. Not an OSError: libraries have ideas about those."""

    def __init__(self, why: OSError) -> None:
        super().__init__(f"standard output cannot be written to: {why.strerror}")
        self.errno = why.errno


class Escaped(Exception):
    """Carries an error (its cause) past a library that would answer it in its own way."""


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as why:
            raise OutputLost(why) from None


def wordy() -> bool:
    """Whether the person asked to be told more: `-v` sets the variable too."""
    return os.environ.get(DEBUG) == "1"


def run(main: Callable[[], object]) -> NoReturn:
    """Run a command to its end, and this process with it."""
    try:
        _open_what_is_closed()
        codecs.register_error(PLAINLY, _plainly)
        sys.stdout = output = _checked(sys.stdout)
        if isinstance(sys.stderr, io.TextIOWrapper):
            sys.stderr.reconfigure(errors=PLAINLY)
        try:
            code = main()
        except SystemExit as asked:
            code = asked.code
        output.flush()
    except KeyboardInterrupt:
        _say("interrupted")
        code = INTERRUPTED
    except OutputLost as lost:
        _silence()
        code = PIPE_CLOSED if lost.errno == errno.EPIPE else RunFailed.exit_code
        if code != PIPE_CLOSED:
            _say(str(lost))
    except Exception as caught:
        error = caught.__cause__ if isinstance(caught, Escaped) else caught
        known = error if isinstance(error, GivewayError) else _explained(error)
        for line in str(known).splitlines() if isinstance(known, BadInput) else [str(known)]:
            _say(line)  # each is a mistake of its own
        code = known.exit_code
    sys.exit(code)  # type: ignore[arg-type]


def _open_what_is_closed() -> None:
    """A file that is opened where standard output was closed would get what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


def _checked(stream: Any) -> TextIO:
    """Standard output that says in plain letters what it cannot show, and says when it is lost."""
    raw = io.BufferedWriter(_Output(stream.fileno(), "w", closefd=False))
    at_once = stream.line_buffering or stream.write_through  # on a terminal, or `python -u`
    return io.TextIOWrapper(raw, stream.encoding, PLAINLY, line_buffering=at_once)


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in letters), error.end


def _silence() -> None:
    """What is still in the buffer goes nowhere: Python would try, and complain, at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(text: str) -> None:
    try:
        print(f"giveway: {text}", file=sys.stderr)
    except OSError:
        return


def _explained(error: BaseException | None) -> GivewayError:
    """An error that nobody caught, for the person at the keyboard."""
    import traceback

    if wordy():
        traceback.print_exception(error)
    number, path = (error.errno, error.filename) if isinstance(error, OSError) else (None, None)
    if number in (errno.EMFILE, errno.ENFILE):
        import resource

        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return CannotRun(
            f"too many open files ({allowed} are allowed): raise the limit with `ulimit -n`"
        )
    if number in (errno.ENOSPC, errno.EDQUOT):
        where = f": cannot write {path}" if path else ""
        return RunFailed(f"the disk is full{where}; free some space")
    if number == errno.ENOMEM or isinstance(error, MemoryError):
        return RunFailed("memory ran out; end other programs, or make the experiment smaller")
    first = (str(error).strip().splitlines() or ["no message"])[0]
    details = _written("".join(traceback.format_exception(error)))
    return RunFailed(f"unforeseen: {type(error).__name__}: {first}; details: {details}")


def _written(details: str) -> str:
    """Where the details are, or how to see them."""
    import tempfile

    try:
        number, name = tempfile.mkstemp(prefix="giveway-error-", suffix=".log")
        with open(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(f"{sys.argv}\n{details}")
    except OSError:
        return f"the same again with {DEBUG}=1"
    return name
