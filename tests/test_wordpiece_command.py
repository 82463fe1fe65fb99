"""WordPiece on the command line: train, encode with what is lost counted, decode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tokenmill.pipeline.cli.main import main

NEWEST = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text(NEWEST + "\n", encoding="utf-8")
    return path


def train(corpus: Path, *options: object) -> dict[str, object]:
    target = corpus.parent / "tokenizer.json"
    result = run("train", corpus, "--output", target, "--model", "wordpiece", "--quiet", *options)
    assert result.exit_code == 0, result.output
    content: dict[str, object] = json.loads(target.read_bytes())
    return content


def test_train_by_likelihood_is_the_default(corpus: Path) -> None:
    made = train(corpus, "--vocab-size", 16)
    assert made["merge_rules"] == [["w", "##i"], ["wi", "##d"], ["l", "##o"], ["##s", "##t"]]
    assert (made["pretokenizer"], made["unk"], made["special_tokens"]) == ("bert", "[UNK]", ["[UNK]"])
    assert (made["continuation_prefix"], made["max_word_characters"]) == ("##", 100)
    assert train(corpus, "--vocab-size", 15, "--unk", "")["merge_rules"] == made["merge_rules"]


def test_train_with_options(corpus: Path) -> None:
    specials = [option for token in ("[PAD]", "[UNK]", "[CLS]") for option in ("--special", token)]
    made = train(
        corpus, "--merges", 2, "--score", "frequency", "--continuation-prefix", "@", "--max-word-characters", 0, *specials
    )
    assert made["merge_rules"] == [["@e", "@s"], ["@es", "@t"]]
    assert (made["max_word_characters"], made["special_tokens"]) == (None, ["[PAD]", "[UNK]", "[CLS]"])


def test_options_of_wordpiece_are_refused_elsewhere(corpus: Path) -> None:
    result = run("train", corpus, "--output", corpus.parent / "t.json", "--merges", 2, "--score", "frequency")
    assert (result.exit_code, result.output) == (
        2,
        "tokenmill: score 'frequency' is for wordpiece, byte-wordpiece, not for byte-bpe; leave it out\n",
    )


def test_words_that_are_lost_are_counted(corpus: Path) -> None:
    train(corpus, "--vocab-size", 16)
    texts, output = corpus.parent / "texts.txt", corpus.parent / "tokens"
    texts.write_text(f"lows estimate low\n\nxyz {'l' * 101}\n", encoding="utf-8")
    result = run("encode", texts, "--tokenizer", corpus.parent / "tokenizer.json", "--output", output)
    assert "lost     3 words became the unk token: 2 unknown, 1 too long\n" in result.output
    manifest = json.loads((output / "manifest.json").read_bytes())
    assert (manifest["totals"]["unknown_words"], manifest["totals"]["long_words"]) == (2, 1)
    assert (manifest["totals"]["encoded"], manifest["totals"]["rejected"]) == (3, 0)
    shown = run("decode", output)
    assert [json.loads(line)["text"] for line in shown.output.splitlines()] == ["lows [UNK] low", "", "[UNK] [UNK]"]


def test_where_every_word_has_ids_nothing_is_said(corpus: Path) -> None:
    train(corpus, "--vocab-size", 16)
    output = corpus.parent / "tokens"
    result = run("encode", corpus, "--tokenizer", corpus.parent / "tokenizer.json", "--output", output)
    assert "unk token" not in result.output
    assert b"unknown_words" not in (output / "manifest.json").read_bytes()


def test_without_an_unk_token_the_document_is_set_aside(corpus: Path) -> None:
    train(corpus, "--vocab-size", 15, "--unk", "")
    texts, output = corpus.parent / "texts.txt", corpus.parent / "tokens"
    texts.write_text("low\nlow x\n", encoding="utf-8")
    assert run("encode", texts, "--tokenizer", corpus.parent / "tokenizer.json", "--output", output).exit_code == 0
    rejects = (output / "rejects" / "part-00000-of-00001.jsonl").read_text(encoding="utf-8")
    assert (
        "document texts.txt:1, character 4: 'x' (U+0078) in the word 'x' begins no token that fits"
        in json.loads(rejects)["reason"]
    )
