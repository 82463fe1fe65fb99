"""Shards, manifest and rejects: what a dataset holds, checked against the tokenizer and the texts it was made from."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora import make_texts, write_jsonl
from tests.training import WAYS_OUT
from tokenmill import Tokenizer, errors, schemas
from tokenmill.pipeline import accounting, driver
from tokenmill.pipeline.accounting import ANY_REJECTS, MaxRejects
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms import write
from tokenmill.transforms.splits import ReadOptions, SourceFile
from tokenmill.transforms.write import ShardWriter

RUN = Execution(reporter(quiet=True), workers=1)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 250 documents in several shards, in `tokens`, made from `corpus.jsonl` with `tokenizer.json`."""
    folder = tmp_path_factory.mktemp("dataset")
    corpus = Corpus((str(write_jsonl(folder / "corpus.jsonl", make_texts(250))),), split_bytes=8_000)
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=400)
    driver.train_on_corpus(corpus, options, str(folder / "tokenizer.json"), RUN)
    driver.encode_corpus(corpus, str(folder / "tokenizer.json"), str(folder / "tokens"), RUN)
    return folder


def read_manifest(folder: Path) -> dict:
    return json.loads((folder / "tokens" / "manifest.json").read_text())


def read_dataset(folder: Path) -> pa.Table:
    return pa.concat_tables([pq.read_table(folder / "tokens" / shard["path"]) for shard in read_manifest(folder)["shards"]])


def test_rows_are_the_documents_in_corpus_order(dataset: Path) -> None:
    table, tokenizer, texts = read_dataset(dataset), Tokenizer.from_file(dataset / "tokenizer.json"), make_texts(250)
    assert table.schema.equals(schemas.TOKENS)
    assert table["doc_id"].to_pylist() == [f"corpus.jsonl:{row}" for row in range(250)]
    assert [tokenizer.decode(ids) for ids in table["input_ids"].to_pylist()] == texts
    assert table["input_ids"].to_pylist() == [tokenizer.encode(text) for text in texts]


def test_manifest_accounts_for_every_document_and_shard(dataset: Path) -> None:
    manifest, table = read_manifest(dataset), read_dataset(dataset)
    (file,) = manifest["files"]
    assert file["documents"] == file["encoded"] == 250 and file["rejected"] == 0 and file["empty"] == 12
    assert file["size"] == (dataset / "corpus.jsonl").stat().st_size and len(file["fingerprint"]) == 32
    assert (
        manifest["totals"]["tokens"]
        == sum(shard["tokens"] for shard in manifest["shards"])
        == len(table["input_ids"].combine_chunks().values)
    )
    for shard in manifest["shards"]:
        content = (dataset / "tokens" / shard["path"]).read_bytes()
        assert shard["bytes"] == len(content) and shard["sha256"] == hashlib.sha256(content).hexdigest()


def test_shard_is_plain_zstd_and_describes_itself(dataset: Path) -> None:
    manifest = read_manifest(dataset)
    file = pq.ParquetFile(dataset / "tokens" / manifest["shards"][1]["path"])
    for column in range(2):
        layout = file.metadata.row_group(0).column(column)
        assert layout.compression == "ZSTD" and not layout.has_dictionary_page
        assert set(layout.encodings) <= {"PLAIN", "RLE"}
    footer = file.schema_arrow.metadata
    assert footer[b"tokenmill.tokenizer_sha256"].decode() == manifest["tokenizer"]["sha256"]
    assert footer[b"tokenmill.vocab_size"] == footer[b"tokenmill.embedding_rows"] == b"400"
    assert json.loads(footer[b"tokenmill.source"]) == manifest["shards"][1]["source"]


def test_dataset_carries_its_tokenizer_and_no_working_files(dataset: Path) -> None:
    names = {path.name for path in (dataset / "tokens").iterdir() if not path.name.startswith("part-")}
    assert names == {"manifest.json", "tokenizer.json", "README.md"}
    assert (dataset / "tokens" / "tokenizer.json").read_bytes() == (dataset / "tokenizer.json").read_bytes()


