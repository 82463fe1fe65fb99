"""The benchmarks measure what they say: text out of files, the same ids for everyone, and a report that hides nothing."""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import encode, load_once, models, report, report_loaders, report_runs, train
from benchmarks.corpora import Document, count_scripts, is_latin, order_documents
from benchmarks.corpus_files import documents_table, vary_texts, write_repeated
from benchmarks.debian import unpack_packages
from benchmarks.errors import BenchmarkError
from benchmarks.peers import PEERS, share_out
from benchmarks.processes import describe_samples, watch_command
from benchmarks.results import load_results, save_result
from benchmarks.settings import Settings
from benchmarks.tables import format_table
from benchmarks.texts import read_text, split_sections, strip_tags
from benchmarks.trainers import TRAINERS
from benchmarks.vocabularies import count_words, write_vocabulary
from tests.corpora import make_texts
from tokenmill.models.kinds import KINDS
from tokenmill.names import PRETOKENIZERS
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer

TEXTS = ["The first text, of two.\n" * 30, "Другой текст: ещё один.\n" * 20, "def f(x):\n    return x + 1\n" * 20]


def test_tags_scripts_and_navigation_are_no_text() -> None:
    page = "<html><head><title>no</title></head><body><nav>no</nav><p>One &amp; <b>two</b></p><script>no()</script></body></html>"
    assert strip_tags(page) == "One & two\n"


def test_only_text_files_in_utf_8_are_read(tmp_path: Path) -> None:
    for name, content in {"a.txt": b"one", "b.3.gz": gzip.compress(b".TH two"), "c.txt": b"\xff", "d.png": b"three"}.items():
        (tmp_path / name).write_bytes(content)
    found = {path.name: read_text(path) for path in tmp_path.iterdir()}
    assert found == {"a.txt": "one", "b.3.gz": ".TH two", "c.txt": None, "d.png": None}


def test_sections_are_the_text() -> None:
    text = "".join(f"line {number}\n" for number in range(1000))
    sections = list(split_sections(text, 100))
    assert "".join(sections) == text
    assert len(sections) > 10
    assert all(section.endswith("\n") and len(section) <= 200 for section in sections)


def test_documents_stand_once_and_in_one_order() -> None:
    documents = [Document(str(place), TEXTS[place % 3]) for place in range(6)]
    ordered = order_documents(documents)
    assert sorted(document.text for document in ordered) == sorted(TEXTS)
    assert [one.text for one in order_documents(reversed(documents))] == [one.text for one in ordered]


def test_scripts_of_letters() -> None:
    assert count_scripts(["ab, 12 бв", "גд"]) == {"CYRILLIC": 0.5, "LATIN": 1 / 3, "HEBREW": 1 / 6}
    assert is_latin("abc б") and not is_latin("abc бвгд")


def test_repeated_texts_are_varied_and_the_same_each_time(tmp_path: Path) -> None:
    assert list(vary_texts(TEXTS, 1)) == list(vary_texts(TEXTS, 1)) != list(vary_texts(TEXTS, 2))
    size = write_repeated(tmp_path, TEXTS, 0.05, file_megabytes=0.02, format="jsonl")
    assert size >= 50_000
    assert len(list(tmp_path.glob("*.jsonl"))) == 3


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_shares_cover_all_documents(parts: int) -> None:
    texts = ["x" * length for length in (5, 1, 0, 100, 2, 2, 40)]
    shares = share_out(texts, parts)
    assert len(shares) == parts
    assert [place for start, stop in shares for place in range(start, stop)] == list(range(len(texts)))


def test_vocabularies_that_differ_say_where() -> None:
    assert train.compare_tokens([b"th", b"the"], [b"th", b"the"]) == {"first_difference": None, "common": 1.0}
    assert train.compare_tokens([b"th", b"the"], [b"th", b"he"]) == {"first_difference": 1, "common": 0.5}
    assert train.compare_tokens([b"th", b"the"], [b"th"]) == {"first_difference": 1, "common": 0.5}


