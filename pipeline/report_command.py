"""`tokenmill report`: texts measured under tokenizers by a Beam job, and shown."""

from __future__ import annotations

import contextlib
import itertools
import os
import posixpath
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from tokenmill.errors import OutputExistsError, UsageError
from tokenmill.pipeline import accounting, driver
from tokenmill.pipeline.apart import check_spared
from tokenmill.pipeline.jobs import report_graph
from tokenmill.pipeline.planning import Corpus, Execution, Plan, check_unchanged, fork_workers, plan_corpus
from tokenmill.pipeline.runners import use_beam_options
from tokenmill.report import as_html, as_json, as_text
from tokenmill.report.measure import MOST_CHANGES, Change, Measurement
from tokenmill.report.numbers import SHOWN_TOKENS, Report, make_report
from tokenmill.schemas import REPORT_SUMS
from tokenmill.tokenizer import Tokenizer
from tokenmill.transforms.encode import keep_tokenizer
from tokenmill.transforms.files import delete_tree, read_file, write_file_atomically
from tokenmill.transforms.input_formats import format_of
from tokenmill.transforms.journal import Journal
from tokenmill.transforms.report import ReportOptions

Records = Mapping[int, Mapping[str, Any]]

RENDER = {"text": as_text.render, "json": as_json.render, "html": as_html.render}


@dataclass(frozen=True)
class ReportPlan:
    """What to read, and what the groups are: `column` (which `corpus.read.id_column` names), `file` or none."""

    plan: Plan
    by: Literal["column", "file"] | None

    @property
    def group(self) -> str | None:
        """What people call the groups by."""
        return self.plan.corpus.read.id_column if self.by == "column" else self.by


def plan_report(
    corpus: Corpus, run: Execution, *, by_column: str | None = None, by_file: bool = False, plan: Plan | None = None
) -> ReportPlan:
    """Find and cut the files of a report. `plan`: that of the corpus, if made.

    Raises `UsageError` where a column is asked for of files that have none, and the errors of `plan_corpus`.
    """
    use_beam_options(run.beam_args, workers=run.workers or 1)
    if by_column is None:
        return ReportPlan(plan or plan_corpus(corpus, run), "file" if by_file else None)
    if by_file or corpus.read.id_column is not None:
        raise UsageError(f"--by {by_column} takes the place of --{'by-file' if by_file else 'id-column'}; give one of them")
    plan = plan_corpus(replace(corpus, read=replace(corpus.read, id_column=by_column)), run)
    if plain := [file for file in plan.files if not format_of(file).has_columns]:
        raise UsageError(f"{plain[0].path}: a text file has no column {by_column!r}; give --by-file, or JSON lines or Parquet")
    return ReportPlan(plan, "column")


def carry_out(
    planned: ReportPlan, tokenizer_paths: Sequence[str], run: Execution, *, shown: int = SHOWN_TOKENS, output: str | None = None
) -> Report:
    """Measure a corpus under the tokenizers. What the job writes meanwhile goes beside the file `output`, which is not written
    here, or to a temporary folder of this machine.
    """
    plan = planned.plan
    check_spared(plan, [] if output is None else [output])
    tokenizers = dict(zip(name_paths(tokenizer_paths), map(driver.load_tokenizer, tokenizer_paths), strict=True))
    measurement = Measurement(list(tokenizers.values()))
    fork_workers(plan, run, lambda: measurement.add([" "]))
    with _hold_working_folder(output, run) as folder:
        options = ReportOptions(
            plan.corpus.read,
            tuple(f"{folder}/tokenizer-{number}.json" for number in range(len(tokenizers))),
            planned.by,
            journal_folder=f"{folder}/journal",
            sums_path=f"{folder}/sums.arrow",
        )
        records = _run_job(tokenizers, options, plan, run)
        sums = _read_sums(options.sums_path) if plan.splits else REPORT_SUMS.empty_table()
    rejected = _close_books(plan, records, run)
    changes = [_first_changes(records, number) for number in range(len(tokenizers))]
    return make_report(tokenizers, sums, changes=changes, by=planned.group, rejected=rejected, shown=shown)


def write_report(report: Report, output_format: str, output: str | None) -> None:
    """Write a report to a file, whole or not at all, or to standard output."""
    content = RENDER[output_format](report).encode("utf-8", "replace")
    if output is None:
        sys.stdout.buffer.write(content)
    else:
        write_file_atomically(output, content)


def check_report_output(path: str, *, overwrite: bool) -> None:
    """The name of a file that may be written, found out before any work."""
    if driver.find_output_file(path, such_as="report.html") and not overwrite:
        raise OutputExistsError(f"{path} exists; choose another name, or give --overwrite")


def name_paths(paths: Sequence[str]) -> list[str]:
    """Names for tokenizers: their paths' last parts, as many as tell them apart.

    >>> name_paths(["a/tokenizer.json", "b/tokenizer.json", "gpt2.tiktoken"])
    ['a/tokenizer.json', 'b/tokenizer.json', 'gpt2.tiktoken']
    """
    parts = [posixpath.normpath(path.replace(os.sep, "/")).split("/") for path in paths]
    names = []
    for own in parts:
        size = next((size for size in range(1, len(own)) if sum(other[-size:] == own[-size:] for other in parts) == 1), len(own))
        names.append("/".join(own[-size:]))
    for place, name in enumerate(names):
        if name in names[:place]:
            raise UsageError(f"{name} is given twice; compare different tokenizers")
    return names


@contextlib.contextmanager
def _hold_working_folder(output: str | None, run: Execution) -> Iterator[str]:
    """A folder that goes afterwards: beside the output, where workers elsewhere reach it too, or one of this machine."""
    if output is None:
        if any(argument.startswith("--runner") for argument in run.beam_args):
            raise UsageError("workers elsewhere need a folder that this machine reads too; give --output FILE in one")
        with tempfile.TemporaryDirectory(prefix="tokenmill-report-") as folder:
            yield folder
        return
    parent, name = os.path.split(output)
    folder = os.path.join(parent, f".{name}.working-{uuid.uuid4().hex[:8]}")
    try:
        yield folder
    finally:
        delete_tree(folder)


def _run_job(tokenizers: Mapping[str, Tokenizer], options: ReportOptions, plan: Plan, run: Execution) -> Records:
    """Run the graph under the eyes of the reporter; returns the journal's records."""
    with contextlib.ExitStack() as kept, run.reporter.stage("report", len(plan.splits)) as stage:
        for path, tokenizer in zip(options.tokenizer_paths, tokenizers.values(), strict=True):
            kept.enter_context(keep_tokenizer(path, tokenizer))
            write_file_atomically(path, tokenizer.to_bytes())
        graph = report_graph(plan.splits, options) if plan.splits else None
        return driver.run_graph(graph, plan, driver.Ticker(Journal(options.journal_folder), stage), run)


def _close_books(plan: Plan, records: Records, run: Execution) -> int:
    """How many records were rejected, of a run that read all that it should."""
    check_unchanged(plan)
    books = accounting.close_books(plan.files, records, len(plan.splits))
    run.reporter.tell("report", books.describe())
    accounting.check_rejects(books, plan.corpus.max_rejects, "`tokenmill encode` keeps a file that")
    return books.totals["rejected"]


def _first_changes(records: Records, number: int) -> list[Change]:
    """Those of one tokenizer, in corpus order."""
    found = (Change(**change) for _, record in sorted(records.items()) for change in record["changes"][number])
    return list(itertools.islice(found, MOST_CHANGES))


def _read_sums(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.BufferReader(read_file(path))).read_all()
