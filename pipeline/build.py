"""`tokenmill build`: count, train and encode, as a configuration file says.

OUT/word-counts/   OUT/tokenizer.json   OUT/tokens/
"""

from __future__ import annotations

from pipeline import driver, summary
from pipeline.accounting import MaxRejects
from pipeline.config import BuildConfig, load_config
from pipeline.forked import ForkedWorkers
from pipeline.outputs import OutputFolder
from pipeline.planning import Corpus, Execution, plan_corpus, split_bytes_of
from pipeline.progress import Reporter
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
    jobs = 2 if config.encode.enabled else 1
    run = Execution(reporter, config.workers, (*config.beam, *beam_args), ready=ForkedWorkers(), jobs=jobs)
    corpus, training = make_corpus(config), make_training(config)
    output = OutputFolder(config.output.folder)
    counts, tokens, tokenizer_path = (output.join(name) for name in ("word-counts", "tokens", "tokenizer.json"))
    driver.check_tokenizer_output(tokenizer_path)
    for folder in (counts, tokens):
        OutputFolder(folder).check_free(overwrite=overwrite)
    plan = plan_corpus(corpus, run)
    manifest = driver.count_corpus(corpus, training.pretokenizer, counts, run, overwrite=overwrite, plan=plan)
    tokenizer, rules = driver.train_on_counts(counts, training, tokenizer_path, run)
    text = summary.describe_reading(manifest, counts) + summary.describe_learning(tokenizer, rules)
    if not config.encode.enabled:
        return text + f"wrote    {tokenizer_path}"
    rows = RowOptions(**{name: getattr(config.encode, name) for name in RowOptions.__dataclass_fields__})
    dataset = driver.encode_corpus(corpus, tokenizer_path, tokens, run, overwrite=overwrite, plan=plan, rows=rows)
    text += summary.describe_writing(dataset, tokens) + summary.describe_sample(take_sample(tokens, tokenizer))
    return text + f"wrote    {tokenizer_path}, {counts}\n" + summary.describe_use(tokens)


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
