"""TokenDataset: rows, documents and batches as the shards have them, in an order that nobody's number changes."""

from __future__ import annotations

import json
import pickle
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import make_texts, write_jsonl
from tests.training import few_cases
from tokenmill import TokenDataset, Tokenizer
from tokenmill.dataset.block_order import BatchPlan, RowOrder
from tokenmill.errors import DataError, UsageError
from tokenmill.pipeline import driver
from tokenmill.pipeline.planning import Corpus, Execution
from tokenmill.pipeline.progress import reporter
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms import pack

RUN = Execution(reporter(quiet=True), workers=1)
TEXTS = make_texts(400)
BLOCK = 16


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """400 documents as `documents`, and in blocks of 16 as `concat`, `keep` and `fit`: row groups of 8 blocks."""
    folder = tmp_path_factory.mktemp("datasets")
    corpus = Corpus((str(write_jsonl(folder / "corpus.jsonl", TEXTS)),), split_bytes=16_000)
    options = TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=400, special_tokens=("<eos>", "<pad>"))
    driver.train_on_corpus(corpus, options, str(folder / "tokenizer.json"), RUN)
    both = {"segment_ids": True, "position_ids": True}
    kinds = {
        "documents": RowOptions(),
        "concat": RowOptions(block=BLOCK, eos="<eos>", pad="<pad>", **both),
        "keep": RowOptions(block=BLOCK, eos="<eos>", tail="keep"),
        "fit": RowOptions(block=BLOCK, pack="best-fit", pad="<pad>"),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "ROW_GROUP_TOKENS", 8 * BLOCK)
        for name, rows in kinds.items():
            driver.encode_corpus(corpus, str(folder / "tokenizer.json"), str(folder / name), RUN, rows=rows)
    return folder


def open_blocks(root: Path, name: str = "concat", **options: Any) -> TokenDataset:
    return TokenDataset(str(root / name), **{"batch_size": 5, **options})


def stored(root: Path, name: str = "concat") -> list[list[int]]:
    """The rows of all shards, as Arrow reads them."""
    paths = sorted((root / name).glob("part-*"))
    return [row for path in paths for row in pq.read_table(path)["input_ids"].to_pylist()]


def lists(batches: Iterator[Any] | TokenDataset) -> list[list[list[int]]]:
    return [batch["input_ids"].tolist() for batch in batches]


# --- what is read


