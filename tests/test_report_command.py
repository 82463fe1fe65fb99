"""`tokenmill report`: inputs as in the other commands, the same bytes whatever the workers, and every error one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.corpora import make_texts, write_jsonl
from tests.test_cli import call, check_error
from tokenmill.errors import UsageError
from tokenmill.pipeline.report_command import name_paths
from tokenmill.report.numbers import measure_texts
from tokenmill.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `corpus.jsonl`, `corpus.parquet` (with languages), `notes.txt`, and two tokenizers, `a.json` and `b.json`."""
    folder = tmp_path_factory.mktemp("report")
    texts = make_texts(400)
    write_jsonl(folder / "corpus.jsonl", texts)
    languages = [("en", "de", None, "zh")[row % 4] for row in range(len(texts))]
    pq.write_table(pa.table({"text": texts, "lang": languages}), folder / "corpus.parquet", row_group_size=50)
    (folder / "notes.txt").write_text("re do\n\nking of the world\n", encoding="utf-8")
    assert call("train", folder / "corpus.jsonl", "--vocab-size", "400", "--output", folder / "a.json", "--quiet").exit_code == 0
    options = ("--model", "char-bpe", "--pretokenizer", "wordpunct", "--merges", "50", "--unk", "<unk>", "--quiet")
    assert call("train", folder / "notes.txt", *options, "--output", folder / "b.json").exit_code == 0
    return folder


