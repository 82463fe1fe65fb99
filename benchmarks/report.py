"""Writes docs/benchmarks.md from the results: one table for each result, each with its date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks import report_loaders, report_runs
from benchmarks.corpora import CORPORA
from benchmarks.corpus_files import describe_corpus
from benchmarks.peers import PEERS
from benchmarks.results import load_results, median_of
from benchmarks.settings import ROOT, Settings
from benchmarks.tables import format_table, measured_on
from benchmarks.trainers import TRAINERS

Rows = dict[str, list[dict[str, Any]]]

_HEAD = """# Benchmarks

Written by `make bench`; run it to write your own. `python -m benchmarks PART` runs one part again and writes this page anew:
every table says when and on what it was measured. `python -m benchmarks --help` names the parts and the options.

A ratio is tokenmill's speed as a multiple of the other's: above 1 tokenmill is faster, below 1 it is slower. Figures of two
tables may come from two runs; figures within one table never do.
"""

_ENCODING = """## Encoding

From documents in memory to ids in memory. Each measurement is a process of its own; everybody takes a turn in each of three
rounds, and the median counts. *Cold* is the first pass over the corpus, with empty caches; *warm* is the best of up to three
later passes in the same process. Loading, imports and tokenmill's compiled kernels (from Numba's cache, touched with three
words by another instance; so is every peer) are not timed. Peak memory is what the cold pass adds, its result included. Slow
peers encode the first megabytes of the corpus only. Ids are compared by sha256 in every measurement. The ratio compares with
the first row.
"""

_TRAINING = """## Training