def test_batches_are_the_stored_rows(root: Path) -> None:
    dataset, rows = open_blocks(root), stored(root)
    batches = list(dataset)
    assert dataset.rows == len(rows) > 100 and len(dataset) == len(batches) == -(-len(rows) // 5)
    assert [row for batch in batches for row in batch["input_ids"].tolist()] == rows
    assert {name: array.dtype for name, array in batches[0].items()} == {
        "input_ids": np.int32,
        "attention_mask": np.int8,
        "segment_ids": np.int32,
        "position_ids": np.int32,
    }
    table = pq.read_table(min((root / "concat").glob("part-*")))
    for name in batches[0]:
        assert batches[0][name].tolist() == table[name].to_pylist()[:5]


def test_batches_inside_a_row_group_are_views_of_it(root: Path) -> None:
    batches = list(open_blocks(root, batch_size=4, columns=("input_ids",)))
    assert batches[0].keys() == {"input_ids"}
    first, second = batches[0]["input_ids"], batches[1]["input_ids"]
    assert first.base is not None and np.shares_memory(first.base, second) and first.flags.aligned


def test_a_shorter_tail_is_padded_in_batches(root: Path) -> None:
    rows, dataset = stored(root, "keep"), open_blocks(root, "keep")
    expected = [row + [0] * (BLOCK - len(row)) for row in rows]
    assert any(len(row) < BLOCK for row in rows)
    assert [row for batch in dataset for row in batch["input_ids"].tolist()] == expected
    assert dataset.row(dataset.rows - 1)["input_ids"].tolist() == rows[-1]


@pytest.mark.parametrize("name", ["documents", "concat", "keep", "fit"])
def test_documents_by_id(root: Path, name: str) -> None:
    dataset, tokenizer = open_blocks(root, name), Tokenizer.from_file(root / "tokenizer.json")
    for row in (0, 19, 200, 399):
        if name == "fit" and not TEXTS[row]:
            with pytest.raises(DataError, match=r"no document is called .*; documents without a token are in no block"):
                dataset.document(f"corpus.jsonl:{row}")
            continue
        tokens = dataset.document(f"corpus.jsonl:{row}")
        assert tokens.dtype == np.int32 and tokens.tolist() == tokenizer.encode(TEXTS[row])
    with pytest.raises(DataError, match=r"no document is called 'corpus\.jsonl:400'"):
        dataset.document("corpus.jsonl:400")


@pytest.mark.parametrize("name", ["documents", "concat"])
def test_rows_by_number(root: Path, name: str) -> None:
    dataset, rows = open_blocks(root, name), stored(root, name)
    for number in (0, 7, 8, len(rows) // 2, len(rows) - 1):
        assert dataset.row(number)["input_ids"].tolist() == rows[number]
    assert dataset.to_rows()[3]["input_ids"].tolist() == rows[3] and len(dataset.to_rows()) == len(rows)
    with pytest.raises(UsageError, match=f"there are rows 0 to {len(rows) - 1}"):
        dataset.row(len(rows))


def test_only_what_is_needed_is_read(root: Path, tmp_path: Path) -> None:
    """A row of the last shard comes while the others are gone."""
    shutil.copytree(root / "concat", tmp_path / "copy")
    last = max((tmp_path / "copy").glob("part-*"))
    for path in (tmp_path / "copy").glob("part-*"):
        if path != last:
            path.unlink()
    dataset = TokenDataset(str(tmp_path / "copy"))
    assert dataset.row(dataset.rows - 1)["input_ids"].tolist() == stored(root)[-1]
    with pytest.raises(DataError, match=r"part-00000-of-\d+\.parquet: missing or damaged"):
        next(iter(dataset))


def test_it_brings_its_tokenizer_and_describes_itself(root: Path) -> None:
    dataset = open_blocks(root)
    assert dataset.tokenizer().sha256 == Tokenizer.from_file(root / "tokenizer.json").sha256
    assert dataset.embedding_rows == 400 and f"{dataset.rows:,} blocks of 16" in repr(dataset)


def test_other_file_systems(root: Path) -> None:
    expected = lists(open_blocks(root))
    local = pafs.SubTreeFileSystem(str(root), pafs.LocalFileSystem())
    assert lists(TokenDataset("concat", batch_size=5, filesystem=local)) == expected
    assert lists(TokenDataset(f"file://{root}/concat", batch_size=5)) == expected
    import fsspec

    memory = fsspec.filesystem("memory")
    memory.put(str(root / "concat"), "/blocks", recursive=True)
    assert lists(TokenDataset("/blocks", batch_size=5, filesystem=memory)) == expected


# --- in which order


@few_cases(300, 300)
@given(rows=st.integers(0, 60), size=st.integers(1, 7), lanes=st.integers(1, 5), drop=st.booleans())
def test_every_row_is_in_one_batch(rows: int, size: int, lanes: int, drop: bool) -> None:
    plan = BatchPlan(rows, size, lanes, drop)
    spans = [plan.span(number) for number in range(len(plan))]
    seen = [place for start, stop in spans for place in range(start, stop)]
    assert len(seen) == len(set(seen)) == (rows // size * size if drop else rows)
    assert all(stop - start == size for start, stop in spans[: -1 if not drop else None])


@pytest.mark.parametrize(("framework", "read"), [("torch", TokenDataset.to_torch), ("jax", lambda data: next(data.to_jax()))])
def test_a_framework_that_is_not_installed(root: Path, framework: str, read: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, framework, None)
    with pytest.raises(UsageError, match=rf"{framework} is not installed; pip install 'tokenmill\[{framework}\]'"):
        read(open_blocks(root))


def test_lanes_by_hand() -> None:
    plan = BatchPlan(10, 2, lanes=2)
    assert [plan.span(number) for number in range(5)] == [(0, 2), (4, 6), (2, 4), (6, 8), (8, 10)]


@few_cases(200, 200)
@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=12),
    seed=st.none() | st.integers(0, 9),
    window=st.integers(1, 5),
    cut=st.integers(1, 9),
)
def test_an_order_is_a_permutation_however_it_is_cut(sizes: list[int], seed: int | None, window: int, cut: int) -> None:
    rows, total = np.array(sizes, np.int64), sum(sizes)

    def read(step: int) -> list[tuple[int, int]]:
        order = RowOrder(rows, seed=seed, epoch=1, window=window)
        runs = [run for start in range(0, total, step) for run in order.locate(start, min(start + step, total))]
        return [(group, row) for group, begin, end in runs for row in range(begin, end)]

    expected = [(group, row) for group, size in enumerate(sizes) for row in range(size)]
    assert read(cut) == read(total)
    assert read(cut) == expected if seed is None else sorted(read(cut)) == expected


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("read_ahead", [0, 2])
def test_ranks_and_workers_together_are_one(root: Path, shuffle: bool, lanes: int, read_ahead: int) -> None:
    options = {"shuffle": shuffle, "lanes": lanes, "window": 3, "read_ahead": read_ahead}
    alone = lists(open_blocks(root, **options))
    rows = [row for batch in alone for row in batch]
    assert sorted(rows) == sorted(stored(root)) and (rows == stored(root)) == (not shuffle and lanes == 1)
    ranks = [open_blocks(root, **options, rank=rank, world=3, remainder="keep") for rank in range(3)]
    assert [len(rank) for rank in ranks] == [len(alone[rank::3]) for rank in range(3)]
    for rank, dataset in enumerate(ranks):
        assert lists(dataset) == alone[rank::3]
        dataset.set_epoch(0)
        for worker in range(2):
            assert lists(dataset.iterate(*dataset.turn(worker, 2))) == alone[rank::3][worker::2]


def test_drop_last_gives_every_rank_as_many_full_batches(root: Path) -> None:
    alone = lists(open_blocks(root))
    assert len(alone[-1]) < 5
    counts = {len(open_blocks(root, rank=rank, world=4, drop_last=True)) for rank in range(4)}
    assert counts == {(len(alone) - 1) // 4}
    batches = [lists(open_blocks(root, rank=rank, world=4, drop_last=True)) for rank in range(4)]
    assert {len(batch) for rank in batches for batch in rank} == {5}


def test_epochs_and_seeds_have_orders_of_their_own(root: Path) -> None:
    dataset = open_blocks(root, shuffle=True, seed=4)
    first, second = lists(dataset), lists(dataset)
    assert dataset.epoch == 2 and first != second
    assert sorted(row for batch in first for row in batch) == sorted(row for batch in second for row in batch)
    dataset.set_epoch(0)
    assert lists(dataset) == first
    assert lists(open_blocks(root, shuffle=True, seed=5)) != first


def test_a_thousand_places_to_go_on_from(root: Path) -> None:
    """From each of 1,000 random places, through the end of an epoch, the batches are those of the unbroken sequence."""
    options = {"shuffle": True, "window": 3, "batch_size": 4, "lanes": 2, "read_ahead": 0}
    whole = open_blocks(root, **options)
    unbroken = lists(whole) + lists(whole)
    choose = random.Random(1)
    for _ in range(1000):
        start = choose.randrange(len(unbroken) - 2)
        taken = open_blocks(root, **options)
        taken.set_epoch(start // len(taken))
        place = taken.state_dict(start % len(taken))
        fresh = open_blocks(root, **options)
        fresh.load_state_dict(json.loads(json.dumps(place)))
        found = [batch["input_ids"].tolist() for batch, _ in zip(fresh, range(3), strict=False)]
        end = min(start + 3, (start // len(taken) + 1) * len(taken))
        assert found == unbroken[start:end]


def test_states_are_exact_while_iterating_and_for_other_worlds(root: Path) -> None:
    alone = lists(open_blocks(root, shuffle=True))
    dataset = open_blocks(root, shuffle=True, rank=1, world=2)
    for _ in zip(range(7), dataset, strict=False):
        pass
    state = dataset.state_dict()
    assert state["batch"] == 14
    for world in (1, 2, 3):
        for rank in range(world):
            other = open_blocks(root, shuffle=True, rank=rank, world=world, remainder="keep")
            other.load_state_dict(state)
            assert lists(other) == alone[14 + rank :: world]
            assert other.epoch == 1
    share = -(-len(alone[14:]) // 2)
    assert lists(dataset) == [*alone, *alone][15 : 14 + 2 * share : 2]


def test_states_of_others_are_refused(root: Path) -> None:
    state = open_blocks(root, shuffle=True).state_dict()
    with pytest.raises(UsageError, match="this state is of another dataset"):
        open_blocks(root, "fit", shuffle=True).load_state_dict(state)
    with pytest.raises(UsageError, match="taken with batch_size=5, here it is 6; use the same"):
        open_blocks(root, shuffle=True, batch_size=6).load_state_dict(state)
    with pytest.raises(UsageError, match="this state is of another dataset"):
        open_blocks(root, shuffle=True).load_state_dict({})


# --- what is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size is 0; give 1 or more"),
        ({"rank": 2, "world": 2}, "rank is 2; with a world of 2, ranks are 0 to 1"),
        ({"columns": ("loss",)}, "column 'loss': this dataset has input_ids, attention_mask, segment_ids, position_ids"),
    ],
)
def test_wrong_options(root: Path, options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_blocks(root, **options)


def test_documents_have_no_batches(root: Path) -> None:
    with pytest.raises(UsageError, match="batches need blocks: encode with --block N"):
        iter(open_blocks(root, "documents")).__next__()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "is not that of a dataset"),
        ({"version": 99}, "is a dataset of version 99"),
        ({"shards": 7}, "it lists no shards"),
        ({"shards": [{"path": "../../etc/part-00000-of-00001.parquet"}]}, "is no name of a shard"),
        ({"shards": [{"path": "/etc/passwd"}]}, "'/etc/passwd' is no name of a shard"),
        ({"shards": [{"path": "part-00000-of-00001.parquet", "blocks": -1}]}, "damaged: blocks is -1"),
        ({"totals": []}, r"damaged: totals\.tokens is None"),
        ({"tokenizer": {"embedding_rows": "9"}}, r"damaged: tokenizer\.embedding_rows is '9'"),
        ({"packing": 1}, r"damaged: packing\.block is None"),
        ({"packing": {"block": 8, "row_group_blocks": 0}}, r"damaged: packing\.row_group_blocks is 0"),
        ({"packing": {"block": 8, "row_group_blocks": 1, "pad": {"id": True}}}, r"damaged: packing\.pad\.id is True"),
        ({"packing": {"block": 8, "row_group_blocks": 1}}, r"damaged: packing\.columns is no list"),
        (
            {
                "packing": {"block": 8, "row_group_blocks": 2, "columns": []},
                "shards": [{"path": "part-00000-of-00001.parquet", "blocks": 65535}],
            },
            "damaged: blocks is 65535",
        ),
    ],
)
def test_manifests_are_not_trusted(root: Path, tmp_path: Path, change: dict, message: str) -> None:
    manifest = json.loads((root / "concat" / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, **change}))
    with pytest.raises(DataError, match=message):
        TokenDataset(str(tmp_path))


def test_what_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"is no finished dataset: it holds no manifest\.json"):
        TokenDataset(str(tmp_path))
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(DataError, match="is damaged"):
        TokenDataset(str(tmp_path))
    with pytest.raises(UsageError, match="give `filesystem=`"):
        TokenDataset("nowhere://x")