def test_datasets_loads_shards_and_folder(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets

    shards = str(dataset / "tokens" / "part-*.parquet")
    by_files = datasets.load_dataset("parquet", data_files=shards, split="train", cache_dir=str(tmp_path))
    by_folder = datasets.load_dataset(str(dataset / "tokens"), split="train", cache_dir=str(tmp_path))
    expected = read_dataset(dataset)["input_ids"].to_pylist()
    assert by_files["input_ids"][:] == by_folder["input_ids"][:] == expected


@pytest.mark.jit
def test_embedding_layer_takes_the_ids_without_a_cast(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    import datasets
    import torch

    layer = torch.nn.Embedding(read_manifest(dataset)["tokenizer"]["embedding_rows"], 64)
    shards = str(dataset / "tokens" / "part-*.parquet")
    loaded = datasets.load_dataset("parquet", data_files=shards, split="train", cache_dir=str(tmp_path))
    rows = [row for row in loaded.with_format("arrow")[:16]["input_ids"] if len(row.values)]
    batch = torch.stack([torch.from_numpy(row.values.to_numpy()[:1].copy()) for row in rows])
    assert batch.dtype == torch.int32 and layer(batch).shape == (len(rows), 1, 64)
    flat = read_dataset(dataset)["input_ids"].combine_chunks().values.to_numpy()
    assert layer(torch.from_numpy(flat.copy())).shape == (flat.size, 64)


def test_row_groups_depend_on_the_documents_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "ROW_GROUP_TOKENS", 5)
    monkeypatch.setattr(write, "ROW_GROUP_DOCUMENTS", 3)
    lists = [[1, 2], [3, 4, 5, 6], [], [], [], [7], [8] * 12, [9]]
    ids = [f"d{row}" for row in range(len(lists))]
    hashes = set()
    for size in (1, 2, 3, len(lists)):
        with ShardWriter(str(tmp_path / f"{size}.parquet"), {}) as writer:
            for start in range(0, len(lists), size):
                encoded = pa.array(lists[start : start + size], pa.large_list(pa.int32()))
                writer.write({"doc_id": pa.array(ids[start : start + size]), "input_ids": encoded})
        hashes.add(writer.describe()["sha256"])
        file = pq.ParquetFile(tmp_path / f"{size}.parquet")
        assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [2, 3, 2, 1]
        assert file.read()["input_ids"].to_pylist() == lists
    assert len(hashes) == 1


def test_rows_of_a_fixed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks: rows that are no documents, cut into row groups by their tokens as well."""
    monkeypatch.setattr(write, "ROW_GROUP_TOKENS", 5)
    schema = pa.schema([pa.field("input_ids", pa.list_(pa.int32(), 2))])
    with ShardWriter(str(tmp_path / "blocks.parquet"), {}, schema) as writer:
        writer.write({"input_ids": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], schema.field(0).type)})
    assert (writer.rows, writer.tokens) == (4, 8)
    file = pq.ParquetFile(tmp_path / "blocks.parquet")
    assert [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)] == [3, 1]
    assert file.read()["input_ids"].to_pylist() == [[1, 2], [3, 4], [5, 6], [7, 8]]


def test_writer_that_fails_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), ShardWriter(str(tmp_path / "part.parquet"), {}):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def encode_with_rejects(folder: Path, limit: MaxRejects | None = None, **read: Any) -> dict:
    """A character model that has no `z`, on a file with a bad line and two documents that hold one."""
    (folder / "train.txt").write_text("ab ab\n")
    options = TrainingOptions(model="char-bpe", pretokenizer="wordpunct", merges=1)
    driver.train_on_corpus(Corpus((str(folder / "train.txt"),)), options, str(folder / "tokenizer.json"), RUN)
    (folder / "in.txt").write_bytes(b"ab\nza\n\xff\n\nb z\n")
    corpus = Corpus((str(folder / "in.txt"),), max_rejects=limit or ANY_REJECTS, read=ReadOptions(**read))
    return driver.encode_corpus(corpus, str(folder / "tokenizer.json"), str(folder / "tokens"), RUN)


@pytest.mark.parametrize("batch_bytes", [1, 4, 1 << 20])
def test_rejects_are_counted_and_kept(tmp_path: Path, batch_bytes: int) -> None:
    manifest = encode_with_rejects(tmp_path, batch_bytes=batch_bytes)
    (file,) = manifest["files"]
    assert (file["documents"], file["encoded"], file["rejected"], file["empty"]) == (5, 2, 3, 1)
    rows = [json.loads(line) for line in (tmp_path / "tokens" / "rejects" / "part-00000-of-00001.jsonl").read_text().splitlines()]
    assert [(row["row"], base64.b64decode(row["raw"])) for row in rows] == [(1, b"za"), (2, b"\xff"), (4, b"b z")]
    reasons = {row["row"]: row["reason"] for row in rows}
    assert reasons[4] == "document in.txt:4, character 2: 'z' (U+007A) is not in the alphabet; " + WAYS_OUT
    assert read_dataset(tmp_path)["doc_id"].to_pylist() == ["in.txt:0", "in.txt:3"]


def test_too_many_rejects_publish_nothing(tmp_path: Path) -> None:
    with pytest.raises(errors.TooManyRejectsError, match=r"3 of 5 records were rejected, --max-rejects allows 2") as caught:
        encode_with_rejects(tmp_path, MaxRejects.parse("2"))
    left = {path.name: path for path in (tmp_path / "tokens").rglob("part-*.jsonl")}
    assert left.keys() == {"part-00000-of-00001.jsonl"} and str(left["part-00000-of-00001.jsonl"].parent) in str(caught.value)
    assert list((tmp_path / "tokens").rglob("manifest.json")) == []


def test_share_of_rejects(tmp_path: Path) -> None:
    assert encode_with_rejects(tmp_path, MaxRejects.parse("60%"))["totals"]["rejected"] == 3
    assert MaxRejects.parse("50%").allowed(5) == 2 and MaxRejects.parse("0").allowed(5) == 0 and MaxRejects().allowed(5) == 2
    for text in ("-1", "x", "101%", "%", "nan%"):
        with pytest.raises(errors.UsageError, match="give a number"):
            MaxRejects.parse(text)


def test_truncated_file_ends_the_run_and_publishes_nothing(tmp_path: Path, dataset: Path) -> None:
    import gzip

    whole = gzip.compress("".join(f"line {number}\n" for number in range(20_000)).encode())
    (tmp_path / "cut.txt.gz").write_bytes(whole[: len(whole) // 2])
    corpus = Corpus((str(tmp_path / "cut.txt.gz"),))
    with pytest.raises(errors.UnreadableFileError, match=r"cut\.txt\.gz"):
        driver.encode_corpus(corpus, str(dataset / "tokenizer.json"), str(tmp_path / "tokens"), RUN)
    assert not (tmp_path / "tokens").exists()


def test_finished_dataset_is_kept_without_overwrite(dataset: Path) -> None:
    corpus, before = Corpus((str(dataset / "corpus.jsonl"),)), read_manifest(dataset)
    with pytest.raises(errors.OutputExistsError, match="--overwrite"):
        driver.encode_corpus(corpus, str(dataset / "tokenizer.json"), str(dataset / "tokens"), RUN)
    assert read_manifest(dataset) == before


@pytest.mark.parametrize("name", ["README.md", "tokenizer.json", "part-00000-of-00001.parquet", "manifest.json"])
def test_files_that_are_not_ours_are_never_touched(dataset: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / name).write_text("{}")
    corpus, tokenizer = Corpus((str(dataset / "corpus.jsonl"),), limit=5), str(dataset / "tokenizer.json")
    with pytest.raises(errors.OutputExistsError, match="choose another folder"):
        driver.encode_corpus(corpus, tokenizer, str(tmp_path), RUN, overwrite=True)
    assert (tmp_path / name).read_text() == "{}"
    (tmp_path / name).unlink()
    driver.encode_corpus(corpus, tokenizer, str(tmp_path), RUN)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_output_in_the_input_folder_is_refused(dataset: Path) -> None:
    for output in (dataset, dataset / "more"):
        with pytest.raises(errors.UsageError, match="lies in the input folder"):
            driver.encode_corpus(Corpus((str(dataset),)), str(dataset / "tokenizer.json"), str(output), RUN)


def test_overwrite_replaces_every_old_shard(tmp_path: Path, dataset: Path) -> None:
    corpus = Corpus((str(dataset / "corpus.jsonl"),), split_bytes=4_000)
    tokenizer, output = str(dataset / "tokenizer.json"), str(tmp_path / "tokens")
    many = driver.encode_corpus(corpus, tokenizer, output, RUN)
    few = driver.encode_corpus(Corpus(corpus.inputs, limit=5), tokenizer, output, RUN, overwrite=True)
    assert len(many["shards"]) > 1 and len(few["shards"]) == 1
    assert [path.name for path in Path(output).glob("part-*")] == ["part-00000-of-00001.parquet"]


def test_a_wrong_input_does_not_touch_the_old_dataset(tmp_path: Path, dataset: Path) -> None:
    tokenizer, output = str(dataset / "tokenizer.json"), str(tmp_path / "tokens")
    driver.encode_corpus(Corpus((str(dataset / "corpus.jsonl"),), limit=5), tokenizer, output, RUN)
    missing = Corpus((str(dataset / "corpus.jsonl"),), read=ReadOptions(text_column="absent"))
    with pytest.raises(errors.MissingColumnError):
        driver.encode_corpus(missing, tokenizer, output, RUN, overwrite=True)
    assert read_manifest(tmp_path)["totals"]["documents"] == 5


def test_books_that_do_not_close() -> None:
    file = SourceFile("a", "a", "text")
    part = {"documents": 3, "encoded": 1, "empty": 0, "rejected": 1, "replaced": 0, "bytes": 9, "fingerprint": [1, 2]}
    with pytest.raises(errors.AccountingError, match=r"a: 3 documents read, but 1 encoded and 1 rejected"):
        accounting.add_up_files([file], {0: {"files": {"a": part}}}, 1)
    with pytest.raises(errors.AccountingError, match="split 1 of 2 left no record"):
        accounting.add_up_files([file], {0: {"files": {"a": part}}}, 2)


def test_fingerprint_does_not_depend_on_splits_but_on_texts_and_their_order(tmp_path: Path) -> None:
    def fingerprint(texts: list[str], split_bytes: int, **read: str) -> str:
        corpus = Corpus((str(write_jsonl(tmp_path / "f.jsonl", texts)),), read=ReadOptions(**read), split_bytes=split_bytes)
        manifest = driver.count_corpus(corpus, "gpt2", str(tmp_path / "counts"), RUN, overwrite=True)
        value: str = manifest["files"][0]["fingerprint"]
        return value

    texts = make_texts(60)
    expected = fingerprint(texts, 1 << 20)
    assert fingerprint(texts, 900) == expected
    assert fingerprint([*texts[1:], texts[0]], 1 << 20) != expected
    assert fingerprint([texts[0] + "x", *texts[1:]], 1 << 20) != expected
    assert fingerprint(texts, 1 << 20, id_column="id") != expected
