"""Special tokens inside texts: plain text, unless they are asked for."""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tiktoken.load import load_tiktoken_bpe

from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.errors import UnknownCharacterError, UsageError
from tokenmill.text import special_text

SPECIALS = ("<|end|>", "<|end|>|>", "<|", "[X]", "aé")


@functools.cache
def special_tokenizer(model: str = "byte-bpe", pretokenizer: str = "gpt2") -> Tokenizer:
    return train(["user wrote <|end|> here, <| end"], model=model, pretokenizer=pretokenizer, merges=9, special_tokens=SPECIALS)


def test_plain_text_by_default() -> None:
    tokenizer = special_tokenizer()
    ids = tokenizer.encode("user wrote <|end|> here")
    assert not set(ids) & {tokenizer.vocab[token] for token in SPECIALS}
    assert tokenizer.decode(ids) == "user wrote <|end|> here"


def test_the_id_where_it_is_asked_for() -> None:
    tokenizer = special_tokenizer()
    expected = [*tokenizer.encode("user wrote "), tokenizer.vocab["<|end|>"], *tokenizer.encode(" here")]
    assert tokenizer.encode("user wrote <|end|> here", allow_special=True) == expected
    assert tokenizer.encode("user wrote <|end|> here", allow_special={"<|end|>"}) == expected
    assert tokenizer.encode("user wrote <|end|> here", allow_special={"[X]"}) == tokenizer.encode("user wrote <|end|> here")


def test_longest_first_and_leftmost() -> None:
    tokenizer = special_tokenizer()
    ids = tokenizer.encode("<|end|>|><|end|><|<|en", allow_special=True)
    assert [tokenizer.id_to_token(one) for one in ids[:4]] == ["<|end|>|>", "<|end|>", "<|", "<|"]


def test_words_do_not_reach_across() -> None:
    tokenizer = special_tokenizer()
    assert tokenizer.encode("he[X]re", allow_special=True) == [
        *tokenizer.encode("he"),
        tokenizer.vocab["[X]"],
        *tokenizer.encode("re"),
    ]


parts = st.lists(st.sampled_from([*SPECIALS, "<|end", "|>", "<", "a", " user", "é", "\n", "[", "X]", ""]), max_size=8).map(
    "".join
)


@few_cases(150, 10)
@given(texts=st.lists(parts, max_size=4), allowed=st.sets(st.sampled_from(SPECIALS)))
def test_as_hugging_face_does(texts: list[str], allowed: set[str]) -> None:
    tokenizer = special_tokenizer()
    peer = peer_of(frozenset(allowed))
    found = tokenizer.encode_batch(texts, allow_special=allowed)
    found.validate(full=True)
    assert found.to_pylist() == [peer.encode(text, add_special_tokens=False).ids for text in texts]
    assert [tokenizer.encode(text, allow_special=allowed) for text in texts] == found.to_pylist()


@functools.cache
def peer_of(allowed: frozenset[str]) -> Any:
    tokenizer = special_tokenizer()
    peer = tokenizers.Tokenizer.from_str(tokenizer.to_format("huggingface")["tokenizer.json"].decode())
    bare = tokenizers.Tokenizer(peer.model)
    bare.pre_tokenizer = peer.pre_tokenizer
    bare.add_special_tokens(sorted(allowed))
    return bare


def test_hits_are_counted() -> None:
    tokenizer = special_tokenizer()
    texts = pa.array(["<|end|>", "no", "[X][X] a", ""], pa.large_string())
    assert tokenizer.encode_counted(texts, allow_special=True).specials == 3
    assert tokenizer.encode_counted(texts).specials == 0


