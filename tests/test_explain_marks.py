"""Explaining what is beside the plain symbols: marks on words, byte tokens, joined unknown characters, characters as tokens."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.explaining import check_explained
from tests.strategies import nasty_texts
from tests.training import few_cases, train
from tokenmill.explain.encoding import explain_text
from tokenmill.models.alphabets import ByteAlphabet, CharacterAlphabet, visible_bytes
from tokenmill.models.bpe import BpeModel
from tokenmill.models.marks import MarkedAlphabet, WordMarks
from tokenmill.pipeline.explain_command import describe_text
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

LETTERS = "the cat sat on the mat, abba aab é好"


def marked(marks: WordMarks, *, model: str, pretokenizer: str = "gpt2") -> Tokenizer:
    """A tokenizer with two rules, as files of other programs may be: every base symbol in both of its forms."""
    cutter = PreTokenizer(pretokenizer)
    base = ByteAlphabet() if model == "byte-bpe" else CharacterAlphabet(cutter.marks_spaces)
    letters = visible_bytes() if model == "byte-bpe" else "abĠ"
    rules = [("a", marks.put_on("b")), ("b", marks.put_on("a"))]
    alphabet = MarkedAlphabet(base, marks)
    tokens = dict.fromkeys([*letters, *map(marks.put_on, letters), *(alphabet.join(*rule) for rule in rules)])
    vocab = {token: place for place, token in enumerate(["<unk>", *tokens])}
    return Tokenizer(BpeModel(model, alphabet, vocab, tuple(rules), ("<unk>",), "<unk>"), pretokenizer=cutter)


def test_a_suffix_is_the_last_symbol() -> None:
    tokenizer = train(["low low lower"], pretokenizer="wordpunct", merges=3, end_of_word_suffix="</w>", ties="first-seen")
    (word,) = explain_text(tokenizer, "low").words
    assert (word.word, word.characters, word.symbols) == ("low", (0, 3), ("l", "o", "w", "</w>"))
    assert [merge.symbols for merge in word.merges] == [("lo", "w", "</w>"), ("low", "</w>"), ("low</w>",)]
    assert (word.tokens, word.spells) == (("low</w>",), ("low",))
    assert "symbols     l o w </w>\n" in describe_text(explain_text(tokenizer, "low"), tokenizer.model)


def test_a_prefix_stands_in_front_of_a_token_once() -> None:
    tokenizer = train(["low low lower"], pretokenizer="whitespace-punct", merges=2, continuation_prefix="##", ties="first-seen")
    (word,) = explain_text(tokenizer, "low").words
    assert (word.symbols, word.tokens) == (("l", "##o", "##w"), ("low",))
    assert [(merge.left, merge.right, merge.symbols) for merge in word.merges] == [
        *(("l", "##o", ("lo", "##w")), ("lo", "##w", ("low",))),
    ]


def test_text_that_looks_like_the_suffix_is_none() -> None:
    for unk in ("<unk>", None):
        tokenizer = train(["ab ab"], pretokenizer="whitespace", merges=9, end_of_word_suffix="_", unk_token=unk)
        explained = explain_text(tokenizer, "ab_")
        (word,) = explained.words
        assert (word.symbols, word.tokens) == (("a", "b", "_", "_"), ("ab", unk or "_", "_"))
        assert [(one.character, one.at, one.becomes) for one in explained.unknown] == [("_", 2, unk)]
        assert (None in word.ids) == (unk is None)


def test_bytes_spell_an_unknown_character() -> None:
    tokenizer = train(["ab ab"], pretokenizer="gpt2", merges=1, byte_fallback=True)
    explained = explain_text(tokenizer, "abéĠ")
    assert [word.symbols for word in explained.words] == [("a", "b", "é", "Ġ")]
    assert explained.tokens == ("ab", "<0xC3>", "<0xA9>", "<0xC4>", "<0xA0>")
    assert [(one.character, one.becomes) for one in explained.unknown] == [("é", "<0xC3><0xA9>"), ("Ġ", "<0xC4><0xA0>")]
    assert (explained.same, "becomes <0xC3><0xA9>" in describe_text(explained, tokenizer.model)) == (True, True)


def test_unknown_characters_side_by_side_are_one_token() -> None:
    vocab = {"<unk>": 0, "a": 1, "b": 2, "ab": 3}
    model = BpeModel("char-bpe", CharacterAlphabet(False), vocab, (("a", "b"),), ("<unk>",), "<unk>", fuse_unk=True)
    tokenizer = Tokenizer(model, pretokenizer=PreTokenizer("none"))
    (word,) = explain_text(tokenizer, "éüabé").words
    assert (word.tokens, [merge.symbols for merge in word.merges]) == (("<unk>", "ab", "<unk>"), [("éü", "ab", "é")])
    assert [one.at for one in explain_text(tokenizer, "éüabé").unknown] == [0, 1, 4]
    check_explained(tokenizer, "éüabé")


def test_characters_are_tokens() -> None:
    by_code_point = train(["ab"], model="char", ids="codepoint", pretokenizer="gpt2", special_tokens=("<s>",))
    explained = explain_text(by_code_point, "a é")
    assert (explained.tokens, explained.ids, explained.same) == (("a", " ", "é"), (97, 32, 233), True)
    shown = describe_text(explained, by_code_point.model)
    assert "model       char: a symbol is a character, and a token\n" in shown and "no rule applies" in shown


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"end_of_word_suffix": "</w>"},
            {"end_of_word_suffix": "_"},
            {"continuation_prefix": "##"},
            {"continuation_prefix": "a"},
        ),
        *({"byte_fallback": True}, {"byte_fallback": True, "end_of_word_suffix": "</w>"}),
        *({"model": "byte-bpe", "end_of_word_suffix": "</w>"}, {"model": "char", "merges": None}),
        {"model": "char", "merges": None, "ids": "codepoint", "unk_token": None},
    ],
    ids=str,
)
@few_cases(25, 3)
@given(text=nasty_texts(max_fragments=12) | st.text("abĠ_ é", max_size=20))
def test_explained_ids_are_those_of_the_tokenizer(options: dict[str, Any], text: str) -> None:
    for pretokenizer in ("gpt2", "wordpunct", "none"):
        tokenizer = train([LETTERS], **{"pretokenizer": pretokenizer, "merges": 12, "unk_token": "<unk>", **options})
        check_explained(tokenizer, text)


@pytest.mark.parametrize("model", ["char-bpe", "byte-bpe"])
@few_cases(30, 5)
@given(text=st.text("ab é", max_size=20))
def test_explained_ids_under_marks_of_other_programs(model: str, text: str) -> None:
    for marks in (WordMarks(suffix="</w>", attached=True), WordMarks(prefix="##")):
        check_explained(marked(marks, model=model), text)
