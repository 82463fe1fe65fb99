"""Options of pre-tokenizers: digits cut out first, patterns of one's own, and how both stand in files."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scanning import arrays, check_words, expected_words, scanned
from tests.strategies import NAMED_PRETOKENIZERS, ascii_texts, nasty_bytes, nasty_texts
from tests.training import train
from tokenmill.data import load_class_table
from tokenmill.errors import InvalidTextError, TokenizerFileError, UsageError
from tokenmill.formats import native
from tokenmill.kernels.scan_classes import DECIMAL
from tokenmill.reference import words as reference_words
from tokenmill.text import patterns
from tokenmill.text.pretokenizers import PreTokenizer

JIT = os.environ.get("NUMBA_DISABLE_JIT") != "1"
EXAMPLES = settings(max_examples=80 if JIT else 10, deadline=None)
GOLDEN_FOLDER = Path(__file__).parent / "golden" / "pretokenizers"
DIGIT_TEXTS = st.text(alphabet="a1234٣²१ \u3000'.", max_size=100)
PATTERN = r"\p{L}+|\p{N}+|\s*\p{P}+"


def message_of(call: Any, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# --- digits -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("name", NAMED_PRETOKENIZERS)
class TestDigits:
    @EXAMPLES
    @given(texts=st.lists(nasty_texts() | ascii_texts() | DIGIT_TEXTS, max_size=3), block_words=st.sampled_from([1, 2, 7, 1000]))
    def test_kernel_is_reference(self, name: str, group: int, texts: list[str], block_words: int) -> None:
        check_words(name, [text.encode() for text in texts], block_words=block_words, split_digits=group)

    @EXAMPLES
    @given(documents=st.lists(nasty_bytes(), max_size=3), block_words=st.sampled_from([1, 3, 1000]))
    def test_invalid_utf8(self, name: str, group: int, documents: list[bytes], block_words: int) -> None:
        check_words(name, documents, block_words=block_words, split_digits=group)

    def test_empty_documents(self, name: str, group: int) -> None:
        found = scanned(name, [b"", b"12", b"", b"", b"a", b""], block_words=2, split_digits=group)
        assert found == [[], expected_words(name, b"12", split_digits=group), [], [], [b"a"], []]

    def test_runs_of_every_length_at_every_offset_in_a_block(self, name: str, group: int) -> None:
        """Groups are counted from the right end of a run, which may lie in the next block, or in one after that."""
        lengths = [1, 2, 3, 4, 5, 6, 7, 62, 63, 64, 65, 130] if JIT else [4, 65]
        offsets = range(130 if JIT else 2)
        texts = [
            "ab, " * 40 + "c" * offset + before + "1" * length
            for offset in offsets
            for length in lengths
            for before in ("", "  ")
        ]
        for after in ("", " b", "٣ \n", "'s" + " xy" * 50):
            check_words(name, [(text + after).encode() for text in texts], block_words=1000, split_digits=group)

    @pytest.mark.jit
    @pytest.mark.parametrize("repeated", ["12", "٣", "a٣", "²٣", "  1", "\n ٣", "a\u30001"])
    def test_half_a_million_of_the_same(self, name: str, group: int, repeated: str) -> None:
        """Anything worse than linear would take hours here."""
        short, long = repeated * 3000, repeated * 500_000
        counts = [
            sum(
                block.word_ends.size
                for block in PreTokenizer(name, split_digits=group).blocks(*arrays([text.encode()]), block_words=100)
            )
            for text in (short, long)
        ]
        assert counts[0] == len(expected_words(name, short.encode(), split_digits=group))
        assert abs(counts[1] * 3000 - counts[0] * 500_000) <= 500_000

    @pytest.mark.jit
    def test_a_document_of_digits(self, name: str, group: int) -> None:
        """Anything worse than linear would take hours here."""
        blocks = PreTokenizer(name, split_digits=group).blocks(*arrays([b"1" * 200_000]), block_words=100)
        each = 1 if group == 1 or name == "qwen2" else 3
        assert sum(block.word_ends.size for block in blocks) == -(-200_000 // each)


def test_every_decimal_digit_is_found_far_ahead() -> None:
    digits = [chr(point) for point in np.flatnonzero(load_class_table() & DECIMAL)]
    assert len(digits) > 700
    words = [word for digit in digits for word in ("ж世" * (20 if JIT else 1), digit)]
    assert PreTokenizer("none", split_digits=1).pretokenize("".join(words)) == words


@pytest.mark.parametrize(
    ("name", "group", "words"),
    [
        ("gpt2", 1, ["a", "  ", "1", "2", "3", "4", "b", " x", "²", " ", "٣", "٤"]),
        ("gpt2", 3, ["a", "  ", "1", "234", "b", " x", "²", " ", "٣٤"]),
        ("cl100k", 3, ["a", "  ", "1", "234", "b", " x", "²", " ", "٣٤"]),
        ("wordpunct", 3, ["a", "Ġ1", "234", "b", "Ġx²", "Ġ٣٤"]),
        ("bert", 3, ["a", "1", "234", "b", "x²", "٣٤"]),
        ("none", 3, ["a  ", "1", "234", "b x² ", "٣٤"]),
    ],
)
def test_digits_by_hand(name: str, group: int, words: list[str]) -> None:
    assert PreTokenizer(name, split_digits=group).pretokenize("a  1234b x² ٣٤") == words


@pytest.mark.jit
@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("name", ["gpt2", "cl100k", "o200k", "llama3"])
def test_digits_are_those_of_a_sequence_of_hugging_face(name: str, group: int, real_texts: list[str]) -> None:
    first = {1: r"\p{Nd}", 3: r"\p{Nd}{1,3}(?=(?:\p{Nd}{3})*(?!\p{Nd}))"}[group]
    parts = [first, reference_words.PATTERNS[name]]
    splits = [tokenizers.pre_tokenizers.Split(tokenizers.Regex(part), "isolated") for part in parts]
    peer = tokenizers.pre_tokenizers.Sequence(splits)
    # `\s+$` of cl100k sees the end of each part there as here.
    for text in [*real_texts[:2000], "a  1234567\n 12b \n\n 3 ", "x²٣٤ १२३४"]:
        words = [word for word, _ in peer.pre_tokenize_str(text)]
        assert PreTokenizer(name, split_digits=group).pretokenize(text) == words


# --- patterns ---------------------------------------------------------------------------------------------------------------


@EXAMPLES
@given(
    documents=st.lists(nasty_bytes() | nasty_texts().map(str.encode), max_size=4), block_words=st.sampled_from([1, 2, 3, 1000])
)
@pytest.mark.parametrize("group", [None, 1, 3])
def test_patterns_are_what_the_reference_does(documents: list[bytes], block_words: int, group: int | None) -> None:
    check_words("regex", documents, block_words=block_words, pattern=PATTERN, split_digits=group)
    found = scanned("regex", documents, pattern=PATTERN, split_digits=group)
    assert [b"".join(words) for words in found] == documents


@pytest.mark.parametrize("name", reference_words.PATTERNS)
def test_a_published_pattern_gives_the_words_of_its_name(name: str, real_texts: list[str]) -> None:
    custom, text = PreTokenizer("regex", pattern=reference_words.PATTERNS[name]), "\n".join(real_texts[: 2000 if JIT else 5])
    assert custom.pretokenize(text) == PreTokenizer(name).pretokenize(text)


def test_empty_matches_are_no_words() -> None:
    assert PreTokenizer("regex", pattern="x*").pretokenize("axxb") == ["a", "xx", "b"]
    assert PreTokenizer("regex", pattern="(?=b)").pretokenize("ab") == ["ab"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "the pattern is empty; give one that matches words, such as \\w+|[^\\w\\s]+"),
        ("a(b", "pattern 'a(b': missing ) at character 3; it must be a pattern of regex"),
        ("[a", "pattern '[a': unterminated character set at character 2; it must be a pattern of regex"),
        ("a" * 10_001, "the pattern has 10,001 characters; the most is 10,000"),
        (
            "(((a{1000}){1000}){1000})",
            "pattern '(((a{1000}){1000}){1000})': its counted repeats are too large; use + or * instead of {m,n}",
        ),
    ],
)
def test_bad_patterns(pattern: str, message: str) -> None:
    assert message_of(lambda: PreTokenizer("regex", pattern=pattern), UsageError) == message


def test_groups_too_deep() -> None:
    told = message_of(lambda: PreTokenizer("regex", pattern="(" * 4000 + ")" * 4000), UsageError)
    assert told.endswith("; write it with fewer nested groups")


@pytest.mark.parametrize(
    ("pattern", "items"),
    [("abc", 3), ("(ab){3}c{2}", 8), (r"\p{L}{1,3}| ?[{}]{2,}", 8), (r"((a{2}){3}){4}", 24), (r"\{5}", 3), ("a{,4})", 5)],
)
def test_repeats_are_counted(pattern: str, items: int) -> None:
    assert patterns.count_items(pattern) == items


def test_a_pattern_that_backtracks_for_ever_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.2)
    told = message_of(lambda: PreTokenizer("regex", pattern="(?:a|aa)+$").pretokenize("a" * 60 + "b"), InvalidTextError)
    assert told.startswith(
        "pattern '(?:a|aa)+$' was not done with a document of 61 characters in 0 seconds (at character 0: 'aaaa"
    )
    assert told.endswith("it backtracks too much: use possessive quantifiers, such as ++")


def test_a_pattern_names_the_unicode_version_of_regex() -> None:
    version = PreTokenizer("regex", pattern="a").unicode_version
    assert re.fullmatch(r"\d\d\.\d\.\d", version)
    assert version >= "16.0.0" == PreTokenizer("gpt2").unicode_version


# --- files ------------------------------------------------------------------------------------------------------------------

SPECS: list[tuple[PreTokenizer, Any, str]] = [
    (PreTokenizer("gpt2"), "gpt2", "gpt2"),
    (PreTokenizer("gpt2", 3), {"name": "gpt2", "split_digits": 3}, "gpt2 (split_digits 3)"),
    (PreTokenizer("regex", pattern="a+"), {"name": "regex", "pattern": "a+"}, "regex (pattern a+)"),
    (PreTokenizer("regex", 1, "a+"), {"name": "regex", "split_digits": 1, "pattern": "a+"}, "regex (split_digits 1, pattern a+)"),
]


@pytest.mark.parametrize(("pretokenizer", "spec", "shown"), SPECS)
def test_specs_there_and_back(pretokenizer: PreTokenizer, spec: Any, shown: str) -> None:
    assert (pretokenizer.spec, str(pretokenizer)) == (spec, shown)
    assert PreTokenizer.of(spec) == PreTokenizer.of(pretokenizer) == pretokenizer


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"name": "gpt2", "digits": 3}, "a pre-tokenizer has no option 'digits'; it has split_digits and pattern"),
        ({"name": "gpt2", "split_digits": "3"}, "split_digits of a pre-tokenizer: '3' is no int; give one"),
        ({"name": "gpt2", "split_digits": True}, "digits can be split singly (1) or by three (3), not by True"),
        ({"name": "gpt2", "split_digits": 2}, "digits can be split singly (1) or by three (3), not by 2"),
        ({"name": "gpt2", "pattern": "a"}, "pre-tokenizer 'gpt2' takes no pattern; leave it out, or choose regex"),
        ({"name": "regex"}, "pre-tokenizer 'regex' needs a pattern; give one"),
        ({"split_digits": 3}, "a pre-tokenizer without a name; give one"),
    ],
)
def test_bad_specs(spec: Any, message: str) -> None:
    assert message_of(lambda: PreTokenizer.of(spec), UsageError) == message
    content = json.dumps({"merge_rules": [], "vocab": {"a": 0}, "pretokenizer": spec}).encode()
    assert message_of(lambda: native.loads(content), TokenizerFileError) == f"pretokenizer: {message}"


@pytest.mark.parametrize("pretokenizer", [pretokenizer for pretokenizer, _, _ in SPECS], ids=str)
def test_tokenizer_files_hold_the_options(pretokenizer: PreTokenizer) -> None:
    texts = ["room 1234 at 10:30, ٣٤٥ aaa", "12345 aab"] * 3
    tokenizer = train(texts, model="byte-bpe", pretokenizer=pretokenizer, merges=20)
    loaded = native.loads(tokenizer.to_bytes())
    assert loaded.pretokenizer == pretokenizer
    assert (loaded.to_bytes(), loaded.encode_batch(texts)) == (tokenizer.to_bytes(), tokenizer.encode_batch(texts))
    assert loaded.decode(loaded.encode(texts[0])) == texts[0]


@pytest.mark.parametrize(
    ("file", "options"),
    [
        ("gpt2-split-digits-1", {"name": "gpt2", "split_digits": 1}),
        ("cl100k-split-digits-3", {"name": "cl100k", "split_digits": 3}),
        ("regex", {"name": "regex", "pattern": PATTERN}),
    ],
)
def test_golden_words_with_options(file: str, options: dict[str, Any]) -> None:
    texts = ["Hi, I'm 1234567 here.", "٣٤٥ 345 x² 1,000.50  12", "a12b 3 \n\n 2024-11-30", "नमस्ते १२३४", ""]
    found = [{"text": text, "words": PreTokenizer.of(options).pretokenize(text)} for text in texts]
    path = GOLDEN_FOLDER / f"{file}.json"
    if os.environ.get("TOKENMILL_WRITE_GOLDEN") == "1":
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))
    for case in found:
        assert case["words"] == reference_words.cut_words(text=str(case["text"]), **options)
