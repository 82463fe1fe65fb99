"""tiktoken's rank files: one line per token, with its bytes in base64 and its rank, which is its id.

The file has no merge rules; `kernels.ranks` recovers them. It does not state the pre-tokenizer or the special tokens. This module
knows both for the published files; for other files they must be given.

tiktoken looks up a whole word among the tokens before it merges. This matters for tokens that merging their own bytes does not
produce. The files of GPT-2, cl100k and o200k have no such token. A file with such tokens becomes a model with `ignore_merges`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import (
    Rule,
    bpe_model_of,
    build_tokenizer,
    refuse_added,
    refuse_characters,
    refuse_marks,
    refuse_options,
    refuse_parts,
    show_bytes,
)
from tokenmill.kernels import ranks as kernels
from tokenmill.kernels.tables import allocate_table, arena_bytes_of
from tokenmill.models.base import MAX_ID, TokenWords
from tokenmill.models.bpe import BpeModel
from tokenmill.models.showing import show_token
from tokenmill.tokenizer import Tokenizer

#: Recovering the merges of a token takes time quadratic in its length. The longest published tokens have 128 bytes.
MAX_TOKEN_BYTES = 1024


class _Published(NamedTuple):
    pretokenizer: str
    special_tokens: Mapping[str, int]


#: The published files by sha256, as stated in tiktoken 0.14.
_PUBLISHED = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": _Published("gpt2", {"<|endoftext|>": 50256}),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": _Published(
        "cl100k",
        {
            "<|endoftext|>": 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
    ),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": _Published(
        "o200k", {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}
    ),
}


def loads(content: bytes, *, pretokenizer: str | None = None, special_tokens: Mapping[str, int] | None = None) -> Tokenizer:
    """Read a tokenizer from a rank file. `special_tokens` maps special tokens to ids, which must be free.

    Raises `TokenizerFileError`, which names the line, and `UsageError` if the pre-tokenizer is neither given nor known.
    """
    published = _PUBLISHED.get(hashlib.sha256(content).hexdigest())
    if pretokenizer is None:
        if published is None:
            raise UsageError("a tiktoken rank file does not say how text is cut into words; give its pre-tokenizer")
        pretokenizer = published.pretokenizer
    if special_tokens is None:
        special_tokens = published.special_tokens if published else {}
    words = TokenWords.of(_parse_lines(content))
    splits = recover_splits(words)
    rules = _rules_of(words, splits)
    vocab = {show_bytes(token): token_id for token, token_id in _tokens(words)}
    for token, token_id in special_tokens.items():
        if token in vocab:
            raise TokenizerFileError(
                f"the special token {token!r} is an ordinary token of the file, of rank {vocab[token]}; choose another"
            )
        vocab[token] = token_id
    unmerged = len(rules) < sum(len(token) > 1 for token, _ in _tokens(words))
    return build_tokenizer(
        vocab,
        rules,
        pretokenizer=pretokenizer,
        special_tokens=tuple(special_tokens),
        ignore_merges=unmerged,
        rule_place=lambda place: f"rule {place}",
    )


def dumps(tokenizer: Tokenizer) -> bytes:
    """Write the rank file of a byte-level tokenizer: all tokens except special ones, in order of id.

    Raises `UsageError` if tiktoken would not produce the same ids: if the pre-tokenizer is not lossless, or if the rules or their
    order cannot be recovered from the ids of the tokens.
    """
    model = bpe_model_of(tokenizer, "a tiktoken rank file")
    refuse_characters(tokenizer, "a tiktoken rank file")
    refuse_options(tokenizer, "tiktoken")
    refuse_parts(tokenizer, "tiktoken")
    refuse_added(tokenizer, "tiktoken")
    refuse_marks(model, "tiktoken")
    if not tokenizer.pretokenizer.lossless:
        raise UsageError(
            f"tiktoken's words are stretches of the text, those of {tokenizer.pretokenizer.name} are not; use --to native"
        )
    specials = {model.vocab[token] for token in model.special_tokens}
    words = TokenWords.of({word: token_id for token_id, word in model.spellings.items() if token_id not in specials})
    _check_rules(model, words)
    return b"".join(base64.b64encode(token) + b" %d\n" % token_id for token, token_id in _tokens(words))


def recover_splits(words: TokenWords) -> np.ndarray:
    """int64[t]: where in `words.text` each token splits into the two it is merged from, -1 if merging does not produce it.

    For the tokens `a`, `b`, `c`, `ab`, `abc` with ranks in this order, `ab` is merged from `a` and `b`, and `abc` from `ab` and
    `c`.
    """
    table = allocate_table(words.ids.size + 1, arena_bytes_of(words.ends))
    kernels.add_tokens(table, words.text, words.ends, words.ids.astype(np.int64))
    splits = np.empty(words.ends.size, np.int64)
    lengths = np.diff(words.ends, prepend=0)
    kernels.split_tokens(table, words.text, words.ends, int(lengths.max(initial=0)), splits)
    return splits


def _tokens(words: TokenWords) -> list[tuple[bytes, int]]:
    data, ends = words.text.tobytes(), words.ends.tolist()
    return [(data[start:end], token_id) for start, end, token_id in zip([0, *ends[:-1]], ends, words.ids.tolist(), strict=False)]


def _rules_of(words: TokenWords, splits: np.ndarray) -> list[Rule]:
    """The rules in order of the ids of their products."""
    shown, ends = show_bytes(words.text.tobytes()), words.ends.tolist()
    places = zip([0, *ends[:-1]], splits.tolist(), ends, strict=False)
    return [(shown[start:split], shown[split:end]) for start, split, end in places if split >= 0]


def _check_rules(model: BpeModel, words: TokenWords) -> None:
    last = {rule: rank for rank, rule in enumerate(model.merge_rules)}
    rules = sorted(last, key=lambda rule: last[rule])
    recovered = _rules_of(words, recover_splits(words))
    for place, (ours, theirs) in enumerate(zip(rules, recovered, strict=False)):
        if ours != theirs:
            raise UsageError(
                f"tiktoken takes ids for ranks, and here they are not: its merge {place} would be {theirs}, ours is {ours}; "
                "train with --ids rank, or use another format"
            )
    if len(rules) != len(recovered):
        raise UsageError(f"tiktoken would merge by {len(recovered)} rules, this model has {len(rules)}; use another format")
    if model.unmerged.ids.size and not model.ignore_merges:
        token = show_token(model, model.token_of_id[int(model.unmerged.ids[0])])
        raise UsageError(f"tiktoken takes a word that is a token whole, and merging does not give '{token}'; use another format")


def _parse_lines(content: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(content.split(b"\n"), start=1):
        line = line.rstrip(b"\r")
        if not line:
            continue
        token, rank = _parse_line(line, number)
        if token in ranks:
            raise TokenizerFileError(f"line {number}: the token {token!r} stands twice; keep one")
        ranks[token] = rank
    if not ranks:
        raise TokenizerFileError("the file holds no tokens; a rank file has one on each line")
    return ranks


def _parse_line(line: bytes, number: int) -> tuple[bytes, int]:
    parts = line.split(b" ")
    if len(parts) != 2:
        raise TokenizerFileError(f"line {number}: {line[:80]!r} is no token in base64, a space and a rank")
    try:
        token = base64.b64decode(parts[0], validate=True)
    except binascii.Error as error:
        raise TokenizerFileError(f"line {number}: {parts[0][:80]!r} is no base64: {error}") from None
    if not 0 < len(token) <= MAX_TOKEN_BYTES:
        raise TokenizerFileError(f"line {number}: a token of {len(token)} bytes; 1 to {MAX_TOKEN_BYTES} are taken")
    if not (parts[1].isdigit() and len(parts[1]) < 11 and int(parts[1]) <= MAX_ID):
        raise TokenizerFileError(f"line {number}: {parts[1][:80]!r} is no rank; ranks are whole numbers from 0 to {MAX_ID}")
    return token, int(parts[1])
