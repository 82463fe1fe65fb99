"""BPE on characters in Hugging Face's tokenizer.json: marks, byte fallback, unknown characters, digits, and how words are cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import make_texts
from tests.strategies import rule_sets
from tests.test_formats_huggingface import ids_of_peer, peer_of, sequence
from tests.test_formats_tiktoken import random_texts
from tests.training import few_cases, train
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import huggingface, recognition
from tokenmill.models.alphabets import byte_tokens
from tokenmill.reference import bpe as reference
from tokenmill.reference import marks as reference_marks
from tokenmill.reference.bpe import Pair
from tokenmill.reference.words import PATTERNS
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

TEXTS = [*make_texts(20), "Ġ a Ġ", "don't 1234567 ٣٤٥ x² 12", "a  b\n\n c ", "", " ", "好 😀 low</w>lower ##a"]
NAMED = ("gpt2", "cl100k", "o200k", "llama3", "qwen2", "whitespace", "whitespace-punct", "none")

#: Models by what is special about them.
MODELS: dict[str, dict[str, Any]] = {
    "char-bpe": {"merges": 60, "unk_token": "<unk>", "special_tokens": ("<s>",), "limit_alphabet": 30},
    "char": {"model": "char", "unk_token": "<unk>", "limit_alphabet": 30},
    "byte fallback": {"merges": 40, "byte_fallback": True, "limit_alphabet": 25},
    "prefix": {"merges": 60, "continuation_prefix": "##", "unk_token": "<unk>", "limit_alphabet": 30},
}


def trained(kind: str, pretokenizer: PreTokenizer | str) -> Tokenizer:
    return train(TEXTS, pretokenizer=pretokenizer, **MODELS[kind])


# --- export -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pretokenizer", NAMED)
def test_same_ids_and_the_same_file_again(kind: str, pretokenizer: str) -> None:
    tokenizer, texts = trained(kind, pretokenizer), [*TEXTS, *random_texts(60)]
    content = huggingface.dumps(tokenizer)
    peer = peer_of(content)
    expected = ids_of_peer(peer, texts)
    assert tokenizer.encode_batch(texts).to_pylist() == expected
    assert peer.to_str(pretty=True).encode() == content
    loaded = recognition.loads(content)
    assert (huggingface.dumps(loaded), loaded.vocab, loaded.merge_rules) == (content, tokenizer.vocab, tokenizer.merge_rules)
    assert loaded.encode_batch(texts).to_pylist() == expected


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("pretokenizer", ["gpt2", "none", "whitespace-punct"])
def test_the_same_text_comes_back(kind: str, pretokenizer: str) -> None:
    tokenizer = train(TEXTS, pretokenizer=pretokenizer, **{**MODELS[kind], "limit_alphabet": None})
    peer = peer_of(huggingface.dumps(tokenizer))
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert peer.decode(ids) == tokenizer.decode(ids)


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("model", ["byte-bpe", "char-bpe"])
@pytest.mark.parametrize("pretokenizer", ["gpt2", "cl100k", "none"])
def test_digits_are_cut_out_first(group: int, model: str, pretokenizer: str) -> None:
    more = {"byte_fallback": True} if model == "char-bpe" else {}
    texts = ["1234567", "a1b22c333d4444 55555,666666", "12 ٣٤٥٦ x²1²", " 1 000 000.50", "9" * 31, *TEXTS]
    tokenizer = train(texts, model=model, pretokenizer=PreTokenizer(pretokenizer, group), merges=90, **more)
    content = huggingface.dumps(tokenizer)
    assert tokenizer.encode_batch(texts).to_pylist() == ids_of_peer(peer_of(content), texts)
    loaded = recognition.loads(content)
    assert (loaded.pretokenizer, huggingface.dumps(loaded)) == (tokenizer.pretokenizer, content)


def test_what_cannot_be_exact_is_refused() -> None:
    for tokenizer, words in (
        (train(TEXTS, pretokenizer="wordpunct", merges=3), "no pre-tokenizer that cuts just as wordpunct does"),
        (train(TEXTS, pretokenizer=PreTokenizer("regex", pattern=r"\w+"), merges=3), "differs from the regex package"),
        (train(TEXTS, pretokenizer="none", merges=3, end_of_word_suffix="</w>"), "no symbol behind the last of a word"),
        (
            train(TEXTS, model="byte-bpe", pretokenizer="gpt2", merges=3, end_of_word_suffix="</w>"),
            "no symbol behind the last of a word, as '</w>' is, only a suffix; use --to native",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            huggingface.dumps(tokenizer)


# --- import -----------------------------------------------------------------------------------------------------------------


def document(vocab: list[str], merges: list[Pair] | list[str], pre_tokenizer: Any = None, **model: Any) -> dict[str, Any]:
    """A file of characters; tokens have ids in order."""
    made = {"type": "BPE", "vocab": {token: place for place, token in enumerate(vocab)}, "merges": merges, **model}
    return {"version": "1.0", "added_tokens": [], "pre_tokenizer": pre_tokenizer, "decoder": None, "model": made}


def load(made: dict[str, Any]) -> Tokenizer:
    return recognition.loads(json.dumps(made).encode())


def check_ids(made: dict[str, Any], texts: list[str]) -> Tokenizer:
    """The file gives the ids of `tokenizers`, now and after a round trip through the native format."""
    loaded = load(made)
    expected = ids_of_peer(peer_of(json.dumps(made).encode()), texts)
    assert loaded.encode_batch(texts).to_pylist() == expected
    assert recognition.loads(loaded.to_bytes()).encode_batch(texts).to_pylist() == expected
    return loaded


WHITESPACE = {"type": "Whitespace"}
DIGITS = {"type": "Split", "pattern": {"Regex": r"\p{Nd}"}, "behavior": "Isolated", "invert": False}


def test_a_suffix_on_the_last_symbol() -> None:
    vocab = ["[UNK]", "l", "o", "w", "w</w>", "o</w>", "lo", "low</w>"]
    made = document(vocab, [("l", "o"), ("lo", "w</w>")], WHITESPACE, end_of_word_suffix="</w>", unk_token="[UNK]")
    made["decoder"] = {"type": "BPEDecoder", "suffix": "</w>"}
    loaded = check_ids(made, ["low lo lol w", "lowlow oo,x low"])
    assert loaded.tokenize("low lo") == ["low</w>", "l", "o</w>"]
    assert loaded.decode(loaded.encode(" low lo")) == "low lo"
    assert recognition.loads(huggingface.dumps(loaded)).vocab == loaded.vocab


@few_cases(150, 15)
@given(
    rule_sets(letters="ab", max_rules=10),
    st.sampled_from([{}, {"suffix": "</w>"}, {"prefix": "##"}]),
    st.lists(st.text("abc ,", max_size=14), max_size=5),
    st.booleans(),
)
def test_any_rules_give_the_ids_of_tokenizers(rules: list[Pair], marks: dict[str, str], texts: list[str], fuse: bool) -> None:
    """Rules that no training made, made of symbols in any of the forms that they can have."""
    suffix, prefix = marks.get("suffix", ""), marks.get("prefix", "")
    merges = [(left, right + suffix) for left, right in rules] + rules if suffix else rules
    if prefix:
        merges = [(left, prefix + right) for left, right in rules] + [(prefix + left, prefix + right) for left, right in rules]
    forms = [*"ab", *(f"{letter}{suffix}" for letter in "ab" if suffix), *(f"{prefix}{letter}" for letter in "ab" if prefix)]
    vocab = list(dict.fromkeys(["?", *forms, *(reference.join_pair(rule, prefix) for rule in merges)]))
    made = document(vocab, merges, WHITESPACE, unk_token="?", fuse_unk=fuse)
    made["model"] |= {"end_of_word_suffix": suffix or None, "continuing_subword_prefix": prefix or None}
    loaded = check_ids(made, texts)
    for text in texts:
        words = loaded.pretokenizer.pretokenize(text)
        marked = [reference_marks.mark_word(word, suffix=suffix, prefix=prefix, attached=bool(suffix)) for word in words]
        found = [reference_marks.look_up_symbols(word, forms, unk="?", fuse_unk=fuse) for word in marked]
        assert loaded.tokenize(text) == [token for word in found for token in reference.encode_word(word, merges, prefix)]


def test_unknown_characters_joined_or_spelt() -> None:
    texts = ["axxb", "xx", "x a xx,好好a", "a好"]
    fused = check_ids(document(["?", "a", "b"], [], None, unk_token="?", fuse_unk=True), texts)
    assert fused.tokenize("axxb") == ["a", "?", "b"]
    made = document([*byte_tokens(), "a", "b", "ab"], [("a", "b")], None, byte_fallback=True, fuse_unk=True)
    spelt = check_ids({**made, "decoder": {"type": "ByteFallback"}}, texts)
    assert spelt.tokenize("ab好") == ["ab", "<0xE5>", "<0xA5>", "<0xBD>"]
    assert spelt.decode(spelt.encode("ab好")) == "ab好"


@pytest.mark.parametrize("kind", MODELS)
def test_bert_goes_with_its_normalizer(kind: str) -> None:
    tokenizer = trained(kind, "bert")
    content = huggingface.dumps(tokenizer)
    assert json.loads(content)["normalizer"]["handle_chinese_chars"] is True
    assert tokenizer.encode_batch(TEXTS).to_pylist() == ids_of_peer(peer_of(content), TEXTS)
    assert huggingface.dumps(recognition.loads(content)) == content
    with pytest.raises(TokenizerFileError, match="BertNormalizer and BertPreTokenizer together"):
        load(document(["a"], [], {"type": "BertPreTokenizer"}))


def test_no_pre_tokenizer_and_an_unk_token_that_is_not_added() -> None:
    check_ids(document(["[UNK]", *"abc ", "ab"], ["a b"], None, unk_token="[UNK]"), ["ab c", "xab"])
    assert load(document(["[UNK]", "a"], [], None, unk_token="[UNK]")).special_tokens == ("[UNK]",)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (document(["a"], [], {"type": "Digits", "individual_digits": True}), "pre_tokenizer: Digits is not known here"),
        (document(["a"], [], sequence(WHITESPACE, WHITESPACE)),
         "pre_tokenizer: Whitespace, Whitespace one after another are not known here"),
        (document(["a"], [], sequence({**DIGITS, "behavior": "Removed"})),
         "pre_tokenizer.pretokenizers[0]: behavior 'Removed' would drop or join digits; Isolated is known here"),
        (document(["a", "b"], [("a", "b")]), "model.merges[0]: ('a', 'b') needs the token 'ab', which vocab lacks"),
        (document(["a", "##b", "a##b"], [("a", "##b")], None, continuing_subword_prefix="##"),
         "model.merges[0]: ('a', '##b') needs the token 'ab', which vocab lacks"),
        (document(["a", "b", "ab"], [("a", "b")], None, continuing_subword_prefix="##"),
         "model.merges[0]: ('a', 'b') does not fit the mark '##'"),
        (document(["a"], [], None, continuing_subword_prefix="##", end_of_word_suffix="</w>"),
         "model: an end-of-word suffix and a continuation prefix do not go together; give one of them"),
        (document(["a"], [], None, byte_fallback=True),
         "vocab: byte_fallback needs all 256 byte tokens; 256 are missing, first '<0x00>'"),
        (document(["a"], [], None, dropout=0.5), "model.dropout: 0.5 is not known here"),
        (document(["a"], [], None, ignore_merges=True),
         "ignore_merges: a char-bpe model cannot do that, only byte-bpe without marks; leave it out"),
        (document(["a"], [], None, end_of_word_suffix=3), "model.end_of_word_suffix: 3 found where str belongs"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_its_place(made: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerFileError) as caught:
        load(made)
    assert str(caught.value) == message


def test_spaces_that_stay_spaces_need_byte_fallback() -> None:
    split = {"type": "Split", "pattern": {"Regex": PATTERNS["gpt2"]}, "behavior": "Isolated", "invert": False}
    with pytest.raises(TokenizerFileError, match="spaces stay as they are behind gpt2; that is known here with byte_fallback"):
        load(document(["a", " ", " a"], [(" ", "a")], split))
    check_ids(document([*byte_tokens(), "a", " ", " a"], [(" ", "a")], split, byte_fallback=True), ["a a  a", "Ġa"])
    with pytest.raises(TokenizerFileError, match='"Ġ" holds Ġ, which stands for a space here'):
        load(document([*byte_tokens(), "a", " ", "Ġ"], [], split, byte_fallback=True))


# --- transformers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*MODELS, "byte-bpe"])
def test_transformers_gives_the_same_ids(kind: str, tmp_path: Path) -> None:
    import transformers

    tokenizer = trained(kind, "gpt2") if kind in MODELS else train(TEXTS, model="byte-bpe", pretokenizer="cl100k", merges=60)
    (tmp_path / "tokenizer.json").write_bytes(huggingface.dumps(tokenizer))
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert fast(TEXTS, add_special_tokens=False)["input_ids"] == tokenizer.encode_batch(TEXTS).to_pylist()
