"""The command line. Options and texts only; those that commands share stand in `options.py`, what is done in `driver.py`, what is
printed at the end in `summary.py`.

Nothing heavy is imported before a command runs: `tokenmill --help` must come at once.
"""

from __future__ import annotations

from typing import Any, NoReturn

import click

from tokenmill.names import PRETOKENIZERS, TOKENIZER_FORMATS
from tokenmill.pipeline.cli.command_group import Commands
from tokenmill.pipeline.cli.options import (
    CORPUS_OPTIONS,
    INPUTS,
    LOG_OPTIONS,
    NORMALIZER_OPTION,
    OVERWRITE,
    PRETOKENIZER_OPTIONS,
    ROW_OPTIONS,
    RUN_OPTIONS,
    SHAPE_OPTIONS,
    TEMPLATE_OPTIONS,
    WATCH_OPTIONS,
    choose_normalizer,
    choose_pretokenizer,
    choose_rows,
    choose_template,
    make_corpus,
    make_run,
)
from tokenmill.pipeline.cli.text_commands import decode, explain, tokenize
from tokenmill.pipeline.cli.train_options import TRAINING_OPTIONS, make_training
from tokenmill.pipeline.cli.trust_commands import pin, plan, verify
from tokenmill.pipeline.console import (
    end_at_once,
    keep_docstrings,
    print_text,
    until_pipe_closes,
)
from tokenmill.version import (
    __version__,
)


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
    from tokenmill.pipeline import driver, summary

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
@TRAINING_OPTIONS
@CORPUS_OPTIONS
@RUN_OPTIONS
@click.pass_obj
def train(beam_args: tuple[str, ...], inputs: tuple[str, ...], output: str, **options: Any) -> None:
    """Train a tokenizer on a corpus, or on the word counts of `tokenmill count`.

    Give either --vocab-size or --merges. A byte-bpe encodes any text and gives it back exactly; a char-bpe knows the characters
    it has seen, and needs --unk or --byte-fallback for others. Training on counts made elsewhere takes a Parquet file with the
    columns word and count.

    \b
    tokenmill train corpus/ --vocab-size 32000 --special '<|endoftext|>' --output tokenizer.json
    tokenmill train counts --model char-bpe --merges 1000 --unk '<unk>' --output small.json
    tokenmill train more/ --extend tokenizer.json --merges 1000 --output larger.json
    tokenmill train corpus/ --model wordpiece --vocab-size 30000 --special '[PAD]' --special '[UNK]' --output bert.json
    """
    from tokenmill.pipeline import counts_folder, driver, summary

    counts = counts_folder.find_counts(inputs)
    training = make_training(counts, options)
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
@WATCH_OPTIONS
@SHAPE_OPTIONS
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
    from tokenmill.pipeline import driver, summary

    if options["watch"]:
        from tokenmill.pipeline import watching

        if overwrite:
            raise click.UsageError("--watch adds to what is there; leave --overwrite out, or encode once with it first")
        run = make_run(beam_args, options)
        watching.watch_corpus(
            make_corpus(inputs, options), tokenizer, output, run, seconds=options["every"] or 10, rows=choose_rows(options)
        )
        return
    if options["every"] is not None:
        raise click.UsageError("--every says how often --watch looks; give --watch too")
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
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option("--to", "format", required=True, type=click.Choice(TOKENIZER_FORMATS), help="The format to write.")
@click.option("--pretokenizer", type=click.Choice(PRETOKENIZERS), help="Of a tiktoken rank file that is not a published one.")
@click.option("--special", multiple=True, metavar="TOKEN=ID", help="Of such a file: a special token and its id.")
@TEMPLATE_OPTIONS
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def convert(
    source: str, target: str, format: str, pretokenizer: str | None, special: tuple[str, ...], overwrite: bool, **options: Any
) -> None:
    """Bring a tokenizer from one format into another, with the same ids.

    SRC is a tokenizer.json (of tokenmill or Hugging Face), a tiktoken rank file, a vocab.txt of BERT, or a folder with vocab.json
    and merges.txt; what it holds tells which. DST is a file, with --to gpt2 a folder. What cannot be carried over exactly is
    refused with the reason.

    \b
    tokenmill convert o200k_base.tiktoken tokenizer.json --to native
    tokenmill convert tokenizer.json hf/tokenizer.json --to huggingface
    """
    from tokenmill.pipeline import convert_command as converter

    converter.convert_tokenizer(
        source,
        target,
        format,
        pretokenizer=pretokenizer,
        special=converter.parse_specials(special),
        template=choose_template(options),
        overwrite=overwrite,
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
    from tokenmill.pipeline import report_command as handler

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
@LOG_OPTIONS
@click.pass_obj
def build(beam_args: tuple[str, ...], config: str, overwrite: bool, retrain: bool, dry_run: bool, **options: Any) -> None:
    """Count, train and encode as a configuration file says; configs/quickstart.yaml explains the keys.

    The next time, only files that are new or have changed are counted and encoded, and what is gone leaves; the tokenizer stays
    as it is unless --retrain is given. With nothing to do it says so at once. A build that was cut short is finished by the same
    command.
    """
    from tokenmill.pipeline import state
    from tokenmill.pipeline.config import load_config
    from tokenmill.pipeline.progress import reporter

    loaded = load_config(config)
    report = reporter(options["log_format"], options["quiet"])
    if not overwrite and not retrain and state.is_current(loaded):
        manifest = state.load_manifest(loaded)
        report.tell("build", {"changed": False, **manifest["totals"]})
        say(state.describe_current(manifest, loaded.output.folder), options)
        return
    from tokenmill.pipeline import build as builder

    if dry_run:  # what it says is the result, however quiet the run is
        with until_pipe_closes():
            print_text(builder.describe_build(loaded, report, beam_args, overwrite=overwrite, retrain=retrain))
        return
    say(builder.build_dataset(loaded, report, beam_args, overwrite=overwrite, retrain=retrain), options)


for command in (tokenize, decode, explain, verify, pin, plan):
    main.add_command(command)


def refuse_reading_options(counts: str, options: dict[str, Any]) -> None:
    """Options that say how to read a corpus mean nothing for word counts: better told than passed over."""
    for name in ("limit", "id_column", "max_rejects"):
        if options[name] is not None:
            raise click.UsageError(f"--{name.replace('_', '-')} is for a corpus, {counts} holds word counts; leave it out")


def say(text: str, options: dict[str, Any]) -> None:
    """Print a summary for people; programs read the log or the manifest."""
    if not options["quiet"] and options["log_format"] == "text":
        with until_pipe_closes():
            print_text(text)


def run() -> NoReturn:
    """The command of a shell: as `main`, and gone at once (taking the interpreter down tidily would cost another 0.4 s)."""
    keep_docstrings()
    end_at_once(main)


if __name__ == "__main__":
    run()
