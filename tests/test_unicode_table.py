"""The baked class table: what it says, and that it is what its generator makes."""

from __future__ import annotations

import re
import types
import unicodedata

import numpy as np
import pytest
import unicodedata2

from tokenmill.data import CLASS_TABLE_FILE, UNICODE_VERSION, load_class_table
from tokenmill.data.build_class_table import build_class_table, classify
from tokenmill.errors import UsageError
from tokenmill.kernels import scan_classes as bits


def code_points(bit: int) -> list[int]:
    return np.flatnonzero(load_class_table() & bit).tolist()


def test_table_has_the_letters_and_numbers_of_unicode_16() -> None:
    assert (len(code_points(bits.LETTER)), len(code_points(bits.NUMBER))) == (141_028, 1_911)


def test_table_is_read_only_and_read_once() -> None:
    table = load_class_table()
    assert (table.dtype, table.shape, table.flags.writeable) == (np.uint16, (0x110000,), False)
    assert load_class_table() is table


def test_table_file_is_small_and_names_its_version() -> None:
    assert CLASS_TABLE_FILE.stat().st_size < 50_000
    with np.load(CLASS_TABLE_FILE, allow_pickle=False) as runs:
        assert str(runs["version"]) == UNICODE_VERSION == "16.0.0"


def test_whitespace_is_the_white_space_property() -> None:
    expected = [*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000]
    assert code_points(bits.WHITESPACE) == expected
    assert code_points(bits.RE_SPACE) == sorted([*expected, *range(0x1C, 0x20)])


def test_re_bits_are_those_of_re_where_python_knows_the_character() -> None:
    table = load_class_table()
    assigned = [chr(point) for point in range(bits.CODE_POINTS) if unicodedata.category(chr(point)) != "Cn"]
    word, space = re.compile(r"\w"), re.compile(r"\s")
    wrong = [
        character
        for character in assigned
        if bool(word.match(character)) != bool(table[ord(character)] & bits.RE_WORD)
        or bool(space.match(character)) != bool(table[ord(character)] & bits.RE_SPACE)
    ]
    assert len(assigned) > 280_000
    assert [character for character in wrong if unicodedata.category(character)[0] in "LNMPSZ"] == []


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ("A", bits.LETTER | bits.RE_WORD | bits.UNICODE_WORD | bits.UPPER),
        ("ǅ", bits.LETTER | bits.RE_WORD | bits.UNICODE_WORD | bits.UPPER),
        ("ß", bits.LETTER | bits.RE_WORD | bits.UNICODE_WORD | bits.LOWER),
        ("ʰ", bits.LETTER | bits.RE_WORD | bits.UNICODE_WORD | bits.OTHER_LETTER),
        ("好", bits.LETTER | bits.RE_WORD | bits.UNICODE_WORD | bits.OTHER_LETTER | bits.BERT_ALONE),
        ("\U0002b820", bits.LETTER | bits.RE_WORD | bits.UNICODE_WORD | bits.OTHER_LETTER | bits.BERT_ALONE),
        ("٣", bits.NUMBER | bits.RE_WORD | bits.UNICODE_WORD | bits.DECIMAL),
        ("²", bits.NUMBER | bits.RE_WORD),
        ("\u0301", bits.MARK | bits.UNICODE_WORD),
        ("\u200d", bits.UNICODE_WORD),
        ("Ⓐ", bits.UNICODE_WORD),
        ("_", bits.PUNCTUATION | bits.RE_WORD | bits.UNICODE_WORD | bits.BERT_ALONE),
        ("。", bits.PUNCTUATION | bits.BERT_ALONE),
        ("^", bits.BERT_ALONE),
        ("€", 0),
        ("\u3000", bits.WHITESPACE | bits.RE_SPACE),
        ("\x1c", bits.RE_SPACE),
        ("\u200b", 0),
        ("\ud800", 0),
    ],
)
def test_bits_of_known_characters(character: str, expected: int) -> None:
    assert load_class_table()[ord(character)] == expected


def test_classify_agrees_with_the_table_on_what_this_python_knows() -> None:
    table = load_class_table()
    for character in "aZǅʰ好٣²\u0301_。^\u3000\x1c\x85\u200b":
        assert classify(ord(character), unicode_data=unicodedata) == table[ord(character)]


def test_generator_rebuilds_the_file_byte_by_byte() -> None:
    assert build_class_table(unicodedata2) == CLASS_TABLE_FILE.read_bytes()


def test_generator_refuses_another_unicode_version() -> None:
    other = types.ModuleType("other")
    other.unidata_version = "15.1.0"  # type: ignore[attr-defined]
    message = "the class table is of Unicode 16.0.0, but this module holds 15.1.0; install unicodedata2==16.0.0"
    with pytest.raises(UsageError, match=re.escape(message)):
        build_class_table(other)
