"""Loaders of torch, torchdata and JAX over real worker processes: nothing twice, nothing missing."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

from tests.loading import Expected, ids, start_methods, write_blocks
from tokenmill import TokenDataset
from tokenmill.errors import DataError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded", "ignore:'pin_memory' argument")


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    return Expected(write_blocks(tmp_path_factory.mktemp("loaders")), batch_size=5, shuffle=True, seed=1, window=2)


def load(batches: Any, workers: int, **options: Any) -> DataLoader:
    return DataLoader(batches, batch_size=None, num_workers=workers, **options)


def read(loader: Any, count: int | None = None) -> list:
    return [ids(batch) for batch in islice(loader, count)]


@pytest.mark.parametrize(
    ("workers", "options"),
    [
        (0, {}),
        (1, {}),
        (2, {"pin_memory": True}),
        (3, {"prefetch_factor": 4}),
        (2, {"persistent_workers": True}),
        (2, {"multiprocessing_context": "forkserver", "persistent_workers": True}),
    ],
)
def test_each_pass_of_a_loader_is_the_next_epoch(expected: Expected, workers: int, options: dict) -> None:
    dataset = expected.open()
    loader = load(dataset.to_torch(), workers, **options)
    assert [read(loader) for _ in range(3)] == [expected.epoch(number) for number in range(3)]
    dataset.set_epoch(7)
    assert [read(loader), read(loader)] == [expected.epoch(7), expected.epoch(8)]
    dataset.load_state_dict(dataset.state_dict(batches=4, epoch=2))
    assert len(loader) == len(expected.epoch(2)) - 4
    assert read(loader) == expected.epoch(2)[4:] and len(loader) == len(expected.epoch(3))
    assert read(loader) == expected.epoch(3)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_at_the_very_end(expected: Expected, workers: int) -> None:
    dataset = expected.open()
    dataset.load_state_dict(dataset.state_dict(batches=len(dataset)))
    loader = load(dataset.to_torch(), workers)
    assert len(dataset) == 0 and [read(loader) for _ in range(3)] == [[], expected.epoch(1), expected.epoch(2)]


@pytest.mark.parametrize("options", [{}, {"persistent_workers": True}])
def test_a_pass_that_is_left_is_over(expected: Expected, options: dict) -> None:
    dataset = expected.open()
    loader = load(dataset.to_torch(), 2, **options)
    assert read(loader, 3) == expected.epoch(0)[:3]
    with pytest.raises(UsageError, match=r"read epoch 0 of .* give state_dict\(batches=N\), or use torchdata's"):
        dataset.state_dict()
    assert dataset.state_dict(batches=3)["batch"] == 3
    assert read(loader) == expected.epoch(1) and read(loader, 1) == expected.epoch(2)[:1]


def test_two_loaders_at_once_have_an_epoch_each(expected: Expected) -> None:
    batches = expected.open().to_torch()
    torch.manual_seed(1)
    first = iter(load(batches, 2))
    torch.manual_seed(1)
    second = iter(load(batches, 2))
    found = [read(second), read(first)]
    assert sorted(found) == sorted([expected.epoch(0), expected.epoch(1)])


@pytest.mark.parametrize("workers", [0, 1, 2])
@pytest.mark.parametrize("every", [1, 3])
def test_a_stateful_loader_goes_on_from_its_state(expected: Expected, workers: int, every: int) -> None:
    options = {"batch_size": None, "num_workers": workers, "snapshot_every_n_steps": every}
    whole = expected.epoch(0)
    for count in (0, 5, len(whole)):
        loader = StatefulDataLoader(expected.open().to_torch(), **options)
        assert read(loader, count) == whole[:count]
        again = StatefulDataLoader(expected.open().to_torch(), **options)
        again.load_state_dict(loader.state_dict())
        assert [read(again), read(again)] == [whole[count:], expected.epoch(1)]
    state = again.state_dict()
    last = StatefulDataLoader(expected.open().to_torch(), **options)
    last.load_state_dict(state)
    assert read(last) == expected.epoch(2)


def test_a_loader_state_is_for_the_same_rank(expected: Expected) -> None:
    taken = iter(expected.open(rank=1, world=2).to_torch())
    next(taken)
    with pytest.raises(UsageError, match="taken with rank=1, here it is 0; use the same"):
        iter(expected.open(world=2).to_torch()).load_state_dict(taken.state_dict())


@pytest.mark.parametrize("world", [1, 2, 3, 4, 5])
def test_every_rank_has_as_many_batches(expected: Expected, world: int) -> None:
    whole = expected.epoch(0)
    for remainder, each in (("repeat", -(-len(whole) // world)), ("drop", len(whole) // world)):
        ranks = [expected.open(rank=rank, world=world, remainder=remainder) for rank in range(world)]
        states = []
        for rank, dataset in enumerate(ranks):
            assert len(dataset) == each
            found = []
            for batch in dataset:
                found.append(ids(batch))
                last = dataset.state_dict()
            assert found == [*whole, *whole][rank : each * world : world]
            states += [last, dataset.state_dict()]
        assert states == states[:2] * world
    kept = [len(expected.open(rank=rank, world=world, remainder="keep")) for rank in range(world)]
    assert sum(kept) == len(whole)


def test_ranks_with_workers_share_an_epoch(expected: Expected) -> None:
    for rank in range(3):
        dataset = expected.open(rank=rank, world=3)
        loader = load(dataset.to_torch(), 2)
        assert [read(loader), read(loader)] == [expected.rest(0, 0, rank, 3), expected.rest(1, 0, rank, 3)]


@pytest.mark.parametrize("count", [1, 4])
def test_what_was_read_ahead_is_not_taken(expected: Expected, count: int) -> None:
    for batches in ("__iter__", "to_jax"):
        dataset = expected.open()
        assert [ids(batch) for batch in islice(getattr(dataset, batches)(), count)] == expected.epoch(0)[:count]
        fresh = expected.open()
        fresh.load_state_dict(json.loads(json.dumps(dataset.state_dict())))
        assert ids(next(iter(fresh))) == ids(next(iter(dataset))) == expected.epoch(0)[count]


def test_labels_train(expected: Expected) -> None:
    (batch, *_) = load(expected.open(columns=("input_ids",)).to_torch(dtype=torch.int64, labels=True), 2)
    padding = torch.from_numpy(next(iter(expected.open()))["attention_mask"]) == 0
    assert batch.keys() == {"input_ids", "labels"} and batch["input_ids"].dtype == batch["labels"].dtype == torch.int64
    assert torch.equal(batch["labels"] == -100, padding)
    assert torch.equal(batch["labels"][~padding], batch["input_ids"][~padding])
    logits = torch.zeros(*batch["labels"].shape, 400)
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())
    assert loss.item() == pytest.approx(np.log(400), rel=1e-5)
    with pytest.raises(UsageError, match=r"dtype is 'float32'; give an integer type of torch"):
        expected.open().to_torch(dtype="float32")


def test_blocks_load_as_hugging_face_datasets(expected: Expected, tmp_path: Path) -> None:
    from datasets import load_dataset

    parts = str(Path(expected.open().folder) / "part-*.parquet")
    rows = load_dataset("parquet", data_files=parts, split="train", cache_dir=str(tmp_path))
    (batch, *_) = DataLoader(rows.select_columns(["input_ids"]).with_format("torch"), batch_size=4)
    assert batch["input_ids"].shape == (4, 16) and batch["input_ids"].dtype == torch.int64


def test_rows_load_in_workers(expected: Expected) -> None:
    rows = expected.open().to_rows(("input_ids",))
    found = [row for batch in DataLoader(rows, batch_size=4, num_workers=2) for row in ids(batch)]
    assert found == [row["input_ids"].tolist() for row in rows]
    with pytest.raises(UsageError, match="column 'loss': rows of this dataset have input_ids"):
        expected.open().row(0, ("loss",))


_SPAWNED = """
import sys, torch
from torch.utils.data import DataLoader
from tokenmill import TokenDataset

