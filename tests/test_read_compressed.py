"""Compressed files: every format in every compression, and no success with part of the data."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.reading import documents_of, read_all, write
from tokenmill.errors import UnreadableFileError, UsageError
from tokenmill.pipeline.inputs import resolve_inputs
from tokenmill.transforms.decompress import read_blocks
from tokenmill.transforms.splits import SourceFile
from tokenmill.transforms.zstd_frames import MAGIC


def compress_zst(content: bytes) -> bytes:
    return pa.Codec("zstd").compress(content).to_pybytes()


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": compress_zst,
}
MULTI_TOOL = {"gz": "gzip", "bz2": "bzip2", "xz": "xz", "zst": "zstd"}
TEXTS = ["one", "", "two € lines"]
LINES = "".join(f"{text}\n" for text in TEXTS).encode()
every_compression = pytest.mark.parametrize("compression", COMPRESS)


def text_bytes() -> bytes:
    return LINES


def jsonl_bytes() -> bytes:
    return '{"text": "one"}\n{"text": ""}\n{"text": "two € lines"}\n'.encode()


def parquet_bytes() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), sink, row_group_size=1)
    return sink.getvalue()


def arrow_bytes(open_writer: Callable[..., pa.RecordBatchFileWriter]) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"text": TEXTS})
    with open_writer(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
    return sink.getvalue()


FORMATS: dict[str, Callable[[], bytes]] = {
    "txt": text_bytes,
    "jsonl": jsonl_bytes,
    "parquet": parquet_bytes,
    "arrow": lambda: arrow_bytes(pa.ipc.new_file),
    "ipc": lambda: arrow_bytes(pa.ipc.new_stream),
}


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("compression", ["", *COMPRESS])
@pytest.mark.parametrize("limit", [None, 2])
def test_every_format_in_every_compression(tmp_path: Path, extension: str, compression: str, limit: int | None) -> None:
    content = FORMATS[extension]()
    name = f"a.{extension}.{compression}" if compression else f"a.{extension}"
    path = write(tmp_path, COMPRESS[compression](content) if compression else content, name=name)
    expected = [(f"{name}:{row}", text) for row, text in enumerate(TEXTS[:limit])]
    assert documents_of(read_all(path, split_bytes=1, limit=limit)) == expected


def blocks_of(path: Path, *, block_bytes: int = 1 << 20) -> list[bytes]:
    file = SourceFile(str(path), path.name, "text", path.suffix[1:], path.stat().st_size)
    return list(read_blocks(file, block_bytes=block_bytes))


@every_compression
def test_members_are_joined(tmp_path: Path, compression: str) -> None:
    compress = COMPRESS[compression]
    path = write(tmp_path, compress(b"one\n") + compress(b"") + compress(b"two\n"), name=f"a.{compression}")
    assert blocks_of(path) == [b"one\ntwo\n"]


@every_compression
def test_an_empty_text_is_read_as_such(tmp_path: Path, compression: str) -> None:
    assert blocks_of(write(tmp_path, COMPRESS[compression](b""), name=f"a.{compression}")) == []


@settings(deadline=None, max_examples=60)
@given(content=st.binary(max_size=300), compression=st.sampled_from(list(COMPRESS)), block_bytes=st.integers(1, 50))
def test_blocks_give_the_content(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, compression: str, block_bytes: int
) -> None:
    path = write(tmp_path_factory.mktemp("blocks"), COMPRESS[compression](content) * 2, name=f"a.{compression}")
    blocks = blocks_of(path, block_bytes=block_bytes)
    assert b"".join(blocks) == content * 2
    assert all(0 < len(block) <= block_bytes for block in blocks)


@every_compression
def test_blocks_stay_small_whatever_they_unpack_to(tmp_path: Path, compression: str) -> None:
    path = write(tmp_path, COMPRESS[compression](b"\0" * 3_000_000), name=f"a.{compression}")
    blocks = blocks_of(path, block_bytes=100_000)
    assert sum(map(len, blocks)) == 3_000_000
    assert max(map(len, blocks)) <= 100_000


@every_compression
def test_a_cut_file_is_never_read_in_part(tmp_path: Path, compression: str) -> None:
    lines = "".join(f"line {number * 7919 % 10007}\n" for number in range(20_000)).encode()
    whole = COMPRESS[compression](lines)
    for cut in (len(whole) // 2, len(whole) - 1, len(whole) - 8, 7):
        path = write(tmp_path, whole[:cut], name=f"a.txt.{compression}")
        with pytest.raises(UnreadableFileError) as caught:
            read_all(path)
        assert str(caught.value).startswith(f"{path}: cannot be read as text ({MULTI_TOOL[compression]}): ")
        assert "truncated" in str(caught.value).lower()


@every_compression
def test_a_cut_second_member_is_found(tmp_path: Path, compression: str) -> None:
    whole = COMPRESS[compression](LINES * 100)
    with pytest.raises(UnreadableFileError, match=f"a.txt.{compression}.*[Tt]runcated"):
        read_all(write(tmp_path, whole + whole[:-3], name=f"a.txt.{compression}"))


@every_compression
def test_bytes_behind_the_end_are_found(tmp_path: Path, compression: str) -> None:
    path = write(tmp_path, COMPRESS[compression](LINES) + b"more of the corpus, forgotten", name=f"a.txt.{compression}")
    with pytest.raises(UnreadableFileError, match=f"a.txt.{compression}: cannot be read as text"):
        read_all(path)


@pytest.mark.parametrize("compression", ["gz", "bz2", "xz"])
def test_damage_is_found(tmp_path: Path, compression: str) -> None:
    damaged = bytearray(COMPRESS[compression](LINES * 1000))
    damaged[len(damaged) // 2] ^= 0x10
    with pytest.raises(UnreadableFileError, match=f"a.txt.{compression}: cannot be read as text"):
        read_all(write(tmp_path, bytes(damaged), name=f"a.txt.{compression}"))


@pytest.mark.parametrize("compression", ["gz", "xz"])
def test_zero_padding_is_no_damage(tmp_path: Path, compression: str) -> None:
    compress = COMPRESS[compression]
    path = write(tmp_path, compress(b"a") + b"\0" * 512 + compress(b"b") + b"\0" * 4, name=f"a.{compression}")
    assert blocks_of(path) == [b"ab"]


def test_skippable_zstd_frames_are_skipped(tmp_path: Path) -> None:
    frame = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"
    path = write(tmp_path, frame + compress_zst(b"one") + frame + compress_zst(b"two") + frame, name="a.zst")
    assert blocks_of(path) == [b"onetwo"]


def compress_wide(content: bytes, window_log: int) -> bytes:
    """A zstd frame that asks for a window of this size, whatever it holds."""
    options = zstandard.ZstdCompressionParameters(window_log=window_log, write_checksum=True)
    writer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    return writer.compress(content) + writer.flush()


@pytest.mark.parametrize("window_log", [28, 31])
def test_a_wide_window_needs_the_option_that_the_message_names(tmp_path: Path, window_log: int) -> None:
    first, needed = compress_zst(b"one\n"), 1 << window_log - 20
    path = write(tmp_path, compress_wide(b"two\n" * 9, window_log), name="a.zst")
    with pytest.raises(
        UnreadableFileError, match=f"frame at byte 0 needs a window of {needed:,} MB, .* give --max-window {needed},"
    ):
        resolve_inputs([str(path)])
    assert len(documents_of(read_all(path, max_window=needed))) == 9
    path.write_bytes(first + path.read_bytes())
    with pytest.raises(UnreadableFileError, match=f"frame at byte {len(first)} needs a window of {needed:,} MB"):
        read_all(path, max_window=needed - 1)


@pytest.mark.parametrize("descriptor", [21 << 3 | 1, 31 << 3 | 7])
def test_a_window_that_zstd_does_not_read(tmp_path: Path, descriptor: int) -> None:
    frame = bytearray(compress_wide(b"two", 31))
    frame[5] = descriptor
    with pytest.raises(UnreadableFileError, match="byte 0 needs a window of more than 2,048 MB, which zstd does not read"):
        read_all(write(tmp_path, bytes(frame), name="a.zst"), max_window=2048)


@pytest.mark.parametrize("size", [0, -1, float("nan"), 2049])
def test_windows_that_are_none(tmp_path: Path, size: float) -> None:
    with pytest.raises(UsageError, match=r"--max-window .*: give a size in MB, above 0 and up to 2,048"):
        resolve_inputs([str(write(tmp_path, b"", name="a.txt"))], max_window=size)


@settings(deadline=None, max_examples=50)
@given(
    contents=st.lists(st.binary(max_size=200) | st.integers(0, 300_000).map(bytes), min_size=1, max_size=4),
    cut=st.floats(0, 1, exclude_max=True),
    skipped=st.binary(max_size=9),
    rest=st.binary(min_size=1, max_size=12),
)
def test_frames_are_read_whole_or_not_at_all(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes], cut: float, skipped: bytes, rest: bytes
) -> None:
    folder = tmp_path_factory.mktemp("zst")
    skippable = b"\x5f\x2a\x4d\x18" + len(skipped).to_bytes(4, "little") + skipped
    frames = [compress_wide(content, 20) for content in contents]
    whole = skippable.join(frames)
    assert b"".join(blocks_of(write(folder, whole, name="a.zst"))) == b"".join(contents)
    shorter = whole[: -len(frames[-1])] + frames[-1][: 4 + int(cut * (len(frames[-1]) - 4))]
    with pytest.raises(UnreadableFileError, match="truncated"):
        blocks_of(write(folder, shorter, name="a.zst"))
    assume(rest[1:4] != b"\x2a\x4d\x18" and not rest.startswith(MAGIC[: len(rest)][:4]))
    with pytest.raises(
        UnreadableFileError, match=rf"ends at byte {len(whole):,}, and {re.escape(repr(rest[:8]))} follows, which is"
    ):
        blocks_of(write(folder, whole + rest, name="a.zst"))


@pytest.mark.parametrize("place", [-1, -5, 12])
def test_damage_of_a_frame_is_found(tmp_path: Path, place: int) -> None:
    frame = bytearray(compress_wide(b"a text of some length\n" * 9, 20))
    frame[place] ^= 0x10
    with pytest.raises(UnreadableFileError, match=r"a.zst: cannot be read as text .zstd.: "):
        blocks_of(write(tmp_path, bytes(frame), name="a.zst"))


@every_compression
@pytest.mark.parametrize(("content", "what"), [(b"", "is empty"), (b"plain text", "begins with b'pl")])
def test_a_name_that_promises_too_much(tmp_path: Path, compression: str, content: bytes, what: str) -> None:
    path = write(tmp_path, content, name=f"a.txt.{compression}")
    with pytest.raises(UnreadableFileError) as caught:
        read_all(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: named .{compression} but is not {MULTI_TOOL[compression]}: it {what}")
    assert message.endswith("; rename it by what it holds, or make it anew")


def test_a_cut_compressed_parquet_is_named_before_any_work(tmp_path: Path) -> None:
    path = write(tmp_path, gzip.compress(parquet_bytes())[:-9], name="a.parquet.gz")
    with pytest.raises(UnreadableFileError, match=r"a\.parquet\.gz: cannot be read as parquet \(gzip\): truncated"):
        read_all(path)


@every_compression
@settings(max_examples=25, deadline=None)
@given(
    contents=st.lists(st.binary(max_size=40) | st.binary(max_size=9).map(lambda part: part * 50_000), min_size=1, max_size=3),
    rest=st.sampled_from([b"\n", b"\r\n", b"more text"]),
)
def test_what_follows_the_data_is_named_with_its_place(
    compression: str, contents: list[bytes], rest: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    stored = b"".join(map(COMPRESS[compression], contents))
    path = write(tmp_path_factory.mktemp("rest"), stored + rest, name=f"a.{compression}")
    with pytest.raises(UnreadableFileError, match=f"its compressed data ends at byte {len(stored):,}, and .* follows") as caught:
        blocks_of(path)
    assert f"`head -c {len(stored)} FILE` gives the file without it" in str(caught.value)
