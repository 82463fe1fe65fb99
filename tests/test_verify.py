"""`tokenmill verify` finds each kind of damage, `--deep` what only the source can tell, `--repair` makes good, `pin` keeps."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.corpora import hash_folder, make_texts, write_jsonl
from tokenmill import errors
from tokenmill.pipeline import verify_command as proof
from tokenmill.pipeline.build import build_dataset
from tokenmill.pipeline.config import parse_config
from tokenmill.pipeline.counts_folder import read_counts
from tokenmill.pipeline.driver import encode_corpus
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.transforms.sums import SUM, add_sum

SHARD = "part-00001-of-00003.parquet"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a build has made of two files, one with rejects, in `out`; tests work on copies."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "corpus").mkdir()
    write_jsonl(folder / "corpus" / "a.jsonl", make_texts(80))
    write_jsonl(folder / "corpus" / "b.jsonl", make_texts(60, seed=2))
    with open(folder / "corpus" / "b.jsonl", "a") as file:
        file.write('{"text": 1}\n{"text": "half')
    build(folder, "out")
    return folder


def build(folder: Path, output: str, *, retrain: bool = False) -> None:
    config = {
        "input": {"inputs": [str(folder / "corpus")]},
        "train": {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 300, "special": ["<|end|>"]},
        "output": {"folder": str(folder / output)},
        "split_mb": 0.0085,
    }
    build_dataset(parse_config(json.dumps(config)), reporter(quiet=True), (), retrain=retrain)


@pytest.fixture
def out(built: Path, tmp_path: Path) -> Path:
    shutil.copytree(built / "out", tmp_path / "out")
    return tmp_path / "out"


def edit_manifest(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def edit(tokens: Path) -> None:
        manifest = json.loads((tokens / "manifest.json").read_text())
        change(manifest)
        if SUM in manifest:
            manifest = add_sum(manifest)
        (tokens / "manifest.json").write_text(json.dumps(manifest))

    return edit


def write_rows(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    """Other rows in a shard, and the manifest's size and hash as if they were right."""

    def write(tokens: Path) -> None:
        import hashlib

        pq.write_table(change(pq.read_table(tokens / SHARD)), tokens / SHARD)
        content = (tokens / SHARD).read_bytes()
        stated = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        edit_manifest(lambda manifest: manifest["shards"][1].update(stated))(tokens)

    return write


def set_first_id(table: pa.Table) -> pa.Table:
    ids = table["input_ids"].to_pylist()
    ids[0][0] = 300
    return table.set_column(1, "input_ids", pa.array(ids, pa.list_(pa.int32())))


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (lambda tokens: os.remove(tokens / SHARD), rf"{SHARD}: missing"),
    (lambda tokens: flip_byte(tokens / SHARD), rf"{SHARD}: other bytes than the manifest's sha256 is of"),
    (lambda tokens: (tokens / SHARD).write_bytes((tokens / SHARD).read_bytes()[:-9]), r"bytes, the manifest says"),
    (write_rows(lambda table: table.slice(1)), r"rows, the manifest says"),
    (write_rows(set_first_id), r"id 300: ids are from 0 to 299"),
    (write_rows(lambda table: table.replace_schema_metadata({})), r"made by another tokenizer"),
    (lambda tokens: shutil.copy(tokens / SHARD, tokens / "part-00003-of-00003.parquet"), r"not in the manifest"),
    (
        lambda tokens: (tokens / "tokenizer.json").write_text("{}"),
        r"tokenizer\.json: missing, or not the one that made the shards",
    ),
    (lambda tokens: shutil.rmtree(tokens / "rejects"), r"rejects/part-.*: holds 0 rejects, the manifest says 2"),
    (edit_manifest(lambda manifest: manifest["totals"].update(encoded=1)), r"totals: .* documents are not encoded \+ rejected"),
    (
        edit_manifest(lambda manifest: manifest["files"][0].update(bytes=1)),
        r"a\.jsonl: its account is not the sum of the shards'",
    ),
    (edit_manifest(lambda manifest: manifest["files"][0].update(fingerprint="0" * 32)), r"a\.jsonl: its account is not the sum"),
    (edit_manifest(lambda manifest: manifest["totals"].update(tokens=1)), r"totals: tokens is 1, the shards have \d+"),
    (edit_manifest(lambda manifest: manifest.pop("totals")), r"not as tokenmill writes it \(KeyError: 'totals'\)"),
    (edit_manifest(lambda manifest: manifest["shards"][0].update(bytes="x")), r"not as tokenmill writes it \(ValueError: "),
    (
        edit_manifest(lambda manifest: manifest["shards"][0]["files"][0].update(fingerprint="")),
        r"not as tokenmill writes it \(ValueError: ",
    ),
    (edit_manifest(lambda manifest: manifest["tokenizer"].update(vocab_size=9)), r"made with vocab_size 300, .* says 9"),
    (edit_manifest(lambda manifest: manifest["tokenizer"].update(embedding_rows=999)), r"embedding_rows 300, .* says 999"),
    (lambda tokens: (tokens.parent / "tokenizer.json").write_text("[1"), r"tokenizer\.json or a .*not as tokenmill writes it"),
]


