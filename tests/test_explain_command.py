"""`tokenmill explain`: what it prints, for people and as JSON, and its errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.by_hand import estimate, make_tokenizer
from tests.training import train
from tokenmill.pipeline.cli import main as cli

ROOT = Path(__file__).resolve().parents[1]


def call(*words: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli.main, ["explain", *map(str, words)], input=stdin)


def check_error(result: Result, code: int, message: str) -> None:
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"tokenmill: {message}\n")


@pytest.fixture
def tokenizer_file(tmp_path: Path) -> Path:
    estimate().save(tmp_path / "tokenizer.json")
    return tmp_path / "tokenizer.json"


def test_the_command_explains_training() -> None:
    result = call("--train", "low:5", "lower:2", "newest:6", "widest:3", "--vocab-size", "13", "--ties", "first-seen")
    assert result.exit_code == 0
    assert result.stdout.startswith(
        """\
model       char-bpe: a symbol is a character
merged      is the pair with the highest count, of equal ones the one that is seen first
words       low 5   lower 2   newest 6   widest 3
symbols     l o w   l o w e r   n e w e s t   w i d e s t
alphabet    10 symbols: d e i l n o r s t w

rank 0      e + s -> es
why         count 9: 2 pairs share the highest; this one is seen first, in newest
pairs       e s      9  merged  = newest 6 + widest 3
            s t      9  tie     = newest 6 + widest 3
            w e      8          = lower 2 + newest 6
            l o      7          = low 5 + lower 2
            o w      7          = low 5 + lower 2
            and 6 pairs more
words       l o w   l o w e r   n e w es t   w i d es t

rank 1      es + t -> est
"""
    )
    assert result.stdout.endswith(
        """\
stop        vocabulary size 13 reached
vocabulary  13 tokens, each with its id: the alphabet, then what merges made
            0 d   1 e   2 i   3 l   4 n   5 o   6 r   7 s   8 t   9 w
            10 es   11 est   12 lo
"""
    )


def test_the_command_trains_on_texts() -> None:
    texts = "she sells\nsea shells, she\n"
    told = json.loads(call("--train", "--merges", "2", "--json", stdin=texts).stdout)
    assert [(one["word"], one["count"]) for one in told["words"]] == [
        *(("she", 1), (" sells", 1), ("sea", 1), (" shells", 1), (",", 1), (" she", 1))
    ]
    rules = train(texts.splitlines(), pretokenizer="gpt2", merges=2).merge_rules
    assert [(one["left"], one["right"]) for one in told["merges"]] == rules
    shown = call("--train", "--model", "byte-bpe", "--pretokenizer", "wordpunct", "--merges", "1", stdin=texts).stdout
    assert "words       she 1   ␣sells 1   sea 1" in shown and "256 symbols: , a e h l s ␣   and 249 bytes more" in shown
    assert len(json.loads(call("--train", "abcdefghijklm:1", "--json").stdout)["merges"]) == 10


def test_the_command_takes_the_options_of_pretokenizers() -> None:
    told = json.loads(call("--train", "--pattern", "[ab]+", "--split-digits", "1", "--json", stdin="ab 12").stdout)
    assert [one["word"] for one in told["words"]] == ["ab", " ", "1", "2"]


def test_counted_words_may_hold_colons_and_come_twice() -> None:
    told = json.loads(call("--train", "a:b:2", " x:1", "a:b:3", "--json").stdout)
    assert [(one["word"], one["count"], one["symbols"]) for one in told["words"]] == [
        ("a:b", 5, ["a", ":", "b"]),
        (" x", 1, ["Ġ", "x"]),
    ]


def test_the_command_explains_texts(tokenizer_file: Path) -> None:
    result = call("--tokenizer", tokenizer_file, "estimate, local")
    assert (result.exit_code, result.stdout) == (
        0,
        """\
text        'estimate, local': 15 characters, 15 bytes
normalized  by identity: unchanged
cut         by gpt2: 3 words; their places are start:end, the end left out
model       char-bpe: a symbol is a character

word 1      'estimate'   characters 0:8, bytes 0:8
symbols     e s t i m a t e
  rank 0    e + s  -> es t i m a t e
  rank 1    es + t -> est i m a t e
tokens      est i m a t e
ids         12 4 6 1 9 3

word 2      ','   characters 8:9, bytes 8:9
symbols     ,
            no rule applies
tokens      ,
ids         0

word 3      ' local'   characters 9:15, bytes 9:15
symbols     ␣ l o c a l
  rank 2    l + o -> ␣ lo c a l
tokens      ␣ lo c a l
ids         10 13 2 1 5

