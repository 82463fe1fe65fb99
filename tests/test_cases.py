"""Small inputs that break tools of this kind, through the commands: what each of them must give.

Beside the tests of each part: here a whole command meets the input, and what it says and leaves is looked at.
"""

from __future__ import annotations

import base64
import bz2
import gzip
import json
import lzma
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.strategies import NAMED_PRETOKENIZERS
from tests.test_cli import ROOT, call, check_error
from tokenmill import Tokenizer
from tokenmill.errors import TokenizerFileError
from tokenmill.reference import bpe as reference
from tokenmill.report.numbers import measure_texts

LINE = "re do ma king re making do ers mak ers"
LETTERS = ("--model", "char-bpe", "--pretokenizer", "wordpunct")
DROP_WHITESPACE = {"wordpunct", "bert", "whitespace-punct"}


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def train(folder: Path, text: str | bytes, *options: str, name: str = "t.json") -> Path:
    """The tokenizer file that `tokenmill train` makes of a text file."""
    result = call("train", write(folder, "train.txt", text), *options, "--output", folder / name, "--quiet")
    assert (result.exit_code, result.output) == (0, ""), result.output
    return folder / name


def encode(corpus: Path, tokenizer: Path, *options: str, name: str = "tokens") -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows and the manifest that `tokenmill encode` makes."""
    output = corpus.parent / name
    result = call("encode", corpus, "--tokenizer", tokenizer, "--output", output, *options, "--quiet")
    assert (result.exit_code, result.output) == (0, ""), result.output
    manifest = json.loads((output / "manifest.json").read_text())
    return [row for shard in manifest["shards"] for row in pq.read_table(output / shard["path"]).to_pylist()], manifest


def rejects_in(folder: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted((folder / "rejects").iterdir()) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def texts_of(rows: list[dict[str, Any]], tokenizer: Path) -> list[str]:
    return [Tokenizer.from_file(tokenizer).decode(row["input_ids"]) for row in rows]


# --- training ---------------------------------------------------------------------------------------------------------------


def test_one_line_full_of_ties_gives_the_rules_of_the_reference(tmp_path: Path) -> None:
    """Its pairs stand two or three times, nearly all of them tied."""
    made = json.loads(train(tmp_path, LINE, *LETTERS, "--vocab-size", "30").read_text())
    words = LINE.replace(" ", " Ġ").split()
    counted = [(word, words.count(word)) for word in dict.fromkeys(words)]
    letters = sorted({letter for word in words for letter in word})
    expected = [list(pair) for pair, _ in reference.train_bpe(counted, 30 - len(letters))]
    assert made["merge_rules"] == expected and len(made["vocab"]) == len(letters) + len(expected) <= 30


@pytest.mark.slow
@pytest.mark.jit
def test_ties_are_the_same_in_any_order_with_any_workers_and_hash_seed(tmp_path: Path) -> None:
    lines, made = LINE.split(), set()
    for seed, workers in ((0, 1), (4242, 1), (7, 8)):
        folder = tmp_path / str(seed)
        folder.mkdir()
        random.Random(seed).shuffle(lines)
        for number, word in enumerate(lines):
            write(folder, f"{number}.txt", f"{word}\n")
        words = [folder, *LETTERS, "--vocab-size", 30, "--workers", workers, "--split-mb", 1e-6, "--output", folder / "t.json"]
        command = [sys.executable, "-m", "tokenmill", "train", *map(str, words), "--quiet"]
        subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=True)
        made.add((folder / "t.json").read_bytes())
    assert len(made) == 1


def test_counts_by_hand_train_wordpiece_by_likelihood(tmp_path: Path) -> None:
    """q and ##z stand five times each and always together: 5 / 25; a and ##b often, but a without ##b too: 10 / 1000."""
    pq.write_table(pa.table({"word": ["ab", "a", "qz"], "count": [10, 90, 5]}), tmp_path / "counts.parquet")
    options = ("--model", "wordpiece", "--pretokenizer", "bert", "--merges", "1", "--quiet")
    assert call("train", tmp_path / "counts.parquet", *options, "--output", tmp_path / "t.json").exit_code == 0
    assert json.loads((tmp_path / "t.json").read_text())["merge_rules"] == [["q", "##z"]]