def flip_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(("damage", "message"), DAMAGE, ids=lambda value: value if isinstance(value, str) else "")
def test_each_kind_of_damage_is_found(out: Path, damage: Callable[[Path], None], message: str) -> None:
    assert "3 shards, 142 documents" in proof.verify(str(out))
    damage(out / "tokens")
    with pytest.raises(errors.DataError, match=message):
        proof.verify(str(out))


def test_word_counts_are_checked_too(out: Path) -> None:
    flip_byte(out / "word-counts" / "part-00000-of-00001.parquet")
    with pytest.raises(errors.DataError, match=r"word-counts: part-00000-of-00001\.parquet: other bytes"):
        proof.verify(str(out))


@pytest.mark.parametrize("name", ["group-00001-of-00003.arrow", "ledger.json"])
def test_counts_of_splits_are_checked_and_counted_again(built: Path, tmp_path: Path, name: str) -> None:
    """What one build keeps for the next is not trusted because its size is right."""
    shutil.copytree(built, tmp_path / "copy")
    folder = tmp_path / "copy"
    damaged = next(folder.glob(f"out/word-counts/groups/{name}"))
    content = damaged.read_bytes()
    damaged.write_bytes(
        content[:200] + bytes(9) + content[209:] if name != "ledger.json" else content.replace(b'"words": ', b'"words": 1')
    )
    with pytest.raises(errors.DataError, match=rf"groups/{name}: .*`tokenmill build` counts"):
        proof.verify(str(folder / "out"))
    write_jsonl(folder / "corpus" / "c.jsonl", make_texts(20, seed=3))
    build(folder, "out", retrain=True)
    build(folder, "fresh")
    there, fresh = (hash_folder(folder / where) for where in ("out", "fresh"))
    assert {name for name, _ in there.items() ^ fresh.items()} == {"_state.json"}


def test_damaged_counts_are_not_learned_from(built: Path, tmp_path: Path) -> None:
    shutil.copytree(built / "out" / "word-counts", tmp_path / "counts")
    flip_byte(tmp_path / "counts" / "part-00000-of-00001.parquet")
    with pytest.raises(errors.UnreadableFileError, match=r"part-00000-of-00001\.parquet: other bytes than the manifest's sha256"):
        read_counts(str(tmp_path / "counts"))


def test_the_chain_from_inputs_to_shards(out: Path, built: Path) -> None:
    (out / "tokenizer.json").write_text(json.dumps({"merge_rules": [], "vocab": {"a": 0}}))
    with pytest.raises(errors.DataError, match="tokens: made by another tokenizer than"):
        proof.verify(str(out))
    shutil.rmtree(out / "word-counts")
    shutil.copytree(built / "out" / "word-counts", out / "word-counts")
    edit_manifest(lambda manifest: manifest["files"].pop())(out / "word-counts")
    edit_manifest(lambda manifest: manifest.update(input_fingerprint="0" * 32))(out / "word-counts")
    with pytest.raises(errors.DataError, match="made from different texts"):
        proof.verify(str(out))


