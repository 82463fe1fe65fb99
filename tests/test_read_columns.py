"""Parquet, Arrow and datasets: column types, nulls, row numbers, cutting by row groups, batches and rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import strategies
from tests.reading import documents_of, read_all, rejects_of, write
from tokenmill.errors import InvalidTextError, MissingColumnError, UnreadableFileError, UsageError
from tokenmill.pipeline.inputs import Inputs, plan_splits, resolve_inputs
from tokenmill.pipeline.planning import describe_inputs
from tokenmill.schemas import DOCUMENTS
from tokenmill.transforms.read_batches import is_valid_utf8
from tokenmill.transforms.read_dataset import DatasetName, open_dataset, parse_dataset_name
from tokenmill.transforms.splits import ReadOptions, Reject, SourceFile

Writer = Callable[[Path, pa.Table, int], Path]


def write_parquet(folder: Path, table: pa.Table, rows: int = 3) -> Path:
    pq.write_table(table, folder / "a.parquet", row_group_size=rows)
    return folder / "a.parquet"


def write_ipc(folder: Path, table: pa.Table, rows: int, open_writer: Callable[..., Any]) -> Path:
    with open_writer(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return folder / "a.arrow"


def write_arrow_file(folder: Path, table: pa.Table, rows: int = 3) -> Path:
    return write_ipc(folder, table, rows, pa.ipc.new_file)


def write_arrow_stream(folder: Path, table: pa.Table, rows: int = 3) -> Path:
    return write_ipc(folder, table, rows, pa.ipc.new_stream)


every_format = pytest.mark.parametrize("write_table", [write_parquet, write_arrow_file, write_arrow_stream])


@settings(deadline=None, max_examples=60)
@given(
    texts=st.lists(st.none() | st.text("ab€😀", max_size=4), max_size=12),
    rows=st.integers(1, 5),
    split_bytes=st.integers(1, 60),
    batch_bytes=st.integers(1, 20),
    limit=st.none() | st.integers(0, 14),
    write_table=st.sampled_from([write_parquet, write_arrow_file, write_arrow_stream]),
)
def test_cuts_change_nothing(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str | None],
    rows: int,
    split_bytes: int,
    batch_bytes: int,
    limit: int | None,
    write_table: Writer,
) -> None:
    table = pa.table({"n": range(len(texts)), "text": pa.array(texts, pa.string())})
    path = write_table(tmp_path_factory.mktemp("cuts"), table, rows)
    batches = read_all(path, split_bytes=split_bytes, batch_bytes=batch_bytes, limit=limit)
    wanted = list(enumerate(texts[:limit]))
    assert documents_of(batches) == [(f"{path.name}:{row}", text) for row, text in wanted if text is not None]
    assert [reject.row for reject in rejects_of(batches)] == [row for row, text in wanted if text is None]
    first_rows = [batch.first_row for batch in batches]
    assert first_rows == sorted(first_rows)
    assert all(batch.documents.schema == DOCUMENTS for batch in batches)


@every_format
@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ],
    ids=str,
)
def test_text_types(tmp_path: Path, write_table: Writer, kind: pa.DataType) -> None:
    texts = ["a", None, "a text that is longer than a view", "a", ""]
    table = pa.table({"text": pa.array(texts, pa.string()).cast(kind)})
    batches = read_all(write_table(tmp_path, table, 2))
    assert [text for _, text in documents_of(batches)] == [text for text in texts if text is not None]


@every_format
def test_a_column_of_nulls_alone_is_all_rejects(tmp_path: Path, write_table: Writer) -> None:
    batches = read_all(write_table(tmp_path, pa.table({"n": [1, 2], "text": pa.nulls(2)}), 2))
    assert documents_of(batches) == []
    assert [(reject.row, reject.reason) for reject in rejects_of(batches)] == [(row, "column 'text' is null") for row in (0, 1)]


def test_nulls_are_rejected(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", None, "c", None], "id": pa.array([1, 2, None, None], pa.int16())})
    batches = read_all(write_parquet(tmp_path, table, 10), id_column="id")
    assert documents_of(batches) == [("1", "a")]
    assert rejects_of(batches) == [
        Reject("a.parquet", 1, -1, "column 'text' is null"),
        Reject("a.parquet", 2, -1, "the id in column 'id' is null or not UTF-8", b"c"),
        Reject("a.parquet", 3, -1, "column 'text' is null"),
    ]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([1, 2], pa.uint64()), ["1", "2"]),
        (pa.array([1.5, 2.0]), ["1.5", "2"]),
        (pa.array([True, False]), ["true", "false"]),
        (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
        (pa.array(["x", "y"], pa.large_string()), ["x", "y"]),
        (pa.array([0, 86400], pa.timestamp("s")), ["1970-01-01 00:00:00", "1970-01-02 00:00:00"]),
    ],
    ids=str,
)
def test_ids_are_any_scalar(tmp_path: Path, ids: pa.Array, expected: list[str]) -> None:
    path = write_arrow_file(tmp_path, pa.table({"id": ids, "text": ["a", "b"]}))
    assert [name for name, _ in documents_of(read_all(path, id_column="id"))] == expected


@settings(deadline=None)
@given(texts=st.lists(strategies.nasty_bytes() | st.binary(max_size=200), max_size=6), first=st.integers(0, 2))
def test_utf8_is_what_python_decodes(texts: list[bytes], first: int) -> None:
    array = pa.array(texts, pa.large_binary())[first:]
    expected = all(can_decode(text) for text in texts[first:])
    assert is_valid_utf8(array.view(pa.large_string())) == expected


@pytest.mark.parametrize("texts", [["\u00e9" * 100], ["a" * 130], ["", ""], ["a" * 63, "", "\U0001f600"], []])
def test_utf8_at_the_end_of_a_buffer(texts: list[str]) -> None:
    raw = pa.array(texts, pa.large_string())
    assert is_valid_utf8(raw)
    for end in range(1, 4):
        whole = "".join(texts).encode()
        halves = pa.array([whole[:-end], whole[-end:]], pa.large_binary())
        assert is_valid_utf8(halves.view(pa.large_string())) == can_decode(whole[:-end])


def can_decode(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def bad_table() -> pa.Table:
    content = pa.array([b"ok", None, b"x\xff", b"\xed\xa0\x80", b"fine"], pa.binary())
    return pa.table({"text": pa.StringArray.from_buffers(len(content), *content.buffers()[1:], content.buffers()[0])})


@every_format
def test_invalid_utf8_is_rejected_by_default(tmp_path: Path, write_table: Writer) -> None:
    path = write_table(tmp_path, bad_table(), 10)
    batches = read_all(path)
    assert documents_of(batches) == [(f"{path.name}:0", "ok"), (f"{path.name}:4", "fine")]
    assert rejects_of(batches) == [
        Reject(path.name, 1, -1, "column 'text' is null"),
        Reject(path.name, 2, -1, "invalid UTF-8: byte 1 of the text is 0xff", b"x\xff"),
        Reject(path.name, 3, -1, "invalid UTF-8: byte 0 of the text is 0xed", b"\xed\xa0\x80"),
    ]


def test_invalid_utf8_replaced_or_an_error(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, bad_table())
    batches = read_all(path, invalid_utf8="replace")
    assert [text for _, text in documents_of(batches)] == ["ok", "x\ufffd", "\ufffd\ufffd\ufffd", "fine"]
    assert sum(len(batch.replaced) for batch in batches) == 2
    with pytest.raises(InvalidTextError) as caught:
        read_all(path, invalid_utf8="error")
    assert str(caught.value) == (
        f"{path}: row 2: byte 1 of the text is 0xff, not valid UTF-8; "
        "`--invalid-utf8 replace` or `--invalid-utf8 reject` reads on"
    )


COLUMN_TABLE = pa.table({"body": ["a"], "n": [1], "tags": [["x"]]})


@every_format
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no column 'text'; the columns there are: body, n, tags"),
        ({"text_column": "n"}, "column 'n' holds int64, not text; the columns that hold text are: body, tags[]"),
        ({"text_column": "body", "id_column": "key"}, "no column 'key'; the columns there are: body, n, tags"),
        ({"text_column": "body", "id_column": "tags"}, ", no id; the columns that can be ids are: body, n"),
    ],
)
def test_column_errors_come_before_any_work(tmp_path: Path, write_table: Writer, options: dict[str, str], message: str) -> None:
    path = write_table(tmp_path, COLUMN_TABLE, 3)
    with pytest.raises(MissingColumnError) as caught:
        plan_splits(resolve_inputs([str(path)]), options=ReadOptions(**options))
    assert str(caught.value).startswith(f"{path}: ")
    assert str(caught.value).endswith(message)


def test_a_column_that_stands_twice(tmp_path: Path) -> None:
    path = write_arrow_file(tmp_path, pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]))
    with pytest.raises(MissingColumnError, match="2 columns 'text'; the columns there are: text, text"):
        read_all(path)


def test_one_column_cannot_be_both(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, pa.table({"text": ["a"]}))
    with pytest.raises(UsageError, match="the id column and the text column are both 'text'; name two columns"):
        read_all(path, id_column="text")


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
@pytest.mark.parametrize("content", [b"", b"garbage", b"PAR1" * 50, b"ARROW1\0\0garbage"])
def test_garbage_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    with pytest.raises(
        UnreadableFileError,
        match=rf"{name}: (cannot be read as|is text, which begins with b'.*', and its name says) (parquet|arrow)",
    ):
        read_all(write(tmp_path, content, name=name))


def test_a_cut_arrow_stream_is_named(tmp_path: Path) -> None:
    path = write_arrow_stream(tmp_path, pa.table({"text": ["a" * 1000] * 10}))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(UnreadableFileError, match=r"a\.arrow: cannot be read as arrow: "):
        read_all(path)


def test_a_second_arrow_stream_is_not_passed_over(tmp_path: Path) -> None:
    path = write_arrow_stream(tmp_path, pa.table({"text": ["a"]}))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(UnreadableFileError) as caught:
        read_all(path)
    assert str(caught.value) == f"{path}: other bytes follow the Arrow stream's end; write each stream to its own file"


def test_batches_hold_about_batch_bytes(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, pa.table({"text": ["x" * 100] * 1000}), 1000)
    sizes = [batch.documents.num_rows for batch in read_all(path, batch_bytes=1000)]
    assert sum(sizes) == 1000
    assert max(sizes) <= 11


def test_splits_follow_row_groups(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, pa.table({"text": [f"{number:0100}" for number in range(100)]}), 10)
    splits = plan_splits(resolve_inputs([str(path)]), options=ReadOptions(), split_bytes=3000)
    ranges = [part for split in splits for part in split.ranges]
    assert [(part.start, part.end) for part in ranges] == [(start, start + 2) for start in range(0, 10, 2)]
    assert [part.first_row for part in ranges] == list(range(0, 100, 20))
    assert all(2000 <= split.size <= 3000 for split in splits)
    limited = plan_splits(resolve_inputs([str(path)]), options=ReadOptions(), split_bytes=3000, limit=25)
    assert [split.size for split in limited] == [splits[0].size, splits[1].size * 5 // 20]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    open_dataset.cache_clear()


@pytest.fixture
def parquet_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split, rows in (("train", 7), ("test", 3)):
        texts = [f"{split} {row}" if row != 1 else None for row in range(rows)]
        pq.write_table(pa.table({"key": range(rows), "text": texts}), folder / f"{split}-00000-of-00001.parquet")
    return folder


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize("split_bytes", [1, 30, 1 << 20])
def test_hf_folder(parquet_folder: Path, split_bytes: int) -> None:
    batches = read_all(f"hf:{parquet_folder}", split_bytes=split_bytes)
    assert documents_of(batches) == [(f"hf:corpus:{row}", f"train {row}") for row in (0, 2, 3, 4, 5, 6)]
    assert rejects_of(batches) == [Reject("hf:corpus", 1, -1, "column 'text' is null")]


@pytest.mark.usefixtures("offline")
def test_hf_splits_slices_limits_and_ids(parquet_folder: Path) -> None:
    assert [text for _, text in documents_of(read_all(f"hf:{parquet_folder}:test"))] == ["test 0", "test 2"]
    sliced = read_all(f"hf:{parquet_folder}:train[4:]", id_column="key", limit=2, split_bytes=1)
    assert documents_of(sliced) == [("4", "train 4"), ("5", "train 5")]


@pytest.mark.usefixtures("offline")
def test_hf_splits_have_sizes(parquet_folder: Path) -> None:
    files = resolve_inputs([f"hf:{parquet_folder}"])
    (whole,) = plan_splits(files, options=ReadOptions())
    (part,) = plan_splits(files, options=ReadOptions(), limit=2)
    assert files[0].size == 0 and whole.size >= 6 * len("train 0") and part.size == whole.size * 2 // 7


@pytest.mark.usefixtures("offline")
def test_hf_errors(parquet_folder: Path) -> None:
    with pytest.raises(UsageError, match=r"corpus:dev: .*Unknown split \"dev\""):
        read_all(f"hf:{parquet_folder}:dev")
    with pytest.raises(UnreadableFileError, match="hf:/no/such/folder"):
        read_all("hf:/no/such/folder")
    with pytest.raises(MissingColumnError, match="no column 'body'; the columns there are: key, text"):
        read_all(f"hf:{parquet_folder}", text_column="body")


@pytest.mark.usefixtures("offline")
def test_disk_dataset(tmp_path: Path) -> None:
    import datasets

    dataset = datasets.Dataset.from_dict({"text": ["a", "b", "c", "d"]})
    dataset.select([3, 0, 2]).save_to_disk(tmp_path / "single")
    assert documents_of(read_all(f"disk:{tmp_path / 'single'}")) == [(f"disk:single:{n}", t) for n, t in enumerate("dac")]
    with pytest.raises(UsageError, match="holds one dataset without splits; leave out ':train'"):
        read_all(f"disk:{tmp_path / 'single'}:train")


@pytest.mark.usefixtures("offline")
def test_disk_dataset_with_splits(tmp_path: Path) -> None:
    import datasets

    splits = {name: datasets.Dataset.from_dict({"text": [name]}) for name in ("train", "dev")}
    datasets.DatasetDict(splits).save_to_disk(tmp_path / "both")
    both = f"disk:{tmp_path / 'both'}"
    assert documents_of(read_all(both)) == [("disk:both:0", "train")]
    file = SourceFile(both, "both", "dataset")
    note = f"{both}: its split train is read, not dev; for another one give {both}:dev"
    assert list(describe_inputs(Inputs([file]), [file])) == [note]
    for named in (f"{both}:dev", f"{both}:train"):
        file = SourceFile(named, "both", "dataset")
        assert list(describe_inputs(Inputs([file]), [file])) == []
    assert documents_of(read_all(f"{both}:dev")) == [("disk:both:dev:0", "dev")]
    with pytest.raises(UsageError, match="no split 'test'; the splits there are: train, dev"):
        read_all(f"{both}:test")
    with pytest.raises(UnreadableFileError, match="disk:/no/such/folder"):
        read_all("disk:/no/such/folder")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hf:a/b", DatasetName("hf", "a/b")),
        ("hf:a/b:en", DatasetName("hf", "a/b", "en")),
        ("hf:a/b:train", DatasetName("hf", "a/b", split="train")),
        ("hf:a/b:train+test", DatasetName("hf", "a/b", split="train+test")),
        ("hf:a/b:train[:10%]", DatasetName("hf", "a/b", split="train[:10%]")),
        ("hf:a/b@2.1", DatasetName("hf", "a/b", revision="2.1")),
        ("hf:a/b:en@2.18:train[:10000]", DatasetName("hf", "a/b", "en", "2.18", "train[:10000]")),
        ("hf:a/b::odd", DatasetName("hf", "a/b", split="odd")),
        ("hf:a/b:en:train[5:9]", DatasetName("hf", "a/b", "en", split="train[5:9]")),
        ("disk:x/y", DatasetName("disk", "x/y")),
        ("disk:x/y:dev", DatasetName("disk", "x/y", split="dev")),
    ],
)
def test_dataset_names(text: str, name: DatasetName) -> None:
    assert parse_dataset_name(text) == name


@pytest.mark.parametrize("text", ["hf:", "disk:", "hf::train", "hf:a@", "hf:a@b@c"])
def test_dataset_names_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not of the form hf:PATH\[:CONFIG\]\[@REVISION\]\[:SPLIT\] or disk:DIR\[:SPLIT\]"):
        parse_dataset_name(text)


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()])
def test_ids_that_are_no_utf_8_are_rejects(tmp_path: Path, kind: pa.DataType) -> None:
    offsets, data = pa.py_buffer(pa.array([0, 1, 2, 3], pa.int32()).buffers()[1]), pa.py_buffer(b"a\xffc")
    ids = pa.Array.from_buffers(kind, 3, [None, offsets, data])
    (batch,) = read_all(write_parquet(tmp_path, pa.table({"id": ids, "text": ["x", "y", "z"]})), id_column="id")
    assert batch.documents["doc_id"].to_pylist() == ["a", "c"]
    assert [(reject.row, reject.reason) for reject in batch.rejects] == [(1, "the id in column 'id' is null or not UTF-8")]
