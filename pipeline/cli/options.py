"""Options that several commands share, and what is made of them: a corpus, a pre-tokenizer, how to run.

As in `cli.py`, nothing heavy is imported before a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tokenmill.models.kinds import default_pretokenizer
from tokenmill.names import (
    DIGIT_GROUPS,
    DOCUMENT_KINDS,
    INPUT_FORMATS,
    MOST_BLOCK,
    NORMALIZERS,
    OFFSET_UNITS,
    OVERFLOWS,
    PACKS,
    PRETOKENIZERS,
    TAILS,
    TEXT_POLICIES,
    TRUNCATIONS,
)

if TYPE_CHECKING:
    from tokenmill.encoding.templates import Template
    from tokenmill.pipeline.planning import Corpus, Execution
    from tokenmill.pipeline.shaping import RowOptions
    from tokenmill.text.normalizers import Normalizer
    from tokenmill.text.pretokenizers import PreTokenizer

Command = Callable[..., Any]


def add_options(*options: Command) -> Command:
    """Several click options as one decorator."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


INPUTS = click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")

CORPUS_OPTIONS = add_options(
    click.option(
        "--format",
        type=click.Choice(INPUT_FORMATS),
        default="auto",
        show_default=True,
        help="What the files hold; auto goes by their contents, and for text by their names (.jsonl, .txt).",
    ),
    click.option(
        "--encoding",
        default="utf-8",
        show_default=True,
        metavar="NAME",
        help="Encoding of text and JSON lines, as Python calls it: utf-16, latin-1, shift_jis, ...",
    ),
    click.option(
        "--delimiter",
        metavar="CHARACTER",
        help="What stands between the cells of CSV and TSV files: ';', '|', '\\t' ... [default: a comma in CSV, a tab in TSV].",
    ),
    click.option("--text-column", default="text", show_default=True, help="Column or JSON key that holds the text."),
    click.option("--id-column", help="Column or JSON key that holds document ids; without it a document is called FILE:ROW."),
    click.option(
        "--document",
        type=click.Choice(DOCUMENT_KINDS),
        default="line",
        show_default=True,
        help="What a document is in text files (for stdlib: the file).",
    ),
    click.option("--limit", type=click.IntRange(min=1), help="Take the first N documents, in corpus order."),
    click.option(
        "--invalid-utf8",
        type=click.Choice(TEXT_POLICIES),
        default="reject",
        show_default=True,
        help="Bytes that are not UTF-8, and lone surrogates: end the run, put U+FFFD, or set the document aside.",
    ),
    click.option(
        "--max-document-mb",
        type=float,
        default=128,
        show_default=True,
        help="A larger document (of JSON lines, a longer line) is set aside; one of this size takes about 1.5 GB of memory.",
    ),
    click.option(
        "--max-window",
        type=float,
        default=128,
        show_default=True,
        metavar="MB",
        help="A zstd file that needs a larger window (zstd --long=31: 2048) is refused; each worker may take that much memory.",
    ),
    click.option(
        "--max-rejects",
        metavar="N|P%",
        help="End without a result when more records than this are rejected; 100% allows all [default: 50% of all "
        "records, and of each file that has 100 or more].",
    ),
)

PRETOKENIZER_OPTIONS = add_options(
    click.option(
        "--pretokenizer",
        type=click.Choice(PRETOKENIZERS),
        help="How text is cut into words [default: gpt2, bert for wordpiece, regex with --pattern, or that of the counts].",
    ),
    click.option(
        "--split-digits",
        type=click.Choice([str(group) for group in DIGIT_GROUPS]),
        help="Cut digits out of the text first: 1, each by itself; 3, in groups of three counted from the right.",
    ),
    click.option("--pattern", metavar="REGEX", help="Words are the matches of this pattern of the regex package: exact, slow."),
)

TEMPLATE_OPTIONS = add_options(
    click.option("--template", metavar="TEXT", help="Special tokens around a text: '<s> $A </s>'. Part of the tokenizer."),
    click.option("--pair-template", metavar="TEXT", help="The same for two: '[CLS] $A [SEP] $B:1 [SEP]:1'; :1 is a type id."),
)

NORMALIZER_OPTION = click.option(
    "--normalizer",
    multiple=True,
    metavar="NAME",
    help=f"What is done to text first: {', '.join(NORMALIZERS)}, replace:OLD=>NEW or replace_regex:PATTERN=>NEW. Can be given "
    "again, in order.",
)

LOG_OPTIONS = add_options(
    click.option("--quiet", is_flag=True, help="No progress, no summary."),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json gives one object a line on standard error, for programs that watch.",
    ),
)

RUN_OPTIONS = add_options(
    click.option(
        "--split-mb",
        type=click.FloatRange(min=0, min_open=True),
        default=32,
        show_default=True,
        help="Size of a unit of work, and so of a shard's input.",
    ),
    click.option("--workers", type=click.IntRange(min=1), help="Processes on this machine; by default as many as pay."),
    LOG_OPTIONS,
)

ROW_OPTIONS = add_options(
    click.option(
        "--block", type=click.IntRange(1, MOST_BLOCK), metavar="N", help="A row is a block of N tokens, not a document."
    ),
    click.option(
        "--pack",
        type=click.Choice(PACKS),
        help="concat: documents joined and cut. best-fit: whole documents, least padding. none: one a block. [default: concat]",
    ),
    click.option(
        "--tail",
        type=click.Choice(TAILS),
        help="The last, shorter block of a shard under concat: pad, keep or drop [default: pad].",
    ),
    click.option("--eos", metavar="TOKEN", help="Special token behind each document of a block; concat needs it."),
    click.option("--pad", metavar="TOKEN", help="Special token that fills blocks up [default: that of --eos]."),
    click.option("--segment-ids", is_flag=True, help="Add the column segment_ids: 1, 2, ... for the documents of a block."),
    click.option("--position-ids", is_flag=True, help="Add the column position_ids, which begin anew with each document."),
    click.option("--shuffle", type=click.IntRange(min=0), metavar="SEED", help="Shuffle documents and blocks within each shard."),
)