def test_deep_compares_with_the_source(built: Path, out: Path) -> None:
    assert "deep     3 shards made again from the source" in proof.verify(str(out), deep=True)
    wrong = write_rows(lambda table: table.set_column(1, "input_ids", table["input_ids"].combine_chunks()[::-1]))
    tokens = pq.read_table(out / "tokens" / SHARD).schema.metadata
    wrong(out / "tokens")
    table = pq.read_table(out / "tokens" / SHARD).replace_schema_metadata(tokens)
    write_rows(lambda _: table)(out / "tokens")
    proof.verify(str(out))
    with pytest.raises(errors.DataError, match=r"(?s)the same source gives other tokens.*does not decode to its text"):
        proof.verify(str(out), deep=True)


def test_repair_makes_bad_shards_again_to_the_byte(built: Path, out: Path) -> None:
    before = hash_folder(out)
    flip_byte(out / "tokens" / SHARD)
    os.remove(out / "tokens" / "part-00000-of-00003.parquet")
    shutil.rmtree(out / "tokens" / "rejects")
    assert "repaired 3 shards" in proof.verify(str(out), repair=True)
    assert hash_folder(out) == before


def test_repair_from_a_source_that_has_changed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write_jsonl(tmp_path / "corpus" / "a.jsonl", make_texts(150))
    build(tmp_path, "out")
    shard = next((tmp_path / "out" / "tokens").glob("part-*"))
    flip_byte(shard)
    damaged = shard.read_bytes()
    text = (tmp_path / "corpus" / "a.jsonl").read_text()
    (tmp_path / "corpus" / "a.jsonl").write_text(text.replace("king", "gnik"))
    with pytest.raises(errors.DataError, match="cannot be repaired: its source has changed since it was encoded"):
        proof.verify(str(tmp_path / "out"), repair=True)
    assert shard.read_bytes() == damaged


def test_the_source_must_be_known_and_whole(built: Path, out: Path, tmp_path: Path) -> None:
    shutil.copytree(out / "tokens", tmp_path / "alone")
    with pytest.raises(errors.UsageError, match="does not say where its input files are; give them: --source"):
        proof.verify(str(tmp_path / "alone"), deep=True)
    assert "deep" in proof.verify(str(tmp_path / "alone"), deep=True, source=[str(built / "corpus")])
    with pytest.raises(errors.UsageError, match=r"was made of 'a\.jsonl', which .* does not hold"):
        proof.verify(str(tmp_path / "alone"), deep=True, source=[str(built / "corpus" / "b.jsonl")])
    with pytest.raises(errors.DataError, match="neither a dataset nor word counts"):
        proof.verify(str(built / "corpus"))


def test_a_pinned_version_outlives_the_next_build(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    write_jsonl(tmp_path / "corpus" / "a.jsonl", make_texts(150))
    build(tmp_path, "out")
    before = hash_folder(tmp_path / "out" / "tokens")
    assert proof.pin(str(tmp_path / "out" / "tokens"), str(tmp_path / "pinned")).startswith("pinned   ")
    write_jsonl(tmp_path / "corpus" / "b.jsonl", make_texts(50, seed=5))
    build(tmp_path, "out")
    assert hash_folder(tmp_path / "pinned") == before != hash_folder(tmp_path / "out" / "tokens")
    assert "verified" in proof.verify(str(tmp_path / "pinned"))
    with pytest.raises(errors.OutputExistsError, match="a version that is pinned is not changed"):
        proof.pin(str(tmp_path / "out" / "tokens"), str(tmp_path / "pinned"))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("block", 7, "packed in another way than the manifest says"),
        ("tail", "drop", "packed in another way than the manifest says"),
        ("row_group_blocks", 1, "row groups of .* blocks, the manifest says 1"),
        ("columns", ["input_ids"], "columns input_ids, .* the manifest says"),
    ],
)
def test_blocks_are_laid_out_as_the_manifest_says(blocks: Path, name: str, value: object, message: str) -> None:
    assert "verified" in proof.verify(str(blocks))
    edit_manifest(lambda manifest: manifest["packing"].update({name: value}))(blocks)
    with pytest.raises(errors.DataError, match=message):
        proof.verify(str(blocks))


