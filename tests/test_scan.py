"""Scanners and pre-tokenizers: kernel == reference, any block size, invalid UTF-8, linear time, golden words."""

from __future__ import annotations

import json
import os
import random
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scanning import arrays, check_words, expected_words, scanned, words_of
from tests.strategies import NAMED_PRETOKENIZERS, NASTY_FRAGMENTS, ascii_texts, classes_agree, nasty_bytes, nasty_texts
from tokenmill.data import load_class_table
from tokenmill.errors import InvalidTextError, UsageError
from tokenmill.kernels import intrinsics, scan, scan_wordpunct
from tokenmill.names import PRETOKENIZERS
from tokenmill.reference import words as reference_words
from tokenmill.text.pretokenizers import PreTokenizer

NAMES = NAMED_PRETOKENIZERS
GOLDEN_FOLDER = Path(__file__).parent / "golden" / "pretokenizers"
BLOCK_SIZES = [1, 2, 3, 100, 1000]
JIT = os.environ.get("NUMBA_DISABLE_JIT") != "1"
EXAMPLES = settings(max_examples=80 if JIT else 15, deadline=None)

GOLDEN_TEXTS = [
    "Hi, I'm here.",
    "नमस्ते",
    "ที่",
    "e\u0301",
    "It's IT'S it’s",
    "don't a_b 你好世界。 สวัสดี",
    "a  b\tc\n d",
    "  two  spaces\u00a0and\u3000more \r\n\r\n  end \n",
    "٣٤٥ 345 x² 1,000.50",
    "they'll we've 'select' a'b'c x'",
    "😀👩\u200d💻!? ",
    "HTTPServer parseJSON文字AB 文Ab it'select a's's",
    "x;\n// (y) ((z\n\n    123456 \n  ",
]

#: Where a character (`?`) can stand: beside letters of either case, digits, whitespace, apostrophes, punctuation, itself.
CHARACTER_PLACES = [
    "a?b ?B? ",
    "A?A? aB?'s?'S ",
    "1?2 ?34567? ",
    " ?a  ?\n?\n\n ?\t?",
    "'? ?'s '?s a'?",
    ".?. ?.\n?/ (?a ((?a",
    "?",
    "文?文 ?文A? ",
]


@pytest.fixture(scope="module")
def known_characters() -> list[str]:
    """The characters of this Python outside the large blocks of ideographs and Hangul."""
    ranges = [range(0x3400), range(0xA000, 0xAC00), range(0xD700, 0xD800), range(0xF900, 0x17000), range(0x1B000, 0x20000)]
    characters = [chr(point) for points in [*ranges, range(0xE0000, 0xE0200)] for point in points]
    known = [character for character in characters if unicodedata.category(character) != "Cn" and classes_agree(character)]
    assert len(known) > 25_000
    return known


@pytest.mark.parametrize("name", NAMES)
class TestKernelIsReference:
    @EXAMPLES
    @given(texts=st.lists(nasty_texts(), min_size=1, max_size=3), block_words=st.sampled_from(BLOCK_SIZES))
    def test_nasty_texts(self, name: str, texts: list[str], block_words: int) -> None:
        check_words(name, [text.encode() for text in texts], block_words=block_words)

    @EXAMPLES
    @given(texts=st.lists(ascii_texts(), min_size=1, max_size=3), block_words=st.sampled_from(BLOCK_SIZES))
    def test_ascii_texts(self, name: str, texts: list[str], block_words: int) -> None:
        check_words(name, [text.encode() for text in texts], block_words=block_words)

    @EXAMPLES
    @given(documents=st.lists(nasty_bytes(), min_size=1, max_size=3), block_words=st.sampled_from(BLOCK_SIZES))
    def test_invalid_utf8(self, name: str, documents: list[bytes], block_words: int) -> None:
        check_words(name, documents, block_words=block_words)

    @EXAMPLES
    @given(
        texts=st.lists(
            st.one_of(st.text(alphabet="ab1_' \t.", max_size=100), st.text(alphabet="sSL文'1 \n./", max_size=100)),
            min_size=1,
            max_size=3,
        ),
        block_words=st.sampled_from(BLOCK_SIZES),
    )
    def test_every_order_of_classes(self, name: str, texts: list[str], block_words: int) -> None:
        check_words(name, [text.encode() for text in texts], block_words=block_words)

    def test_every_offset_in_a_block(self, name: str) -> None:
        shapes = ["don't a'b'c", "x  y", "a\u00a0b", "12ab", "it's  \t", "é’ß", "𝔘", "''re", "\r\n  z", ".\n /\n//", "文ABc文A."]
        filler = "ab cd " * 24
        documents = [(filler[:offset] + shape + filler).encode() for shape in shapes for offset in range(52, 67 if JIT else 54)]
        check_words(name, documents, block_words=1000)

    @pytest.mark.jit
    def test_every_kind_of_character_between_letters(self, name: str, known_characters: list[str]) -> None:
        check_words(name, ["".join(f"a{character}b {character}" for character in known_characters).encode()], block_words=1000)

    @pytest.mark.jit
    @pytest.mark.slow
    @pytest.mark.parametrize("place", CHARACTER_PLACES)
    def test_every_kind_of_character_in_every_place(self, name: str, place: str, known_characters: list[str]) -> None:
        check_words(name, [place.replace("?", character).encode() for character in known_characters], block_words=32768)
        check_words(name, ["".join(place.replace("?", character) for character in known_characters).encode()], block_words=32768)

    @pytest.mark.jit
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(3))
    def test_random_texts_of_few_kinds(self, name: str, seed: int) -> None:
        """Texts of three to eight fragments each: every neighbourhood of those comes up, at every place of a block."""
        source = random.Random(seed)
        for _ in range(400):
            fragments = source.sample(NASTY_FRAGMENTS, source.choice([3, 5, 8]))
            texts = ["".join(source.choices(fragments, k=source.choice([2, 9, 40, 200]))) for _ in range(4)]
            check_words(name, [text.encode() for text in texts], block_words=source.choice([1, 70, 1000]))

    def test_real_sentences(self, name: str, real_texts: list[str]) -> None:
        texts = real_texts if JIT else real_texts[:20]
        check_words(name, [text.encode() for text in texts], block_words=1000)
        check_words(name, ["\n".join(texts).encode(), "\r\n  ".join(texts).encode()], block_words=1000)


