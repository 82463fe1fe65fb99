"""What a build has to do, and why: each step is compared with what is published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from tokenmill.errors import OutputExistsError
from tokenmill.pipeline import driver
from tokenmill.pipeline.config import BuildConfig
from tokenmill.pipeline.fingerprints import describe_job, hash_bytes, key_splits
from tokenmill.pipeline.outputs import OutputFolder, read_manifest
from tokenmill.pipeline.planning import Execution, Plan
from tokenmill.pipeline.progress import count_things
from tokenmill.pipeline.shaping import RowOptions
from tokenmill.pipeline.state import OUTPUTS, State, flatten_options
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms.count import CountOptions
from tokenmill.transforms.files import file_exists, read_file
from tokenmill.unicode_text import show_printable

#: How many of many file names are shown.
_SHOWN = 5


@dataclass(frozen=True)
class Build:
    """A build at work: its configuration, where it goes, what is remembered of the last one."""

    config: BuildConfig
    run: Execution
    output: OutputFolder
    state: State
    overwrite: bool
    retrain: bool

    def join(self, number: int) -> str:
        """One of `state.OUTPUTS`, by its number."""
        return self.output.join(*OUTPUTS[number].split("/"))

    @property
    def counts(self) -> str:
        return self.output.join("word-counts")

    @property
    def tokens(self) -> str:
        return self.output.join("tokens")


class Step(NamedTuple):
    """One step: how many of its splits are to be done (0 of 0: none, and nothing to publish), and why or why not."""

    is_done: bool
    reason: str
    todo: int = 0
    total: int = 0


@dataclass(frozen=True)
class Steps:
    """The steps of a build, in their order."""

    count: Step
    train: Step
    encode: Step

    def items(self) -> list[tuple[str, Step]]:
        """Each step with its name."""
        return [("count", self.count), ("train", self.train), ("encode", self.encode)]


def plan_steps(build: Build, plan: Plan, training: TrainingOptions) -> Steps:
    """What is to be done; writes nothing."""
    counting = CountOptions(plan.corpus.read, PreTokenizer.of(training.pretokenizer), training.normalizer)
    count = _compare(build, OutputFolder(build.counts, _key(plan, "count", counting), "group"))
    train = _plan_training(build, count)
    if not build.config.encode.enabled:
        return Steps(count, train, Step(True, "the configuration says so"))
    if not train.is_done:
        return Steps(count, train, Step(False, "the tokenizer may be a new one", len(plan.splits), len(plan.splits)))
    tokenizer = driver.load_tokenizer(build.output.join(OUTPUTS[1]))
    options = driver.make_encode_options(plan.corpus, tokenizer, choose_rows(build.config))
    encode = _compare(build, OutputFolder(build.tokens, _key(plan, "encode", options)))
    return Steps(count, train, encode)


def _key(plan: Plan, name: str, options: Any) -> list[str]:
    return key_splits(plan.splits, plan.stamps, describe_job(name, options))


def choose_rows(config: BuildConfig) -> RowOptions:
    """What rows hold, from the section `encode`."""
    return RowOptions(**{name: getattr(config.encode, name) for name in RowOptions.__dataclass_fields__})


def _compare(build: Build, folder: OutputFolder) -> Step:
    """What of a folder's splits is published already, or was done by a run that was cut short."""
    published = folder.published_parts()
    if build.overwrite or published is None:
        return _count_unfinished(folder, set(), "--overwrite" if build.overwrite else "there is no finished one yet")
    whole = published.whole_keys()
    missing = sum(key not in whole for key in folder.keys)
    if not missing and list(folder.keys) == list(published.keys):
        return Step(True, "all files are as they were", 0, len(folder.keys))
    gone = len(set(published.keys) - set(folder.keys))
    return _count_unfinished(folder, whole, f"{missing:,} new or changed, {gone:,} leave")


def _count_unfinished(folder: OutputFolder, whole: set[str], reason: str) -> Step:
    """A step that is to be done, for what is neither `whole` nor left by a run that was cut short."""
    missing = [key for key in folder.keys if key not in whole]
    unfinished = folder.unfinished_keys()
    kept = sum(key in unfinished for key in missing)
    more = f"; {kept:,} already done by a run that did not finish" if kept else ""
    return Step(False, reason + more, len(missing) - kept, len(folder.keys))


