"""The process behind the command line: its words, its standard streams, and how it ends."""

from __future__ import annotations

import contextlib
import gc
import io
import itertools
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from tokenmill.unicode_text import show_text

INTERRUPTED = 130
_LAST_STANDARD = 2
#: Commands whose words after `--` are options of Beam. Elsewhere `--` ends the options, as usual.
BEAM_COMMANDS = ("count", "train", "encode", "build", "report")
#: Those whose words after `--` are options of Beam if each of them begins with `--`: where a store is, and who may use it.
STORE_COMMANDS = ("verify", "pin", "plan")


def prepare_process() -> None:
    """Give closed standard streams something to be, let SIGTERM and SIGHUP end a run as Ctrl-C does, keep Beam's warnings quiet.

    What is printed is UTF-8, as the texts are, whatever the locale says; names of files are given back byte by byte.
    """
    _fill_descriptors()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # under nohup it is ignored
            signal.signal(signal.SIGHUP, signal.default_int_handler)
    # Beam warns through the root logger while it is imported, of extras that are not installed.
    if not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())


def _fill_descriptors() -> None:
    """Open the standard descriptors that are closed, as a service's may be: a pipe or file that got such a number would be taken
    for a standard stream. They stay open whatever becomes of Python's objects for them.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD:
        os.set_inheritable(number, True)
    os.close(number)


def keep_docstrings() -> None:
    """Under `python -OO`, or PYTHONOPTIMIZE=2, begin again with `-O`.

    Docstrings are the help of our commands, and Beam cannot be imported without those of its own.
    """
    if sys.flags.optimize > 1:
        os.environ["PYTHONOPTIMIZE"] = "1"  # for workers too
        words = [re.sub(r"^-OO+$", "-O", word) for word in sys.orig_argv[1:]]
        os.execv(sys.executable, [sys.executable, *words])


@contextmanager
def until_pipe_closes() -> Iterator[None]:
    """A reader that has seen enough (`| head -1`) ends a command well."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


def drop_output() -> None:
    """Let what is printed, and waits to be, go nowhere: nobody takes it any more."""
    with contextlib.suppress(OSError, ValueError):  # a stream of a test is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def describe_os_error(error: OSError) -> str:
    """Names the file. Python says none where it was standard output: whether that is so, one more line end tells."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    try:
        print(flush=True)
    except OSError as failure:
        drop_output()
        return f"standard output: {failure.strerror}; not all was printed that there is to say"
    return str(error)


def print_text(text: str) -> None:
    """Print what is for people: names of files, keys and tokens in it come from others, and may hold what steers a terminal."""
    print(show_text(text))


def print_result(text: str) -> None:
    """Print what programs read too: as it is, but to a terminal as `print_text` does it."""
    print(show_text(text) if sys.stdout.isatty() else text)


def print_json(value: Any) -> None:
    r"""Print one JSON line; to a terminal with `\u` in place of what JSON leaves as it is and a terminal does not show."""
    text = json.dumps(value, ensure_ascii=False)
    if sys.stdout.isatty():
        text = "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in text)
    print(text)


def split_beam_args(words: list[str]) -> tuple[list[str], tuple[str, ...]]:
    """`["count", "a", "--", "--runner=X"]` -> `["count", "a"]` and `("--runner=X",)`."""
    command = next((word for word in words if not word.startswith("-")), None)
    if command not in (*BEAM_COMMANDS, *STORE_COMMANDS) or "--" not in words:
        return words, ()
    place = words.index("--")
    beam_args = tuple(words[place + 1 :])
    if command in STORE_COMMANDS and not all(word.startswith("--") for word in beam_args):
        return words, ()
    return words[:place], beam_args


def logs_json(words: list[str]) -> bool:
    """Whether a command line asks for `--log-format json`."""
    return "--log-format=json" in words or ("--log-format", "json") in itertools.pairwise(words)


def fail(message: str, code: int, *, as_json: bool = False) -> NoReturn:
    """One line on standard error, and out: an object with the whole message, or text.

    Details of an unexpected failure follow text only when asked for.
    """
    first, _, details = message.partition("\n")
    debug = details and (os.environ.get("TOKENMILL_DEBUG") or first.endswith(" errors"))
    text = show_text(f"tokenmill: {first}" + (f"\n{details}" if debug else ""))
    if as_json:
        text = json.dumps({"event": "error", "exit_code": code, "text": message})
    with contextlib.suppress(OSError):  # where it cannot be said, the exit code says it
        print(text, file=sys.stderr, flush=True)
    leave(code)


def leave(code: int) -> NoReturn:
    """End the process with an exit code; a success of which not all could be printed is none."""
    try:
        with until_pipe_closes():
            pass
    except OSError:
        drop_output()
        code = code or 1
    sys.exit(code)


def end_at_once(work: Callable[[], Any]) -> NoReturn:
    """Do the work and leave with its exit code, without taking the interpreter down.

    Python looks for garbage less often: among all that a command imports and loads there is none, and looking took a fifth of its
    start. (Forked workers look more often again, and not at what they share: see `pipeline/forked.py`.)
    """
    gc.set_threshold(1_000_000, 50, 50)
    code: Any = 0
    try:
        work()
    except SystemExit as end:
        code = end.code
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    if (spooling := sys.modules.get("tokenmill.pipeline.spooling")) is not None:
        spooling.remove_spooled()
    os._exit(code if isinstance(code, int) else int(code is not None))