def test_unknown_characters_beside_special_tokens() -> None:
    tokenizer = special_tokenizer("char-bpe", "none")
    with pytest.raises(UnknownCharacterError, match=r"^text 1, character 3: '!' "):
        tokenizer.encode_batch(["u[X]", "[X]!"], allow_special=True)
    assert tokenizer.encode("u[X]s", allow_special=True) == [
        tokenizer.vocab["u"],
        tokenizer.vocab["[X]"],
        tokenizer.vocab["s"],
    ]


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        ("[X]", r"^allow_special: give True or several tokens, such as \{'\[X\]'\}, not one text$"),
        ({"user"}, r"^allow_special: 'user' is no special token; there are: <\|end\|>, "),
    ],
)
def test_what_cannot_be_allowed(allowed: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        special_tokenizer().encode("a", allow_special=allowed)


@pytest.mark.jit
def test_rank_files_as_tiktoken_has_them(data_folder: Path) -> None:
    path = data_folder / "vocab" / "gpt2.tiktoken"
    ranks = load_tiktoken_bpe(str(path))
    end = len(ranks)
    ours = Tokenizer.from_file(path, pretokenizer="gpt2", special_tokens={"<|endoftext|>": end})
    text = "a<|endoftext|> b"
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
    peer = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": end})
    assert ours.encode(text) == peer.encode(text, disallowed_special=()) and end not in ours.encode(text)
    expected = [ranks[b"a"], end, *peer.encode_ordinary(" b")]
    assert ours.encode(text, allow_special=True) == peer.encode(text, allowed_special="all") == expected


@pytest.mark.jit
@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_the_special_token_of_gpt2_is_known(data_folder: Path) -> None:
    ours = Tokenizer.from_file(data_folder / "vocab" / "gpt2.tiktoken")
    assert ours.encode("a<|endoftext|> b", allow_special=True) == [64, 50256, 275]


# --- against a regular expression -----------------------------------------------------------------------------------------------

found_tokens = st.sets(st.text("ab<é>", min_size=1, max_size=5), min_size=1, max_size=12)
searched_texts = st.lists(st.lists(st.text("ab<é> x", max_size=12) | st.just("x" * 70), max_size=6).map("".join), max_size=4)


def split_plainly(tokens: list[str], texts: list[str]) -> list[list[str | int]]:
    """Parts and the numbers of tokens, by an alternation that has the longest tokens first."""
    longest_first = sorted(tokens, key=lambda token: -len(token.encode()))
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    rows: list[list[str | int]] = []
    for text in texts:
        row, done = [], 0
        for match in pattern.finditer(text):
            row += [text[done : match.start()], tokens.index(match.group())]
            done = match.end()
        rows.append([*row, text[done:]])
    return rows


def split_by_kernel(tokens: list[str], texts: list[str]) -> list[list[str | int]]:
    array = pa.array(["unseen", *texts], pa.large_string()).slice(1)
    split = special_text.SpecialFinder({token: number for number, token in enumerate(tokens)}).split(array)
    if split is None:
        return [[text] for text in texts]
    data, parts, hits = "".join(texts).encode(), split.parts.to_pylist(), dict(split.hits.tolist())
    assert all(data[start:][: len(part)] == part for start, part in zip(split.starts.tolist(), parts, strict=True))
    rows: list[list[str | int]] = []
    for first, last in itertools.pairwise([0, *split.part_ends.tolist()]):
        row: list[str | int] = []
        for place in range(first, last):
            row += [parts[place].decode(), *([hits[place]] if place in hits else [])]
        rows.append(row)
    return rows


@pytest.mark.parametrize("room", [1, 3, 1 << 12])
@few_cases(120, 15)
@given(tokens=found_tokens, texts=searched_texts)
def test_as_an_alternation_finds_them(room: int, tokens: set[str], texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(special_text, "_HITS", room)
        assert split_by_kernel(sorted(tokens), texts) == split_plainly(sorted(tokens), texts)


@pytest.mark.jit
def test_long_tokens_of_which_only_short_ones_are_there() -> None:
    tokens = ["a", *("a" * length + "b" for length in range(1000, 1100))]
    text = "a" * 100_000
    rows = split_by_kernel(tokens, [text])
    assert rows == [["", 0] * len(text) + [""]]