From documents in memory to a byte-level BPE vocabulary under GPT-2's pattern, 256 bytes included in the size; counting words is
part of it. The better of two runs at 32,000, one run at the other sizes; slow trainers once, at 32,000 alone. The last column
holds the vocabulary against tokenmill's: *same* is the same tokens in the same order. Where ties between equally frequent pairs
are broken differently, vocabularies drift apart; then it says from which rank on, and how many of tokenmill's tokens the other
has too.
"""


def run(settings: Settings) -> None:
    """Write the page; that of a quick run stands beside its results, not in docs."""
    page = write_page(settings)
    if settings.quick:
        path = settings.results / "benchmarks.md"
        path.parent.mkdir(parents=True, exist_ok=True)
    else:
        path = ROOT / "docs" / "benchmarks.md"
    path.write_text(page, encoding="utf-8")
    print(f"  wrote {path}")


def write_page(settings: Settings) -> str:
    """The whole page."""
    encoding, training = load_results(settings, "encode-"), load_results(settings, "train-")
    sections = [_HEAD, describe_corpora(settings)]
    if encoding:
        sections += [summarize_encoding(encoding), _ENCODING, *(encoding_table(result) for result in encoding.values())]
    if training:
        sections += [_TRAINING, *(training_table(training, corpus) for corpus in CORPORA)]
    sections += report_runs.sections(settings) + report_loaders.sections(settings)
    return "\n".join(section.strip("\n") + "\n" for section in sections if section)


def describe_corpora(settings: Settings) -> str:
    """Sizes, words, scripts, and what the corpora are made of."""
    rows, sources = [], []
    for corpus in CORPORA:
        if not (settings.corpora / f"{corpus}.json").exists():
            continue
        found = describe_corpus(settings, corpus)
        scripts = ", ".join(f"{name.lower()} {share:.1%}" for name, share in found["scripts"].items())
        rows.append([corpus, f"{found['documents']:,}", f"{found['bytes'] / 1e6:.1f}", f"{found['words']:,}", scripts])
        sources.append(f"- {corpus}: {', '.join(f'{name} {version}' for name, version in found['versions'].items())}")
    if not rows:
        return ""
    table = format_table(["corpus", "documents", "MB", "words", "letters by script"], rows)
    origin = "Built from packages of Debian, and from the sources of Python and its packages."
    return "\n".join([f"## Corpora\n\n{origin}\n\n{table}\n", *sources])


def summarize_encoding(results: dict[str, dict[str, Any]]) -> str:
    """tokenmill against the best of the others, one line a table."""
    lines = []
    for result in results.values():
        cells = [f"{result['corpus']}, {result['vocabulary']}, {_cores(result['cores'])}"]
        for kind in ("cold", "warm"):
            speeds = {
                name: _speed(rows, kind) for name, rows in result["rows"].items() if rows and name not in result["other_ids"]
            }
            ours = max((name for name in speeds if name.startswith("tokenmill")), key=speeds.__getitem__)
            theirs = max((name for name in speeds if not name.startswith("tokenmill")), key=speeds.__getitem__, default=ours)
            cells += [f"{speeds[ours]:.0f}", f"{speeds[theirs]:.0f} ({theirs})", f"{speeds[ours] / speeds[theirs]:.2f}"]
        lines.append(cells)
    head = ["MB/s", "cold", "best other, cold", "ratio", "warm", "best other, warm", "ratio"]
    return (
        f"## Encoding at a glance\n\nThe fastest row of tokenmill and the fastest of all others.\n\n{format_table(head, lines)}"
    )


def encoding_table(result: dict[str, Any]) -> str:
    """All peers over one corpus."""
    measured: Rows = result["rows"]
    ours = {kind: _speed(measured["tokenmill"], kind) for kind in ("cold", "warm")}
    lines = []
    for name, peer in PEERS.items():
        rows = measured.get(name) or []
        if not rows or name in result["other_ids"]:
            why = "gives other ids" if rows else result["missing"].get(name, "not measured")
            lines.append([peer.title, why, *[""] * 7])
            continue
        cold, warm = _speed(rows, "cold"), _speed(rows, "warm")
        megabytes = rows[0]["bytes"] / 1e6
        cpu = median_of(rows, "cold", "cpu_seconds") / megabytes * 100
        line = [peer.title, rows[0]["version"], f"{megabytes:.0f}", f"{cold:.1f}", f"{ours['cold'] / cold:.2f}"]
        line += [f"{warm:.1f}", f"{ours['warm'] / warm:.2f}", f"{cpu:.2f}", f"{median_of(rows, 'peak_mb'):.0f}"]
        lines.append(line)
    head = ["", "version", "MB", "cold, MB/s", "ratio", "warm, MB/s", "ratio", "CPU s per 100 MB, cold", "peak, MB"]
    title = f"### {result['corpus']}, vocabulary {result['vocabulary']}, {_cores(result['cores'])}"
    return f"{title}\n\n{measured_on(result)}\n\n{format_table(head, lines)}"


def training_table(results: dict[str, dict[str, Any]], corpus: str) -> str:
    """All trainers and sizes over one corpus; every line has its date."""
    lines = []
    for result in (result for result in results.values() if result["corpus"] == corpus):
        ours = _best(result["rows"]["tokenmill"])["seconds"]
        for name, trainer in TRAINERS.items():
            rows = result["rows"].get(name)
            if not rows:
                continue
            best = _best(rows)
            line = [f"{result['vocab_size']:,}", str(result["cores"]), f"{trainer.title} {best['version']}"]
            line += [f"{best['seconds']:.2f}", f"{best['bytes'] / 1e6 / best['seconds']:.1f}", f"{best['seconds'] / ours:.2f}"]
            line += [f"{best['cpu_seconds']:.2f}", f"{best['peak_mb']:.0f}"]
            line += [_describe_agreement(best["agreement"], trainer.comparable), result["date"]]
            lines.append(line)
    head = [
        "vocabulary",
        "cores",
        "",
        "seconds",
        "MB/s",
        "ratio",
        "CPU s",
        "peak, MB",
        "vocabulary held against ours",
        "measured",
    ]
    return f"### {corpus}\n\n{format_table(head, lines)}" if lines else ""


def _describe_agreement(agreement: dict[str, Any], comparable: bool) -> str:
    if not comparable:
        return "other pre-tokenizer and alphabet"
    if agreement["first_difference"] is None:
        return "same"
    return f"differs from rank {agreement['first_difference']:,} on, {agreement['common']:.2%} in common"


def _speed(rows: Sequence[dict[str, Any]], kind: str) -> float:
    return rows[0]["bytes"] / 1e6 / median_of(rows, kind, "seconds")


def _best(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return min(rows, key=lambda row: float(row["seconds"]))


def _cores(cores: int) -> str:
    return "one core" if cores == 1 else f"{cores} cores"
