"""Special tokens inside texts: plain text, unless they are asked for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tiktoken.load import load_tiktoken_bpe

from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.errors import UnknownCharacterError, UsageError

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
    import pyarrow as pa

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
def test_gpt2(shared_data: Path) -> None:
    ours = Tokenizer.from_file(shared_data / "vocab" / "gpt2.tiktoken")
    text = "a<|endoftext|> b"
    ranks = load_tiktoken_bpe(str(shared_data / "vocab" / "gpt2.tiktoken"))
    pattern = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
    peer = tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 50256})
    assert ours.encode(text) == peer.encode(text, disallowed_special=()) and 50256 not in ours.encode(text)
    assert ours.encode(text, allow_special=True) == peer.encode(text, allowed_special="all") == [64, 50256, 275]
