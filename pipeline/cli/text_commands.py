"""Commands that show things: `tokenize`, `decode`, `explain`."""

from __future__ import annotations

from typing import Any

import click

from tokenmill.models.kinds import KINDS
from tokenmill.names import SCORES, TIES
from tokenmill.pipeline.cli.options import PRETOKENIZER_OPTIONS, choose_pretokenizer
from tokenmill.pipeline.console import until_pipe_closes


@click.command()
@click.option("--tokenizer", required=True, metavar="FILE", help="The tokenizer.json to use.")
@click.option("--special-tokens/--no-special-tokens", default=True, help="Whether the template's tokens are added [yes].")
@click.option("--allow-special", is_flag=True, help="Special tokens inside a text get their ids; else they are plain text.")
@click.argument("texts", nargs=-1, metavar="[TEXT...]")
def tokenize(tokenizer: str, texts: tuple[str, ...], special_tokens: bool, allow_special: bool) -> None:
    """Show tokens and ids, one JSON line a text; without TEXT, of each line of standard input.

    \b
    tokenmill tokenize --tokenizer tokenizer.json 'Hello, world!'
    """
    from tokenmill.pipeline import tokenize_command as handler

    with until_pipe_closes():
        handler.tokenize_texts(tokenizer, texts, special_tokens=special_tokens, allow_special=allow_special)


@click.command()
@click.option("--tokenizer", metavar="FILE", help="The tokenizer.json to use; a dataset brings its own.")
@click.option("--doc", metavar="ID", help="Of a dataset, this document only.")
@click.argument("ids", nargs=-1, metavar="[ID...|DIR]")
def decode(tokenizer: str | None, doc: str | None, ids: tuple[str, ...]) -> None:
    """Turn token ids back into text, or show the documents of a dataset.

    Without ID or DIR, each line of standard input holds ids. A dataset gives one JSON line a document.

    \b
    tokenmill decode --tokenizer tokenizer.json 15496 11 995
    tokenmill decode tokens --doc corpus.jsonl:17
    """
    from tokenmill.pipeline import tokenize_command as handler

    with until_pipe_closes():
        handler.decode_ids(tokenizer, ids, doc)


@click.command()
@click.option("--tokenizer", metavar="FILE", help="Explain texts under this tokenizer.json.")
@click.option(
    "--train", "training", is_flag=True, help="Explain how rules are learned from words, or from texts on standard input."
)
@click.option(
    "--model",
    type=click.Choice([kind.name for kind in KINDS.values() if kind.explains_training]),
    help="Of training [default: char-bpe].",
)
@PRETOKENIZER_OPTIONS
@click.option("--vocab-size", type=int, metavar="N", help="Train to N tokens: alphabet and merges.")
@click.option("--merges", type=int, metavar="N", help="Train N merge rules [default: 10].")
@click.option("--ties", type=click.Choice(TIES), help="Of training, as in train [default: smallest].")
@click.option("--score", type=click.Choice(SCORES), help="Of training wordpiece, as in train [default: likelihood].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with the same content.")
@click.argument("texts", nargs=-1, metavar="[TEXT...|WORD:COUNT...]")
def explain(tokenizer: str | None, texts: tuple[str, ...], **options: Any) -> None:
    """Show step by step how a text becomes tokens, or how merge rules are learned from a few words.

    For learning: plain algorithms, and 2,000 characters at most. Words given with counts are not cut any further.

    \b
    tokenmill explain --tokenizer tokenizer.json 'Hello, world!'
    tokenmill explain --train low:5 lower:2 newest:6 widest:3 --vocab-size 13 --ties first-seen
    """
    from tokenmill.pipeline import explain_command as handler

    with until_pipe_closes():
        handler.explain(tokenizer, texts, choose_pretokenizer(options), **options)
