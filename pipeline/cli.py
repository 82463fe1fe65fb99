"""The command line. Options and texts only; those that commands share stand in `options.py`, what is done in `driver.py`, what is
printed at the end in `summary.py`.

Nothing heavy is imported before a command runs: `tokenmill --help` must come at once.
"""

from __future__ import annotations

from typing import Any, NoReturn

import click

from pipeline.commands import Commands
from pipeline.console import end_at_once, until_pipe_closes
from pipeline.options import (
    BPE_OPTIONS,
    CORPUS_OPTIONS,
    INPUTS,
    NORMALIZER_OPTION,
    OVERWRITE,
    PRETOKENIZER_OPTIONS,
    ROW_OPTIONS,
    RUN_OPTIONS,
    choose_normalizer,
    choose_pretokenizer,
    choose_rows,
    make_corpus,
    make_run,
)
from tokenmill import __version__
from tokenmill.names import BPE_OPTION_NAMES, PRETOKENIZERS, TOKENIZER_FORMATS


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tokenmill")
def main() -> None:
    """Train subword tokenizers, and turn corpora into token ids.

    \b
    tokenmill count  corpus/*.jsonl.gz --output counts       words of a corpus, counted once
    tokenmill train  counts --model byte-bpe --vocab-size 32000 --output tokenizer.json
    tokenmill encode corpus/*.jsonl.gz --tokenizer tokenizer.json --output tokens
    tokenmill build  configs/quickstart.yaml                 all of it, as a file says

    INPUT is a path, glob or folder on any file system that Beam knows; hf:PATH[:CONFIG][@REVISION][:SPLIT] and disk:DIR through
    Hugging Face datasets; or stdlib, the sources of Python's standard library. Words after -- go to Beam, for instance
    -- --runner=FlinkRunner.

    \b
    Exit codes: 0 done, 1 unexpected failure, 2 wrong usage, 3 unusable data, 4 folder in use, 130 interrupted.
    """


@main.command()
@INPUTS
@click.option("--output", required=True, metavar="DIR", help="Folder for the word counts.")
@PRETOKENIZER_OPTIONS
@NORMALIZER_OPTION
@OVERWRITE
@CORPUS_OPTIONS
@RUN_OPTIONS
@click.pass_obj
def count(beam_args: tuple[str, ...], inputs: tuple[str, ...], output: str, overwrite: bool, **options: Any) -> None:
    """Count the words of a corpus.

    Counts are what training needs: count once, then train any model and size from them, without reading the corpus again.

    \b
    tokenmill count corpus/ --output counts
    tokenmill count 'hf:imdb:train' --pretokenizer wordpunct --output counts
    """
    from pipeline import driver, summary

    pretokenizer = choose_pretokenizer(options) or "gpt2"
    manifest = driver.count_corpus(
        make_corpus(inputs, options),
        pretokenizer,
        output,
        make_run(beam_args, options),
        normalizer=choose_normalizer(options),
        overwrite=overwrite,
    )
    say(summary.describe_counts(manifest, output), options)