@pytest.mark.parametrize("name", NAMES)
class TestDocuments:
    def test_no_documents(self, name: str) -> None:
        assert scanned(name, []) == []

    def test_empty_documents_first_between_and_last(self, name: str) -> None:
        assert scanned(name, [b"", b"", b"ab", b"", b"cd", b""]) == [[], [], [b"ab"], [], [b"cd"], []]

    def test_more_empty_documents_than_a_block_has_words(self, name: str) -> None:
        assert scanned(name, [b""] * 10 + [b"ab"], block_words=3) == [[]] * 10 + [[b"ab"]]

    def test_words_stop_at_document_ends(self, name: str) -> None:
        assert scanned(name, [b"ab", b"cd'", b"s"])[0::2] == [[b"ab"], [b"s"]]

    def test_character_cut_by_a_document_end_is_two_bad_bytes(self, name: str) -> None:
        check_words(name, [b"a\xe4\xbd", b"\xa0b"] * 40, block_words=1000)

    @pytest.mark.jit
    def test_last_block_of_the_text_reads_nothing_behind_it(self, name: str) -> None:
        for size in range(1, 200):
            surrounded = np.frombuffer(b"ab c" * 100, dtype=np.uint8).copy()
            text, rest = surrounded[:size], surrounded[size:]
            before = words_of(PreTokenizer(name).blocks(text, np.array([size])))
            rest[:] = 0xFF
            assert words_of(PreTokenizer(name).blocks(text, np.array([size]))) == before

    def test_a_scanner_is_used_again(self, name: str) -> None:
        scanner = PreTokenizer(name).scanner(block_words=2)
        batches = [[b"one two three four"], [b"", b"five"], [b"a-very-long-word" * 30 + b"y" * 100]]
        assert [words_of(scanner.blocks(*arrays(batch))) for batch in batches] == [scanned(name, batch) for batch in batches]


@given(texts=st.lists(nasty_texts(), max_size=4))
@EXAMPLES
@pytest.mark.parametrize("name", [name for name in NAMES if PreTokenizer(name).lossless])
def test_lossless_words_tile_the_text(name: str, texts: list[str]) -> None:
    documents = [text.encode() for text in texts]
    assert [b"".join(words) for words in scanned(name, documents)] == documents


@given(texts=st.lists(nasty_texts(max_fragments=20), max_size=4))
@EXAMPLES
def test_wordpunct_writes_no_more_bytes_than_the_text_has(texts: list[str]) -> None:
    text, doc_ends = arrays([text.encode() for text in texts])
    marked = np.empty(text.size, dtype=np.uint8)
    cursor, word_ends, doc_words = np.zeros(2, np.int64), np.empty(text.size + 1, np.int64), np.empty(len(texts), np.int64)
    words, documents = scan_wordpunct.scan_wordpunct[0](text, doc_ends, load_class_table(), cursor, word_ends, doc_words, marked)
    assert (documents, cursor.tolist()) == (len(texts), [len(texts), text.size])
    assert words == sum(len(reference_words.cut_wordpunct(text)) for text in texts)


