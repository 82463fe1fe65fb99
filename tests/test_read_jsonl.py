"""JSON Lines: what becomes of each kind of line, and that it depends on the line alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.reading import documents_of, read_all, rejects_of, write
from tokenmill.errors import InvalidTextError, MissingColumnError
from tokenmill.pipeline.inputs import plan_splits, resolve_inputs
from tokenmill.transforms.parse_json import DamagedTextError, LineParser, RejectedLineError
from tokenmill.transforms.splits import ReadOptions

GOOD = b'{"text": "first", "id": 0}\n'


def write_lines(folder: Path, *lines: bytes) -> Path:
    return write(folder, b"\n".join(lines), name="a.jsonl")


def texts_of(path: Path, **options: object) -> list[str]:
    return [text for _, text in documents_of(read_all(path, **options))]


def test_each_kind_of_line(tmp_path: Path) -> None:
    lines = [
        b'{"text": "good", "n": [1, {"text": 2}]}',
        b"",
        b' \t{"text": ""} \r',
        b"[1, 2]",
        b'{"title": "x"}',
        b'{"text": null}',
        b'{"text": 5}',
        b'{"text": true}',
        b'{"text": ["a"]}',
        b'{"text": {"a": 1}}',
        b'{"text": "a", "text": "b"}',
        b'{"text": "a", "\\u0074ext": "b"}',
        b'{"text": "a"} {"text": "b"}',
        b"\x0b",
        b'"text"',
        b"17",
        b'{"text": "half a l',
    ]
    batches = read_all(write_lines(tmp_path, *lines))
    assert documents_of(batches) == [("a.jsonl:0", "good"), ("a.jsonl:2", "")]
    rejects = rejects_of(batches)
    assert [reject.raw for reject in rejects] == lines[3:]
    assert [reject.row for reject in rejects] == list(range(3, len(lines)))
    content = b"\n".join(lines)
    assert all(content[reject.offset :].startswith(reject.raw) for reject in rejects)
    assert [reject.reason for reject in rejects] == [
        "not a JSON object but a list",
        "no column 'text'",
        "column 'text' holds null, not a string",
        "column 'text' holds a number, not a string",
        "column 'text' holds a boolean, not a string",
        "column 'text' holds a list, not a string",
        "column 'text' holds an object, not a string",
        "column 'text' stands 2 times",
        "column 'text' stands 2 times",
        "malformed JSON: Extra data at character 14",
        "malformed JSON: Expecting value at character 0",
        "not a JSON object but a string",
        "not a JSON object but a number",
        "malformed JSON: Unterminated string starting at at character 9",
    ]


@settings(deadline=None, max_examples=150)
@given(
    content=strategies.jsonl_files(),
    split_bytes=st.integers(1, 80),
    batch_bytes=st.integers(1, 80),
    limit=st.none() | st.integers(1, 9),
    policy=st.sampled_from(["replace", "reject"]),
    id_column=st.sampled_from([None, "id"]),
)
def test_cuts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    content: bytes,
    split_bytes: int,
    batch_bytes: int,
    limit: int | None,
    policy: str,
    id_column: str | None,
) -> None:
    path = write(tmp_path_factory.mktemp("jsonl"), content, name="a.jsonl")
    options = {"invalid_utf8": policy, "id_column": id_column}
    whole = read_all(path, **options)
    cut = read_all(path, split_bytes=split_bytes, batch_bytes=batch_bytes, limit=limit, **options)
    records = [line for line in content.split(b"\n") if line.strip()]
    assert len(documents_of(whole)) + len(rejects_of(whole)) == len(records)
    assert len(documents_of(cut)) + len(rejects_of(cut)) == len(records[:limit])
    assert documents_of(whole)[: len(documents_of(cut))] == documents_of(cut)
    assert rejects_of(whole)[: len(rejects_of(cut))] == rejects_of(cut)


def test_nul_characters_are_text(tmp_path: Path) -> None:
    assert texts_of(write_lines(tmp_path, b'{"text": "a\\u0000b"}')) == ["a\0b"]
    assert [reject.reason for reject in rejects_of(read_all(write_lines(tmp_path, GOOD, b'{"text": "a\0b"}')))] == [
        "malformed JSON: Invalid control character at at character 11"
    ]


def test_byte_order_mark_and_returns(tmp_path: Path) -> None:
    assert texts_of(write(tmp_path, b'\xef\xbb\xbf{"text": "a"}\r\n{"text": "b"}\r\n', name="a.jsonl")) == ["a", "b"]


def test_column_names_of_all_kinds(tmp_path: Path) -> None:
    for column in ("käse", 'quo"te', "back\\slash", "a.b", ""):
        lines = [json.dumps({column: "x"}, ensure_ascii=escape).encode() for escape in (True, False)]
        assert texts_of(write_lines(tmp_path, *lines), text_column=column) == ["x", "x"]


def test_nan_elsewhere_is_let_through(tmp_path: Path) -> None:
    assert texts_of(write_lines(tmp_path, b'{"text": "a", "score": NaN}')) == ["a"]


def test_nesting_too_deep_is_rejected(tmp_path: Path) -> None:
    deep = b'{"text": "a", "b": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    (reject,) = rejects_of(read_all(write_lines(tmp_path, GOOD.strip(), deep)))
    assert (reject.row, reject.reason) == (1, "JSON nested too deeply")


SURROGATE = b'{"text": "x\\ud83d y"}'


def test_lone_surrogate_rejected(tmp_path: Path) -> None:
    batches = read_all(write_lines(tmp_path, GOOD.strip(), SURROGATE, b'{"text": "\\ud83d\\ude00"}'))
    assert [text for _, text in documents_of(batches)] == ["first", "😀"]
    (reject,) = rejects_of(batches)
    assert (reject.row, reject.raw) == (1, SURROGATE)
    assert reject.reason == "invalid UTF-8: character 1 of the text is the lone surrogate U+D83D"


def test_lone_surrogate_replaced_and_counted(tmp_path: Path) -> None:
    batches = read_all(write_lines(tmp_path, GOOD.strip(), SURROGATE, b'{"text": "\xff"}'), invalid_utf8="replace")
    assert [text for _, text in documents_of(batches)] == ["first", "x\ufffd y", "\ufffd"]
    assert sum(len(batch.replaced) for batch in batches) == 2


def test_invalid_bytes_in_text_and_elsewhere(tmp_path: Path) -> None:
    batches = read_all(write_lines(tmp_path, b'{"text": "a\xffb"}', b'{"text": "c", "d": "\xff"}'))
    assert documents_of(batches) == []
    reasons = ["invalid UTF-8: character 1 of the text is the byte 0xff", "invalid UTF-8: byte 20 of the line is 0xff"]
    assert [reject.reason for reject in rejects_of(batches)] == reasons
    again = read_all(tmp_path / "a.jsonl", invalid_utf8="replace")
    assert [text for _, text in documents_of(again)] == ["a\ufffdb", "c"] and sum(len(batch.replaced) for batch in again) == 1


def judge_by_json(line: bytes) -> str | None:
    """The text of a line by Python's strict reader of JSON and of UTF-8, None for a reject."""
    try:
        pairs = json.loads(line.decode("utf-8"), object_pairs_hook=Pairs)
    except ValueError:
        return None
    found = [value for key, value in pairs if key == "text"] if isinstance(pairs, Pairs) else []
    whole = len(found) == 1 and type(found[0]) is str and not any(0xD800 <= ord(letter) <= 0xDFFF for letter in found[0])
    return found[0] if whole else None


