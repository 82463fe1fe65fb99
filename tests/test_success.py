"""Success means that something was made: most records rejected, none encoded, and what the user is told of it."""

from __future__ import annotations

import json
import os
import string
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import hash_folder
from tests.test_cli import ROOT, call, check_error
from tokenmill.errors import TooManyRejectsError
from tokenmill.pipeline.accounting import Books, MaxRejects, add_up_reasons, check_rejects
from tokenmill.transforms.reject_reasons import MOST_KINDS, OTHER_REASONS, RejectReasons, name_kind
from tokenmill.transforms.splits import Reject

GOOD = '{"text": "low lower lowest"}\n'
LIST = '{"text": ["low"]}\n'
NULL = '{"text": null}\n'


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("success")
    (folder / "in.txt").write_text("low lower lowest\n" * 3)
    assert call("train", folder / "in.txt", "--vocab-size", "260", "--output", folder / "t.json", "--quiet").exit_code == 0
    return folder / "t.json"


def words_of(command: str, source: Path, tokenizer: Path, output: Path) -> list[str | Path]:
    more: dict[str, list[str | Path]] = {
        "count": ["--output", output],
        "train": ["--vocab-size", "260", "--output", output / "t.json"],
        "encode": ["--tokenizer", tokenizer, "--output", output],
        "report": ["--tokenizer", tokenizer, "--output", output / "report.html"],
    }
    return [command, source, *more[command]]


