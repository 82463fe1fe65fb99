"""`tokenmill build`: count, train, encode and report, as a configuration file says.

OUT/word-counts/   OUT/tokenizer.json   OUT/tokens/   OUT/report.html   OUT/report.json
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pipeline import driver, summary
from pipeline.accounting import MaxRejects
from pipeline.config import BuildConfig, load_config
from pipeline.forked import ForkedWorkers
from pipeline.outputs import OutputFolder
from pipeline.planning import Corpus, Execution, Plan, plan_corpus, split_bytes_of
from pipeline.progress import Reporter
from pipeline.report import ReportPlan, carry_out, check_report_output, plan_report, write_report
from pipeline.shaping import RowOptions
from pipeline.texts import read_rows
from tokenmill.names import BPE_OPTION_NAMES
from tokenmill.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.trainers import TrainingOptions
from transforms.splits import ReadOptions

_SAMPLE_TOKENS = 12


def build_dataset(path: str, reporter: Reporter, beam_args: tuple[str, ...], *, overwrite: bool = False) -> str:
    """Carry out a configuration file; returns the summary for people."""
    config = load_config(path)
    jobs = 1 + config.encode.enabled + config.report.enabled
    run = Execution(reporter, config.workers, (*config.beam, *beam_args), ready=ForkedWorkers(), jobs=jobs)
    corpus, training = make_corpus(config), make_training(config)
    output = OutputFolder(config.output.folder)
    counts, tokens, tokenizer_path = (output.join(name) for name in ("word-counts", "tokens", "tokenizer.json"))
    driver.check_tokenizer_output(tokenizer_path)
    for folder in (counts, tokens):
        OutputFolder(folder).check_free(overwrite=overwrite)
    reports = {output_format: output.join(f"report.{output_format}") for output_format in ("html", "json")}
    if config.report.enabled:
        for path in reports.values():
            check_report_output(path, overwrite=overwrite)
    plan = plan_corpus(corpus, run)
    report_plan = plan_build_report(config, corpus, plan, run)
    manifest = driver.count_corpus(corpus, training.pretokenizer, counts, run, overwrite=overwrite, plan=plan)
    tokenizer, rules = driver.train_on_counts(counts, training, tokenizer_path, run)
    text = summary.describe_reading(manifest, counts) + summary.describe_learning(tokenizer, rules)
    if not config.encode.enabled:
        return text + write_build_report(report_plan, reports, tokenizer_path, run) + f"wrote    {tokenizer_path}"
    rows = RowOptions(**{name: getattr(config.encode, name) for name in RowOptions.__dataclass_fields__})
    dataset = driver.encode_corpus(corpus, tokenizer_path, tokens, run, overwrite=overwrite, plan=plan, rows=rows)
    text += summary.describe_writing(dataset, tokens) + summary.describe_sample(take_sample(tokens, tokenizer))
    text += write_build_report(report_plan, reports, tokenizer_path, run)
    return text + f"wrote    {tokenizer_path}, {counts}\n" + summary.describe_use(tokens)


def plan_build_report(config: BuildConfig, corpus: Corpus, plan: Plan, run: Execution) -> ReportPlan | None:
    """What the section `report` asks for, None where it is not enabled; refused before any work."""
    section = config.report
    if not section.enabled:
        return None
    limit = min((number for number in (section.limit, corpus.limit) if number is not None), default=None)
    read = corpus.read if section.by is None else replace(corpus.read, id_column=None)
    made = plan if limit == corpus.limit and section.by is None else None
    return plan_report(replace(corpus, limit=limit, read=read), run, by_column=section.by, by_file=section.by_file, plan=made)


def write_build_report(planned: ReportPlan | None, paths: Mapping[str, str], tokenizer_path: str, run: Execution) -> str:
    """Write the report in each format to its path; returns its lines of the summary."""
    if planned is None:
        return ""
    report = carry_out(planned, [tokenizer_path], run, output=paths["html"])
    for output_format, path in paths.items():
        write_report(report, output_format, path)
    return summary.describe_report(report, paths["html"])


def make_corpus(config: BuildConfig) -> Corpus:
    """What to read, from the section `input`."""
    section = config.input
    read = ReadOptions(section.text_column, section.id_column, section.document, section.invalid_utf8)
    most = MaxRejects.parse(section.max_rejects)
    return Corpus(tuple(section.inputs), section.format, read, section.limit, split_bytes_of(config.split_mb), most)


def make_training(config: BuildConfig) -> TrainingOptions:
    """What to train, from the section `train`."""
    section = config.train
    return TrainingOptions(
        model=section.model,
        pretokenizer=PreTokenizer(section.pretokenizer, section.split_digits, section.pattern),
        vocab_size=section.vocab_size,
        merges=section.merges,
        ties=section.ties,
        ids=section.ids,
        special_tokens=tuple(section.special),
        unk_token=section.unk,
        min_count=section.min_count,
        strict=section.strict,
        **{name: getattr(section, name) for name in BPE_OPTION_NAMES},
    )


def take_sample(folder: str, tokenizer: Tokenizer) -> tuple[str, list[int], str] | None:
    """The first tokens of the first document that has enough of them."""
    rows = (row for row in read_rows(folder) if len(row[1]) >= _SAMPLE_TOKENS)
    doc_id, ids = next(rows, ("", []))
    return (doc_id, ids[:_SAMPLE_TOKENS], tokenizer.decode(ids[:_SAMPLE_TOKENS])) if ids else None