def _plan_training(build: Build, count: Step) -> Step:
    trained, sha256 = dict(build.state.trained), hash_output(build.output, OUTPUTS[1])
    is_begun = trained.pop("begun", not trained)
    if build.overwrite or sha256 is None:
        return Step(False, "--overwrite" if build.overwrite else "there is no tokenizer yet")
    if trained.get("sha256") != sha256:
        if not is_begun and not build.retrain:
            _refuse_other_tokenizer(build, trained["sha256"])
        return Step(False, "--retrain" if build.retrain else "a build that did not finish was training")
    now = (read_manifest(build.counts) or {}).get("word_counts_sha256") if count.is_done else None
    if trained != describe_training(build, trained.get("counts")):
        return Step(False, "it was trained with other options")
    if trained["counts"] == now:
        return Step(True, "trained on these word counts")
    if build.retrain:
        return Step(False, "--retrain")
    return Step(True, "trained on an earlier state of the corpus; --retrain learns from all word counts and encodes all anew")


def _refuse_other_tokenizer(build: Build, sha256: str) -> NoReturn:
    """A tokenizer.json that is not the one that the last build trained: ids must not change under a model without a word."""
    path, copy = build.join(1), build.output.join("tokens", "tokenizer.json")
    is_kept = hash_output(build.output, "tokens/tokenizer.json") == sha256
    way_back = f"copy {copy}, which is the old one, over it" if is_kept else "put the old one back"
    raise OutputExistsError(
        f"{path} is not the tokenizer that the last build trained: it was edited, or is damaged; {way_back}, or give --retrain "
        "to learn it anew and encode all again; to encode with it as it is, move it elsewhere and run "
        "`tokenmill encode INPUT... --tokenizer FILE --output DIR`"
    )


def describe_training(build: Build, counts: Any) -> dict[str, Any]:
    """What the tokenizer that is there was trained with; `counts` is the sha256 of the word counts."""
    options = {name: value for name, value in flatten_options(build.config).items() if name.startswith("train.")}
    return {"sha256": hash_output(build.output, OUTPUTS[1]), "counts": counts, "options": options}


def hash_output(output: OutputFolder, name: str) -> str | None:
    """sha256 of a file of the output folder, None where there is none."""
    path = output.join(*name.split("/"))
    return hash_bytes(read_file(path)) if file_exists(path) else None


def describe_result(totals: Mapping[str, int], steps: Steps) -> dict[str, Any]:
    """Counters of a build that has ended well, for the log."""
    done = {f"{name}_splits": step.todo for name, step in steps.items() if step.total}
    return {"changed": not all(step.is_done for _, step in steps.items()), **done, **totals}


def explain_files(build: Build, plan: Plan) -> str:
    """Which input files are new, have changed or are gone since the last build."""
    known = {path: stamp for path, (_, stamp) in build.state.files.items()}
    now = {file.path: plan.stamps[file.name] for file in plan.files}
    new, gone = now.keys() - known.keys(), known.keys() - now.keys()
    changed = {path for path in now.keys() & known.keys() if now[path] != known[path]}
    lines = [f"files    {len(now):,}, {len(now) - len(new) - len(changed):,} of them as in the last build"]
    kinds = (("new", new), ("changed", changed), ("gone", gone))
    lines += [f"         {count_things(len(paths), 'file')} {what}: {_name_some(paths)}" for what, paths in kinds if paths]
    return "\n".join(lines) + "\n"


def explain_steps(steps: Steps) -> str:
    """A line for each step."""
    return "\n".join(_explain_step(name, step) for name, step in steps.items())


def _explain_step(name: str, step: Step) -> str:
    if step.is_done:
        return f"{name:<8} nothing: {step.reason}"
    what = f"{step.todo:,} of {count_things(step.total, 'split')}" if step.total else "yes"
    return f"{name:<8} {what}: {step.reason}"


def _name_some(paths: Iterable[str]) -> str:
    names: Sequence[str] = sorted(paths)
    return show_printable(", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else ""))