def test_damaged_shards_are_named(root: Path, tmp_path: Path) -> None:
    """Whatever byte of a shard is wrong: its rows, or an error that names it."""
    shutil.copytree(root / "concat", tmp_path / "copy")
    path = min((tmp_path / "copy").glob("part-*"))
    content, choose = path.read_bytes(), random.Random(1)
    shape = open_blocks(root).row(0)["input_ids"].shape
    for _ in range(150):
        place = choose.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ choose.randrange(1, 256)]) + content[place + 1 :])
        try:
            batch = next(iter(TokenDataset(str(tmp_path / "copy"), read_ahead=0)))
        except DataError as error:
            assert f"{path.name}: missing or damaged" in str(error)
        else:
            assert batch["input_ids"].shape[1:] == shape


# --- frameworks


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_workers_are_one(root: Path, workers: int) -> None:
    from torch.utils.data import DataLoader

    dataset = open_blocks(root, shuffle=True, window=3)
    loader = DataLoader(dataset.to_torch(), batch_size=None, num_workers=workers)
    found = list(loader)
    assert [batch["input_ids"].tolist() for batch in found] == lists(open_blocks(root, shuffle=True, window=3))
    assert str(found[0]["input_ids"].dtype) == "torch.int32"


def test_torch_goes_on_with_workers(root: Path) -> None:
    from torch.utils.data import DataLoader

    unbroken = lists(open_blocks(root))
    dataset = open_blocks(root).to_torch()
    assert len(dataset) == len(unbroken)
    dataset.load_state_dict(dataset.state_dict(batches=6))
    found = [batch["input_ids"].tolist() for batch in DataLoader(dataset, batch_size=None, num_workers=2)]
    assert found == unbroken[6:]


def test_datasets_can_be_sent_to_other_processes(root: Path) -> None:
    dataset = open_blocks(root)
    next(iter(dataset))
    copy = pickle.loads(pickle.dumps(dataset))
    assert copy.state_dict() == dataset.state_dict() and lists(copy) == lists(dataset)
    assert len(pickle.loads(pickle.dumps(dataset.to_torch()))) == len(dataset)


def test_jax_takes_batches(root: Path) -> None:
    jax = pytest.importorskip("jax")
    found = list(open_blocks(root).to_jax(jax.devices("cpu")[0]))
    assert [batch["input_ids"].tolist() for batch in found] == lists(open_blocks(root))
    assert isinstance(found[0]["input_ids"], jax.Array)
