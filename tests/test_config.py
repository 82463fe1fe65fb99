"""Configuration files: what is accepted, and the words for everything that is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.training import train as train_texts
from tokenmill.errors import ConfigError
from tokenmill.models.kinds import KINDS
from tokenmill.pipeline import config
from tokenmill.pipeline.build import make_training
from tokenmill.pipeline.cli import main as cli
from tokenmill.pipeline.cli.train_options import make_training as make_training_of_options
from tokenmill.pipeline.config import BuildConfig, load_config, parse_config
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer

CONFIGS = Path(__file__).resolve().parents[1] / "configs"
MINIMAL = """\
input: {inputs: [a.txt]}
train: {model: byte-bpe, pretokenizer: gpt2, vocab_size: 300}
output: {folder: out}
"""


def complaint(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, name="c.yaml")
    return str(caught.value)


def test_defaults_are_those_of_the_command_line() -> None:
    config = parse_config(MINIMAL)
    assert config.model_dump() == {
        "input": {
            "inputs": ["a.txt"],
            "format": "auto",
            "encoding": "utf-8",
            "delimiter": None,
            "max_window": 128,
            "text_column": "text",
            "id_column": None,
            "document": "line",
            "limit": None,
            "invalid_utf8": "reject",
            "max_document_mb": 128,
            "max_rejects": None,
        },
        "train": {
            "model": "byte-bpe",
            "pretokenizer": "gpt2",
            "split_digits": None,
            "pattern": None,
            "normalizer": [],
            "template": None,
            "pair_template": None,
            "vocab_size": 300,
            "merges": None,
            "ties": "smallest",
            "ids": "rank",
            "special": [],
            "unk": None,
            "min_count": 1,
            "strict": False,
            "max_token_length": None,
            "limit_alphabet": None,
            "end_of_word_suffix": None,
            "continuation_prefix": None,
            "byte_fallback": False,
            "extend": None,
            "score": None,
            "max_word_characters": None,
        },
        "encode": {
            "enabled": True,
            "block": None,
            "pack": None,
            "tail": None,
            "eos": None,
            "pad": None,
            "segment_ids": False,
            "position_ids": False,
            "shuffle": None,
            "pair_column": None,
            "max_length": None,
            "stride": 0,
            "overflow": None,
            "truncate": None,
            "pad_to": None,
            "attention_mask": False,
            "token_type_ids": False,
            "special_tokens_mask": False,
            "offsets": None,
            "special_tokens": True,
            "allow_special": False,
        },
        "report": {"enabled": False, "limit": None, "by": None, "by_file": False},
        "output": {"folder": "out"},
        "workers": None,
        "split_mb": 32,
        "beam": [],
    }


def test_one_text_stands_for_a_list_of_one() -> None:
    config = parse_config(MINIMAL.replace("[a.txt]", "a.txt") + "beam: --runner=FlinkRunner\n")
    assert (config.input.inputs, config.beam) == (["a.txt"], ["--runner=FlinkRunner"])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("vocab_size", "vocab_sise", "c.yaml: train.vocab_sise: no such key; did you mean vocab_size?"),
        ("output:", "workerz: 3\noutput:", "c.yaml: workerz: no such key; did you mean workers?"),
        ("folder: out", "folder: out, q: 1", "c.yaml: output.q: no such key; there are folder"),
        ("output: {folder: out}", "", "c.yaml: output: missing, and has no default; add it"),
        ("[a.txt]", "[]", "c.yaml: input.inputs: []: List should have at least 1 item after validation, not 0"),
        (
            "byte-bpe",
            "bpe",
            "c.yaml: train.model: 'bpe': must be 'byte-bpe', 'char-bpe', 'char', 'wordpiece' or 'byte-wordpiece'",
        ),
        ("300", "'300'", "c.yaml: train.vocab_size: '300': must be a valid integer"),
        ("300", "0", "c.yaml: train.vocab_size: 0: must be greater than or equal to 1"),
        ("300", "true", "c.yaml: train.vocab_size: True: must be a valid integer"),
        ("300", "300, unk: no", "c.yaml: train.unk: False: must be a valid string"),
        ("300", "300, merges: 5", "c.yaml: train: give exactly one of vocab_size and merges: both are given"),
        (", vocab_size: 300", "", "c.yaml: train: give exactly one of vocab_size and merges: none is given"),
        ("{folder: out}", "out", "c.yaml: output: 'out': must be a mapping of keys; write each on a line"),
        ("output:", "split_mb: .inf\noutput:", "c.yaml: split_mb: inf: must be a finite number"),
        ("output:", "workers: 0\noutput:", "c.yaml: workers: 0: must be greater than or equal to 1"),
        ("output:", f"beam: [{'[1], ' * 30}]\noutput:", "c.yaml: 30 errors\n  beam.0: [1]: must be a valid string\n"),
        ("a.txt", "a.txt, 7", "c.yaml: input.inputs.1: 7: must be a valid string"),
        ("300", "300, vocab_size: 4", "c.yaml: line 2, column 63: key 'vocab_size' is given twice (first on line 2); keep one"),
        ("output:", "input: {}\noutput:", "c.yaml: line 3, column 1: key 'input' is given twice (first on line 1); keep one"),
        ("{folder", "{folder: [", "c.yaml: line 3, column "),
        ("out}", "!!python/object/apply:os.getcwd []}", "c.yaml: line 3, column 18: could not determine a constructor"),
    ],
)
def test_a_fault_is_named_with_its_place_and_what_is_allowed(old: str, new: str, words: str) -> None:
    assert old in MINIMAL
    assert complaint(MINIMAL.replace(old, new)).startswith(words)


def test_wordpiece_has_a_pretokenizer_of_its_own() -> None:
    from tokenmill.pipeline.build import make_training

    text = MINIMAL.replace("byte-bpe, pretokenizer: gpt2", "wordpiece, score: frequency, max_word_characters: 0")
    training = make_training(parse_config(text))
    assert (str(training.pretokenizer), training.unk_token, training.score, training.max_word_characters) == (
        *("bert", "[UNK]", "frequency", 0),
    )


@pytest.mark.parametrize("model", KINDS)
@pytest.mark.parametrize(
    "cutting", [{}, {"pattern": "[ab]+"}, {"split_digits": 3}, {"pretokenizer": "wordpunct", "split_digits": 1}]
)
def test_a_build_has_the_defaults_of_the_command_train(model: str, cutting: dict[str, Any]) -> None:
    size = {"vocab_size": 600} if KINDS[model].has_merges else {}
    config: dict[str, Any] = {
        "input": {"inputs": ["a"]},
        "train": {"model": model, **size, **cutting},
        "output": {"folder": "out"},
    }
    words = ["x", "--output", "t.json", "--model", model]
    for name, value in {**size, **cutting}.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    context = cli.train.make_context("train", words)
    expected = make_training_of_options(None, context.params)
    assert make_training(parse_config(json.dumps(config))) == expected
    if not cutting:
        assert str(PreTokenizer.of(expected.pretokenizer)) == KINDS[model].pretokenizer


def test_a_tokenizer_that_is_extended_brings_its_pretokenizer_and_normalizer(tmp_path: Path) -> None:
    path = str(tmp_path / "old.json")
    train_texts(["Ab ab"], pretokenizer="wordpunct", merges=1, normalizer=Normalizer(("lowercase",))).save(path)
    section = {"model": "char-bpe", "extend": path, "merges": 2}
    training = make_training(parse_config(json.dumps({"input": {"inputs": ["a"]}, "train": section, "output": {"folder": "o"}})))
    assert (str(training.pretokenizer), str(training.normalizer)) == ("wordpunct", "lowercase")


def test_a_long_value_is_shortened() -> None:
    words = complaint(MINIMAL.replace("byte-bpe", "x" * 1000))
    assert (
        words == f"c.yaml: train.model: '{'x' * 56}...: must be 'byte-bpe', 'char-bpe', 'char', 'wordpiece' or 'byte-wordpiece'"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "c.yaml: nothing found where the keys input, train, encode, report, output, workers, split_mb, beam belong"),
        ("- a\n", "c.yaml: a list found where the keys input,"),
        ("just text", "c.yaml: a str found where the keys input,"),
        ("a: \x00", "c.yaml: unacceptable character #x0000: special characters are not allowed; the file must be YAML"),
        ("[" * 1000, "c.yaml: "),
        ("a: 2024-99-99", "c.yaml: month must be in 1..12"),
    ],
)
def test_a_text_that_is_no_configuration_is_refused(text: str, words: str) -> None:
    assert complaint(text).startswith(words)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    missing, binary = tmp_path / "none.yaml", tmp_path / "binary.yaml"
    binary.write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError) as caught:
        load_config(str(missing))
    assert str(caught.value) == (
        f"{missing}: cannot be read (No such file or directory); configs/quickstart.yaml is one to start from"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(str(binary))
    assert str(caught.value) == f"{binary}: byte 3 is not UTF-8; save the file as UTF-8"


def test_a_byte_order_mark_is_not_part_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_text(MINIMAL, encoding="utf-8-sig")
    assert load_config(str(path)) == parse_config(MINIMAL)


def test_quickstart_says_what_the_readme_says() -> None:
    config = load_config(str(CONFIGS / "quickstart.yaml"))
    assert config.input.inputs == ["stdlib"]
    assert (config.train.model, config.train.pretokenizer, config.train.vocab_size) == ("byte-bpe", "gpt2", 8192)
    assert config.output.folder == "out/quickstart"


def test_ewt_trains_a_thousand_merges_on_ten_thousand_sentences() -> None:
    config = load_config(str(CONFIGS / "ewt.yaml"))
    assert config.input.inputs == ["hf:universal-dependencies/universal_dependencies:en_ewt@2.18:train[:10000]"]
    train = config.train
    assert (train.model, train.pretokenizer, train.merges) == ("char-bpe", "wordpunct", 1000)
    assert (train.ties, train.ids) == ("first-seen", "sorted")


def test_quickstart_teaches_every_key_with_its_true_default() -> None:
    """A key is there, or commented out with its default: uncommenting all of those must change nothing but `beam`."""
    text = (CONFIGS / "quickstart.yaml").read_text(encoding="utf-8")
    commented = [line for line in text.splitlines() if line.lstrip().startswith("# ")]
    shown = text
    for line in commented:
        key = line.lstrip()[2:].partition(":")[0]
        if key in all_keys(BuildConfig) - {"beam", "merges"}:
            shown = shown.replace(line, line.replace("# ", "", 1))
    assert parse_config(shown) == parse_config(text)
    missing = [key for key in all_keys(BuildConfig) if f"{key}:" not in text]
    assert missing == []


def all_keys(model: type[BaseModel]) -> set[str]:
    keys = set(model.model_fields)
    for field in model.model_fields.values():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            keys |= all_keys(field.annotation)
    return keys


def test_aliases_do_not_multiply() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12))]
    with pytest.raises(ConfigError, match="aliases stand for more than 4,194,304 values"):
        parse_config("\n".join(lines))
    with pytest.raises(ConfigError, match="or for themselves"):
        parse_config("input: &a {inputs: [*a]}")


def test_a_configuration_has_a_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "MOST_BYTES", 10)
    (tmp_path / "a.yaml").write_text("input: {inputs: []}")
    with pytest.raises(ConfigError, match="larger than 10 bytes"):
        load_config(str(tmp_path / "a.yaml"))
