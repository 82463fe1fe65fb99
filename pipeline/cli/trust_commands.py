"""The commands that check and plan: `verify`, `pin`, `plan`. As in `cli.py`, options and texts only."""

from __future__ import annotations

import click

from tokenmill.pipeline.console import print_text, until_pipe_closes


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--deep", is_flag=True, help="Also make some shards again from the source, and decode documents.")
@click.option("--repair", is_flag=True, help="Make shards that are not as they should be again, from the source.")
@click.option("--source", multiple=True, metavar="INPUT", help="The input files; a build remembers its own.")
def verify(folder: str, deep: bool, repair: bool, source: tuple[str, ...]) -> None:
    """Check that a dataset, word counts, or all that a build has made are what their manifests say.

    Every shard's size, sha256, rows, tokens and ids, and all sums. Exit code 3 with a line for each fault. --deep compares with
    the source. --repair only puts bytes in place that have the sha256 of the manifest.

    \b
    tokenmill verify out/quickstart
    tokenmill verify tokens --deep --source 'corpus/*.jsonl.gz'
    """
    from tokenmill.pipeline import verify_command as proof

    with until_pipe_closes():
        print_text(proof.verify(folder, deep=deep, repair=repair, source=source))


@click.command()
@click.argument("folder", metavar="DIR")
@click.argument("target", metavar="NEW_DIR")
def pin(folder: str, target: str) -> None:
    """Keep the present version of a dataset for as long as it is needed, in a folder of its own.

    NEW_DIR gets second names (hard links) for the same files: it takes no room, and what later builds publish does not change it.

    \b
    tokenmill pin out/tokens runs/42/data
    """
    from tokenmill.pipeline import verify_command as proof

    with until_pipe_closes():
        print_text(proof.pin(folder, target))


@click.command()
@click.argument("config", metavar="CONFIG.yaml")
@click.option(
    "--sample",
    type=click.FloatRange(min=0, max=100, min_open=True),
    default=5,
    show_default=True,
    metavar="PERCENT",
    help="How much of the corpus to look at; 4 MB at least.",
)
def plan(config: str, sample: float) -> None:
    """Say what `tokenmill build CONFIG.yaml` will need: documents, distinct words, memory, time, shards and disk.

    A share of the corpus is counted, trained on and encoded in this process; nothing is kept. Exit code 2, with the figures, when
    this machine has too little memory or disk.

    \b
    tokenmill plan configs/quickstart.yaml
    """
    from tokenmill.pipeline import estimate
    from tokenmill.pipeline.config import load_config

    loaded = load_config(config)
    reckoned, taken = estimate.estimate_build(loaded, sample / 100)
    with until_pipe_closes():
        print_text(estimate.describe_estimate(reckoned, taken, loaded))
    estimate.check_machine(reckoned, loaded.output.folder)
