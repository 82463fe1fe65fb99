"""The kernels that read lines: they take what is in order, give what the parser gives, and never read over a line's end."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies
from tokenmill.arrow import read_only
from tokenmill.kernels.json_lines import BLANK, DOCUMENT, REFUSED, read_records
from tokenmill.kernels.lines import PADDING, count_lines, take_lines
from tokenmill.kernels.utf8 import is_utf8
from tokenmill.transforms.parse_json import LineParser, RejectedLineError
from tokenmill.transforms.splits import ReadOptions

NO_LIMIT = np.int64((1 << 63) - 1)
OPTIONS = ReadOptions(id_column="id")


def bytes_of(data: bytes) -> np.ndarray:
    return read_only(np.frombuffer(data, np.uint8))


def make_block(content: bytes, *, behind: bytes = b"") -> np.ndarray:
    """Lines as the reader hands them on; `behind` them may lie what belongs to the next block."""
    end = b"" if content.endswith(b"\n") else b"\n"
    return bytes_of(content + (end + behind + b'"}' * PADDING)[:PADDING])


def read_block(block: np.ndarray, *, text: str = "text", identifier: str | None = "id", most: int = NO_LIMIT) -> list[tuple]:
    """What becomes of each line: its kind, and the text and the id of documents."""
    lines, _ = count_lines(block)
    sinks = np.empty(block.size, np.uint8), np.empty(0 if identifier is None else block.size, np.uint8)
    starts, kinds, bounds = np.empty(lines, np.int64), np.empty(lines, np.uint8), np.zeros((2, lines + 1), np.int64)
    keys = bytes_of(text.encode()), bytes_of((identifier or "").encode())
    lines, records, documents = read_records(block, keys, sinks, starts, kinds, bounds, np.int64(most))
    assert records == np.count_nonzero(kinds[:lines] != BLANK)
    assert documents == np.count_nonzero(kinds[:lines] == DOCUMENT)
    columns = []
    for sink, ends in zip(sinks, bounds, strict=True):
        columns.append([sink[ends[row] : ends[row + 1]].tobytes().decode() for row in range(documents)])
    found = iter(zip(*columns, strict=True))
    return [(kind, *next(found)) if kind == DOCUMENT else (kind,) for kind in kinds[:lines].tolist()]


def parse(line: bytes) -> tuple[str, str | None] | None:
    try:
        parsed = LineParser(OPTIONS).parse(line)
    except RejectedLineError:
        return None
    return parsed.text, parsed.id


@settings(deadline=None, max_examples=500)
@given(lines=st.lists(strategies.hostile_json_lines(), min_size=1, max_size=4), ended=st.booleans())
def test_a_document_is_what_the_parser_makes_of_the_line(lines: list[bytes], ended: bool) -> None:
    content = b"\n".join(lines) + b"\n" * ended
    if not content:
        return
    outcomes = read_block(make_block(content, behind=b'"text": "b"}\n'))
    assert len(outcomes) == len(content.split(b"\n")) - content.endswith(b"\n")
    for line, (kind, *values) in zip(content.split(b"\n"), outcomes, strict=False):
        assert (kind == BLANK) == (not line.strip(b" \t\r"))
        if kind == DOCUMENT:
            assert tuple(values) == parse(line)


PLAIN = [
    (b'{"text": "a", "id": "b"}', "a", "b"),
    (b' {\t"id" : -1.50e+7 , "text":"" }\r', "", "-1.50e+7"),
    (b'{"id":true,"more":[[],{},[{"text":[1,"\\n"]}],-0.1,null,false,NaN,-Infinity],"text":"x"}', "x", "true"),
    (b'{"id":"","text":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20AC\\ud83d\\ude00"}', '"\\/\b\f\n\r\t\0é€😀', ""),
    ('{"id":"é","text":"' + "é€😀" * 50 + '","€":"\x7f"}'.encode().decode(), "é€😀" * 50, "é"),
    (b'{"text": "' + b"x" * 500 + b'\\n", "id": 0, "text ": 1, "tex": 2}', "x" * 500 + "\n", "0"),
    (b'{"text": "a", "id": 1, "deep": ' + b"[" * 63 + b"]" * 63 + b"}", "a", "1"),
]


@pytest.mark.parametrize(("line", "text", "identifier"), PLAIN)
def test_what_is_in_order_is_taken(line: bytes | str, text: str, identifier: str) -> None:
    line = line.encode() if isinstance(line, str) else line
    assert read_block(make_block(line)) == [(DOCUMENT, text, identifier)]
    assert parse(line) == (text, identifier)
    assert read_block(make_block(b"\n".join([line] * 3) + b"\n")) == [(DOCUMENT, text, identifier)] * 3


REFUSED_THOUGH_GOOD = [
    b'{"text": "a", "\\u0069d": 1}',
    b'{"text": "a", "id": 1, "b": "\\ud800"}',
    b'{"text": "a", "id": 1, "deep": ' + b"[" * 70 + b"]" * 70 + b"}",
    b'{"text": "a", "id": NaN}',
]


@pytest.mark.parametrize("line", REFUSED_THOUGH_GOOD)
def test_what_needs_a_closer_look_is_refused(line: bytes) -> None:
    assert read_block(make_block(line)) == [(REFUSED,)]
    assert parse(line) is not None


WRONG = [
    b'{"text": "a", "id": 1, "b": "\xff"}',
    *(
        b"{}",
        b"[]",
        b'"text"',
        b"7",
        b"{",
        b'{"text"',
        b'{"text":',
        b'{"text": "',
        b'{"text": "a", "id": 1',
        b'{"text": "a", "id": 1,}',
    ),
    *(b'{"text": "a"}', b'{"id": 1}', b'{"text": "a", "id": null}', b'{"text": "a", "id": [1]}', b'{"text": 1, "id": 1}'),
    *(
        b'{"text": "a", "id": 1, "id": 1}',
        b'{"text": "a", "text": "a", "id": 1}',
        b'{"text": "a", "id": 1} {}',
        b'{"text": "a" "id": 1}',
    ),
    *(
        b'{"text": "a", "id": 01}',
        b'{"text": "a", "id": 1.}',
        b'{"text": "a", "id": -}',
        b'{"text": "a", "id": 1e}',
        b'{"text": "a", "id": tru}',
    ),
    *(
        b'{"text": "\t", "id": 1}',
        b'{"text": "\\x", "id": 1}',
        b'{"text": "\\u12g4", "id": 1}',
        b'{"text": "\\',
        b'{"text": "\\u12',
    ),
    *(b'{"text": "\\ud800", "id": 1}', b'{"text": "\\ud800\\ud800", "id": 1}', b'{"text": "\\udc00\\ud800", "id": 1}'),
    *(
        b'{"text": "a", "id": 1, "b": [1 2]}',
        b'{"text": "a", "id": 1, "b": {"c"}}',
        b'{"text": "a", "id": 1, "b": {"c": 1]}',
        b'{"text": "a", "id": 1, "b": [,]}',
    ),
    *(b'{"text": "a", "id": 1, b: 1}', b'{"text": "a", "id": 1, "b"; 1}', b'{"text": "a", "id": 1]', b'{,"text": "a", "id": 1}'),
    *(b'{"text": "' + bad + b'", "id": 1}' for bad in strategies.BAD_BYTES),
]


@pytest.mark.parametrize("line", WRONG)
def test_what_is_wrong_is_refused(line: bytes) -> None:
    assert read_block(make_block(line, behind=b'a", "id": 1}')) == [(REFUSED,)]
    assert parse(line) is None
    good = b'{"text": "a", "id": 1}'
    assert read_block(make_block(line + b"\n" + good)) == [(REFUSED,), (DOCUMENT, "a", "1")]
    assert read_block(make_block(good + b"\n\n" + line + b"\n")) == [(DOCUMENT, "a", "1"), (BLANK,), (REFUSED,)]


def test_keys_are_those_asked_for_and_ids_only_when_asked_for() -> None:
    block = make_block('{"text": "a", "käse": "b", "": "c"}'.encode())
    assert read_block(block, text="käse", identifier="text") == [(DOCUMENT, "b", "a")]
    assert read_block(block, text="", identifier="käse") == [(DOCUMENT, "c", "b")]
    assert read_block(block, text="käse", identifier=None) == [(DOCUMENT, "b", "")]


def test_reading_stops_at_the_last_record_wanted() -> None:
    block = make_block(b'\n{"text": "a", "id": 1}\n\nbad\n{"text": "b", "id": 2}\n')
    document = (DOCUMENT, "a", "1")
    assert [read_block(block, most=most) for most in (0, 1)] == [[], [(BLANK,), document]]
    assert read_block(block, most=2) == [(BLANK,), document, (BLANK,), (REFUSED,)]


@settings(deadline=None, max_examples=300)
@given(parts=st.lists(strategies.nasty_bytes(max_fragments=12) | st.just(b"x" * 61), max_size=4), before=st.integers(0, 3))
def test_utf8_is_what_python_decodes(parts: list[bytes], before: int) -> None:
    text = b"".join(parts)
    array = bytes_of(b"\xe2" * before + text + b"\x80" * 64)
    assert is_utf8(array, before, before + len(text)) == decodes(text)


def decodes(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize("place", [0, 1, 58, 59, 60, 61, 62, 63, 64, 65, 121, 122, 123])
def test_every_character_at_every_border(place: int) -> None:
    characters = ["\x7f", "\x80", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"]
    for character in characters:
        text = b"a" * place + character.encode()
        for end in range(place, len(text) + 1):
            assert is_utf8(bytes_of(text + b"\x80" * 64), 0, end) == decodes(text[:end])
    for bad in strategies.BAD_BYTES:
        assert not is_utf8(bytes_of(b"a" * place + bad + b"a" * 64), 0, place + len(bad))


@settings(deadline=None, max_examples=200)
@given(content=strategies.line_files(), long=st.integers(0, 200))
def test_lines_are_counted_and_taken(content: bytes, long: int) -> None:
    content = b"y" * long + content
    if not content:
        return
    block, lines = make_block(content), content.split(b"\n")
    lines = lines[:-1] if content.endswith(b"\n") else lines
    assert count_lines(block) == (len(lines), sum(not line.strip(b" \t\r") for line in lines))
    starts, bounds, text = np.empty(len(lines), np.int64), np.zeros(len(lines) + 1, np.int64), np.empty(len(content), np.uint8)
    take_lines(block, starts, text, bounds)
    taken = [text[bounds[row] : bounds[row + 1]].tobytes() for row in range(len(lines))]
    ended = len(lines) - (not content.endswith(b"\n"))
    assert taken == [line.removesuffix(b"\r") if row < ended else line for row, line in enumerate(lines)]
    assert [content[start : start + len(line)] for start, line in zip(starts, lines, strict=True)] == lines


@pytest.mark.jit
def test_real_lines_with_one_byte_wrong() -> None:
    """Every byte of a real line, in turn, replaced by each of a few that mean something."""
    line = json.dumps({"id": 5, "meta": {"tags": ["a", None], "n": -1.5}, "text": 'It\'s "naïve":\n\t\\ 😀'}).encode()
    mutants = [line[:at] + bytes([byte]) + line[at + 1 :] for at in range(len(line)) for byte in b'"\\{}[],:0-e.u \t\x00\x7f\xc3']
    outcomes = read_block(make_block(b"\n".join(mutants)))
    taken = 0
    for mutant, (kind, *values) in zip(mutants, outcomes, strict=True):
        if kind == DOCUMENT:
            assert tuple(values) == parse(mutant)
            taken += 1
    assert 0.1 * len(mutants) < taken < 0.9 * len(mutants)