@pytest.fixture
def blocks(built: Path, tmp_path: Path) -> Path:
    """The texts of `built` in blocks of 8."""
    corpus, run = Corpus((str(built / "corpus"),)), Execution(reporter(quiet=True), workers=1)
    rows = RowOptions(block=8, eos="<|end|>")
    encode_corpus(corpus, str(built / "out" / "tokenizer.json"), str(tmp_path / "blocks"), run, rows=rows)
    return tmp_path / "blocks"


@pytest.mark.parametrize(
    "change",
    [
        {"shards": None},
        {"shards": [{}]},
        {"shards": [{"path": "../tokenizer.json"}]},
        {"shards": [{"path": "x\0"}]},
        {"tokenmill": "\ud800"},
    ],
)
def test_a_damaged_manifest_is_not_pinned(out: Path, tmp_path: Path, change: dict) -> None:
    edit_manifest(lambda manifest: manifest.update(change))(out / "tokens")
    with pytest.raises(errors.TokenmillError):
        proof.pin(str(out / "tokens"), str(tmp_path / "pinned"))
    assert not (tmp_path / "pinned").exists()


def test_what_is_not_of_tokenmill_is_not_pinned(out: Path, tmp_path: Path) -> None:
    edit_manifest(lambda manifest: manifest.update(format="other"))(out / "tokens")
    with pytest.raises(errors.DataError, match="was not written by tokenmill"):
        proof.pin(str(out / "tokens"), str(tmp_path / "pinned"))


def test_deep_takes_files_in_any_order(built: Path, tmp_path: Path) -> None:
    """A shard of files that were not given by name in order is made again all the same."""
    files, output = tuple(str(built / "corpus" / name) for name in ("b.jsonl", "a.jsonl")), str(tmp_path / "tokens")
    encode_corpus(Corpus(files), str(built / "out" / "tokenizer.json"), output, Execution(reporter(quiet=True), workers=1))
    assert "deep     1 shard made again" in proof.verify(output, deep=True, source=files)
    os.remove(tmp_path / "tokens" / "part-00000-of-00001.parquet")
    assert "repaired 1 shard" in proof.verify(output, repair=True, source=files[::-1])


@pytest.mark.parametrize(
    "change",
    [
        {"reading": 1},
        {"reading": {"format": 1, "document": "line"}},
        {"reading": {"format": "auto", "document": "line", "x": 1}},
        {"packing": {"eos": {}, "pad": None}},
        {"rows": 1},
    ],
)
def test_what_shards_were_made_with_must_be_readable(built: Path, out: Path, change: dict) -> None:
    edit_manifest(lambda manifest: manifest.update(change))(out / "tokens")
    with pytest.raises(errors.DataError):
        proof.verify(str(out / "tokens"), deep=True, source=[str(built / "corpus")])


def test_deep_reads_files_as_they_were_read(built: Path, tmp_path: Path) -> None:
    options = zstandard.ZstdCompressionParameters(window_log=28)
    writer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    (tmp_path / "a.csv.zst").write_bytes(writer.compress(b"id;text\n1;the king\n2;a, \xe9\n") + writer.flush())
    files = [str(tmp_path / "a.csv.zst")]
    corpus = Corpus(tuple(files), encoding="latin-1", delimiter=";", max_window=256)
    encode_corpus(corpus, str(built / "out" / "tokenizer.json"), str(tmp_path / "tokens"), Execution(reporter(quiet=True)))
    reading = json.loads((tmp_path / "tokens" / "manifest.json").read_text())["reading"]
    assert (reading["encoding"], reading["delimiter"], reading["max_window"]) == ("latin-1", ";", 256)
    assert "deep     1 shard made again" in proof.verify(str(tmp_path / "tokens"), deep=True, source=files)


@pytest.mark.parametrize("wrong", [{"encoding": 1}, {"delimiter": ["a"]}, {"max_window": "1"}, {"format": None}])
def test_deep_refuses_options_of_other_types(built: Path, out: Path, tmp_path: Path, wrong: dict[str, object]) -> None:
    shutil.copytree(out / "tokens", tmp_path / "tokens")
    edit_manifest(lambda manifest: manifest["reading"].update(wrong))(tmp_path / "tokens")
    with pytest.raises(errors.DataError, match=r"manifest.json: reading is not as tokenmill writes it"):
        proof.verify(str(tmp_path / "tokens"), deep=True, source=[str(built / "corpus")])