tokens      est i m a t e , ␣ lo c a l
ids         12 4 6 1 9 3 0 10 13 2 1 5
decoded     'estimate, local', the same as the text
""",
    )


def test_json_says_the_same_line_by_line(tokenizer_file: Path) -> None:
    lines = call("--tokenizer", tokenizer_file, "--json", stdin="estimate\r\n\nlocal\n").stdout.splitlines()
    first, empty, last = map(json.loads, lines)
    assert (first["tokens"], first["same"]) == (["est", "i", "m", "a", "t", "e"], True)
    assert first["words"][0]["merges"][1] == {"rank": 1, "left": "es", "right": "t", "symbols": ["est", *"imate"]}
    assert (empty["words"], empty["ids"], empty["decoded"]) == ([], [], "")
    assert last["words"][0]["bytes"] == [0, 5]


def test_losses_are_told(tokenizer_file: Path, tmp_path: Path) -> None:
    shown = call("--tokenizer", tokenizer_file, "é\x1b").stdout
    assert "unknown     'é' U+00E9 LATIN SMALL LETTER E WITH ACUTE, character 0: has no id\n" in shown
    assert "ids         ? ?\ndecoded     not possible" not in shown and "\x1b" not in shown
    assert (
        "decoded     not possible: encode rejects this text; train with --unk TOKEN, --byte-fallback, or --model byte-bpe\n"
        in shown
    )
    make_tokenizer("ab", [], unk="<unk>", pretokenizer="bert").save(tmp_path / "bert.json")
    assert (
        "character 1: becomes <unk>\ndecoded     'a<unk>', not the text: unknown"
        in call("--tokenizer", tmp_path / "bert.json", "aé").stdout
    )
    assert (
        "decoded     'ab', not the text: bert does not keep all whitespace"
        in call("--tokenizer", tmp_path / "bert.json", "a b").stdout
    )


def test_errors_of_the_command_are_one_line(tokenizer_file: Path, tmp_path: Path) -> None:
    check_error(call("x"), 2, "give --tokenizer FILE and a text, or --train and words such as low:5 lower:2")
    check_error(
        call("--train", "--tokenizer", tokenizer_file, "a:1"),
        2,
        "--train makes rules, --tokenizer applies those of a file; give one of them",
    )
    check_error(
        call("--tokenizer", tokenizer_file, "--vocab-size", "3", "x"),
        2,
        "--vocab-size is for training; add --train, or leave it out",
    )
    for argument in ("low", "low:0", "low:x", ":5", "low:", "low:9999999999999", "low:٣"):
        told = f"{argument!r} is no counted word; write word:count, the count from 1 to 1,000,000,000,000, or give texts "
        check_error(call("--train", argument), 2, told + "on standard input")
    check_error(
        call("--train", "a:1", "--merges", "1", "--vocab-size", "9"),
        2,
        "give one of --vocab-size and --merges (vocab_size, merges)",
    )
    check_error(
        call("--train", stdin="\n"),
        3,
        "nothing to train on: no word is given, and the text holds none; give words such as low:5",
    )
    told = "standard input, line 2: not UTF-8 at byte 1; explain takes Unicode text, so convert it"
    check_error(call("--train", stdin=b"a\nb\xff\n"), 3, told)
    check_error(
        call("--train", stdin="ab " * 700),
        2,
        "standard input has, so far, 2,100 characters; explain takes at most 2,000: give less text",
    )
    told = "standard input, line 1: the text has 2,001 characters; explain takes at most 2,000: give a part of it"
    check_error(call("--tokenizer", tokenizer_file, stdin="a" * 2001), 2, told)
    missing = tmp_path / "none.json"
    check_error(call("--tokenizer", missing, "x"), 3, f"{missing}: No such file or directory; give the path of a tokenizer.json")


def test_explaining_training_needs_no_kernels() -> None:
    program = (
        "import sys; from tokenmill.pipeline import explain_command; explain_command.train_on_words(['low:5']); "
        "print(*sorted({'numba', 'apache_beam'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_bytes_are_shown_for_what_they_stand_for(tmp_path: Path) -> None:
    make_tokenizer("", [("Ġ", "n")], model="byte-bpe", pretokenizer="wordpunct").save(tmp_path / "bytes.json")
    shown = call("--tokenizer", tmp_path / "bytes.json", "a\tné").stdout
    assert "model       byte-bpe: a symbol is a byte; a space shows as ␣, a byte that is no character as \\xc3\n" in shown
    assert "symbols     ␣ n \\xc3 \\xa9\n  rank 0    ␣ + n -> ␣n \\xc3 \\xa9\ntokens      ␣n \\xc3 \\xa9\n" in shown
    assert "word 2      '\\tné'   characters 1:4, bytes 1:5\n" in shown
    assert "stand for" not in shown and "decoded     'a né', not the text: wordpunct does not keep" in shown


def test_marks_are_told_from_what_tokens_stand_for(tmp_path: Path) -> None:
    train(["low low"], pretokenizer="whitespace", merges=3, end_of_word_suffix="</w>").save(tmp_path / "marked.json")
    shown = call("--tokenizer", tmp_path / "marked.json", "low").stdout
    assert "tokens      low</w>\nids         7\nstand for   'low'\n" in shown


def test_training_on_bytes_shows_text() -> None:
    shown = call("--train", " é:2", "--model", "byte-bpe", "--merges", "1").stdout
    assert "symbols     ␣ \\xc3 \\xa9\n" in shown and "rank 0      \\xc3 + \\xa9 -> é\n" in shown and "256 é\n" in shown
