r"""Tokens as people see them: the text that they stand for, whatever the model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from tests.strategies import nasty_bytes, nasty_texts
from tests.test_cli import call
from tests.training import few_cases, train
from tests.wordpieces import byte_tokenizer_of, tokenizer_of
from tokenmill.models.kinds import KINDS, default_pretokenizer
from tokenmill.models.showing import show_spelling, show_symbol, show_token, spell_out
from tokenmill.report import as_html, as_json, as_text
from tokenmill.report.numbers import measure_texts
from tokenmill.tokenizer import Tokenizer

TEXTS = ["Füße über 如果您 naïve", "如果您 如果您\tFüße Füße"]


@pytest.mark.parametrize(
    ("spelling", "shown"),
    [
        (b" the", "␣the"),
        ("如果".encode(), "如果"),
        (b"\xe1", "\\xe1"),
        (b"a\xe5\xa6", "a\\xe5\\xa6"),
        (b"\x1b[0m\n", "\\x1b[0m\\n"),
        ("\u202e\u009b".encode(), "\\u202e\\x9b"),
        (b"a" * 60, "a" * 60),
        (b"a" * 13_621, "a" * 40 + "... (13,621 characters)"),
        ("é".encode() * 61, "é" * 40 + "... (61 characters)"),
        (b"\xff" * 61, "\\xff" * 40 + "... (61 characters)"),
        (b"", ""),
    ],
)
def test_bytes_are_shown_as_text(spelling: bytes, shown: str) -> None:
    assert show_spelling(spelling) == shown


def test_marks_stay() -> None:
    suffix = train(["low low"], pretokenizer="whitespace", merges=3, end_of_word_suffix="</w>")
    assert show_token(suffix.model, "low</w>") == "low</w>" and show_token(suffix.model, "</w>") == "</w>"
    words = tokenizer_of(["a", "##a", "##"])
    assert [show_token(words.model, token) for token in ("##a", "##", "[UNK]")] == ["##a", "##", "[UNK]"]
    assert show_token(byte_tokenizer_of(["##å¦Ĥ"]).model, "##å¦Ĥ") == "##如"


def test_special_tokens_and_byte_tokens_are_themselves() -> None:
    tokenizer = train(["ab"], merges=1, byte_fallback=True, special_tokens=("<a b>", "<Ġ>"))
    assert [show_token(tokenizer.model, token) for token in ("<a b>", "<Ġ>", "<0x41>", "<0xE1>")] == [
        *("<a␣b>", "<Ġ>", "<0x41>", "<0xE1>")
    ]


@few_cases(60, 20)
@given(nasty_texts(max_fragments=8) | nasty_bytes(max_fragments=8))
def test_what_is_shown_is_one_line_that_prints(text: str | bytes) -> None:
    shown = show_spelling(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text)
    assert shown.isprintable() and " " not in shown.removesuffix(" characters)").replace("... (", "")


@pytest.mark.parametrize("model", KINDS)
def test_every_token_of_every_model_shows_its_text(model: str) -> None:
    size: dict[str, Any] = {} if not KINDS[model].has_merges else {"merges": 20}
    tokenizer = train(TEXTS, model=model, pretokenizer=default_pretokenizer(model), special_tokens=("<s>",), **size)
    for token, token_id in tokenizer.vocab.items():
        shown, text = show_token(tokenizer.model, token), spell_out(tokenizer.model, token_id)
        assert text == tokenizer.decode_bytes([token_id]).decode("utf-8", "backslashreplace")
        if text.isprintable() and token not in tokenizer.special_tokens:
            assert shown.removeprefix("##" if token.startswith("##") else "") == text.replace(" ", "␣")
            assert shown == show_symbol(tokenizer.model.alphabet, token)


def save(folder: Path, **options: Any) -> tuple[Path, Tokenizer]:
    tokenizer = train(TEXTS, model="byte-bpe", pretokenizer="gpt2", **options)
    tokenizer.save(folder / "tokenizer.json")
    return folder / "tokenizer.json", tokenizer


def run(*words: str | Path) -> str:
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.stdout + result.stderr


def test_tokenize_gives_the_text_of_each_token(tmp_path: Path) -> None:
    path, tokenizer = save(tmp_path, merges=8)
    told = json.loads(run("tokenize", "--tokenizer", path, "naïve 如 á"))
    assert told["texts"] == [spell_out(tokenizer.model, token_id) for token_id in told["ids"]]
    assert "\\xc3" in told["texts"] and " " in "".join(told["texts"]) and "Ġ" not in "".join(told["texts"])
    whole = json.loads(run("tokenize", "--tokenizer", path, "a b"))
    assert "".join(whole["texts"]) == "a b" and len(whole["texts"]) == len(whole["tokens"])


def test_training_tells_of_text_not_of_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join(TEXTS * 2))
    options = ("--model", "byte-bpe", "--pretokenizer", "gpt2", "--merges", "40", "--workers", "1")
    told = run("train", tmp_path / "a.txt", "--output", tmp_path / "t.json", *options)
    assert "first rules: " in told and "如果您" in told and "\\xe5 + \\xa6" in told
    assert not re.search("[ĠÃå¦Ĥ]", told)


def test_long_tokens_are_cut_in_the_summary(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 5000)
    told = run("train", tmp_path / "a.txt", "--output", tmp_path / "t.json", "--merges", "40", "--workers", "1")
    assert "long tokens: " + "a" * 40 + "... (" in told and "a" * 61 not in told


def test_a_report_shows_text_in_every_form() -> None:
    tokenizer = train(["á á", "a" * 99], model="byte-bpe", pretokenizer="gpt2", merges=99)
    made = measure_texts({"t.json": tokenizer}, ["à", "á á" + "a" * 99])
    told = json.loads(as_json.render(made))["tokenizers"][0]["vocabulary"]["most_used"]
    long = "a" * 40 + "... (99 characters)"
    shown = {one["token"]: one["shown"] for one in told}
    assert (shown["Ã"], shown["ł"], shown["ĠÃ¡"], shown["a" * 99]) == ("\\xc3", "\\xa0", "␣á", long)
    for form in (as_text.render(made), as_html.render(made)):
        assert "\\xc3" in form and long in form and "a" * 41 not in form and not re.search("[ĠÃÂ]", form)