def test_scan_goes_on_at_the_cursor_and_says_where_documents_ended() -> None:
    text, doc_ends = arrays([b"skipped", b"a b c", b"", b"d"])
    cursor, word_ends, doc_words = np.array([1, 7]), np.empty(4, np.int64), np.empty(4, np.int64)
    found = scan.scan_gpt2[0](text, doc_ends, load_class_table(), cursor, word_ends, doc_words, np.empty(0, np.uint8))
    assert found == (4, 3)
    assert (word_ends.tolist(), doc_words[:3].tolist(), cursor.tolist()) == ([8, 10, 12, 13], [3, 3, 4], [4, 13])


def test_wordpunct_without_room_for_the_next_word_writes_nothing() -> None:
    text, doc_ends = arrays([b"ab longer"])
    cursor, word_ends, doc_words = np.zeros(2, np.int64), np.empty(9, np.int64), np.empty(1, np.int64)
    for marked_bytes, expected, place in [(5, (1, 0), 2), (5, (0, 0), 2), (7, (1, 1), 9)]:
        marked = np.empty(marked_bytes, dtype=np.uint8)
        found = scan_wordpunct.scan_wordpunct[0](text, doc_ends, load_class_table(), cursor, word_ends, doc_words, marked)
        assert (found, cursor[1]) == (expected, place)
    assert marked.tobytes() == b" longer"


@EXAMPLES
@given(text=st.one_of(nasty_texts(), ascii_texts()))
def test_gpt2_is_what_hugging_face_does(text: str) -> None:
    peer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    expected = [text[start:end] for _, (start, end) in peer.pre_tokenize_str(text)]
    assert PreTokenizer("gpt2").pretokenize(text) == expected


@pytest.mark.jit
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("repeated", ["^", " ", "a", "é", "'", "a'", "\u00a0", "\xff", "1 \n", "'s", "a\u3000"])
def test_a_million_of_the_same(name: str, repeated: str) -> None:
    """Anything worse than linear would take hours here. The words of a periodic text grow evenly, as the reference says."""
    unit = repeated.encode("latin-1" if repeated == "\xff" else "utf-8")
    blocks = PreTokenizer(name).blocks(*arrays([unit * 1_000_000]))
    few, more = len(expected_words(name, unit * 500)), len(expected_words(name, unit * 1000))
    assert sum(len(block.word_ends) for block in blocks) == more + (more - few) * 1998


@pytest.mark.jit
def test_scratch_stays_small_on_one_long_document() -> None:
    scanner = PreTokenizer("wordpunct").scanner(block_words=1000)
    blocks = sum(1 for _ in scanner.blocks(*arrays([b"some words, " * 200_000])))
    assert blocks >= 600
    assert scanner._marked.size == 8_000


def test_blocks_are_read_only_and_lossless_ones_show_the_text_itself() -> None:
    text, doc_ends = arrays([b"some words"])
    (block,) = PreTokenizer("gpt2").blocks(text, doc_ends)
    assert np.shares_memory(block.text, text)
    (marked,) = PreTokenizer("wordpunct").blocks(text, doc_ends)
    assert not any(array.flags.writeable for array in (*block[2:], block.text, *marked[2:], marked.text))


