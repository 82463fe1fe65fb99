"""Columns that folders stand for, and files that are named as URLs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reading import documents_of, read_all, rejects_of
from tokenmill.errors import UsageError
from tokenmill.pipeline import listing_remote
from tokenmill.pipeline.inputs import list_inputs


def test_a_folders_key_is_an_id_in_every_format(tmp_path: Path) -> None:
    contents = {"a.jsonl": b'{"text": "a"}\n{"text": 1}\n', "b.csv": b"text\nb\n", "d.txt": b"d\n"}
    for number, (name, content) in enumerate(contents.items()):
        folder = tmp_path / f"y={number}" / "lang=en%2FGB"
        folder.mkdir(parents=True)
        (folder / name).write_bytes(content)
    pq.write_table(pa.table({"text": ["p", "q"], "lang": ["no", "no"]}), tmp_path / "y=0" / "lang=en%2FGB" / "c.parquet")
    read = [(path, documents_of(read_all(path, id_column="lang"))) for path in sorted(tmp_path.rglob("*.*")) if path.is_file()]
    assert [texts for _, texts in read] == [
        [("en/GB", "a")],
        [("en/GB", "p"), ("en/GB", "q")],
        [("en/GB", "b")],
        [("en/GB", "d")],
    ]
    batches = read_all(tmp_path / "y=0" / "lang=en%2FGB" / "a.jsonl", id_column="lang")
    assert [reject.row for reject in rejects_of(batches)] == [1]


def test_file_urls_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "a b.txt"
    path.write_text("x\n")
    quoted = str(path).replace(" ", "%20")
    for url in (f"file://{quoted}", f"file://localhost{quoted}"):
        assert [file.path for file in list_inputs([url]).files] == [str(path)]
    with pytest.raises(UsageError, match="is not a file of this machine; write file:///folder/file"):
        list_inputs(["file://host/a.txt"])


@pytest.mark.parametrize(("url", "extra"), [("s3://bucket/a.txt", "aws"), ("gs://bucket/a.txt", "gcp")])
def test_a_store_without_its_packages_names_the_extra(monkeypatch: pytest.MonkeyPatch, url: str, extra: str) -> None:
    def find_nothing(pattern: str) -> dict[str, int]:
        raise OSError("Match operation failed")

    monkeypatch.setattr(listing_remote, "_match", find_nothing)
    monkeypatch.setattr(listing_remote, "_is_installed", lambda module: False)
    with pytest.raises(UsageError, match=rf"pip install 'tokenmill\[{extra}\]'"):
        list_inputs([url])
