"""Random programs over a dataset and its loaders, against a plain list of what should come."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test
from torch.utils.data import DataLoader

from tests.loading import Expected, SameProcessLoader, ids, write_blocks

#: So many programs for the long run of workers that are no processes, and of workers that are.
PROGRAMS = int(os.environ.get("TOKENMILL_LOADER_PROGRAMS", "300"))
REAL_PROGRAMS = int(os.environ.get("TOKENMILL_REAL_LOADER_PROGRAMS", "25"))

COUNTS = st.none() | st.integers(0, 14)
READERS = st.sampled_from([(rank, world) for world in (1, 2, 3, 5) for rank in range(world)])


def make_machine(folder: Path, *, real: bool) -> type[RuleBasedStateMachine]:
    expected = Expected(folder, batch_size=5, shuffle=True, seed=3, window=2)

    class Loading(RuleBasedStateMachine):
        """The model is the epoch and batch at which the next pass begins, and those of the batch that comes next, if known."""

        @initialize(reader=READERS, ahead=st.integers(0, 2))
        def begin(self, reader: tuple[int, int], ahead: int) -> None:
            self.ahead, self.seed, self.loaders = ahead, 0, {}
            self.states: list[tuple[dict, int, int]] = []
            self.open(*reader)
            self.set(0, 0)

        def open(self, rank: int, world: int) -> None:
            self.rank, self.world = rank, world
            self.dataset = expected.open(rank=rank, world=world, read_ahead=self.ahead)
            self.batches, self.loaders = self.dataset.to_torch(), {}

        def set(self, epoch: int, batch: int) -> None:
            self.begun, self.place = (epoch, batch), (epoch, batch)

        def rest(self) -> list:
            return expected.rest(*self.begun, self.rank, self.world)

        def went(self, count: int, *, ended: bool, loader: bool, known: bool = True) -> None:
            epoch, batch = self.begun
            self.latest = (epoch, batch + count * self.world)
            self.place = (self.latest if not ended else (epoch + 1, 0)) if known else None
            self.begun = (epoch + 1, 0) if ended or loader else self.latest

        def check(self, batches: Any, count: int | None, *, loader: bool, known: bool = True) -> None:
            rest = self.rest()
            found = [ids(batch) for batch in (batches if count is None else islice(batches, count))]
            assert found == rest[:count]
            if count == 0 and not loader:
                return
            self.went(len(found), ended=count is None or count > len(rest), loader=loader, known=known)

        @rule(epoch=st.integers(0, 4), wrapped=st.booleans())
        def set_epoch(self, epoch: int, wrapped: bool) -> None:
            (self.batches if wrapped else self.dataset).set_epoch(epoch)
            self.set(epoch, 0)

        @rule(count=COUNTS)
        def read_plainly(self, count: int | None) -> None:
            self.check(iter(self.dataset), count, loader=False)

        @precondition(lambda self: not real)  # JAX has threads, which a fork does not copy
        @rule(count=COUNTS)
        def read_for_jax(self, count: int | None) -> None:
            self.check(self.dataset.to_jax(), count, loader=False)

        @rule(count=COUNTS)
        def load_without_workers(self, count: int | None) -> None:
            self.check(iter(DataLoader(self.batches, batch_size=None)), count, loader=True)

        @rule(count=COUNTS, workers=st.integers(1, 3), persistent=st.booleans(), prefetch=st.integers(1, 3))
        def load_with_workers(self, count: int | None, workers: int, persistent: bool, prefetch: int) -> None:
            key = (workers, persistent, prefetch)
            self.seed += 1000
            if real:
                made = lambda: DataLoader(  # noqa: E731
                    self.batches, None, num_workers=workers, persistent_workers=persistent, prefetch_factor=prefetch
                )
            else:
                made = lambda: SameProcessLoader(  # noqa: E731
                    self.batches, workers, persistent=persistent, prefetch=prefetch, seed=self.seed
                )
            loader = self.loaders.setdefault(key, made()) if persistent else made()
            # A pass of workers begins with its iterator, but the first worker's arrival is only sure once a batch is there.
            self.check(iter(loader), count if count is None else max(1, count), loader=True, known=False)

        @precondition(lambda self: self.place is not None)
        @rule()
        def save(self) -> None:
            self.states.append((self.dataset.state_dict(), *self.place))

        @precondition(lambda self: self.place is None)
        @rule()
        def save_by_number(self) -> None:
            (epoch, batch), world = self.latest, self.world
            self.states.append((self.batches.state_dict(batch // world) if batch % world == 0 else {}, epoch, batch))
            if not self.states[-1][0]:
                self.states.pop()

        @precondition(lambda self: self.states)
        @rule(reader=READERS, data=st.data(), anew=st.booleans())
        def resume(self, reader: tuple[int, int], data: st.DataObject, anew: bool) -> None:
            state, epoch, batch = data.draw(st.sampled_from(self.states))
            if anew:
                self.open(*reader)
            self.batches.load_state_dict(state)
            self.set(epoch, batch)

        @invariant()
        def lengths_and_places_agree(self) -> None:
            if not hasattr(self, "begun"):
                return
            assert len(self.dataset) == len(self.batches) == len(self.rest())
            if self.place is not None:
                state = self.dataset.state_dict()
                assert (state["epoch"], state["batch"]) == self.place
            else:
                with pytest.raises(Exception, match=r"give state_dict\(batches=N\)"):
                    self.dataset.state_dict()

        def teardown(self) -> None:
            self.loaders = {}

    return Loading


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_blocks(tmp_path_factory.mktemp("loaders"))


def run(folder: Path, programs: int, *, real: bool, steps: int = 12) -> None:
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    limits = settings(max_examples=programs, stateful_step_count=steps, deadline=None, suppress_health_check=checks)
    run_state_machine_as_test(make_machine(folder, real=real), settings=limits)


@pytest.mark.filterwarnings("ignore:Length of IterableDataset", "ignore:This process .* is multi-threaded", "ignore:os.fork")
def test_loader_state_machine(folder: Path) -> None:
    run(folder, 2, real=True, steps=5)
    run(folder, 15, real=False)


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore:Length of IterableDataset", "ignore:This process .* is multi-threaded", "ignore:os.fork")
@pytest.mark.parametrize("real", [True, False])
def test_loader_state_machine_of_many_programs(folder: Path, real: bool) -> None:
    run(folder, REAL_PROGRAMS if real else PROGRAMS, real=real)