@pytest.mark.parametrize("name", NAMES)
def test_golden_words(name: str) -> None:
    path = GOLDEN_FOLDER / f"{name}.json"
    found = [{"text": text, "words": PreTokenizer(name).pretokenize(text)} for text in GOLDEN_TEXTS]
    if os.environ.get("TOKENMILL_WRITE_GOLDEN") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in found)
        path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    assert found == json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_golden_words_are_those_of_the_reference(name: str) -> None:
    cases = json.loads((GOLDEN_FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    assert [case["words"] for case in cases] == [reference_words.cut_words(name, case["text"]) for case in cases]


def test_wordpunct_shows_its_marker() -> None:
    assert PreTokenizer("wordpunct").pretokenize("Hi, I'm here.") == ["Hi", ",", "ĠI'm", "Ġhere", "."]


class TestErrors:
    def test_unknown_pretokenizer(self) -> None:
        message = f"unknown pre-tokenizer 'gpt3'; known are: {', '.join(PRETOKENIZERS)}"
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            PreTokenizer("gpt3")

    def test_lone_surrogate(self) -> None:
        message = "the text holds the lone surrogate U+D83D at character 1, which UTF-8 cannot hold; replace it with U+FFFD"
        with pytest.raises(InvalidTextError, match=f"^{re.escape(message)}$"):
            PreTokenizer("gpt2").pretokenize("x\ud83d y")

    def test_block_without_words(self) -> None:
        with pytest.raises(UsageError, match=r"^a block must hold at least 1 word, not 0$"):
            PreTokenizer("gpt2").scanner(block_words=0)

    @pytest.mark.parametrize(
        ("text", "doc_ends", "message"),
        [
            (np.zeros(4, np.int8), [4], "the text of a batch must be a contiguous uint8 array, not 1-dimensional int8"),
            (np.zeros(8, np.uint8)[::2], [4], "the text of a batch must be a contiguous uint8 array, not 1-dimensional uint8"),
            (np.zeros(4, np.uint8), [4.0], "document ends must be a 1-dimensional integer array, not 1-dimensional float64"),
            (
                np.zeros(4, np.uint8),
                [2, 5],
                "the last document ends at 5, but the text has 4 bytes; document ends must cover the text",
            ),
            (np.zeros(4, np.uint8), [3, 2, 4], "document 1 ends at 2, before it begins; document ends must ascend"),
            (np.zeros(4, np.uint8), [-1, 4], "document 0 ends at -1, before it begins; document ends must ascend"),
        ],
    )
    def test_arrays_of_another_form(self, text: np.ndarray, doc_ends: list[float], message: str) -> None:
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            PreTokenizer("gpt2").blocks(text, np.array(doc_ends))


class TestIntrinsics:
    BUFFER = np.frombuffer(bytes(np.random.default_rng(7).integers(0, 256, 200, dtype=np.uint8)), dtype=np.uint8)

    @pytest.mark.parametrize("position", [0, 1, 7, 63, 136])
    def test_words_of_bytes(self, position: int) -> None:
        from numba import njit

        @njit
        def load(buffer, position):  # type: ignore[no-untyped-def]
            return intrinsics.load_u64(buffer, position), intrinsics.mark_bytes_between(buffer, position, 0x61, 0xF0)

        block = self.BUFFER[position : position + 64].tolist()
        for buffer in (self.BUFFER, self.BUFFER.copy()):
            loaded, mask = load(buffer, position)
            assert int(loaded) == int.from_bytes(bytes(block[:8]), "little")
            assert [int(mask) >> bit & 1 == 1 for bit in range(64)] == [0x61 <= byte <= 0xF0 for byte in block]

    @pytest.mark.parametrize(
        ("value", "zeros", "ones"), [(0, 64, 0), (1, 0, 1), (0b1011000, 3, 3), (1 << 63, 63, 1), (2**64 - 1, 0, 64)]
    )
    def test_bit_counts(self, value: int, zeros: int, ones: int) -> None:
        from numba import njit

        @njit
        def count(value):  # type: ignore[no-untyped-def]
            return intrinsics.count_trailing_zeros(value), intrinsics.count_ones(value)

        assert count(np.uint64(value)) == (zeros, ones)

    def test_copy_of_64_bytes(self) -> None:
        from numba import njit

        @njit
        def copy(source, start, target, at):  # type: ignore[no-untyped-def]
            intrinsics.copy_64_bytes(source, start, target, at)

        target = np.zeros(100, dtype=np.uint8)
        copy(self.BUFFER, 5, target, 3)
        assert target.tobytes() == bytes(3) + self.BUFFER[5:69].tobytes() + bytes(33)

    @pytest.mark.parametrize("shift", [0, 0x20, 0xFF])
    def test_shifted_copy_of_64_bytes(self, shift: int) -> None:
        from numba import njit

        @njit
        def copy(source, start, target, at, shift):  # type: ignore[no-untyped-def]
            intrinsics.shift_64_bytes(source, start, target, at, 0x41, 0xE0, shift)

        target = np.zeros(100, dtype=np.uint8)
        copy(self.BUFFER, 5, target, 3, shift)
        shifted = bytes((byte + shift) % 256 if 0x41 <= byte <= 0xE0 else byte for byte in self.BUFFER[5:69].tolist())
        assert target.tobytes() == bytes(3) + shifted + bytes(33)

    def test_eight_bytes_written(self) -> None:
        from numba import njit

        @njit
        def store(target, value):  # type: ignore[no-untyped-def]
            intrinsics.store_u64(target, 3, value)

        target = np.full(12, 0xEE, np.uint8)
        store(target, np.uint64(0xF1F2F3F4F5F6F708))
        assert target.tobytes().hex() == "eeeeee08f7f6f5f4f3f2f1ee"