#: Trains on words of 20,000 and 320,000 letters until no pair is left; prints the bytes by which the second raised the peak.
MEASURE = """
import json, random, resource
from tests.training import train
def most(letters):
    train(["".join(random.Random(1).choices("ACGT", k=letters))], pretokenizer="none", merges=1 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
small = most(20_000)
print(most(320_000) - small)
"""


@pytest.mark.jit
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_one_word_of_320_000_letters_needs_memory_in_proportion() -> None:
    made = subprocess.run([sys.executable, "-c", MEASURE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert int(made.stdout) < 320_000 * 300


@pytest.mark.jit
def test_one_word_of_320_000_letters_is_trained_with_a_warning(tmp_path: Path) -> None:
    word = "".join(random.Random(1).choices("ACGT", k=320_000))
    options = ("--model", "char-bpe", "--pretokenizer", "none", "--merges", "1000", "--output", tmp_path / "t.json")
    result = call("train", write(tmp_path, "a.txt", word), *options)
    assert result.exit_code == 0 and "warning: the longest word has 320,000 bytes; does none suit this text?" in result.stderr
    tokenizer = Tokenizer.from_file(tmp_path / "t.json")
    assert len(tokenizer.merge_rules) == 1000 and tokenizer.decode(tokenizer.encode(word)) == word


def test_a_corpus_of_two_letters_stops_early_and_says_the_size(tmp_path: Path) -> None:
    words = ("train", write(tmp_path, "a.txt", "ab\n"), "--vocab-size", "300", "--output", tmp_path / "t.json")
    result = call(*words)
    assert result.exit_code == 0 and "1 merge rules on an alphabet of 256: vocabulary 257" in result.stdout
    told = "asked for a vocabulary of 300 and got 257: after 1 merge no pair of symbols is left; ask for 257, or add text"
    assert told in result.stdout and told in result.stderr
    check_error(
        call(*words, "--strict"),
        2,
        "asked for a vocabulary of 300 and got 257: after 1 merge no pair",
        "ask for 257, or add text",
    )


@pytest.mark.parametrize("content", ["", "\n\n", '{"text": ""}\n{"text": ""}\n'])
def test_a_build_of_nothing_ends_with_an_error_and_goes_on_when_there_is_text(tmp_path: Path, content: str) -> None:
    corpus = write(tmp_path, "a.jsonl" if "{" in content else "a.txt", content)
    config = f"""
input: {{inputs: ["{corpus}"]}}
train: {{model: byte-bpe, pretokenizer: gpt2, merges: 1}}
output: {{folder: "{tmp_path / "out"}"}}
"""
    check_error(
        call("build", write(tmp_path, "c.yaml", config)), 3, "nothing to train on: the corpus holds no word; give one with text"
    )
    assert not (tmp_path / "out" / "tokenizer.json").exists() and not (tmp_path / "out" / "tokens").exists()
    corpus.write_text(content + ('{"text": "ab"}\n' if "{" in content else "ab\n"))
    assert call("build", tmp_path / "c.yaml", "--quiet").exit_code == 0
    assert json.loads((tmp_path / "out" / "tokenizer.json").read_text())["merge_rules"] == [["a", "b"]]


def test_a_character_that_was_not_seen_is_never_dropped_in_silence(tmp_path: Path) -> None:
    corpus = write(tmp_path, "new.txt", "mug\nhug\n")
    bare = train(tmp_path, "hug pug\n", *LETTERS, "--merges", "3")
    check_error(call("tokenize", "--tokenizer", bare, "mug"), 3, "'m' (U+006D) is not in the alphabet", "--unk")
    rows, manifest = encode(corpus, bare, name="bare")
    assert [row["doc_id"] for row in rows] == ["new.txt:1"] and manifest["totals"]["rejected"] == 1
    (reject,) = rejects_in(tmp_path / "bare")
    assert (reject["file"], reject["row"], base64.b64decode(reject["raw"])) == ("new.txt", 0, b"mug")
    assert "'m' (U+006D)" in reject["reason"]
    with_unk = train(tmp_path, "hug pug\n", *LETTERS, "--merges", "3", "--unk", "<unk>", name="unk.json")
    rows, _ = encode(corpus, with_unk, name="unk")
    assert texts_of(rows, with_unk) == ["<unk>ug", "hug"]


@pytest.mark.parametrize("model", ["byte-bpe", "char-bpe", "wordpiece", "byte-wordpiece"])
def test_a_special_token_that_the_text_holds_has_one_id(tmp_path: Path, model: str) -> None:
    options = ("--model", model, "--pretokenizer", "whitespace", "--merges", "40", "--special", "~ing")
    path = train(tmp_path, "~ing going ~ing doing\n" * 5, *options)
    tokenizer = Tokenizer.from_file(path)
    assert len(set(tokenizer.vocab.values())) == len(tokenizer.vocab)
    assert tokenizer.vocab["~ing"] not in tokenizer.encode("~ing") and tokenizer.decode(tokenizer.encode("~ing")) == "~ing"
    held = json.loads(path.read_text())
    held["vocab"]["~ing"] = 5
    with pytest.raises(TokenizerFileError, match="id 5 stands twice"):
        Tokenizer.from_file(write(tmp_path, "twice.json", json.dumps(held)))


@pytest.mark.parametrize("option", [("--pretokenizer", "gpt2"), ("--split-digits", "3"), ("--normalizer", "nfc")])
@pytest.mark.parametrize("command", ["encode", "tokenize", "report"])
def test_what_belongs_to_the_tokenizer_is_refused_where_it_is_used(command: str, option: tuple[str, str]) -> None:
    message = f"No such option '{option[0]}': it belongs to the tokenizer, whose file says it; `tokenmill train` sets it"
    check_error(call(command, "a.txt", "--tokenizer", "t.json", *option), 2, message)


# --- Unicode and splitting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "texts"), [("reject", ["ok", "fine"]), ("replace", ["ok", "x\ufffd y", "\ufffd bad", "fine"])]
)
def test_lone_surrogates_and_bad_bytes_are_counted_and_harm_no_other_line(tmp_path: Path, policy: str, texts: list[str]) -> None:
    lines = b'{"text": "ok"}\n{"text": "x\\ud83d y"}\n{"text": "\xff bad"}\n{"text": "fine"}\n'
    tokenizer = train(tmp_path, "ok\n", "--merges", "0")
    corpus = write(tmp_path, "a.jsonl", lines)
    rows, manifest = encode(corpus, tokenizer, "--invalid-utf8", policy)
    assert texts_of(rows, tokenizer) == texts
    (file,) = manifest["files"]
    lost = 4 - len(texts)
    assert (file["documents"], file["encoded"], file["rejected"], file["replaced"]) == (4, len(texts), lost, 2 - lost)
    words = ("encode", corpus, "--tokenizer", tokenizer, "--output", tmp_path / "none", "--invalid-utf8", "error")
    check_error(call(*words), 3, "a.jsonl", "row 1", "U+D83D", "--invalid-utf8 replace")


@pytest.mark.parametrize(("policy", "texts"), [("reject", ["ok", "ok"]), ("replace", ["ok", "\ufffd bad", "ok"])])
def test_bad_bytes_between_good_lines_of_text(tmp_path: Path, policy: str, texts: list[str]) -> None:
    corpus = write(tmp_path, "a.txt", b"ok\n\xff bad\nok\n")
    tokenizer = train(tmp_path, b"ok\n\xff bad\nok\n", "--merges", "1", "--invalid-utf8", policy)
    assert json.loads(tokenizer.read_text())["merge_rules"] == [["o", "k"]]
    rows, manifest = encode(corpus, tokenizer, "--invalid-utf8", policy)
    assert texts_of(rows, tokenizer) == texts
    assert (manifest["totals"]["documents"], manifest["totals"]["rejected"]) == (3, 3 - len(texts))
    assert manifest["files"][0]["replaced"] == len(texts) - 2
    for command in (("count",), ("train", "--merges", "1"), ("encode", "--tokenizer", tokenizer)):
        words = (*command, corpus, "--invalid-utf8", "error", "--output", tmp_path / "none")
        check_error(call(*words), 3, "a.txt: row 1: byte 3 of the file is 0xff", "--invalid-utf8 reject")
    assert not (tmp_path / "none").exists()


def test_lowercase_keeps_marks_and_stripping_accents_is_a_switch_of_its_own(tmp_path: Path) -> None:
    text = "में ที่ É e\u0301"
    lower = train(tmp_path, text, "--merges", "2", "--normalizer", "lowercase")
    stripped = train(tmp_path, text, "--merges", "2", "--normalizer", "lowercase", "--normalizer", "strip_accents", name="s.json")
    corpus = write(tmp_path, "a.txt", text)
    assert texts_of(encode(corpus, lower, name="lower")[0], lower) == ["में ที่ é e\u0301"]
    assert texts_of(encode(corpus, stripped, name="stripped")[0], stripped) == ["म ท e e"]


@pytest.mark.parametrize("model", ["char-bpe", "byte-bpe"])
def test_rules_that_hold_spaces_go_into_json_but_not_into_merges_txt(tmp_path: Path, model: str) -> None:
    """Behind none, a document is one word, and a rule may hold its spaces."""
    text = "a b  a b"
    tokenizer = train(tmp_path, text, "--model", model, "--pretokenizer", "none", "--merges", "2")
    refused = call("convert", tokenizer, tmp_path / "gpt2", "--to", "gpt2")
    check_error(refused, 2, "merges.txt", "; use --to ")
    assert not (tmp_path / "gpt2").exists()
    for target in ("native", "huggingface"):
        assert call("convert", tokenizer, tmp_path / target, "--to", target).exit_code == 0
        loaded = Tokenizer.from_file(tmp_path / target)
        assert loaded.decode(loaded.encode(text)) == text and loaded.merge_rules == Tokenizer.from_file(tokenizer).merge_rules


@pytest.mark.parametrize("pretokenizer", NAMED_PRETOKENIZERS)
def test_bytes_come_back_unchanged_and_the_report_says_how_often(tmp_path: Path, pretokenizer: str) -> None:
    """U+FE30 is what a compatibility normalizer would change; runs of spaces are what readers of words lose."""
    texts = ["a  b\tc\n d", "\ufe30", "a b"]
    tokenizer = Tokenizer.from_file(train(tmp_path, "a b\n", "--pretokenizer", pretokenizer, "--merges", "1"))
    (made,) = measure_texts({"t": tokenizer}, texts).tokenizers
    lost = [tokenizer.decode(tokenizer.encode(text)) != text for text in texts]
    assert (made.numbers.checked, made.numbers.changed) == (3, sum(lost))
    assert lost[0] == (pretokenizer in DROP_WHITESPACE) and not lost[1]
    if pretokenizer not in DROP_WHITESPACE:
        assert not any(lost)


# --- encoding and shards ----------------------------------------------------------------------------------------------------


def test_a_special_token_inside_a_document_is_text_unless_allowed(tmp_path: Path) -> None:
    tokenizer = train(tmp_path, "user wrote\n", "--merges", "3", "--special", "<|end|>")
    corpus = write(tmp_path, "a.txt", "user wrote <|end|> here\n")
    end = Tokenizer.from_file(tokenizer).vocab["<|end|>"]
    (plain,), _ = encode(corpus, tokenizer)
    assert end not in plain["input_ids"] and texts_of([plain], tokenizer) == ["user wrote <|end|> here"]
    (allowed,), manifest = encode(corpus, tokenizer, "--allow-special", name="allowed")
    assert allowed["input_ids"].count(end) == 1 and texts_of([allowed], tokenizer) == ["user wrote <|end|> here"]
    assert manifest["totals"]["special_tokens_found"] == 1


@pytest.mark.jit
@pytest.mark.parametrize("model", ["byte-bpe", "char-bpe", "wordpiece", "byte-wordpiece"])
def test_a_million_of_one_character_and_long_random_words(tmp_path: Path, model: str) -> None:
    """Anything worse than nearly linear would take hours."""
    options = ["--model", model, "--pretokenizer", "none", "--merges", "60"]
    options += ["--max-word-characters", "0"] if model == "wordpiece" else []
    text = "\n".join(["^" * 64, *(letter + "ACGT" * 4 + "^" for letter in "ACGT")])
    tokenizer = Tokenizer.from_file(train(tmp_path, text, *options))
    random_word = "".join(random.Random(1).choices("ACGT", k=80_000))
    for word in ("^" * 1_000_000, random_word, "^" + random_word + "^"):
        assert tokenizer.decode(tokenizer.encode(word)) == word


def test_empty_documents_have_rows_of_their_own(tmp_path: Path) -> None:
    tokenizer = train(tmp_path, "a b\n", "--merges", "0")
    for content in ("\na\nb\n", "a\n\nb\n", "\n\n"):
        texts = content.split("\n")[:-1]
        corpus = write(tmp_path, "c.txt", content)
        rows, manifest = encode(corpus, tokenizer, name=f"plain{len(list(tmp_path.iterdir()))}")
        assert [row["doc_id"] for row in rows] == [f"c.txt:{row}" for row in range(len(texts))]
        assert texts_of(rows, tokenizer) == texts and [row["input_ids"] for row in rows].count([]) == texts.count("")
        assert (manifest["totals"]["documents"], manifest["totals"]["rejected"]) == (len(texts), 0)
    framed = train(
        tmp_path, "a b\n", "--merges", "0", "--special", "<s>", "--special", "</s>", "--template", "<s> $A </s>", name="f"
    )
    rows, _ = encode(write(tmp_path, "c.txt", "\na\n\n"), framed, name="framed")
    assert [row["input_ids"] for row in rows] == [[0, 1], [0, Tokenizer.from_file(framed).vocab["a"], 1], [0, 1]]


# --- files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_half_a_compressed_file_is_named_and_nothing_is_published(
    tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]
) -> None:
    whole = compress("".join(f"line {number}\n" for number in range(20_000)).encode())
    tokenizer = train(tmp_path, "line\n", "--merges", "0")
    corpus = write(tmp_path, f"cut.txt.{ending}", whole[: len(whole) // 2])
    for command in (("count",), ("train", "--merges", "1"), ("encode", "--tokenizer", tokenizer)):
        check_error(call(*command, corpus, "--output", tmp_path / "out"), 3, f"cut.txt.{ending}", "runcated")
        assert not (tmp_path / "out").exists()


BAD_LINES = [
    b'{"text": "a", "text": "b"}',
    b"[1, 2]",
    b'{"title": "no text"}',
    b'{"text": null}',
    b'{"text": 5}',
    b'{"text": "half a l',
]


def test_each_bad_line_is_set_aside_with_its_place_and_the_good_ones_are_encoded(tmp_path: Path) -> None:
    lines = [b'{"text": "good"}', b"", *BAD_LINES[:3], b'{"text": "also good"}', *BAD_LINES[3:]]
    corpus, tokenizer = write(tmp_path, "a.jsonl", b"\n".join(lines)), train(tmp_path, "good\n", "--merges", "0")
    rows, manifest = encode(corpus, tokenizer, "--max-rejects", "100%")
    assert texts_of(rows, tokenizer) == ["good", "also good"] and [row["doc_id"] for row in rows] == ["a.jsonl:0", "a.jsonl:5"]
    rejects = rejects_in(tmp_path / "tokens")
    assert [base64.b64decode(reject["raw"]) for reject in rejects] == BAD_LINES
    assert [(reject["file"], reject["row"]) for reject in rejects] == [("a.jsonl", lines.index(line)) for line in BAD_LINES]
    assert all(reject["reason"] for reject in rejects)
    totals = manifest["totals"]
    assert (totals["documents"], totals["encoded"], totals["rejected"]) == (8, 2, 6)


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_a_byte_order_mark_and_returns_are_no_text(tmp_path: Path, name: str, ending: str) -> None:
    lines = [b"a b", b"", b"c"] if name == "a.txt" else [b'{"text": "a b"}', b'{"text": ""}', b'{"text": "c"}']
    content = b"\xef\xbb\xbf" + b"".join(line + b"\r\n" for line in lines)
    corpus = write(tmp_path, name + ending, gzip.compress(content) if ending else content)
    tokenizer = train(tmp_path, "a b c\n", "--merges", "0")
    assert texts_of(encode(corpus, tokenizer)[0], tokenizer) == ["a b", "", "c"]
