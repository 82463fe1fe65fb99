"""Characters as tokens: the alphabet of the corpus, and code points as ids."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given

from tests.strategies import nasty_texts
from tests.training import few_cases, train
from tokenmill.errors import TokenizerFileError, UnknownCharacterError, UsageError, VocabularySizeError
from tokenmill.formats import native
from tokenmill.names import TOKENIZER_FORMATS
from tokenmill.pipeline.cli import main as cli
from tokenmill.reference.words import cut_words
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions

CODE_POINTS = 0x110000


def message_of(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


@pytest.fixture(scope="module")
def by_code_point() -> Tokenizer:
    return train(["ab"], model="char", ids="codepoint", pretokenizer="gpt2", special_tokens=("<s>", "<pad>"))


# --- the characters of the corpus -------------------------------------------------------------------------------------------


def test_tokens_are_the_characters_of_the_corpus() -> None:
    tokenizer = train(["ab bé"], model="char", pretokenizer="gpt2", special_tokens=("<s>",), unk_token="?!")
    assert tokenizer.vocab == {token: place for place, token in enumerate(["<s>", "?!", *"abéĠ"])}
    assert tokenizer.tokenize("é bz") == ["é", "Ġ", "b", "?!"]
    assert (tokenizer.merge_rules, tokenizer.decode(tokenizer.encode("b é"))) == ([], "b é")
    assert native.loads(tokenizer.to_bytes()).to_bytes() == tokenizer.to_bytes()


def test_a_char_model_is_a_char_bpe_without_merges() -> None:
    chosen: dict[str, Any] = {"pretokenizer": "whitespace", "special_tokens": ("<s>",), "ids": "sorted"}
    characters, merging = train(["abc ab"], model="char", **chosen), train(["abc ab"], merges=0, **chosen)
    assert characters.vocab == merging.vocab
    assert characters.encode("cab a") == merging.encode("cab a")
    assert "U+007A" in message_of(lambda: characters.encode("z"), UnknownCharacterError)


def test_options_of_the_alphabet_are_for_characters_too() -> None:
    tokenizer = train(["aab"], model="char", pretokenizer="none", limit_alphabet=1, byte_fallback=True, vocab_size=300)
    assert tokenizer.tokenize("ab") == ["a", "<0x62>"]
    assert len(tokenizer) == 257
    told = message_of(lambda: train(["abc"], model="char", vocab_size=2), VocabularySizeError)
    assert told == (
        "vocabulary size 2 is too small: 3 symbols of the alphabet and 0 special tokens "
        "need at least 3; give more than that, or --limit-alphabet N"
    )


# --- code points ------------------------------------------------------------------------------------------------------------


def test_ids_are_code_points(by_code_point: Tokenizer) -> None:
    assert by_code_point.encode("a Ġ好😀") == [97, 32, 0x120, 0x597D, 0x1F600]
    assert by_code_point.tokenize("a b") == ["a", " ", "b"]
    assert (by_code_point.token_to_id("<s>"), by_code_point.token_to_id("<pad>")) == (CODE_POINTS, CODE_POINTS + 1)
    assert (by_code_point.embedding_rows, len(by_code_point)) == (CODE_POINTS + 2, CODE_POINTS - 2048 + 2)
    assert (by_code_point.id_to_token(97), by_code_point.id_to_token(CODE_POINTS)) == ("a", "<s>")
    assert [by_code_point.id_to_token(number) for number in (0xD800, -1, CODE_POINTS + 2)] == [None] * 3
    assert [by_code_point.token_to_id(token) for token in ("ab", "", "\ud800")] == [None] * 3
    assert by_code_point.decode([CODE_POINTS, 97]) == "<s>a"
    assert by_code_point.decode([CODE_POINTS, 97], skip_special_tokens=True) == "a"
    told = message_of(lambda: by_code_point.decode([0xD800]), UsageError)
    assert told == "id 55296 is no code point of a character, and no special token"


@few_cases(100, 10)
@given(nasty_texts(max_fragments=20))
def test_every_text_is_its_code_points(text: str) -> None:
    for name, tokenizer in CODE_POINT_TOKENIZERS.items():
        kept = "".join(cut_words(name, text, marker=" "))
        assert tokenizer.encode(text) == [ord(character) for character in kept]
        assert tokenizer.decode(tokenizer.encode(text)) == kept


CODE_POINT_TOKENIZERS = {
    name: train(["a"], model="char", ids="codepoint", pretokenizer=name) for name in ("gpt2", "none", "wordpunct")
}


def test_the_file_holds_special_tokens_alone(by_code_point: Tokenizer) -> None:
    content = by_code_point.to_bytes()
    plain = json.loads(content)
    assert (plain["model"], plain["ids"], plain["merge_rules"]) == ("char", "codepoint", [])
    assert plain["vocab"] == {"<s>": CODE_POINTS, "<pad>": CODE_POINTS + 1}
    loaded = native.loads(content)
    assert (loaded.to_bytes(), loaded.encode("好")) == (content, [0x597D])
    assert pickle.loads(pickle.dumps(loaded)).encode("好") == [0x597D]


def test_the_vocabulary_can_be_written_out(by_code_point: Tokenizer) -> None:
    vocab = by_code_point.vocab
    assert len(vocab) == len(by_code_point)
    assert (vocab["a"], vocab["\U0010ffff"], vocab["<pad>"]) == (97, 0x10FFFF, CODE_POINTS + 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"merges": 3}, "merges 3: a char model has none; leave it out, or choose char-bpe"),
        ({"merges": 1, "vocab_size": 300}, "give one of --vocab-size and --merges (vocab_size, merges)"),
        ({"model": "char-bpe"}, "give one of --vocab-size and --merges (vocab_size, merges)"),
        ({"model": "byte-bpe", "merges": 0, "ids": "codepoint"},
         "ids codepoint: a token of a byte-bpe model is more than a character; choose the model char"),
        ({"ids": "codepoint", "vocab_size": 300},
         "vocab size makes no sense with code points as ids: every character has one"),
        ({"ids": "codepoint", "unk_token": "<unk>"}, "unk token makes no sense with code points as ids: every character has one"),
        ({"ids": "codepoint", "limit_alphabet": 3},
         "limit alphabet makes no sense with code points as ids: every character has one"),
    ],
)  # fmt: skip
def test_options_that_cannot_be(changes: dict[str, Any], message: str) -> None:
    told = message_of(lambda: TrainingOptions(**{"model": "char", "pretokenizer": "none", **changes}), UsageError)
    assert told == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"merge_rules": [["a", "b"]], "vocab": {"a": 0, "b": 1, "ab": 2}},
         "merge_rules[0]: a char model has no rules, this is ('a', 'b'); choose char-bpe"),
        ({"ids": "rank"}, "ids: 'rank' is not known; it can be codepoint in a char model"),
        ({"ids": "codepoint", "model": "char-bpe"}, "ids: a char-bpe model has none; leave it out"),
        ({"ids": "codepoint", "merge_rules": [["a", "b"]]}, "merge_rules: there is none where code points are ids; leave it out"),
        ({"ids": "codepoint", "unk": "<s>"}, "unk: there is none where code points are ids; leave it out"),
        ({"ids": "codepoint", "vocab": {"a": 97}},
         "vocab: where code points are ids it holds the special tokens alone; leave the others out"),
        ({"ids": "codepoint", "vocab": {"<s>": 5}, "special_tokens": ["<s>"]},
         "vocab: the id of '<s>' is 5; behind the code points are 1114112 to 2147483646"),
        ({"ids": "codepoint", "vocab": {"x": CODE_POINTS}, "special_tokens": ["x"]},
         "special token 'x' is a character, with its code point for an id; take a longer one"),
        ({"ids": "codepoint", "vocab": {"<a>": CODE_POINTS, "<b>": CODE_POINTS}, "special_tokens": ["<a>", "<b>"]},
         "vocab: id 1114112 stands twice, for '<a>' and '<b>'; give each token its own"),
    ],
)  # fmt: skip
def test_files_that_contradict_themselves(changes: dict[str, Any], message: str) -> None:
    made = {"model": "char", "merge_rules": [], "vocab": {}, **changes}
    assert message_of(lambda: native.loads(json.dumps(made).encode()), TokenizerFileError) == message


@pytest.mark.parametrize("target", [name for name in TOKENIZER_FORMATS if name != "native"])
def test_no_other_format_has_code_points_as_ids(target: str, by_code_point: Tokenizer) -> None:
    assert "use --to native" in message_of(lambda: by_code_point.to_format(target), UsageError)


def test_train_and_encode_by_command(tmp_path: Path) -> None:
    (tmp_path / "corpus.txt").write_text("ab é\n\nc\n")

    def call(*words: str) -> str:
        result = CliRunner().invoke(cli.main, [*words])
        assert result.exit_code == 0, result.output
        return result.stdout

    corpus, output = str(tmp_path / "corpus.txt"), str(tmp_path / "t.json")
    told = call("train", corpus, "--model", "char", "--ids", "codepoint", "--special", "<s>", "--output", output)
    assert "learned  5 characters: vocabulary 1,112,065" in told
    call("encode", corpus, "--tokenizer", output, "--output", str(tmp_path / "tokens"), "--quiet")
    manifest = json.loads((tmp_path / "tokens" / "manifest.json").read_text())
    assert manifest["tokenizer"]["embedding_rows"] == CODE_POINTS + 1
    assert json.loads(call("tokenize", "--tokenizer", output, "é"))["ids"] == [233]
    assert "learned  5 characters: vocabulary 5" in call("train", corpus, "--model", "char", "--output", output)
    assert PreTokenizer("gpt2") == Tokenizer.from_file(output).pretokenizer