def test_other_ids_are_found_on_the_slice_and_on_the_whole() -> None:
    ours = {"sha256": "a", "sha256_slice": "b"}
    rows = {"tokenmill": [ours], "same": [ours, ours], "slow": [{"sha256": None, "sha256_slice": "b"}]}
    rows |= {"end": [ours, {"sha256": "c", "sha256_slice": "b"}], "slice": [{"sha256": None, "sha256_slice": "c"}]}
    assert encode.find_other_ids(rows) == ["end", "slice"]


def test_memory_by_thirds_needs_samples() -> None:
    assert describe_samples([1.0, 5.0, 2.0, 2.0, 4.0, 4.0]) == {"peak_mb": 5.0, "middle_mb": 2.0, "last_mb": 4.0}
    assert describe_samples([3.0]) == {"peak_mb": 3.0, "middle_mb": None, "last_mb": None}


def test_a_watched_command_is_measured_and_its_failure_told() -> None:
    # Memory is looked at four times a second: what is to be seen has to stay.
    measured = watch_command([sys.executable, "-c", "import time; held = bytearray(b'x' * 40_000_000); time.sleep(1)"])
    assert measured["cpu_seconds"] > 0 and measured["processes"][0]["peak_mb"] > 40
    with pytest.raises(SystemExit, match="exit code 3: no luck"):
        watch_command([sys.executable, "-c", "import sys; sys.stderr.write('no luck'); sys.exit(3)"])