def check(worker):
    assert "apache_beam" not in sys.modules, worker

if __name__ == "__main__":
    dataset = TokenDataset(sys.argv[1], batch_size=5, shuffle=True, seed=1, window=2)
    loader = DataLoader(dataset.to_torch(), None, num_workers=2, multiprocessing_context="spawn", worker_init_fn=check)
    print([[batch["input_ids"].tolist() for batch in loader] for _ in range(2)])
"""


def test_loader_workers_that_are_spawned_import_no_beam(expected: Expected, tmp_path: Path) -> None:
    assert "spawn" in start_methods()
    (tmp_path / "train.py").write_text(_SPAWNED)
    command = [sys.executable, str(tmp_path / "train.py"), expected.open().folder]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [expected.epoch(0), expected.epoch(1)]


@pytest.mark.parametrize("same_texts", [False, True])
def test_a_dataset_that_is_published_anew_is_refused(tmp_path: Path, same_texts: bool) -> None:
    texts = [f"a text of its own, number {number}" for number in range(300)]
    expected = Expected(write_blocks(tmp_path, texts), batch_size=2)
    whole, dataset = expected.epoch(0), expected.open(read_ahead=0)
    loader, reading = load(dataset.to_torch(), 2), iter(dataset)
    found = [ids(next(reading))]
    write_blocks(tmp_path, texts if same_texts else texts[::-1], overwrite=True)
    if same_texts:
        assert [*found, *map(ids, reading)] == whole
        return
    with pytest.raises(DataError, match="another version was published since the dataset was opened; open it again"):
        for batch in reading:
            found.append(ids(batch))
    assert found == whole[: len(found)]
    with pytest.raises(DataError, match="another version was published"):
        list(loader)
    with pytest.raises(DataError, match="another version was published"):
        dataset.tokenizer()


def test_shards_of_another_tokenizer_are_refused(expected: Expected, tmp_path: Path) -> None:
    shutil.copytree(expected.open().folder, tmp_path / "copy")
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    manifest["tokenizer"]["sha256"] = "0" * 64
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="its ids are of another tokenizer than the manifest's"):
        next(iter(TokenDataset(str(tmp_path / "copy"))))


def test_ids_in_every_form_decode(expected: Expected) -> None:
    dataset = expected.open()
    tokenizer = dataset.tokenizer()
    encoded = tokenizer.encode_batch(["one text", "", "two"])
    column = pq.read_table(min(Path(dataset.folder).glob("part-*")))["input_ids"]
    plain = tokenizer.encode("one text")
    kinds = [plain, tuple(plain), encoded[0], encoded[0].values, np.array(plain), torch.tensor(plain), pa.chunked_array([plain])]
    assert {tokenizer.decode(kind) for kind in [*kinds, iter(plain), [*torch.tensor(plain)], [*encoded[0]]]} == {"one text"}
    assert tokenizer.decode(column[0]) == tokenizer.decode(column[0].as_py())
    assert tokenizer.decode_batch(encoded) == ["one text", "", "two"]
    assert tokenizer.decode_batch(torch.tensor([plain, plain])) == ["one text"] * 2
    assert tokenizer.decode(encoded[0], skip_special_tokens=True) == "one text"
    for wrong, message in (
        (7, "ids is a int"),
        ("17", "ids is a str"),
        ([1.5], "1.5 is no token id"),
        ([[1]], "use decode_batch"),
    ):
        with pytest.raises(TypeError, match=message):
            tokenizer.decode(wrong)
    with pytest.raises(TypeError, match="ids has rows"):
        tokenizer.decode(encoded)
    with pytest.raises(TypeError, match="rows is a int"):
        tokenizer.decode_batch(3)