@pytest.mark.parametrize("command", ["count", "train", "encode", "report"])
@pytest.mark.parametrize("records", [LIST, LIST * 5, GOOD + LIST + NULL])
def test_a_run_that_rejects_most_of_what_it_reads_fails(command: str, records: str, tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(records)
    output = tmp_path / "out"
    output.mkdir()
    words = words_of(command, tmp_path / "in.jsonl", tokenizer, output)
    failed = call(*words, "--quiet")
    check_error(
        failed, 3, "rejected", "column 'text' holds a list, not a string (the first: in.jsonl, row ", "--max-rejects 100%"
    )
    assert not list(output.rglob("manifest.json")) and not list(output.glob("t.json")) and not list(output.glob("*.html"))
    if command != "train" or GOOD in records:
        assert call(*words, "--quiet", "--max-rejects", "100%").exit_code == 0


def test_a_number_does_not_allow_a_run_that_makes_nothing(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(LIST * 5)
    check_error(
        call(*words_of("encode", tmp_path / "in.jsonl", tokenizer, tmp_path / "out"), "--max-rejects", "5"), 3, "all of 5 records"
    )


def test_one_bad_record_of_two_is_said_with_its_place_in_both_logs(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(GOOD + LIST)
    words = words_of("encode", tmp_path / "in.jsonl", tokenizer, tmp_path / "out")
    assert "1: column 'text' holds a list, not a string (the first: in.jsonl, row 1)" in call(*words).stdout
    logged = call(*words, "--overwrite", "--log-format", "json").stderr
    (result,) = [event for line in logged.splitlines() if (event := json.loads(line))["event"] == "result"]
    reason = {"reason": "column 'text' holds a list, not a string", "count": 1, "file": "in.jsonl", "row": 1}
    assert (result["documents"], result["rejected"], result["reasons"]) == (2, 1, [reason])


def test_a_whole_file_of_rejects_among_many_ends_the_run(tokenizer: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02}.jsonl").write_text(GOOD * 100)
    words = words_of("encode", folder, tokenizer, tmp_path / "out")
    (folder / "short.jsonl").write_text(LIST * 99)
    assert "every record rejected of short.jsonl" in call(*words).stdout
    (folder / "short.jsonl").write_text(LIST * 100)
    check_error(call(*words, "--overwrite"), 3, "short.jsonl: 100 of its 100 records were rejected")


@pytest.mark.parametrize("harm", ["list", "empty", "gone", "other"])
def test_a_build_keeps_its_dataset_when_the_corpus_is_spoilt(harm: str, tmp_path: Path) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    (folder / "a.jsonl").write_text(GOOD * 3)
    train = {"model": "byte-bpe", "pretokenizer": "gpt2", "vocab_size": 260}
    config = {"input": {"inputs": [str(folder)]}, "train": train, "output": {"folder": str(out)}, "workers": 1}
    (tmp_path / "b.yaml").write_text(json.dumps(config))
    assert call("build", tmp_path / "b.yaml", "--quiet").exit_code == 0
    before = {name: sha for name, sha in hash_folder(out).items() if not name.startswith(("_", "word-counts/_", "tokens/_"))}
    contents = {"list": LIST * 3, "empty": "", "other": ""}
    (folder / "a.jsonl").unlink()
    if harm != "gone":
        (folder / ("b.txt" if harm == "other" else "a.jsonl")).write_text(contents[harm])
    failed = call("build", tmp_path / "b.yaml", "--quiet")
    check_error(failed, 3)
    after = {name: sha for name, sha in hash_folder(out).items() if not name.startswith(("_", "word-counts/_", "tokens/_"))}
    assert after == before and call("verify", out).exit_code == 0


def test_an_empty_file_alone_is_no_failure_and_replaces_nothing(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("")
    words = words_of("encode", tmp_path / "in.jsonl", tokenizer, tmp_path / "out")
    assert call(*words, "--quiet").exit_code == 0
    (tmp_path / "in.jsonl").write_text(GOOD)
    assert call(*words, "--quiet", "--overwrite").exit_code == 0
    (tmp_path / "in.jsonl").write_text("")
    check_error(call(*words, "--quiet", "--overwrite", "--max-rejects", "100%"), 3, "does not replace")


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1, max_size=4))
def test_the_default_is_half_of_all_and_half_of_each_large_file(sizes: list[tuple[int, int]]) -> None:
    files = [
        {"name": str(number), "documents": good + bad, "encoded": good, "rejected": bad}
        for number, (good, bad) in enumerate(sizes)
    ]
    totals = {name: sum(file[name] for file in files) for name in ("documents", "encoded", "rejected")}
    too_many = totals["rejected"] > totals["encoded"] or any(bad > good and good + bad >= 100 for good, bad in sizes)
    books = Books(files, totals, [])
    try:
        check_rejects(books, MaxRejects(), "DIR")
        assert not too_many
    except TooManyRejectsError:
        assert too_many
    check_rejects(books, MaxRejects.parse("100%"), "DIR")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x is null", "byte 7 is 0xff", "'q'"])), max_size=30))
def test_reasons_are_the_same_however_the_corpus_is_cut(found: list[tuple[str, str]]) -> None:
    rejects = [Reject(file, row, -1, reason) for row, (file, reason) in enumerate(sorted(found))]
    whole, parts = RejectReasons(), []
    whole.add(rejects)
    for reject in rejects:
        part = RejectReasons()
        part.add([reject])
        parts.append({"reasons": part.describe()})
    made = whole.describe()
    assert made == add_up_reasons(parts) == add_up_reasons([{"shards": parts}])
    counted = Counter(reject.reason for reject in rejects)
    assert {entry["reason"]: entry["count"] for entry in made} == counted
    for entry in made:
        first = next(reject for reject in rejects if reject.reason == entry["reason"])
        assert (entry["file"], entry["row"]) == (first.file, first.row)


def test_reasons_take_a_bounded_memory() -> None:
    letters = string.ascii_lowercase
    reasons = RejectReasons()
    reasons.add(Reject("a", row, -1, letter * 2) for row, letter in enumerate(letters * 20))
    reasons.add(Reject("a", row, -1, first + second * 300) for row, first in enumerate(letters) for second in letters)
    made = reasons.describe()
    assert len(made) == MOST_KINDS + 1 and sum(entry["count"] for entry in made) == 26 * 20 + 26 * 26
    assert made[0]["reason"] == OTHER_REASONS and max(len(entry["reason"]) for entry in made) <= 200


def test_reasons_that_differ_in_particulars_are_of_one_kind() -> None:
    first = Reject("a", 1, -1, "document it's: 7, character 3: 'é' (U+00E9) is not in the alphabet", place="document it's: 7")
    second = Reject("a", 2, -1, "document b, character 12: '\"' (U+0022) is not in the alphabet", place="document b")
    assert first.brief.startswith("character 3") and name_kind(first.brief) == name_kind(second.brief)
    assert name_kind("column 'a' is null") != name_kind("column 'a' holds a list")


@pytest.mark.parametrize("option", ["--text-column", "--id-column", "--pair-column", "--by"])
def test_a_file_without_the_column_ends_the_run_before_any_work(option: str, tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "low", "more": "lower"}\n' * 2)
    (tmp_path / "b.jsonl").write_text('{"body": "low", "text": ""}\n'.replace("text", "none" if "text" in option else "text") * 3)
    command = "report" if option == "--by" else "encode"
    more = {"--text-column": []}.get(option, [option, "more"])
    words = words_of(command, tmp_path / "a.jsonl", tokenizer, tmp_path / "out")
    missing = "text" if "text" in option else "more"
    failed = call(*words[:2], tmp_path / "b.jsonl", *words[2:], *more)
    check_error(failed, 2, "b.jsonl: no column", repr(missing), "the columns there are: body, ")
    assert not (tmp_path / "out").exists()


def test_a_later_record_with_the_column_is_enough(tokenizer: Path, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"other": 1}\n\n[1]\n' + GOOD * 3)
    (tmp_path / "b.jsonl").write_text("[1]\n")
    words = words_of("encode", tmp_path / "a.jsonl", tokenizer, tmp_path / "out")
    assert "3 records rejected" in call(*words[:2], tmp_path / "b.jsonl", *words[2:]).stdout


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_end_no_run_with_workers(closed: str, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"low lower {number}\n" for number in range(300)))
    words = [sys.executable, "-m", "tokenmill", "count", "in.txt", "--output", "out", "--workers", "2", "--split-mb", "0.001"]
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *words]
    ended = subprocess.run(shell, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, check=False)
    assert ended.returncode == 0 and (tmp_path / "out" / "manifest.json").exists(), ended.stderr
