"""`tokenmill convert`: a tokenizer from one file format into another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenmill.encoding.templates import Template
from tokenmill.errors import OutputExistsError, UsageError
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizer_files import write_file


def parse_specials(words: Sequence[str]) -> dict[str, int] | None:
    """`["<|end|>=300"]` is `{"<|end|>": 300}`; nothing is None."""
    specials: dict[str, int] = {}
    for word in words:
        token, _, number = word.rpartition("=")
        if not token or not (number.isascii() and number.isdigit()):
            raise UsageError(f"--special {word!r} is no token, `=` and an id, such as '<|endoftext|>=100257'")
        if token in specials:
            raise UsageError(f"--special {token!r} is given twice; give each token one id")
        specials[token] = int(number)
    return specials or None


def convert_tokenizer(
    source: str,
    target: str,
    format: str,
    *,
    pretokenizer: str | None,
    special: dict[str, int] | None,
    template: Template | None = None,
    overwrite: bool,
) -> None:
    """Write `source` to the file `target` (for GPT-2's files: into that folder), each file by temporary name and rename.

    With `template` it replaces that of `source`.
    """
    tokenizer = Tokenizer.from_file(source, pretokenizer=pretokenizer, special_tokens=special)
    if template is not None:
        tokenizer = Tokenizer(
            tokenizer.model,
            pretokenizer=tokenizer.pretokenizer,
            normalizer=tokenizer.normalizer,
            template=template,
            training=tokenizer.training,
        )
    files = tokenizer.to_format(format)
    into_folder = len(files) > 1
    paths = {Path(target, name) if into_folder else Path(target): content for name, content in files.items()}
    for path in paths:
        if path.is_dir():
            raise UsageError(f"{path} is a folder; give the name of a file")
        if path.exists() and not overwrite:
            raise OutputExistsError(f"{path} exists; choose another name, or give --overwrite")
    for path, content in paths.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)