@main.command()
@INPUTS
@click.option("--output", required=True, metavar="FILE", help="The tokenizer file to write; one that is there is replaced.")
@click.option(
    "--model",
    type=click.Choice(["byte-bpe", "char-bpe", "char"]),
    default="byte-bpe",
    show_default=True,
    help="byte-bpe: alphabet of 256 bytes, lossless. char-bpe: alphabet of the characters seen. char: these characters alone.",
)
@PRETOKENIZER_OPTIONS
@NORMALIZER_OPTION
@click.option("--vocab-size", type=int, metavar="N", help="Stop at N tokens: special tokens, alphabet and merges.")
@click.option("--merges", type=int, metavar="N", help="Stop at N merge rules.")
@click.option(
    "--ties",
    type=click.Choice(["smallest", "first-seen"]),
    default="smallest",
    show_default=True,
    help="Which of equally frequent pairs goes first: the smallest ids, or the one seen first in the corpus.",
)
@click.option(
    "--ids",
    type=click.Choice(["rank", "sorted", "codepoint"]),
    default="rank",
    show_default=True,
    help="rank: special tokens, alphabet, merges in order. sorted: all tokens by code point. codepoint (char): the code points.",
)
@click.option("--special", multiple=True, metavar="TOKEN", help="A special token; text never makes it. Can be given again.")
@click.option("--unk", metavar="TOKEN", help="The token for characters outside the alphabet (char-bpe).")
@click.option(
    "--min-count", type=click.IntRange(min=1), default=1, show_default=True, help="Leave pairs unmerged that occur less often."
)
@click.option("--strict", is_flag=True, help="Fail when the corpus has too few pairs for the size asked for.")
@BPE_OPTIONS
@CORPUS_OPTIONS
@RUN_OPTIONS
@click.pass_obj
def train(beam_args: tuple[str, ...], inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Train a tokenizer on a corpus, or on the word counts of `tokenmill count`.

    Give either --vocab-size or --merges. A byte-bpe encodes any text and gives it back exactly; a char-bpe knows the characters
    it has seen, and needs --unk for others. Training on counts made elsewhere takes a Parquet file with the columns word and
    count.

    \b
    tokenmill train corpus/ --vocab-size 32000 --special '<|endoftext|>' --output tokenizer.json
    tokenmill train counts --model char-bpe --merges 1000 --unk '<unk>' --output small.json
    """
    from pipeline import counts_folder, driver, summary
    from tokenmill.normalizers import Normalizer
    from tokenmill.trainers import TrainingOptions

    counts = counts_folder.find_counts(inputs)
    asked, normalizer = choose_pretokenizer(options), choose_normalizer(options)
    training = TrainingOptions(
        model=options["model"],
        pretokenizer=(asked or "gpt2") if counts is None else counts_folder.check_pretokenizer(counts, asked),
        normalizer=(normalizer or Normalizer()) if counts is None else counts_folder.check_normalizer(counts, normalizer),
        special_tokens=options["special"],
        unk_token=options["unk"],
        **{name: options[name] for name in ("vocab_size", "merges", "ties", "ids", "min_count", "strict", *BPE_OPTION_NAMES)},
    )
    run = make_run(beam_args, options)
    if counts is not None:
        refuse_reading_options(counts, options)
        tokenizer, rules = driver.train_on_counts(counts, training, output, run)
        say(summary.describe_training(tokenizer, rules, output), options)
        return
    tokenizer, rules, manifest = driver.train_on_corpus(make_corpus(inputs, options), training, output, run)
    say(summary.describe_reading(manifest, None) + summary.describe_training(tokenizer, rules, output), options)


@main.command()
@INPUTS
@click.option("--tokenizer", required=True, metavar="FILE", help="The tokenizer.json to encode with.")
@click.option("--output", required=True, metavar="DIR", help="Folder for the token shards and their manifest.")
@ROW_OPTIONS
@OVERWRITE
@CORPUS_OPTIONS
@RUN_OPTIONS
@click.pass_obj
def encode(
    beam_args: tuple[str, ...], inputs: tuple[str, ...], tokenizer: str, output: str, overwrite: bool, **options: Any
) -> None:
    """Encode a corpus into Parquet shards of token ids.

    One row a document: doc_id and input_ids (list of int32), which an Embedding layer takes as they are. With --block, one row a
    block of so many tokens, as training takes them. How text is cut into words belongs to the tokenizer, and cannot be changed.
    DIR is complete when it holds manifest.json; until then, what it held before stays as it was.

    \b
    tokenmill encode corpus/ --tokenizer tokenizer.json --output tokens
    tokenmill encode corpus/ --tokenizer tokenizer.json --block 2048 --eos '<|endoftext|>' --output blocks
    tokenmill encode 'part*.parquet' --text-column body --id-column url --tokenizer tokenizer.json --output tokens
    """
    from pipeline import driver, summary

    manifest = driver.encode_corpus(
        make_corpus(inputs, options),
        tokenizer,
        output,
        make_run(beam_args, options),
        overwrite=overwrite,
        rows=choose_rows(options),
    )
    say(summary.describe_dataset(manifest, output), options)


@main.command()
@click.option("--tokenizer", required=True, metavar="FILE", help="The tokenizer.json to use.")
@click.argument("texts", nargs=-1, metavar="[TEXT...]")
def tokenize(tokenizer: str, texts: tuple[str, ...]) -> None:
    """Show tokens and ids, one JSON line a text; without TEXT, of each line of standard input.

    \b
    tokenmill tokenize --tokenizer tokenizer.json 'Hello, world!'
    """
    from pipeline import texts as handler

    with until_pipe_closes():
        handler.tokenize_texts(tokenizer, texts)


@main.command()
@click.option("--tokenizer", metavar="FILE", help="The tokenizer.json to use; a dataset brings its own.")
@click.option("--doc", metavar="ID", help="Of a dataset, this document only.")
@click.argument("ids", nargs=-1, metavar="[ID...|DIR]")
def decode(tokenizer: str | None, doc: str | None, ids: tuple[str, ...]) -> None:
    """Turn token ids back into text, or show the documents of a dataset.

    Without ID or DIR, each line of standard input holds ids. A dataset gives one JSON line a document.

    \b
    tokenmill decode --tokenizer tokenizer.json 15496 11 995
    tokenmill decode tokens --doc corpus.jsonl:17
    """
    from pipeline import texts as handler

    with until_pipe_closes():
        handler.decode_ids(tokenizer, ids, doc)


@main.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--to", "format", required=True, type=click.Choice(TOKENIZER_FORMATS), help="The format to write.")
@click.option("--pretokenizer", type=click.Choice(PRETOKENIZERS), help="Of a tiktoken rank file that is not a published one.")
@click.option("--special", multiple=True, metavar="TOKEN=ID", help="Of such a file: a special token and its id.")
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def convert(source: str, target: str, format: str, pretokenizer: str | None, special: tuple[str, ...], overwrite: bool) -> None:
    """Bring a tokenizer from one format into another, with the same ids.

    SRC is a tokenizer.json (of tokenmill or Hugging Face), a tiktoken rank file, or a folder with vocab.json and merges.txt; what
    it holds tells which. DST is a file, with --to gpt2 a folder. What cannot be carried over exactly is refused with the reason.

    \b
    tokenmill convert o200k_base.tiktoken tokenizer.json --to native
    tokenmill convert tokenizer.json hf/tokenizer.json --to huggingface
    """
    from pipeline import convert as converter

    converter.convert_tokenizer(
        source, target, format, pretokenizer=pretokenizer, special=converter.parse_specials(special), overwrite=overwrite
    )


@main.command()
@INPUTS
@click.option("--tokenizer", required=True, metavar="FILE", help="The tokenizer to report on.")
@click.option("--compare", multiple=True, metavar="FILE", help="Another one, side by side. Can be given again.")
@click.option("--by", "by_column", metavar="COLUMN", help="Numbers for each value of this column too, such as a language.")
@click.option("--by-file", is_flag=True, help="Numbers for each file too.")
@click.option(
    "--output-format",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="text for people, json for programs, html: one page with plots.",
)
@click.option("--output", metavar="FILE", help="Write it here [default: standard output].")
@click.option("--top", type=click.IntRange(min=0), default=20, show_default=True, help="How many tokens of each kind to show.")
@click.option("--overwrite", is_flag=True, help="Replace the file.")
@CORPUS_OPTIONS
@RUN_OPTIONS
@click.pass_obj
def report(beam_args: tuple[str, ...], inputs: tuple[str, ...], tokenizer: str, **options: Any) -> None:
    """Report on what a tokenizer makes of texts.

    Tokens, bytes and characters per token, tokens per word, tokens per document; which tokens the texts use most, which never,
    and which no text can use; unknown tokens; documents that decoding does not give back.

    \b
    tokenmill report corpus/ --tokenizer tokenizer.json
    tokenmill report 'part*.parquet' --by language --tokenizer a.json --compare b.json --output-format html --output report.html
    """
    from pipeline import report as handler

    output = options["output"]
    if output is not None:
        handler.check_report_output(output, overwrite=options["overwrite"])
    corpus, run = make_corpus(inputs, options), make_run(beam_args, options)
    plan = handler.plan_report(corpus, run, by_column=options["by_column"], by_file=options["by_file"])
    made = handler.carry_out(plan, (tokenizer, *options["compare"]), run, shown=options["top"], output=output)
    with until_pipe_closes():
        handler.write_report(made, options["output_format"], output)


@main.command()
@click.argument("config", metavar="CONFIG.yaml")
@click.option("--overwrite", is_flag=True, help="Make all anew, and replace what the output folder holds.")
@click.option("--retrain", is_flag=True, help="Learn the tokenizer anew when the word counts have changed; all is encoded again.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and why; do nothing.")
@click.option("--quiet", is_flag=True, help="No progress, no summary.")
@click.option(
    "--log-format", type=click.Choice(["text", "json"]), default="text", show_default=True, help="As in the other commands."
)
@click.pass_obj
def build(beam_args: tuple[str, ...], config: str, overwrite: bool, retrain: bool, dry_run: bool, **options: Any) -> None:
    """Count, train and encode as a configuration file says; configs/quickstart.yaml explains the keys.

    The next time, only files that are new or have changed are counted and encoded, and what is gone leaves; the tokenizer stays
    as it is unless --retrain is given. With nothing to do it says so at once. A build that was cut short is finished by the same
    command.
    """
    from pipeline import state
    from pipeline.config import load_config
    from pipeline.progress import reporter

    loaded = load_config(config)
    report = reporter(options["log_format"], options["quiet"])
    if not overwrite and not retrain and state.is_current(loaded):
        manifest = state.load_manifest(loaded)
        report.tell("build", {"changed": False, **manifest["totals"]})
        say(state.describe_current(manifest, loaded.output.folder), options)
        return
    from pipeline import build as builder

    work = builder.describe_build if dry_run else builder.build_dataset
    say(work(loaded, report, beam_args, overwrite=overwrite, retrain=retrain), options)


@main.command()
@click.option("--tokenizer", metavar="FILE", help="Explain texts under this tokenizer.json.")
@click.option(
    "--train", "training", is_flag=True, help="Explain how rules are learned from words, or from texts on standard input."
)
@click.option("--model", type=click.Choice(["char-bpe", "byte-bpe"]), help="Of training [default: char-bpe].")
@PRETOKENIZER_OPTIONS
@click.option("--vocab-size", type=int, metavar="N", help="Train to N tokens: alphabet and merges.")
@click.option("--merges", type=int, metavar="N", help="Train N merge rules [default: 10].")
@click.option("--ties", type=click.Choice(["smallest", "first-seen"]), help="Of training, as in train [default: smallest].")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line, with the same content.")
@click.argument("texts", nargs=-1, metavar="[TEXT...|WORD:COUNT...]")
def explain(tokenizer: str | None, texts: tuple[str, ...], **options: Any) -> None:
    """Show step by step how a text becomes tokens, or how merge rules are learned from a few words.

    For learning: plain algorithms, and 2,000 characters at most. Words given with counts are not cut any further.

    \b
    tokenmill explain --tokenizer tokenizer.json 'Hello, world!'
    tokenmill explain --train low:5 lower:2 newest:6 widest:3 --vocab-size 13 --ties first-seen
    """
    from pipeline import explain as handler

    with until_pipe_closes():
        handler.explain(tokenizer, texts, choose_pretokenizer(options), **options)


def refuse_reading_options(counts: str, options: dict[str, Any]) -> None:
    """Options that say how to read a corpus mean nothing for word counts: better told than passed over."""
    for name in ("limit", "id_column", "max_rejects"):
        if options[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} is for a corpus, {counts} holds word counts; leave it out")


def say(text: str, options: dict[str, Any]) -> None:
    """Print a summary for people; programs read the log or the manifest."""
    if not options["quiet"] and options["log_format"] == "text":
        with until_pipe_closes():
            print(text)


def run() -> NoReturn:
    """The command of a shell: as `main`, and gone at once (taking the interpreter down tidily would cost another 0.4 s)."""
    end_at_once(main)


if __name__ == "__main__":
    run()
