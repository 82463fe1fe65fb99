"""What `tokenmill build` remembers of its last run, beside its results: `OUT/_state.json`.

    options    what the results were made with
    files      each input file's state (`FileState`) and stamp, by its path
    passed_over   paths of files that folders left out for their names
    trained    the tokenizer's sha256, and the word counts and options that it was trained with
    outputs    sha256 of the manifests and of the tokenizer
    reported   the options of the report, sha256 of its files and of what it was made from

It is no result: nothing in it but times and numbers of files that this machine alone has, and what can be found out again.
Without it the next build reads its input files once more to see whether they have changed. This module needs no Beam: whether
there is anything to do at all must be known in less time than importing it takes.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tokenmill.errors import UnreadableFileError
from tokenmill.pipeline.config import BuildConfig
from tokenmill.pipeline.listing import UNKNOWN, FileState, list_paths, look_at
from tokenmill.pipeline.progress import count_things
from tokenmill.transforms.sums import SUM, add_sum, is_summed
from tokenmill.version import __version__

STATE = "_state.json"
VERSION = 1
#: Manifests and tokenizer: what is published, by its path in the output folder.
OUTPUTS = ("word-counts/manifest.json", "tokenizer.json", "tokens/manifest.json")
#: Keys of the configuration that change no byte of what has been made already.
_FREE = (
    "report.enabled",
    "report.limit",
    "report.by",
    "report.by_file",
    "input.inputs",
    "input.max_rejects",
    "input.max_window",
    "encode.enabled",
    "output.folder",
    "workers",
    "beam",
)


@dataclass
class State:
    """The content of the file. `inputs` are those of the configuration, `files` those that they stood for."""

    version: int = VERSION
    tokenmill: str = __version__
    options: dict[str, Any] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    files: dict[str, tuple[FileState, str]] = field(default_factory=dict)
    passed_over: list[str] = field(default_factory=list)
    trained: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    reported: dict[str, Any] = field(default_factory=dict)

    def render(self) -> bytes:
        return json.dumps(add_sum(asdict(self)), sort_keys=True, indent=1).encode() + b"\n"


def read_state(folder: str) -> State | None:
    """The state in an output folder; None where there is none, or none that this version understands."""
    try:
        with open(os.path.join(folder, STATE), "rb") as file:
            return parse_state(json.loads(file.read()))
    except (OSError, ValueError, RecursionError):
        return None


def parse_state(content: Any) -> State | None:
    """The state in the content of its file, None where it is not as it was written."""
    if not is_summed(content):
        return None
    try:
        state = State(**{name: value for name, value in content.items() if name != SUM})
        state.files = {path: (tuple(found), str(stamp)) for path, (found, stamp) in state.files.items()}  # type: ignore[misc]
    except (ValueError, TypeError, AttributeError):
        return None
    return state if state.version == VERSION else None


def remember_files(states: Mapping[str, FileState], stamps: Mapping[str, str], seen_ns: int) -> dict[str, tuple[FileState, str]]:
    """States and stamps by path, of files that were looked at at the time `seen_ns`.

    A file that had been written to a moment before may be written to again without its times changing: its state is not
    remembered, so that it is read again the next time.
    """
    return {
        path: (state if max(state[1:3]) < seen_ns - _granularity_ns(state) else UNKNOWN, stamps.get(path, ""))
        for path, state in states.items()
    }


def _granularity_ns(state: FileState) -> int:
    """How far apart two changes of a file are that its times tell apart: a tick of the clock, or two seconds."""
    return 2_000_000_000 if state[1] % 1_000_000_000 == 0 else 50_000_000


def flatten_options(config: BuildConfig) -> dict[str, Any]:
    """`{"train.vocab_size": 8192, ...}`: what results depend on beside the input files."""
    flat: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json").items():
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return {name: value for name, value in flat.items() if name not in _FREE}


def list_changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`["train.vocab_size was 8192 and is 4096"]`. An option that the old one does not know has its default there."""
    return [f"{name} was {old[name]!r} and is {value!r}" for name, value in new.items() if name in old and old[name] != value]


def is_current(config: BuildConfig) -> bool:
    """Whether nothing has changed since the last build: neither options nor files nor results. Looks at sizes and times alone."""
    folder, state = config.output.folder, read_state(config.output.folder)
    if state is None or state.tokenmill != __version__ or state.options != flatten_options(config):
        return False
    if state.inputs != list(config.input.inputs):
        return False
    wanted = OUTPUTS if config.encode.enabled else OUTPUTS[:2]
    if any(state.outputs.get(name) is None or hash_file(folder, name) != state.outputs[name] for name in wanted):
        return False
    if config.report.enabled and not _has_its_report(config, state):
        return False
    try:
        paths = list_paths(config.input.inputs)
    except UnreadableFileError:
        return False
    if any(look_at(path) != known for path, (known, _) in state.files.items()):
        return False
    if paths is None or sorted(paths) != sorted([*state.files, *state.passed_over]):
        return False
    return all(map(_has_its_parts, (os.path.join(folder, name) for name in wanted if name.endswith("manifest.json"))))


def _has_its_report(config: BuildConfig, state: State) -> bool:
    """Whether the report is there, as the configuration has it, and of what is published."""
    files: dict[str, str] = state.reported.get("files", {})
    same = state.reported.get("options") == config.report.model_dump(mode="json")
    return same and all(hash_file(config.output.folder, name) == sha256 for name, sha256 in files.items())


def hash_file(folder: str, name: str) -> str | None:
    """sha256 of a file of the output folder, None where there is none."""
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except OSError:
        return None


def _has_its_parts(manifest_path: str) -> bool:
    """Whether the files that a manifest lists are there in their sizes."""
    with open(manifest_path, "rb") as file:
        manifest = json.loads(file.read())
    parts = [*manifest.get("shards", []), *manifest.get("parts", [])]  # as `schemas.list_published`, which takes Arrow along
    folder = os.path.dirname(manifest_path)
    return all(look_at(os.path.join(folder, os.path.basename(part["path"])))[0] == part["bytes"] for part in parts)


def load_manifest(config: BuildConfig) -> dict[str, Any]:
    """The manifest of what a current build has published last."""
    with open(os.path.join(config.output.folder, OUTPUTS[2] if config.encode.enabled else OUTPUTS[0]), "rb") as file:
        manifest: dict[str, Any] = json.loads(file.read())
    return manifest


def describe_current(manifest: Mapping[str, Any], folder: str) -> str:
    """What there is when nothing has changed."""
    totals = manifest["totals"]
    tokens = f", {totals['tokens']:,} tokens in {count_things(totals['shards'], 'shard')}" if "tokens" in totals else ""
    return f"nothing has changed since the last build: {totals['documents']:,} documents{tokens}, in {folder}"
