"""The command line: what it prints, its exit codes, and that every error is one line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.corpora import make_texts, write_jsonl
from tokenmill.pipeline.cli import main as cli

ROOT = Path(__file__).resolve().parents[1]


def call(*words: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli.main, [str(word) for word in words], input=stdin)


def check_error(result: Result, code: int, *parts: str) -> None:
    """One line on standard error that holds these parts, and the exit code."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("tokenmill: ")]
    assert result.exit_code == code, result.output
    assert len(lines) == 1 and "Traceback" not in result.output
    for part in parts:
        assert part in lines[0]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `corpus.jsonl`, `counts/`, `tokenizer.json` and `tokens/`, made by the commands."""
    folder = tmp_path_factory.mktemp("cli")
    write_jsonl(folder / "corpus.jsonl", make_texts(80))
    for words in (
        ("count", folder / "corpus.jsonl", "--output", folder / "counts"),
        ("train", folder / "counts", "--vocab-size", "300", "--output", folder / "tokenizer.json"),
        ("encode", folder / "corpus.jsonl", "--tokenizer", folder / "tokenizer.json", "--output", folder / "tokens"),
    ):
        result = call(*words, "--quiet")
        assert (result.exit_code, result.output) == (0, ""), result.output
    return folder


def test_summaries_say_what_happened_and_what_is_next(trained: Path, tmp_path: Path) -> None:
    counted = call("count", trained / "corpus.jsonl", "--output", tmp_path / "counts")
    assert "read     80 documents" in counted.stdout and "4 documents empty" in counted.stdout and "distinct" in counted.stdout
    learned = call("train", tmp_path / "counts", "--merges", "20", "--output", tmp_path / "t.json")
    assert (
        "20 merge rules on an alphabet of 256: vocabulary 276" in learned.stdout
        and "next     tokenmill tokenize" in learned.stdout
    )
    encoded = call("encode", trained / "corpus.jsonl", "--tokenizer", tmp_path / "t.json", "--output", tmp_path / "tokens")
    assert "encoded  80 documents into" in encoded.stdout and "has 276 rows" in encoded.stdout
    assert "encode: 1/1 splits, 80 documents" in encoded.stderr


def test_counts_and_corpus_train_the_same_tokenizer(trained: Path, tmp_path: Path) -> None:
    assert call("train", trained / "corpus.jsonl", "--vocab-size", "300", "--output", tmp_path / "t.json").exit_code == 0
    assert (tmp_path / "t.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["t.json"], "the counts of a corpus leave nothing behind"


def test_tokenize_texts_and_lines(trained: Path) -> None:
    by_argument = call("tokenize", "--tokenizer", trained / "tokenizer.json", "re do", "--", "-x")
    by_line = call("tokenize", "--tokenizer", trained / "tokenizer.json", stdin="re do\r\n-x\n")
    assert by_argument.stdout == by_line.stdout and by_argument.exit_code == 0
    first, second = map(json.loads, by_line.stdout.splitlines())
    assert "".join(first["tokens"]) == "reĠdo" and len(first["tokens"]) == len(first["ids"]) and second["tokens"] == ["-", "x"]


def test_decode_ids_and_lines(trained: Path) -> None:
    ids = json.loads(call("tokenize", "--tokenizer", trained / "tokenizer.json", "re do 世界").stdout)["ids"]
    assert call("decode", "--tokenizer", trained / "tokenizer.json", *map(str, ids)).stdout == "re do 世界\n"
    line = " ".join(map(str, ids))
    assert call("decode", "--tokenizer", trained / "tokenizer.json", stdin=f"{line}\n{line}\n").stdout == "re do 世界\n" * 2


def test_lines_of_standard_input_are_bytes_and_have_numbers(trained: Path, tmp_path: Path) -> None:
    bytes_kept = call("tokenize", "--tokenizer", trained / "tokenizer.json", stdin=b"a\xff\n")
    assert json.loads(bytes_kept.stdout)["tokens"] == ["a", "ÿ"]
    words = (
        "train",
        trained / "corpus.jsonl",
        "--model",
        "char-bpe",
        "--merges",
        "3",
        "--output",
        tmp_path / "c.json",
        "--quiet",
    )
    assert call(*words).exit_code == 0
    check_error(
        call("tokenize", "--tokenizer", tmp_path / "c.json", stdin=b"re\n\xff\n"), 3, "line 2: the text is not UTF-8 at byte 0"
    )
    check_error(call("decode", "--tokenizer", trained / "tokenizer.json", stdin="1\n2 999\n"), 2, "line 2: id 999 is not in")


def test_decode_a_dataset(trained: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in call("decode", trained / "tokens").stdout.splitlines()]
    assert [row["text"] for row in rows] == make_texts(80) and rows[3]["doc_id"] == "corpus.jsonl:3"
    one = call("decode", trained / "tokens", "--doc", "corpus.jsonl:3")
    assert json.loads(one.stdout) == rows[3]
    check_error(call("decode", trained / "tokens", "--doc", "x"), 3, "no document is called 'x'")
    check_error(call("decode", trained), 3, "nor a finished dataset")
    (tmp_path / "manifest.json").write_text('{"format": "tokenmill-dataset", "shards": 1}')
    check_error(call("decode", tmp_path), 3, "is damaged: it lists no shards")


def test_json_log_is_one_object_a_line(trained: Path, tmp_path: Path) -> None:
    result = call("count", trained / "corpus.jsonl", "--output", tmp_path / "counts", "--log-format", "json")
    events = [json.loads(line) for line in result.stderr.splitlines()]
    assert events[0]["event"] == "start" and events[-2]["event"] == "end" and events[-2]["documents"] == 80
    assert events[-1]["event"] == "result" and events[-1]["documents"] == 80 and events[-1]["reasons"] == []
    assert result.stdout == ""


def test_usage_errors(trained: Path, tmp_path: Path) -> None:
    corpus, output = trained / "corpus.jsonl", tmp_path / "o"
    check_error(call("count"), 2, "Missing argument 'INPUT...'", "count --help")
    check_error(call("cuont"), 2, "No such command 'cuont'")
    check_error(call("count", corpus), 2, "Missing option '--output'")
    check_error(call("count", corpus, "--output", output, "--pretokenizer", "gpt3"), 2, "'gpt3' is not one of", "'wordpunct'")
    check_error(call("count", corpus, "--output", output, "--pattern", "a("), 2, "pattern 'a('", "missing )")
    check_error(call("count", corpus, "--output", output, "--pretokenizer", "regex"), 2, "needs a pattern")
    check_error(call("count", corpus, "--output", output, "--pretokenizer", "gpt2", "--pattern", "a"), 2, "takes no pattern")
    check_error(call("count", corpus, "--output", output, "--split-digits", "2"), 2, "'2' is not one of '1', '3'")
    check_error(call("count", corpus, "--output", output, "--text-column", "body"), 2, "'body'", "id", "text")
    check_error(call("train", corpus, "--output", output), 2, "give one of --vocab-size and --merges (vocab_size, merges)")
    check_error(call("train", corpus, "--output", output, "--merges", "1", "--vocab-size", "9"), 2, "give one of")
    check_error(call("train", corpus, "--output", output, "--merges", "1", "--special", "a", "--special", "a"), 2, "must differ")
    check_error(
        call("encode", corpus, "--tokenizer", trained / "tokenizer.json", "--output", trained / "tokens"), 2, "--overwrite"
    )
    check_error(call("count", corpus, "--output", trained / "counts"), 2, "--overwrite")
    check_error(
        call("train", trained / "counts", "--pretokenizer", "wordpunct", "--merges", "1", "--output", output),
        2,
        "pre-tokenizer gpt2",
    )
    check_error(
        call("encode", corpus, "--tokenizer", trained / "tokenizer.json", "--pretokenizer", "none", "--output", output),
        2,
        "No such option",
    )
    check_error(call("decode", "--tokenizer", trained / "tokenizer.json", "1", "x1"), 2, "'x1' is no token id")
    check_error(call("decode", "--tokenizer", trained / "tokenizer.json", "999"), 2, "id 999 is not in the vocabulary")
    check_error(call("count", corpus, "--output", output, "--", "--nonsense=1"), 2, "nonsense")
    words = ("encode", corpus, "--tokenizer", trained / "tokenizer.json", "--output", output)
    check_error(call(*words, "--every", "3"), 2, "--every says how often --watch looks; give --watch too")
    assert not output.exists()


def test_data_errors(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "o"
    check_error(call("count", tmp_path / "absent.txt", "--output", output), 3, "absent.txt")
    (tmp_path / "bad.json").write_text("{")
    check_error(call("tokenize", "--tokenizer", tmp_path / "bad.json", "x"), 3, "bad.json: not JSON", "line 1")
    (tmp_path / "bad.parquet").write_text("no parquet")
    check_error(call("count", tmp_path / "bad.parquet", "--output", output), 3, "bad.parquet")
    (tmp_path / "empty.txt").write_text("\n\n\n")
    check_error(call("train", tmp_path / "empty.txt", "--merges", "5", "--output", output), 3, "nothing to train on")
    (tmp_path / "void.txt").write_text("")
    check_error(call("train", tmp_path / "void.txt", "--merges", "5", "--output", output), 3, "nothing to train on")
    (tmp_path / "raw.txt").write_bytes(b"ok\n\xff\n")
    words = ("count", tmp_path / "raw.txt", "--output", output)
    check_error(call(*words, "--invalid-utf8", "error"), 3, "raw.txt", "row 1", "--invalid-utf8")
    check_error(call(*words, "--max-rejects", "0"), 3, "1 of 2 records")
    words = ("train", tmp_path / "raw.txt", "--merges", "1", "--output", tmp_path / "t.json")
    check_error(call(*words, "--max-rejects", "0"), 3, "1 of 2 records", "`tokenmill count` keeps a file that says which and why")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".t.json", "t.json"))]
    words = ("count", tmp_path / "raw.txt", "--output", output)
    assert call(*words, "--invalid-utf8", "replace").exit_code == 0


def test_empty_corpus_can_be_encoded(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "void.txt").write_text("")
    result = call("encode", tmp_path / "void.txt", "--tokenizer", trained / "tokenizer.json", "--output", tmp_path / "o")
    assert result.exit_code == 0
    assert json.loads((tmp_path / "o" / "manifest.json").read_text())["files"][0]["documents"] == 0


def test_small_vocabulary_fails_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "abc.txt").write_text("a b c d e f g h i j k l m n o p q r s t u v w x y z\n")
    words = ("train", tmp_path / "abc.txt", "--pretokenizer", "wordpunct", "--output", tmp_path / "t.json")
    check_error(call(*words, "--model", "char-bpe", "--vocab-size", "10"), 2, "at least 27")
    check_error(call(*words, "--model", "byte-bpe", "--vocab-size", "10", "--special", "<s>"), 2, "at least 257")
    assert not (tmp_path / "t.json").exists()


def test_early_stop_is_said_and_strict_fails(tmp_path: Path) -> None:
    (tmp_path / "cat.txt").write_text("the cat sat\n" * 10)
    words = ("train", tmp_path / "cat.txt", "--model", "char-bpe", "--pretokenizer", "wordpunct", "--vocab-size", "100")
    result = call(*words, "--output", tmp_path / "t.json")
    assert result.exit_code == 0 and "asked for a vocabulary of" in result.stdout and "got 14: after" in result.stdout
    check_error(call(*words, "--strict", "--output", tmp_path / "s.json"), 2, "got 14: after 7 merges")


def test_counts_made_elsewhere(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = {"low": 5, "lower": 2, "newest": 6, "widest": 3}
    pq.write_table(pa.table({"word": list(words), "count": list(words.values())}), tmp_path / "counts.parquet")
    (tmp_path / "text.txt").write_text("".join(f"{word}\n" * count for word, count in words.items()))
    options = ("--model", "char-bpe", "--pretokenizer", "wordpunct", "--ties", "first-seen", "--merges", "3")
    assert call("train", tmp_path / "counts.parquet", *options, "--output", tmp_path / "a.json").exit_code == 0
    assert call("train", tmp_path / "text.txt", *options, "--output", tmp_path / "b.json").exit_code == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert json.loads((tmp_path / "a.json").read_text())["merge_rules"] == [["e", "s"], ["es", "t"], ["l", "o"]]
    check_error(
        call("train", tmp_path / "counts.parquet", "--merges", "3", "--output", tmp_path / "c.json"), 2, "give --pretokenizer"
    )


@pytest.mark.parametrize(
    ("options", "spec"),
    [
        (["--pretokenizer", "cl100k", "--split-digits", "3"], {"name": "cl100k", "split_digits": 3}),
        (["--pattern", r"\p{L}+|\d"], {"name": "regex", "pattern": r"\p{L}+|\d"}),
        (["--split-digits", "1"], {"name": "gpt2", "split_digits": 1}),
    ],
)
def test_options_of_pretokenizers_stay_with_the_counts(trained: Path, tmp_path: Path, options: list[str], spec: object) -> None:
    counts, tokenizer = tmp_path / "counts", tmp_path / "t.json"
    assert call("count", trained / "corpus.jsonl", *options, "--output", counts).exit_code == 0
    assert json.loads((counts / "manifest.json").read_text())["pretokenizer"] == spec
    assert call("train", counts, "--merges", "9", "--output", tokenizer).exit_code == 0
    assert call("train", counts, *options, "--merges", "9", "--output", tmp_path / "same.json").exit_code == 0
    assert call("train", trained / "corpus.jsonl", *options, "--merges", "9", "--output", tmp_path / "direct.json").exit_code == 0
    assert json.loads(tokenizer.read_text())["pretokenizer"] == spec
    assert tokenizer.read_bytes() == (tmp_path / "same.json").read_bytes() == (tmp_path / "direct.json").read_bytes()
    check_error(call("train", counts, "--pretokenizer", "gpt2", "--merges", "9", "--output", tokenizer), 2, "not gpt2")
    words = ("encode", trained / "corpus.jsonl", "--tokenizer", tokenizer, "--output", tmp_path / "tokens")
    assert call(*words, "--quiet").exit_code == 0


CONFIG = """
input: {{inputs: ["{folder}/corpus.jsonl"]}}
train: {{model: byte-bpe, pretokenizer: gpt2, vocab_size: 300}}
output: {{folder: "{output}"}}
"""


def test_build_makes_everything(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONFIG.format(folder=trained, output=tmp_path / "out"))
    result = call("build", tmp_path / "c.yaml")
    assert result.exit_code == 0, result.output
    for part in (
        "read     80 documents",
        "learned  44 merge rules",
        "encoded  80 documents",
        "sample   corpus.jsonl:",
        "next     datasets",
    ):
        assert part in result.stdout
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (trained / "tokenizer.json").read_bytes()
    assert (tmp_path / "out" / "tokens" / "manifest.json").read_bytes() == (trained / "tokens" / "manifest.json").read_bytes()
    assert "nothing has changed" in call("build", tmp_path / "c.yaml").stdout
    os.remove(tmp_path / "out" / "_state.json")
    check_error(call("build", tmp_path / "c.yaml"), 2, "--overwrite")
    assert call("build", tmp_path / "c.yaml", "--overwrite", "--quiet").output == ""
    (tmp_path / "c.yaml").write_text("input: {inputs: [a], lmit: 3}\n")
    result = call("build", tmp_path / "c.yaml")
    assert result.exit_code == 2 and "did you mean limit?" in result.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["verify", "none"], "none: neither a dataset nor word counts"),
        (["pin", "none", "other"], "none: no finished dataset is there to pin"),
        (["decode", "none"], "'none' is neither a token id nor a finished dataset"),
        (["train", "none", "--vocab-size", "300", "--output", "t.json"], "no file at 'none'"),
        (["count", "none", "--output", "counts"], "no file at 'none'"),
        (["tokenize", "--tokenizer", "none.json", "a"], "none.json: No such file or directory"),
    ],
)
def test_data_that_is_not_there_is_no_wrong_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    check_error(call(*words), 3, message)
    assert not list(tmp_path.iterdir())


def test_unexpected_failure_is_one_line(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenmill.pipeline import tokenize_command as texts

    def break_down(*_: object, **options: object) -> None:
        raise ValueError("oh")

    monkeypatch.setattr(texts, "tokenize_texts", break_down)
    check_error(
        call("tokenize", "--tokenizer", trained / "tokenizer.json", "x"), 1, "unexpected ValueError: oh", "TOKENMILL_DEBUG=1"
    )


def test_a_closed_pipe_ends_a_command_well(trained: Path) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    command = [sys.executable, "-m", "tokenmill", "decode", str(trained / "tokens")]
    result = subprocess.run(command, cwd=ROOT, stdout=reader.stdin, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_reading_options_are_refused_for_word_counts(trained: Path, tmp_path: Path) -> None:
    words = ("train", trained / "counts", "--vocab-size", "300", "--output", tmp_path / "t.json")
    check_error(call(*words, "--limit", "3"), 2, "--limit is for a corpus")


def test_output_of_train_is_looked_at_before_any_work(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    words = ("train", trained / "corpus.jsonl", "--vocab-size", "300", "--output")
    check_error(call(*words, tmp_path / "notes.txt"), 2, "is no tokenizer")
    check_error(call(*words, trained / "corpus.jsonl"), 2, "is no tokenizer")
    check_error(call(*words, tmp_path), 2, "must be the name of a file")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def start(*words: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tokenmill", *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_help_needs_neither_beam_nor_numba() -> None:
    code = "import sys; from tokenmill.pipeline.cli import main as cli; sys.argv[1:] = ['--help']\n"
    code += "try: cli.main()\nexcept SystemExit: pass\n"
    code += "print(sorted({'apache_beam', 'numba', 'numpy', 'pyarrow', 'pydantic', 'rich', 'datasets'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]" and "Exit codes: 0 done" in result.stdout


def test_no_command_at_all_shows_the_help() -> None:
    result = call()
    assert result.exit_code == 2 and result.stdout == "" and "Commands:" in result.stderr and "tokenmill: " not in result.stderr


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_interrupt_ends_with_130_and_publishes_nothing(
    trained: Path, tmp_path: Path, workers: str, number: signal.Signals
) -> None:
    write_jsonl(tmp_path / "big.jsonl", make_texts(30_000))
    output = tmp_path / "tokens"
    options = ("--tokenizer", trained / "tokenizer.json", "--output", output, "--workers", workers, "--split-mb", "0.05")
    process = start("encode", tmp_path / "big.jsonl", *options)
    deadline = time.monotonic() + 60
    while not list(output.glob("**/part-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted" in stderr and "Traceback" not in stderr
    assert not (output / "manifest.json").exists() and not list(output.glob("part-*.parquet"))


@pytest.mark.slow
@pytest.mark.jit
def test_killed_worker_is_named_and_running_again_finishes(trained: Path, tmp_path: Path) -> None:
    import psutil

    write_jsonl(tmp_path / "big.jsonl", make_texts(30_000))
    output = tmp_path / "tokens"
    options = ("--tokenizer", trained / "tokenizer.json", "--output", output, "--workers", "2", "--split-mb", "0.05")
    process = start("encode", tmp_path / "big.jsonl", *options)
    deadline = time.monotonic() + 60
    while not list(output.glob("**/part-*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.02)
    victim = psutil.Process(process.pid).children(recursive=True)[-1]
    os.kill(victim.pid, signal.SIGKILL)
    _, stderr = process.communicate(timeout=60)
    assert (
        process.returncode == 1 and f"worker process {victim.pid}" in stderr and "SIGKILL" in stderr and "Traceback" not in stderr
    )
    assert not (output / "manifest.json").exists() and not list(output.glob("part-*.parquet"))
    kept = len(list(output.glob("_work/*/journal/split-*.json")))
    again = start("encode", tmp_path / "big.jsonl", *options)
    _, stderr = again.communicate(timeout=120)
    assert again.returncode == 0 and f"encode: {kept} of " in stderr and "splits are done already" in stderr
    assert json.loads((output / "manifest.json").read_text())["totals"]["documents"] == 30_000