WATCH_OPTIONS = add_options(
    click.option(
        "--watch", is_flag=True, help="Go on until SIGTERM: files that come into the inputs become shards. On this machine."
    ),
    click.option(
        "--every",
        type=click.FloatRange(min=0, min_open=True),
        metavar="SECONDS",
        help="How often --watch looks [default: 10]. A file is taken when it is as it was at the look before.",
    ),
)

SHAPE_OPTIONS = add_options(
    click.option(
        "--pair-column", metavar="COL", help="Column or JSON key of a second text: rows are pairs, as the template has them."
    ),
    click.option("--max-length", type=click.IntRange(min=1), metavar="N", help="Cut rows to N tokens, special ones included."),
    click.option(
        "--overflow",
        type=click.Choice(OVERFLOWS),
        help="What is cut off is dropped, or rows of its own [default: drop].",
    ),
    click.option(
        "--truncate",
        type=click.Choice(TRUNCATIONS),
        help="Which text of a pair is cut [default: longest_first, the longer one down to the shorter, then both].",
    ),
    click.option(
        "--offsets",
        type=click.Choice(OFFSET_UNITS),
        help="Add the columns offset_starts and offset_ends: which part of its text each token comes from, in this unit.",
    ),
    click.option("--stride", type=click.IntRange(min=0), default=0, metavar="N", help="Tokens that such rows have in common."),
    click.option(
        "--pad-to", type=click.IntRange(1, MOST_BLOCK), metavar="N", help="Fill rows up to N tokens with the token of --pad."
    ),
    click.option("--attention-mask", is_flag=True, help="Add the column attention_mask: 0 for padding, 1 for all else."),
    click.option("--token-type-ids", is_flag=True, help="Add the column token_type_ids, as the template has them."),
    click.option("--special-tokens-mask", is_flag=True, help="Add the column special_tokens_mask: 1 for those added."),
    click.option(
        "--special-tokens/--no-special-tokens", default=True, help="Whether the template's tokens are added [default: they are]."
    ),
    click.option("--allow-special", is_flag=True, help="Special tokens inside texts get their ids; else they are plain text."),
)

OVERWRITE = click.option("--overwrite", is_flag=True, help="Replace what the folder holds.")


def choose_pretokenizer(options: dict[str, Any]) -> PreTokenizer | None:
    """The pre-tokenizer that the options ask for, None when they say nothing of it."""
    from tokenmill.text.pretokenizers import PreTokenizer

    name, digits, pattern = options["pretokenizer"], options["split_digits"], options["pattern"]
    if name is None and digits is None and pattern is None:
        return None
    default = default_pretokenizer(options.get("model")) if pattern is None else "regex"
    return PreTokenizer(name or default, None if digits is None else int(digits), pattern)


def choose_template(options: dict[str, Any]) -> Template | None:
    """The template that the options ask for, None when they say nothing of it."""
    from tokenmill.encoding.templates import Template
    from tokenmill.errors import UsageError

    single, pair = options["template"], options["pair_template"]
    if single is None and pair is not None:
        raise UsageError("--pair-template is for pairs of what --template is for; give that too")
    return None if single is None else Template.of({"single": single, "pair": pair})


def choose_normalizer(options: dict[str, Any]) -> Normalizer | None:
    """The normalizer that the options ask for, None when they say nothing of it."""
    from tokenmill.text.normalizers import Normalizer, parse_option

    given = options["normalizer"]
    return Normalizer.of([parse_option(text) for text in given]) if given else None


def make_corpus(inputs: tuple[str, ...], options: dict[str, Any]) -> Corpus:
    """What to read, from the options of the command line."""
    from tokenmill.pipeline.accounting import MaxRejects
    from tokenmill.pipeline.planning import FILE_OPTIONS, Corpus, document_bytes_of, split_bytes_of
    from tokenmill.transforms.splits import ReadOptions

    names = ("text_column", "id_column", "document", "invalid_utf8", "pair_column")
    most_bytes = document_bytes_of(options.get("max_document_mb", 128))
    read = ReadOptions(**{name: options[name] for name in names if name in options}, max_document_bytes=most_bytes)
    most, size = MaxRejects.parse(options["max_rejects"]), split_bytes_of(options["split_mb"])
    how = {name: options[name] for name in ("format", "limit", *FILE_OPTIONS)}
    return Corpus(inputs, read=read, split_bytes=size, max_rejects=most, **how)


def choose_rows(options: dict[str, Any]) -> RowOptions:
    """What rows are, from the options of the command line."""
    from tokenmill.pipeline.shaping import RowOptions

    return RowOptions(**{name: options[name] for name in RowOptions.__dataclass_fields__})


def make_run(beam_args: tuple[str, ...], options: dict[str, Any]) -> Execution:
    """How to run, from the options of the command line."""
    from tokenmill.pipeline.forked import ForkedWorkers
    from tokenmill.pipeline.planning import Execution
    from tokenmill.pipeline.progress import reporter

    report = reporter(options["log_format"], options["quiet"])
    return Execution(report, workers=options["workers"], beam_args=beam_args, ready=ForkedWorkers())
