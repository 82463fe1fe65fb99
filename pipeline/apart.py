"""What a run writes is none of its inputs: they would be replaced, or read as input the next time."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tokenmill.errors import UsageError
from tokenmill.pipeline.planning import Corpus, Plan


def check_apart(corpus: Corpus, output: str) -> None:
    """An output inside an input folder would be read as input the next time (but for names that are passed over)."""
    for path in corpus.inputs:
        if not os.path.isdir(path):
            continue
        inside = os.path.relpath(os.path.realpath(output), os.path.realpath(path))
        if not inside.startswith("..") and not any(name.startswith(("_", ".")) for name in inside.split("/") if name != "."):
            raise UsageError(f"the output {output} lies in the input folder {path}; choose a folder outside of it")


def check_spared(plan: Plan, written: Iterable[str]) -> None:
    """Files that a run will replace, or delete, are none that it reads: a glob can match what an earlier run has published."""
    places = {os.path.realpath(path) for path in written}
    for path in plan.states if places else ():
        if os.path.realpath(path) in places:
            raise UsageError(f"the input {path} would be replaced by what is made of it; leave it out, or choose another output")
