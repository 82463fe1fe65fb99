"""The group of commands: what every command has in common, from the words it gets to the exit code it leaves."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from tokenmill.errors import TokenmillError
from tokenmill.pipeline.console import (
    INTERRUPTED,
    describe_os_error,
    drop_output,
    fail,
    leave,
    logs_json,
    prepare_process,
    split_beam_args,
)

#: Options of training that say what a tokenizer is. Commands that use one take them from its file.
OF_THE_TOKENIZER = ("--model", "--normalizer", "--pair-template", "--pattern", "--pretokenizer", "--split-digits", "--template")


class Commands(click.Group):
    """The group of commands: hands Beam its words, and turns every error into one line and an exit code."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        words, beam_args = split_beam_args(list(sys.argv[1:] if args is None else args))
        prepare_process()
        run: Callable[..., Any] = super().main
        as_json = logs_json(words)
        try:
            if beam_args:  # they may say how a store is reached, and all commands look there before they have a job
                from tokenmill.pipeline.runners import use_beam_options

                use_beam_options(beam_args)
            result = run(words, *rest, standalone_mode=False, obj=beam_args, **extra)
        except click.exceptions.NoArgsIsHelpError as error:
            with contextlib.suppress(OSError):
                error.show()
            leave(2)
        except click.ClickException as error:
            fail(describe_usage(error) + hint_at_help(error), 2, as_json=as_json)
        except TokenmillError as error:
            fail(str(error), error.exit_code, as_json=as_json)
        except (KeyboardInterrupt, click.Abort):
            fail("interrupted; what was not finished is not published; run the same command again", INTERRUPTED, as_json=as_json)
        except BrokenPipeError:  # of `--help | head -1`
            drop_output()
            leave(0)
        except OSError as error:
            fail(describe_os_error(error), 1, as_json=as_json)
        except MemoryError:
            fail("out of memory; give fewer --workers, a smaller --split-mb, or a part of the corpus", 1, as_json=as_json)
        except Exception as error:
            if os.environ.get("TOKENMILL_DEBUG"):
                raise
            fail(
                f"unexpected {type(error).__name__}: {error}; set TOKENMILL_DEBUG=1 for the traceback, and report it",
                1,
                as_json=as_json,
            )
        return leave(result if isinstance(result, int) else 0) if standalone_mode else result


def describe_usage(error: click.ClickException) -> str:
    """What is wrong with the words of a command; of an option that only training takes, why it is not taken here.

    `encode --pretokenizer gpt2` -> "No such option '--pretokenizer': it belongs to the tokenizer, whose file says it; ..."
    """
    if isinstance(error, click.NoSuchOption) and error.option_name in OF_THE_TOKENIZER:
        option = error.option_name
        return f"No such option {option!r}: it belongs to the tokenizer, whose file says it; `tokenmill train` sets it"
    return error.format_message()


def hint_at_help(error: click.ClickException) -> str:
    """Where to read on, for an error in the words of a command."""
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f" (see {context.command_path} --help)" if context else ""