class Pairs(list):
    """An object with every key, also one that stands twice."""


@settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(strategies.hostile_json_lines(), min_size=1, max_size=5))
def test_what_is_taken_is_what_strict_readers_take(tmp_path: Path, lines: list[bytes]) -> None:
    lines = [line for line in lines if line.strip(b" \t\r") and b"\0" not in line]  # a file with NULs is not taken for text
    content = b'{"text": "first"}\n' + b"".join(line + b"\n" for line in lines)
    read = [text for _, text in documents_of(read_all(write(tmp_path, content, name="a.jsonl")))]
    assert read == ["first", *(text for line in lines if (text := judge_by_json(line)) is not None)]


def test_lone_surrogate_as_error_names_file_row_byte_and_way_out(tmp_path: Path) -> None:
    path = write_lines(tmp_path, GOOD.strip(), SURROGATE)
    with pytest.raises(InvalidTextError) as caught:
        read_all(path, invalid_utf8="error")
    assert str(caught.value) == (
        f"{path}: row 1: byte 27 of the file begins a line with invalid UTF-8: "
        "character 1 of the text is the lone surrogate U+D83D; `--invalid-utf8 replace` or `--invalid-utf8 reject` reads on"
    )


def test_policy_error_does_not_touch_other_rejects(tmp_path: Path) -> None:
    assert len(rejects_of(read_all(write_lines(tmp_path, GOOD.strip(), b"[1]"), invalid_utf8="error"))) == 1


