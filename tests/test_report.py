"""Numbers of a report: counted by hand on small texts, against the plain reference on any, and added up from parts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiktoken import Encoding

from tests.by_hand import estimate, make_tokenizer
from tests.real_data import RANK_FILES, read_ranks
from tests.strategies import ascii_texts, nasty_texts
from tests.training import count_texts, train
from tests.wordpieces import tokenizer_of
from tokenmill.data import load_class_table
from tokenmill.errors import UsageError
from tokenmill.formats import tiktoken
from tokenmill.kernels.measure import BEGINS, ENDS, LEFT_OUT, PADDING, find_differences, measure_documents
from tokenmill.models.bpe import BpeModel
from tokenmill.models.code_points import CodePointModel
from tokenmill.reference import report as reference_report
from tokenmill.reference.words import PATTERNS
from tokenmill.report.measure import Measurement
from tokenmill.report.numbers import Lengths, Report, TextNumbers, TokenNumbers, make_report, measure_texts
from tokenmill.report.sums import add_tables
from tokenmill.report.vocabulary import count_covering, find_unreachable, rank_counts
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

EXAMPLES = settings(max_examples=60, deadline=None)


def byte_tokenizer(**options: str) -> Tokenizer:
    return make_tokenizer("", [("Ġ", "t"), ("h", "e"), ("Ġt", "he")], model="byte-bpe", **options)


# --- kernels ----------------------------------------------------------------------------------------------------------------


def measure(documents: list[str]) -> list[tuple[int, int]]:
    encoded = [document.encode() for document in documents]
    text = np.frombuffer(b"".join(encoded), np.uint8)
    ends = np.cumsum([len(document) for document in encoded], dtype=np.int64)
    characters, words = np.empty(ends.size, np.int64), np.empty(ends.size, np.int64)
    measure_documents(text, ends, load_class_table(), characters, words)
    return list(zip(characters.tolist(), words.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "characters", "words"),
    [
        ("", 0, 0),
        (" \n\t", 3, 0),
        ("a  bé", 5, 2),
        ("你好 世界\u3000！", 7, 3),
        ("a\u00a0b\u200bc\u2028d", 7, 3),  # a zero-width space is no White_Space
        ("\x1ca\x1db", 4, 1),  # nor are Python's separators
        ("word " * 30, 150, 30),
        ("x" * 64 + "é" + " " + "y" * 63, 129, 2),
        ("👩\u200d💻 ok", 6, 2),
    ],
)
def test_characters_and_words_by_hand(text: str, characters: int, words: int) -> None:
    assert measure([text]) == [(characters, words)] == [reference_report.measure_document(text)]


@EXAMPLES
@given(st.lists(st.one_of(nasty_texts(), ascii_texts(), st.just(" " * 70), st.just("a" * 65)), max_size=5))
def test_characters_and_words_as_the_reference_counts_them(documents: list[str]) -> None:
    assert measure(documents) == [reference_report.measure_document(document) for document in documents]


#: Tokens of all roles in decoding, by id.
TOKENS = [(b"", 0), (b"a", 0), (b"ab", BEGINS), (b"abc", ENDS), (b"a" * 8, 0), (b"a" * 9, BEGINS | ENDS), (b"<s>", LEFT_OUT)]


@EXAMPLES
@given(st.lists(st.tuples(st.lists(st.integers(0, 6), max_size=6), st.integers(0, 4)), max_size=6), st.booleans())
def test_differences_as_the_reference_finds_them(cases: list[tuple[list[int], int]], spaced: bool) -> None:
    decoded = [
        reference_report.join_words([(TOKENS[number][0], TOKENS[number][1]) for number in ids if number != 6], spaced=spaced)
        for ids, _ in cases
    ]
    damage = (lambda text: text, lambda text: text[:-1], lambda text: text + b"a", lambda text: text.replace(b"c", b" "))
    texts = [(*damage, lambda text: text.replace(b" ", b""))[kind](text) for text, (_, kind) in zip(decoded, cases, strict=True)]
    ids = np.array([number for numbers, _ in cases for number in numbers], np.int32)
    offsets = np.cumsum([0, *(len(numbers) for numbers, _ in cases)], dtype=np.int64)
    spelled = np.frombuffer(b"".join(data for data, role in TOKENS if role != LEFT_OUT) + bytes(PADDING), np.uint8)
    spelled_ends = np.cumsum([0, *(len(data) if role != LEFT_OUT else 0 for data, role in TOKENS)], dtype=np.int64)
    roles = np.array([role for _, role in TOKENS], np.uint8)
    differences = np.empty(len(cases), np.int64)
    text, ends = np.frombuffer(b"".join(texts), np.uint8), np.cumsum([len(text) for text in texts], dtype=np.int64)
    find_differences(ids, offsets, spelled, spelled_ends, roles, spaced, text, ends, differences)
    expected = [reference_report.find_difference(back, text) for back, text in zip(decoded, texts, strict=True)]
    assert differences.tolist() == expected


# --- reports by hand --------------------------------------------------------------------------------------------------------


def test_numbers_of_a_byte_model_by_hand() -> None:
    report = measure_texts({"t": byte_tokenizer()}, ["the the", "", "é the", "a"])
    assert report.texts == TextNumbers(documents=4, empty=1, bytes=14, characters=13, words=5)
    (one,) = report.tokenizers
    # t|he|Ġthe, nothing, Ã|©|Ġthe, a
    assert one.numbers == TokenNumbers(4, 14, 13, 5, tokens=7, unknown=0, checked=4, changed=0)
    assert (one.numbers.bytes_per_token, one.numbers.tokens_per_word) == (2.0, 1.4)
    assert one.lengths == Lengths(1.75, 0, 1, 3, 3, 3, ((0, 0, 1), (1, 1, 1), (2, 3, 2)))
    use = one.vocabulary
    assert (use.size, use.special, use.used, use.unused, use.unreachable) == (259, 0, 6, 253, 0)
    assert use.covering == ((50, 3), (90, 6), (99, 6)) and use.by_rank == ((1, 2), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1))
    assert [(token.token, token.text, token.count) for token in use.most_used[:3]] == [
        ("Ġthe", " the", 2),
        ("a", "a", 1),
        ("t", "t", 1),
    ]
    assert [token.text for token in use.most_used[3:]] == [None, None, "he"]
    assert use.unused_tokens[0].token == "!" and len(use.unused_tokens) == 20 and report.groups == ()


def test_unknown_characters_are_counted_or_leave_their_documents_out() -> None:
    without = measure_texts({"t": estimate()}, ["estimate", "estimate?", "xyz"]).tokenizers[0]
    assert without.numbers == TokenNumbers(1, 8, 8, 1, tokens=6, unknown=0, checked=1, changed=0) and without.not_encoded == 2
    letters = make_tokenizer("abĠ", [("a", "b")], unk="<unk>")
    with_unk = measure_texts({"t": letters}, ["ab ab", "abc", "dd"], groups=["x", "x", "y"])
    numbers = with_unk.tokenizers[0].numbers
    assert (numbers.tokens, numbers.unknown, numbers.changed, with_unk.tokenizers[0].not_encoded) == (7, 3, 2, 0)
    assert numbers.unknown_rate == 3 / 7
    assert [(group.name, group.tokenizers[0].unknown) for group in with_unk.groups] == [("x", 1), ("y", 2)]
    use = with_unk.tokenizers[0].vocabulary
    assert (use.special, use.used, use.unused) == (1, 2, 2), "unk is a special token, a and b stand in no text alone"


def test_what_decoding_changes_is_shown_from_where_it_differs() -> None:
    marked = make_tokenizer("abĠ", [], pretokenizer="wordpunct")
    (one,) = measure_texts({"t": marked}, ["a b", "a  b", "ab\tab ", "a\n\nb"]).tokenizers
    assert (one.numbers.checked, one.numbers.changed) == (4, 3)
    assert dataclasses.astuple(one.changes[0]) == ("text 1", 2, " b", "b")
    assert dataclasses.astuple(one.changes[1]) == ("text 2", 2, "\tab ", " ab")
    lossy = make_tokenizer("é", [], pretokenizer="whitespace-punct")
    (one,) = measure_texts({"t": lossy}, ["é é"]).tokenizers
    assert dataclasses.astuple(one.changes[0]) == ("text 0", 2, " é", "é")


def test_an_excerpt_begins_with_a_whole_character() -> None:
    """The first differing byte may lie inside one: U+00E9 and U+00EA differ in their second byte."""
    tokenizer = make_tokenizer("ê", [], unk="<u>")
    (one,) = measure_texts({"t": tokenizer}, ["éé"]).tokenizers
    assert (one.changes[0].byte, one.changes[0].text) == (0, "éé")


def test_groups_are_sorted_by_bytes_and_add_up() -> None:
    texts, groups = ["the", "the the", "he", "", "a b c d e f"], ["en", "en", "de", "", "zz"]
    report = measure_texts({"t": byte_tokenizer()}, texts, groups=groups, by="lang")
    assert [(group.name, group.texts.documents, group.texts.bytes) for group in report.groups] == [
        *(("zz", 1, 11), ("en", 2, 10), ("de", 1, 2), ("", 1, 0)),
    ]
    assert sum(group.tokenizers[0].tokens for group in report.groups) == report.tokenizers[0].numbers.tokens
    assert report.groups[3].tokenizers[0].bytes_per_token is None and report.by == "lang"


def test_no_texts_give_a_report_without_ratios() -> None:
    report = measure_texts({"t": byte_tokenizer()}, [])
    (one,) = report.tokenizers
    assert report.texts.documents == 0 and one.lengths is None and one.numbers.tokens_per_word is None
    assert one.vocabulary.used == 0 and one.vocabulary.covering == ((50, 0), (90, 0), (99, 0))


def test_too_many_groups_and_too_large_ids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"more than 10,000 groups; group by a column of few values"):
        measure_texts({"t": byte_tokenizer()}, ["a"] * 10_001, groups=[str(number) for number in range(10_001)])
    model = byte_tokenizer().model
    huge = dataclasses.replace(model, vocab={**model.vocab, "xx": 2**31 - 2})
    with pytest.raises(UsageError, match="the largest id is 2147483646; a report counts ids up to 16777215"):
        Measurement([Tokenizer(huge, pretokenizer=byte_tokenizer().pretokenizer)])


# --- unreachable tokens -----------------------------------------------------------------------------------------------------


def with_tokens(tokenizer: Tokenizer, *tokens: str, ignore_merges: bool = False) -> Tokenizer:
    model = tokenizer.model
    vocab = {**model.vocab, **{token: len(model.vocab) + place for place, token in enumerate(tokens)}}
    changed = BpeModel(model.name, model.alphabet, vocab, model.merge_rules, ignore_merges=ignore_merges)
    return Tokenizer(changed, pretokenizer=tokenizer.pretokenizer)


def test_tokens_without_merges_and_tokens_that_are_cut_are_unreachable() -> None:
    rules = [("a", "."), ("b", "c"), ("Ã", "©"), ("a", "Ã")]
    tokenizer = with_tokens(make_tokenizer("", rules, model="byte-bpe"), "xyz", "aÃ©", "cÃ")
    found = {one.token: one.gives for one in find_unreachable(tokenizer)}
    assert found == {
        "a.": ("a", "."),  # gpt2 cuts before the full stop
        "xyz": ("x", "y", "z"),
        "aÃ©": ("a", "é"),
        "cÃ": ("c", "\\xc3"),  # ends inside a character, and no merges lead to it; `aÃ` has a rule
    }


def test_whole_words_are_reachable_where_merges_are_ignored() -> None:
    tokenizer = with_tokens(byte_tokenizer(), "xyz", "x.", ignore_merges=True)
    assert [one.token for one in find_unreachable(tokenizer)] == ["x."]


@pytest.mark.jit
@pytest.mark.parametrize("name", RANK_FILES)
@pytest.mark.parametrize("data_folder", ["own"], indirect=True)
def test_unreachable_tokens_are_those_that_tiktoken_does_not_give(name: str, data_folder: Path) -> None:
    """Tokens learned behind a pattern, of which another pattern cuts some."""
    content = (data_folder / "vocab" / f"{name}.tiktoken").read_bytes()
    ranks = read_ranks(content)
    texts = {rank: token.decode("utf-8", "replace") for token, rank in ranks.items()}
    cut: list[int] = []
    for cutter in RANK_FILES.values():
        peer = Encoding("peer", pat_str=PATTERNS[cutter], mergeable_ranks=ranks, special_tokens={})
        expected = [rank for rank, text in texts.items() if "\ufffd" not in text and peer.encode_ordinary(text) != [rank]]
        found = [one.id for one in find_unreachable(tiktoken.loads(content, pretokenizer=cutter)) if one.text is not None]
        assert found == sorted(expected)
        cut += found
    assert cut


@pytest.mark.jit
@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_unreachable_tokens_of_published_vocabularies(data_folder: Path) -> None:
    """o200k has tokens that its own pattern cuts: the slash ends a word there only behind punctuation."""
    gpt2, o200k = (tiktoken.loads((data_folder / "vocab" / f"{name}.tiktoken").read_bytes()) for name in ("gpt2", "o200k_base"))
    assert find_unreachable(gpt2) == []
    found = {one.text: one.gives for one in find_unreachable(o200k)}
    assert len(found) == 12 and found[" I'"] == (" I", "'") and found["\n//"] == ("\n", "//")


def test_ranks_and_coverage_by_hand() -> None:
    assert rank_counts(np.array([5, 0, 9])) == [(1, 9), (2, 5)] and rank_counts(np.zeros(3, np.int64)) == []
    counts = np.array([70, 20, 9, 1])
    assert [count_covering(counts, percent) for percent in (50, 70, 71, 90, 99, 100)] == [1, 1, 2, 2, 3, 4]
    many = rank_counts(np.arange(1, 100_001))
    assert many[0] == (1, 100_000) and many[-1] == (100_000, 1) and len(many) <= 61


# --- properties -------------------------------------------------------------------------------------------------------------


def report_of_parts(tokenizers: dict[str, Tokenizer], parts: list[list[str]]) -> Report:
    """Measured part by part, added up in the reverse order."""
    tables, changes = [], []
    for part in parts:
        measurement = Measurement(list(tokenizers.values()))
        measurement.add(pa.array(part, pa.large_string()), groups=[text[:1] for text in part])
        tables.append(measurement.table())
        changes.append(measurement.changes)
    first = [[change for part in changes for change in part[number]][:5] for number in range(len(tokenizers))]
    return make_report(tokenizers, add_tables(reversed(tables)), changes=first, by="letter")


@pytest.mark.jit
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(nasty_texts(max_fragments=8), max_size=4), min_size=1, max_size=4))
def test_tokens_add_up_and_parts_give_the_whole(parts: list[list[str]]) -> None:
    tokenizers = {
        "bytes": byte_tokenizer(),
        "letters": make_tokenizer("ab0 Ġ.", [("a", "b")], unk="<unk>", pretokenizer="wordpunct"),
    }
    texts = [text for part in parts for text in part]
    report = measure_texts(tokenizers, texts, groups=[text[:1] for text in texts], by="letter")
    for one, tokenizer in zip(report.tokenizers, tokenizers.values(), strict=True):
        encoded = [tokenizer.encode(text) for text in texts]
        decoded = [tokenizer.decode(ids, skip_special_tokens=True) for ids in encoded]
        assert one.numbers.tokens == sum(map(len, encoded))
        assert one.numbers.changed == sum(back != text for back, text in zip(decoded, texts, strict=True))
        assert (one.lengths is None) == (not texts) and (one.lengths is None or one.lengths.longest == max(map(len, encoded)))
    assert report.tokenizers[0].numbers.changed == 0
    for number, one in enumerate(report.tokenizers):
        assert one.numbers.tokens == sum(group.tokenizers[number].tokens for group in report.groups)
    again = report_of_parts(tokenizers, parts)
    names = [tuple(dataclasses.replace(change, document="") for change in one.changes) for one in report.tokenizers]
    assert [tuple(dataclasses.replace(change, document="") for change in one.changes) for one in again.tokenizers] == names
    without = [dataclasses.replace(one, changes=()) for one in report.tokenizers]
    assert [dataclasses.replace(one, changes=()) for one in again.tokenizers] == without
    assert (again.texts, again.groups) == (report.texts, report.groups)


def test_a_measurement_begins_anew() -> None:
    measurement = Measurement([byte_tokenizer()])
    measurement.add(["the"])
    first = measurement.table()
    measurement.clear()
    assert measurement.table().num_rows == 0 and measurement.tokens == 0
    measurement.add(["the"])
    assert measurement.table().equals(first) and measurement.tokens == 2


# --- WordPiece, and BPE whose tokens show where words begin or end ------------------------------------------------------------


def test_a_wordpiece_model_by_hand() -> None:
    tokenizer = tokenizer_of(["[UNK]", "un", "##able", "##s", "a.", "##5", "##!", "##a!", "dog"], pretokenizer="bert")
    (one,) = measure_texts({"t": tokenizer}, ["unables dog", " unable  dogs", "cat"]).tokenizers
    assert (one.numbers.tokens, one.numbers.unknown, one.numbers.changed, one.not_encoded) == (9, 1, 2, 0)
    assert [dataclasses.astuple(change)[:2] for change in one.changes] == [("text 1", 0), ("text 2", 0)]
    found = {token.token: token.gives for token in find_unreachable(tokenizer)}
    assert found == {"a.": ("[UNK]", "[UNK]"), "##!": ("[UNK]",), "##a!": ("[UNK]", "[UNK]")}


@EXAMPLES
@given(st.lists(st.text("abc ", max_size=12), min_size=1, max_size=4), st.sampled_from(["suffix", "prefix", "wordpiece"]))
def test_decoded_words_with_spaces_between_them(texts: list[str], kind: str) -> None:
    marks = {"suffix": {"end_of_word_suffix": "</w>"}, "prefix": {"continuation_prefix": "##"}}.get(kind)
    tokenizer = (
        tokenizer_of(["[UNK]", "a", "b", "ab", "##a", "##b", "##ba"], pretokenizer="whitespace-punct")
        if marks is None
        else train(
            count_texts(["ab aab ba b", "aba"], "whitespace-punct"),
            model="char-bpe",
            pretokenizer="whitespace-punct",
            merges=4,
            unk_token="[UNK]",
            **marks,
        )
    )
    (one,) = measure_texts({"t": tokenizer}, texts).tokenizers
    decoded = [tokenizer.decode(tokenizer.encode(text), skip_special_tokens=True) for text in texts]
    assert one.numbers.changed == sum(back != text for back, text in zip(decoded, texts, strict=True))
    assert find_unreachable(tokenizer) == []


@pytest.mark.jit
def test_characters_by_their_code_points() -> None:
    tokenizer = Tokenizer(CodePointModel.of({"<s>": 0x110000}), pretokenizer=PreTokenizer("none"))
    (one,) = measure_texts({"t": tokenizer}, ["a é", "ああ"]).tokenizers
    assert (one.numbers.tokens, one.numbers.changed, one.vocabulary.used, one.vocabulary.unreachable) == (5, 0, 4, 0)
    assert [token.id for token in one.vocabulary.most_used] == [0x3042, 32, 97, 0xE9]
