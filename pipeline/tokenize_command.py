"""`tokenmill tokenize` and `tokenmill decode`: small things to look at, without Beam's jobs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from tokenmill import schemas
from tokenmill.dataset.block_rows import PART_COLUMNS, join_parts, list_parts
from tokenmill.dataset.shard_files import check_manifest
from tokenmill.errors import DataError, TokenmillError, UsageError
from tokenmill.models.base import MAX_ID
from tokenmill.models.showing import spell_out
from tokenmill.parquet.footer import check_rows, open_parquet
from tokenmill.pipeline.console import print_json, print_result
from tokenmill.tokenizer import Tokenizer


def tokenize_texts(
    tokenizer_path: str, texts: tuple[str, ...], *, special_tokens: bool = True, allow_special: bool = False
) -> None:
    """Print `{"tokens": [...], "ids": [...], "texts": [...]}` for each text, or for each line of standard input.

    `texts` says what each token stands for. `special_tokens`: those of the template are added; `allow_special`: those inside a
    text get their ids.
    """
    tokenizer = open_tokenizer(tokenizer_path)
    given: Iterable[str | bytes] = texts or read_lines()
    for place, text in enumerate(given, start=1):
        with naming_the_line(None if texts else place):
            ids = tokenizer.encode(text, allow_special=allow_special)
            ids = tokenizer.wrap(ids) if special_tokens else ids
        tokens, spelled = map(tokenizer.id_to_token, ids), (spell_out(tokenizer.model, token_id) for token_id in ids)
        print_json({"tokens": list(tokens), "ids": ids, "texts": list(spelled)})


def decode_ids(tokenizer_path: str | None, ids: tuple[str, ...], doc: str | None) -> None:
    """Print the text of token ids, or the documents of a dataset, one JSON line each."""
    if len(ids) == 1 and not ids[0].isdecimal():
        for row in decode_dataset(ids[0], tokenizer_path, doc):
            print_json(row)
        return
    if tokenizer_path is None or doc is not None:
        raise UsageError("give --tokenizer FILE and token ids, or the folder of a dataset")
    tokenizer = open_tokenizer(tokenizer_path)
    lines = [list(ids)] if ids else (line.decode("utf-8", "replace").split() for line in read_lines())
    for place, line in enumerate(lines, start=1):
        with naming_the_line(None if ids else place):
            text = tokenizer.decode(map(parse_id, line))
        print_result(text)


def open_tokenizer(path: str) -> Tokenizer:
    """A tokenizer from anywhere; Beam, which takes a second to import, is only asked for what is not on this machine."""
    if "://" not in path:
        return Tokenizer.from_file(path)
    from tokenmill.pipeline.driver import load_tokenizer

    return load_tokenizer(path)


@contextmanager
def naming_the_line(place: int | None) -> Iterator[None]:
    """Errors say in which line of standard input they arose."""
    try:
        yield
    except TokenmillError as error:
        raise error if place is None else type(error)(f"standard input, line {place}: {error}") from None


def decode_dataset(folder: str, tokenizer_path: str | None, doc: str | None) -> Iterator[dict[str, object]]:
    """The documents of a dataset, in order: id, number of tokens, text. With `doc` that one; `DataError` where there is none."""
    check_dataset(folder)
    tokenizer = open_tokenizer(tokenizer_path or os.path.join(folder, "tokenizer.json"))
    found = False
    for doc_id, token_ids in read_rows(folder):
        if doc is None or doc_id == doc:
            found = True
            yield {"doc_id": doc_id, "tokens": len(token_ids), "text": tokenizer.decode(token_ids)}
    if doc is not None and not found:
        raise DataError(f"{folder}: no document is called {doc!r}; ids are those of the column doc_id")


def read_rows(folder: str) -> Iterator[tuple[str, list[int]]]:
    """`(doc_id, token ids)` of each document of a dataset, shard after shard as the manifest lists them.

    `DataError` where the folder is no finished dataset, or a shard is missing or damaged.
    """
    manifest = check_dataset(folder)
    for shard in manifest["shards"]:
        path = os.path.join(folder, os.path.basename(shard["path"]))
        try:
            yield from read_shard(path)
        except (OSError, ValueError, KeyError, pa.ArrowException) as error:
            raise DataError(f"{path}: missing or damaged ({str(error).splitlines()[0]}); encode the corpus again") from None


def check_dataset(folder: str) -> dict[str, Any]:
    """The manifest of a finished dataset; `DataError` for what is none."""
    from tokenmill.pipeline.outputs import read_manifest

    manifest = read_manifest(folder)
    if manifest is None or manifest.get("format") != schemas.DATASET_FORMAT:
        raise DataError(
            f"{folder!r} is neither a token id nor a finished dataset: it holds no {schemas.MANIFEST} of one; "
            "`tokenmill encode` makes one"
        )
    check_manifest(folder, manifest)
    return manifest


def read_shard(path: str) -> Iterator[tuple[str, list[int]]]:
    """`(doc_id, token ids)` of each document of one shard, of one with packed blocks the documents put together again."""
    from apache_beam.io.filesystem import CompressionTypes

    from tokenmill.transforms.files import check_regular
    from tokenmill.transforms.stores import FileSystems

    check_regular(path)
    with FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
        shard, footer = open_parquet(file)
        if "doc_ids" in shard.schema_arrow.names:
            blocks = shard.read(columns=list(PART_COLUMNS))
            yield from ((doc_id, tokens.tolist()) for doc_id, tokens in join_parts(list_parts(blocks)))
            return
        batches = shard.iter_batches(batch_size=1024, columns=schemas.TOKENS.names)
        for batch in check_rows(batches, sum(footer.rows.tolist())):
            yield from zip(batch["doc_id"].cast(pa.string()).to_pylist(), batch["input_ids"].to_pylist(), strict=True)


def parse_id(word: str) -> int:
    """A token id of the command line."""
    if not word.isascii() or not word.isdecimal() or len(word) > 10:
        raise UsageError(f"{word[:40]!r} is no token id: ids are whole numbers from 0 to {MAX_ID}")
    return int(word)


def read_lines() -> Iterator[bytes]:
    """Lines of standard input without their ends, as the bytes they are."""
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r")