def test_tables_are_markdown() -> None:
    assert format_table(["a", "b"], [["1", "2"]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A folder that holds a small corpus already."""
    found = Settings(folder=tmp_path, quick=True, next_python=tmp_path / "none")
    found.corpora.mkdir()
    documents = [Document(f"d{place}", text) for place, text in enumerate(make_texts(300)) if text]
    table = documents_table(documents)
    with pa.ipc.new_file(str(found.corpora / "code.arrow"), table.schema) as writer:
        writer.write_table(table)
    (found.corpora / "code.json").write_text(json.dumps({"documents": 9, "bytes": 9, "words": 9, "scripts": {}, "versions": {}}))
    return found


@pytest.mark.jit
@pytest.mark.slow
def test_peers_are_measured_compared_and_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("tokenmill", "tokenmill-batches", "tokenmill-str", "tiktoken", "tokenizers", "tokenizers-next")
    monkeypatch.setattr(encode, "PEERS", {name: PEERS[name] for name in names})
    vocabulary = settings.vocabularies / "gpt2"
    options = TrainingOptions("byte-bpe", "gpt2", vocab_size=600)
    write_vocabulary(train_tokenizer(count_words(make_texts(100)), options)[0], vocabulary)
    for cores in (1, 2):
        encode.compare_peers(settings, "code", vocabulary, cores=cores)

    (one_core, *_) = load_results(settings, "encode-").values()
    assert one_core["other_ids"] == []
    assert list(one_core["missing"]) == ["tokenizers-next"]
    page = report.write_page(settings)
    assert page.count("| tiktoken, encode_ordinary |") == 2
    assert "| tokenizers 1.0, encode_batch | no interpreter at" in page
    assert "a quick run, no figure to quote" in page


@pytest.mark.jit
@pytest.mark.slow
def test_trainers_are_measured_compared_and_reported(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "TRAINERS", {name: TRAINERS[name] for name in ("tokenmill", "tokenizers", "rustbpe")})
    monkeypatch.setattr(train, "SLOW_SIZE", 400)
    train.compare_trainers(settings, "code", 400, 2)
    (result,) = load_results(settings, "train-").values()
    assert [row["agreement"]["first_difference"] for row in result["rows"]["tokenizers"]] == [None]
    assert "tokenizers 0.23" in report.write_page(settings)


def test_results_bear_their_date_and_machine(settings: Settings) -> None:
    save_result(settings, "start", {"rows": {"import tokenmill": 0.25}})
    page = report.write_page(settings)
    assert "| import tokenmill | 0.25 |" in page
    assert re.search(r"Measured \d{4}-\d\d-\d\d \d\d:\d\d UTC, commit ", page)


def test_what_cannot_be_measured_says_why(settings: Settings) -> None:
    with pytest.raises(BenchmarkError, match="no interpreter at"):
        encode.run_measurement(settings, settings.next_python, ["encode"])
    with pytest.raises(BenchmarkError, match="exit code 2"):
        encode.run_measurement(settings, settings.our_python, ["nonsense"])


def test_corpora_need_apt(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(settings.folder))
    with pytest.raises(BenchmarkError, match="needs apt-get and dpkg-deb"):
        unpack_packages(["manpages"], settings.folder)


@pytest.mark.parametrize("name", ["datasets, numpy", "datasets, torch", "numpy memmap"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_loaders_give_the_blocks_they_were_given(tmp_path: Path, name: str, shuffle: bool) -> None:
    blocks = np.arange(20 * 16, dtype=np.int32).reshape(20, 16)
    np.save(tmp_path / "blocks.npy", blocks)
    loader = load_once.LOADERS[name]
    written = load_once.measure_writing(loader, tmp_path / "blocks.npy", tmp_path / "out")
    assert written["tokens"] == 320 and written["bytes"] > 320
    found = np.concatenate([np.asarray(batch) for batch in loader.read(tmp_path / "out", shuffle)])
    assert sorted(found.tolist()) == blocks.tolist() and (found.tolist() == blocks.tolist()) == (not shuffle)
    read = load_once.measure_reading(loader, tmp_path / "out", shuffle, 1)
    assert (read["batches"], read["tokens"]) == (3, 320)


def test_report_on_loaders(tmp_path: Path) -> None:
    settings = Settings(folder=tmp_path)
    read = {"version": "1", "seconds": 0.5, "cpu_seconds": 0.4, "batches": 10, "tokens": 1_000_000}
    rows = {
        "tokenmill": {"read": read, "shuffled": read},
        "mds": {"read": {**read, "seconds": 1.0}, "shuffled": read, "write": {"seconds": 2, "bytes": 4_000_000}},
    }
    totals = {"tokens": 1_000_000, "size": 1_100_000}
    save_result(settings, "loaders-8192", {"vocabulary": 8192, "rows": rows, "missing": {"x": "not there"}, "totals": totals})
    page = "\n".join(report_loaders.sections(settings))
    assert "| tokenmill | 1 | 1.10 |  | 8 | 20 | 1.00 |" in page and "| mds | 1 | 4.00 | 2.00 | 4 | 10 | 2.00 |" in page
    assert "| x | not there |" in page


def test_every_preset_and_model_stands_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(folder=tmp_path, quick=True)
    cases = {name: models.CASES[name] for name in (models.BASE, "wordpiece, bert", "char, code points")}
    monkeypatch.setattr(models, "CASES", cases)
    monkeypatch.setattr(models, "CORPORA", ("english",))
    monkeypatch.setattr(models, "load_texts", lambda settings, corpus: TEXTS)
    models.run(settings)
    result = load_results(settings, "models-")["models-english"]
    assert result["bytes"] == len(TEXTS[0]) and list(result["rows"]) == list(cases)
    assert all(seconds > 0 for row in result["rows"].values() for seconds in row.values())
    table = report_runs.models_table([result])
    assert f"| {models.BASE} |" in table and "| 1.00 / 1.00 |" in table


def test_presets_and_models_are_all_measured() -> None:
    """By the tokenizers that the cases make, not by what they are called."""
    made = [models.train_case(pa.array(TEXTS, pa.large_string()), **case) for case in models.CASES.values()]
    assert {tokenizer.model.name for tokenizer in made} == set(KINDS)
    assert {tokenizer.pretokenizer.name for tokenizer in made} == set(PRETOKENIZERS) - {"regex", "none"}
