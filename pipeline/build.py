"""`tokenmill build`: count, train, encode and report, as a configuration file says; the next time, only what is new.

OUT/word-counts/   OUT/tokenizer.json   OUT/tokens/   OUT/report.html, OUT/report.json   OUT/_state.json (`pipeline/state.py`)
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

from tokenmill.encoding.templates import Template
from tokenmill.errors import OutputExistsError
from tokenmill.models.kinds import choose_unk, default_pretokenizer, list_options
from tokenmill.pipeline import driver, summary
from tokenmill.pipeline.accounting import MaxRejects
from tokenmill.pipeline.apart import check_spared
from tokenmill.pipeline.build_report import REPORTS, check_build_report, plan_build_report, write_build_report
from tokenmill.pipeline.build_steps import (
    Build,
    Steps,
    choose_rows,
    describe_result,
    describe_training,
    explain_files,
    explain_steps,
    hash_output,
    plan_steps,
)
from tokenmill.pipeline.cli.options import choose_pretokenizer, choose_template
from tokenmill.pipeline.config import BuildConfig
from tokenmill.pipeline.forked import ForkedWorkers
from tokenmill.pipeline.listing import UNKNOWN
from tokenmill.pipeline.outputs import OutputFolder, read_manifest
from tokenmill.pipeline.planning import FILE_OPTIONS, Corpus, Execution, Plan, document_bytes_of, plan_corpus, split_bytes_of
from tokenmill.pipeline.progress import Reporter, WatchedView
from tokenmill.pipeline.report_command import ReportPlan
from tokenmill.pipeline.runners import use_beam_options
from tokenmill.pipeline.state import (
    OUTPUTS,
    STATE,
    State,
    describe_current,
    flatten_options,
    list_changes,
    parse_state,
    remember_files,
)
from tokenmill.pipeline.tokenize_command import read_rows
from tokenmill.text.normalizers import Normalizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.transforms.files import file_exists, read_json, write_file_atomically
from tokenmill.transforms.splits import ReadOptions
from tokenmill.version import __version__

_SAMPLE_TOKENS = 12


def build_dataset(
    config: BuildConfig, reporter: Reporter, beam_args: tuple[str, ...], *, overwrite: bool = False, retrain: bool = False
) -> str:
    """Carry out a configuration; returns the summary for people."""
    build = _open_build(config, reporter, beam_args, overwrite=overwrite, retrain=retrain)
    with build.output.hold() as lock:
        watched = replace(reporter, view=WatchedView(reporter.view, lock.renew))
        build = replace(build, run=replace(build.run, reporter=watched))
        seen = time.time_ns()
        plan = plan_corpus(make_corpus(config), build.run, {} if overwrite else build.state.files)
        check_spared(plan, _list_replaced(build))
        steps = plan_steps(build, plan, make_training(config))
        report = plan_build_report(build, plan)
        _remember(build, {})
        done = all(step.is_done for _, step in steps.items())
        text = write_build_report(build, report) if done else _carry_out(build, plan, steps, report)
        for folder in (build.output, OutputFolder(build.counts), OutputFolder(build.tokens)):
            folder.sweep()
        stamps = {file.path: plan.stamps[file.name] for file in plan.files}
        states = {file.path: UNKNOWN for file in plan.files} | plan.states
        build.state.passed_over = list(plan.passed_over)
        _remember(build, remember_files(states, stamps, seen))
    manifest = read_manifest(build.tokens if config.encode.enabled else build.counts) or {}
    build.run.reporter.tell("build", describe_result(manifest["totals"], steps))
    return text + describe_current(manifest, config.output.folder) if done else text


def describe_build(
    config: BuildConfig, reporter: Reporter, beam_args: tuple[str, ...], *, overwrite: bool = False, retrain: bool = False
) -> str:
    """`--dry-run`: what a build would do, and why. Writes nothing."""
    build = _open_build(config, reporter, beam_args, overwrite=overwrite, retrain=retrain)
    plan = plan_corpus(make_corpus(config), build.run, {} if overwrite else build.state.files)
    check_spared(plan, _list_replaced(build))
    steps = plan_steps(build, plan, make_training(config))
    return explain_files(build, plan) + explain_steps(steps)


def _open_build(config: BuildConfig, reporter: Reporter, beam_args: tuple[str, ...], *, overwrite: bool, retrain: bool) -> Build:
    """All that can be refused before any work."""
    jobs = 1 + config.encode.enabled + config.report.enabled
    run = Execution(reporter, config.workers, (*config.beam, *beam_args), ready=ForkedWorkers(), jobs=jobs)
    use_beam_options(run.beam_args)
    output = OutputFolder(config.output.folder)
    state = parse_state(read_json(output.join(STATE)))
    if state is None and not overwrite and file_exists(output.join(STATE)):
        raise OutputExistsError(
            f"{output.join(STATE)}: damaged, or of another version; give --overwrite to build anew, or another output folder"
        )
    build = Build(config, run, output, state or State(), overwrite, retrain)
    make_training(config)
    if not build.state.trained:
        _check_tokenizer(build, is_begun=state is not None)
    for folder in (build.counts, build.tokens):
        OutputFolder(folder).check_free(overwrite=overwrite or state is not None)
    check_build_report(build, overwrite=overwrite or state is not None)
    if not overwrite and (changes := list_changes(build.state.options, flatten_options(config))):
        raise OutputExistsError(
            f"{config.output.folder} was made with other options: {'; '.join(changes)}; give --overwrite to make it anew, "
            "or another output folder"
        )
    return build


def _check_tokenizer(build: Build, *, is_begun: bool) -> None:
    """A file that no build has trained stays where it is, unless it is a tokenizer and `--overwrite` is given."""
    driver.check_tokenizer_output(build.join(1))
    if not is_begun and not build.overwrite and hash_output(build.output, OUTPUTS[1]) is not None:
        raise OutputExistsError(
            f"{build.join(1)} is there, and no build has trained it; give --overwrite to replace it, or another output folder"
        )


def _list_replaced(build: Build) -> list[str]:
    """All that a build may replace."""
    folders = (OutputFolder(build.counts), OutputFolder(build.tokens))
    reports = map(build.output.join, REPORTS.values())
    return [build.join(1), *reports, *(path for folder in folders for path in folder.list_replaced())]


def _carry_out(build: Build, plan: Plan, steps: Steps, report: ReportPlan | None) -> str:
    corpus, training = plan.corpus, make_training(build.config)
    how: dict[str, Any] = {"overwrite": build.overwrite, "update": True, "plan": plan}
    text = ""
    if not steps.count.is_done:
        driver.count_corpus(corpus, training.pretokenizer, build.counts, build.run, **how, normalizer=training.normalizer)
    manifest = read_manifest(build.counts) or {}
    text += summary.describe_reading(manifest, build.counts)
    if steps.train.is_done:
        build.state.trained.pop("begun", None)
        tokenizer = driver.load_tokenizer(build.join(1))
        text += f"kept     {build.join(1)}: {steps.train.reason}\n"
    else:
        build.state.trained["begun"] = True  # one that is killed from here on may have written the new tokenizer, or not
        _remember(build, {})
        tokenizer, rules = driver.train_on_counts(build.counts, training, build.join(1), build.run, is_ours=True)
        build.state.trained = describe_training(build, manifest["word_counts_sha256"])
        _remember(build, {})
        text += summary.describe_learning(tokenizer, rules)
    if not build.config.encode.enabled:
        return text + write_build_report(build, report) + f"wrote    {build.join(1)}"
    if not steps.encode.is_done:
        driver.encode_corpus(corpus, build.join(1), build.tokens, build.run, **how, rows=choose_rows(build.config))
    text += summary.describe_writing(read_manifest(build.tokens) or {}, build.tokens)
    text += summary.describe_sample(take_sample(build.tokens, tokenizer)) + write_build_report(build, report)
    return text + f"wrote    {build.join(1)}, {build.counts}\n" + summary.describe_use(build.tokens)


def _remember(build: Build, files: dict[str, Any]) -> None:
    """Write the state; before the work with the files of the last build, so that one that is killed is known for what it is."""
    state = build.state
    state.tokenmill, state.options, state.inputs = __version__, flatten_options(build.config), list(build.config.input.inputs)
    if files:
        state.files = files
        state.outputs = {name: sha256 for name in OUTPUTS if (sha256 := hash_output(build.output, name))}
    if read_json(build.output.join(STATE)) != json.loads(state.render()):
        write_file_atomically(build.output.join(STATE), state.render())


def make_corpus(config: BuildConfig) -> Corpus:
    """What to read, from the section `input`, and the second text of pairs as the section `encode` has it."""
    section = config.input
    pair = config.encode.pair_column if config.encode.enabled else None
    columns = (section.text_column, section.id_column, section.document, section.invalid_utf8)
    read = ReadOptions(*columns, pair_column=pair, max_document_bytes=document_bytes_of(section.max_document_mb))
    most = MaxRejects.parse(section.max_rejects)
    how = {name: getattr(section, name) for name in ("format", "limit", *FILE_OPTIONS)}
    return Corpus(tuple(section.inputs), read=read, split_bytes=split_bytes_of(config.split_mb), max_rejects=most, **how)


def make_training(config: BuildConfig) -> TrainingOptions:
    """What to train, from the section `train`."""
    section = config.train
    normalizer = Normalizer.of([step if isinstance(step, str) else step.model_dump() for step in section.normalizer])
    cutter = choose_pretokenizer(section.model_dump(include={"model", "pretokenizer", "split_digits", "pattern"}))
    extended = None if section.extend is None else driver.load_tokenizer(section.extend)
    if extended is not None:
        cutter, normalizer = cutter or extended.pretokenizer, normalizer if section.normalizer else extended.normalizer
    return TrainingOptions(
        model=section.model,
        pretokenizer=cutter or default_pretokenizer(section.model),
        vocab_size=section.vocab_size,
        merges=section.merges,
        ties=section.ties,
        ids=section.ids,
        special_tokens=tuple(section.special),
        unk_token=choose_unk(section.model, section.unk),
        min_count=section.min_count,
        strict=section.strict,
        normalizer=normalizer,
        template=choose_template({"template": section.template, "pair_template": section.pair_template}) or Template(),
        extend=extended,
        **{name: getattr(section, name) for name in list_options()},
    )


def take_sample(folder: str, tokenizer: Tokenizer) -> tuple[str, list[int], str] | None:
    """The first tokens of the first document that has enough of them."""
    rows = (row for row in read_rows(folder) if len(row[1]) >= _SAMPLE_TOKENS)
    doc_id, ids = next(rows, ("", []))
    return (doc_id, ids[:_SAMPLE_TOKENS], tokenizer.decode(ids[:_SAMPLE_TOKENS])) if ids else None