def test_damaged_text_is_a_kind_of_rejected_line() -> None:
    parser = LineParser(ReadOptions())
    with pytest.raises(DamagedTextError, match=r"lone surrogate U\+D83D"):
        parser.parse(SURROGATE)
    with pytest.raises(RejectedLineError, match="no column 'text'"):
        parser.parse(b"{}")


def test_ids_are_any_scalar(tmp_path: Path) -> None:
    values = [b'"a"', b"12345678901234567890123", b"1.50", b"true", b"false", b'"\\u00e9"', b" -7 "]
    path = write_lines(tmp_path, *[b'{"text": "x", "id": ' + value + b"}" for value in values])
    expected = ["a", "12345678901234567890123", "1.50", "true", "false", "é", "-7"]
    assert [name for name, _ in documents_of(read_all(path, id_column="id"))] == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'"id": null', "the id is null"),
        (b'"id": [1]', "the id is a list"),
        (b'"id": {}', "the id is an object"),
        (b'"id": "\\ud83d"', "the id is not valid Unicode"),
        (b'"id": 1, "id": 2', "column 'id' stands 2 times"),
        (b'"other": 1', "no column 'id'"),
    ],
)
def test_records_without_a_usable_id_are_rejected(tmp_path: Path, value: bytes, reason: str) -> None:
    batches = read_all(write_lines(tmp_path, GOOD.strip(), b'{"text": "x", ' + value + b"}"), id_column="id")
    assert documents_of(batches) == [("0", "first")]
    assert [reject.reason for reject in rejects_of(batches)] == [reason]


def test_arrays_among_files_of_lines_are_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD, name="a.json")
    write(tmp_path, b"[\n{}\n]", name="b.json")
    batches = read_all(tmp_path)
    assert [(reject.file, reject.reason) for reject in rejects_of(batches)] == [("b.json", "no column 'text'")]


@pytest.mark.parametrize("options", [{"text_column": "body"}, {"id_column": "body"}])
def test_missing_column_lists_those_there_are(tmp_path: Path, options: dict[str, str]) -> None:
    path = write_lines(tmp_path, b"garbage", b'{"text": "a", "n": 1}', b'{"text": "a", "m": 1}')
    with pytest.raises(MissingColumnError) as caught:
        plan_splits(resolve_inputs([str(path)]), options=ReadOptions(**options))
    assert str(caught.value) == f"{path}: no column 'body' in its first records; the columns there are: text, n, m"


def test_limit_skips_blank_lines_and_counts_rejects(tmp_path: Path) -> None:
    path = write_lines(tmp_path, b'{"text": "a"}', b"", b"bad", b" ", b'{"text": "b"}', b'{"text": "c"}')
    for split_bytes in (1, 20, 1000):
        batches = read_all(path, limit=3, split_bytes=split_bytes)
        assert documents_of(batches) == [("a.jsonl:0", "a"), ("a.jsonl:4", "b")]
        assert [reject.row for reject in rejects_of(batches)] == [2]