def report(*words: str | Path, tokenizer: Path) -> Any:
    result = call("report", *words, "--tokenizer", tokenizer, "--output-format", "json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return json.loads(result.stdout)


def test_numbers_are_those_of_the_library(folder: Path) -> None:
    made = report(folder / "corpus.jsonl", "--compare", folder / "b.json", tokenizer=folder / "a.json")
    tokenizers = {name: Tokenizer.from_file(folder / name) for name in ("a.json", "b.json")}
    expected = measure_texts(tokenizers, make_texts(400))
    assert made["texts"]["bytes"] == expected.texts.bytes and made["texts"]["words"] == expected.texts.words
    for one, other in zip(made["tokenizers"], expected.tokenizers, strict=True):
        assert (one["name"], one["tokens"], one["changed"]) == (other.name, other.numbers.tokens, other.numbers.changed)
        assert one["vocabulary"]["most_used"][0]["count"] == other.vocabulary.most_used[0].count
    encoded = call("encode", folder / "corpus.jsonl", "--tokenizer", folder / "a.json", "--output", folder / "tokens", "--quiet")
    manifest = json.loads((folder / "tokens" / "manifest.json").read_text())
    assert encoded.exit_code == 0 and made["tokenizers"][0]["tokens"] == manifest["totals"]["tokens"]
    assert made["tokenizers"][1]["changes"][0]["document"] == "corpus.jsonl:0"


def test_workers_and_splits_change_no_byte(folder: Path) -> None:
    words = (
        "report",
        folder / "corpus.parquet",
        "--by",
        "lang",
        "--tokenizer",
        folder / "a.json",
        "--compare",
        folder / "b.json",
    )
    made = [
        call(*words, "--quiet", "--output-format", form, *options).stdout_bytes
        for form in ("json", "html")
        for options in (("--workers", "1"), ("--workers", "2", "--split-mb", "0.002"))
    ]
    assert made[0] == made[1] and made[2] == made[3] and len(made[0]) > 1000 and made[2].startswith(b"<!DOCTYPE html>")


def test_groups_by_column_and_by_file(folder: Path) -> None:
    by_column = report(folder / "corpus.parquet", "--by", "lang", tokenizer=folder / "a.json")
    assert by_column["by"] == "lang" and sorted(group["name"] for group in by_column["groups"]) == ["de", "en", "zh"]
    assert by_column["texts"]["documents"] == 300 and by_column["texts"]["rejected"] == 100
    assert sum(group["tokenizers"]["a.json"]["tokens"] for group in by_column["groups"]) == by_column["tokenizers"][0]["tokens"]
    by_file = report(folder / "corpus.jsonl", folder / "notes.txt", "--by-file", "--limit", "402", tokenizer=folder / "a.json")
    assert [(group["name"], group["documents"]) for group in by_file["groups"]] == [("corpus.jsonl", 400), ("notes.txt", 2)]
    changed = report(folder / "corpus.jsonl", "--by", "id", "--limit", "9", tokenizer=folder / "b.json")["tokenizers"][0][
        "changes"
    ]
    assert changed[0]["document"] == "corpus.jsonl:0" and len(changed) == 5


def test_a_file_is_replaced_only_when_asked(folder: Path, tmp_path: Path) -> None:
    output = tmp_path / "r.html"
    words = ("report", folder / "notes.txt", "--tokenizer", folder / "a.json", "--output-format", "html", "--output", output)
    first = call(*words)
    assert (first.exit_code, first.stdout) == (0, "") and "report: 1/1 splits, 3 documents" in first.stderr
    content = output.read_bytes()
    check_error(call(*words), 2, f"{output} exists; choose another name, or give --overwrite")
    assert call(*words, "--overwrite", "--quiet").output == "" and output.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["r.html"], "what the job wrote meanwhile is gone"


def test_text_says_how_many_more_there_are(folder: Path) -> None:
    text = call("report", folder / "notes.txt", "--tokenizer", folder / "a.json", "--top", "2", "--quiet").stdout
    assert "never used" in text and " more\n" in text and "texts  3 documents, 1 of them empty; 22 bytes" in text


def test_errors_are_one_line(folder: Path, tmp_path: Path) -> None:
    tokenizer = ("--tokenizer", folder / "a.json")
    check_error(call("report", folder / "notes.txt", *tokenizer, "--by", "lang"), 2, "a text file has no column 'lang'")
    check_error(call("report", folder / "corpus.jsonl", *tokenizer, "--by", "x"), 2, "no column 'x'", "id, text")
    check_error(call("report", folder / "corpus.jsonl", *tokenizer, "--by", "id", "--by-file"), 2, "takes the place of --by-file")
    check_error(
        call("report", folder / "corpus.jsonl", *tokenizer, "--by", "id", "--id-column", "id"),
        2,
        "takes the place of --id-column",
    )
    check_error(call("report", folder / "none.txt", *tokenizer), 3, "no file at")
    check_error(call("report", folder / "notes.txt", "--tokenizer", folder / "notes.txt"), 3, "not JSON")
    check_error(call("report", folder / "notes.txt", *tokenizer, "--compare", folder / "a.json"), 2, "a.json is given twice")
    check_error(call("report", folder / "notes.txt", *tokenizer, "--output", tmp_path), 2, "must be the name of a file")
    check_error(
        call("report", folder / "notes.txt", *tokenizer, "--", "--runner=FlinkRunner"),
        2,
        "give --output FILE",
        "workers elsewhere",
    )
    (tmp_path / "cut.jsonl.gz").write_bytes(b"\x1f\x8b\x08")
    check_error(call("report", tmp_path / "cut.jsonl.gz", *tokenizer, "--output", tmp_path / "r.txt"), 3, "cut.jsonl.gz")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": 1}\n')
    check_error(
        call("report", tmp_path / "bad.jsonl", *tokenizer, "--max-rejects", "0"), 3, "1 of 2 records were rejected, --max-rejects"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.jsonl", "cut.jsonl.gz"]


def test_names_are_as_short_as_tells_tokenizers_apart() -> None:
    assert name_paths(["out/tokenizer.json"]) == ["tokenizer.json"]
    assert name_paths(["a/t.json", "./b/t.json", "c.json", "x/a/t.json"]) == ["a/t.json", "b/t.json", "c.json", "x/a/t.json"]
    with pytest.raises(UsageError, match=r"t\.json is given twice; compare different tokenizers"):
        name_paths(["t.json", "./t.json"])


def test_build_ends_with_a_report(folder: Path, tmp_path: Path) -> None:
    def configure(report: str) -> Path:
        path = tmp_path / "c.yaml"
        path.write_text(
            f"input: {{inputs: ['{folder / 'corpus.parquet'}']}}\n"
            "train: {model: byte-bpe, pretokenizer: gpt2, vocab_size: 300}\n"
            f"report: {report}\n"
            f"output: {{folder: '{tmp_path / 'out'}'}}\n"
        )
        return path

    check_error(call("build", configure("{enabled: true, by: language}"), "--quiet"), 2, "no column 'language'")
    assert not (tmp_path / "out").exists(), "refused before any work"
    result = call("build", configure("{enabled: true, by: lang, limit: 40}"))
    assert result.exit_code == 0 and "report   30 documents: " in result.stdout and "report.html" in result.stdout
    made = json.loads((tmp_path / "out" / "report.json").read_text())
    assert [len(made["groups"]), made["texts"]["documents"], made["texts"]["rejected"]] == [3, 30, 10]
    assert made["tokenizers"][0]["name"] == "tokenizer.json" and made["tokenizers"][0]["vocab_size"] == 300
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!DOCTYPE html>")
    again = call("build", configure("{enabled: true, by: lang, limit: 40}"))
    assert again.exit_code == 0 and "report   " not in again.stdout and "nothing has changed" in again.stdout
    other = call("build", configure("{enabled: true}"))
    assert "report   400 documents" in other.stdout and "encode: " not in other.stderr, "the report alone is made anew"
    assert json.loads((tmp_path / "out" / "report.json").read_text())["texts"]["documents"] == 400
    (tmp_path / "out" / "report.html").unlink()
    assert "report   400 documents" in call("build", configure("{enabled: true}")).stdout
    assert "report: " not in call("build", configure("{enabled: true}")).stderr


def test_build_replaces_no_report_that_is_not_its_own(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").write_text("{}")
    (tmp_path / "c.yaml").write_text(
        f"input: {{inputs: ['{folder / 'corpus.parquet'}']}}\n"
        "train: {model: byte-bpe, pretokenizer: gpt2, vocab_size: 300}\n"
        f"report: {{enabled: true}}\noutput: {{folder: '{tmp_path / 'out'}'}}\n"
    )
    check_error(call("build", tmp_path / "c.yaml"), 2, "report.json exists; choose another name, or give --overwrite")
