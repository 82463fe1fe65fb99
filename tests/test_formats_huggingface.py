"""Hugging Face's tokenizer.json: ids and bytes as `tokenizers` has them; what is not known here is refused by its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.corpora import make_texts
from tests.strategies import rule_sets
from tests.test_formats_tiktoken import VOCABULARIES, load_ranks, random_texts
from tests.training import few_cases, train
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import huggingface, recognition
from tokenmill.formats.building import build_tokenizer
from tokenmill.models.alphabets import visible_bytes
from tokenmill.reference.words import PATTERNS
from tokenmill.tokenizer import Tokenizer

SPECIALS = ("<s>", "<|end|>")
EXPORTED = ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "whitespace", "none"]


def peer_of(content: bytes) -> Any:
    return tokenizers.Tokenizer.from_str(content.decode())


def ids_of_peer(peer: Any, texts: list[str]) -> list[list[int]]:
    return [encoding.ids for encoding in peer.encode_batch(texts, add_special_tokens=False)]


def small(pretokenizer: str = "gpt2") -> Tokenizer:
    return train(make_texts(20), model="byte-bpe", pretokenizer=pretokenizer, merges=60, special_tokens=SPECIALS)


# --- export -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pretokenizer", EXPORTED)
class TestExport:
    def test_same_ids(self, pretokenizer: str) -> None:
        tokenizer, texts = small(pretokenizer), [*make_texts(20), *random_texts(60), "a \n b  \n", "x  ", "x \n\n  "]
        peer = peer_of(huggingface.dumps(tokenizer))
        expected = ids_of_peer(peer, texts)
        assert tokenizer.encode_batch(texts).to_pylist() == expected
        assert [peer.decode(ids) for ids in expected] == [tokenizer.decode(ids) for ids in expected] == texts
        assert peer.get_vocab() == tokenizer.vocab

    def test_same_bytes_as_tokenizers_writes(self, pretokenizer: str) -> None:
        content = huggingface.dumps(small(pretokenizer))
        assert peer_of(content).to_str(pretty=True).encode() == content

    def test_round_trip(self, pretokenizer: str) -> None:
        tokenizer = small(pretokenizer)
        content = huggingface.dumps(tokenizer)
        loaded = recognition.loads(content)
        assert huggingface.dumps(loaded) == content
        loaded.training = tokenizer.training
        assert loaded.to_bytes() == tokenizer.to_bytes()


@pytest.mark.jit
@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabularies_of_rank_files(name: str, data_folder: Path, real_texts: list[str]) -> None:
    _, tokenizer = load_ranks(data_folder, name)
    content = huggingface.dumps(tokenizer)
    texts = [*real_texts[:1000], *random_texts(1000)]
    assert tokenizer.encode_batch(texts).to_pylist() == ids_of_peer(peer_of(content), texts)
    assert recognition.loads(content).to_bytes() == tokenizer.to_bytes()


def test_what_cannot_be_exact_is_refused() -> None:
    with pytest.raises(UsageError, match="no pre-tokenizer that cuts just as wordpunct does; use --to native"):
        huggingface.dumps(small("wordpunct"))


# --- import -----------------------------------------------------------------------------------------------------------------


def document(**changes: Any) -> dict[str, Any]:
    """A small file with changes at the top, or, under `model__dropout`, inside a component."""
    made: dict[str, Any] = json.loads(huggingface.dumps(SMALL))
    for key, value in changes.items():
        *outer, last = key.split("__")
        target = made
        for part in outer:
            target = target[int(part) if part.isdigit() else part]
        target[int(last) if last.isdigit() else last] = value
    return made


SMALL = build_tokenizer(
    {**{token: place for place, token in enumerate(sorted(visible_bytes()))}, "ab": 256, "abc": 257, "<s>": 258},
    [("a", "b"), ("ab", "c")],
    pretokenizer="gpt2",
    special_tokens=["<s>"],
    rule_place=str,
)
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
SPLIT = {"type": "Split", "pattern": {"Regex": PATTERNS["llama3"]}, "behavior": "Isolated", "invert": False}


def sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": list(steps)}


@few_cases(200, 15)
@given(rule_sets(), st.booleans(), st.lists(st.text("ab", min_size=2, max_size=5), max_size=5), st.data())
def test_any_rules_give_the_ids_of_tokenizers(
    rules: list[tuple[str, str]], ignore_merges: bool, more: list[str], data: st.DataObject
) -> None:
    """Rules that no training made, tokens that no rule makes, with and without looking words up first."""
    tokens = dict.fromkeys([*sorted(visible_bytes()), *(left + right for left, right in rules), *more])
    made = document(model__vocab={token: place for place, token in enumerate(tokens)}, model__ignore_merges=ignore_merges)
    made["added_tokens"], made["pre_tokenizer"] = [], BYTE_LEVEL
    made["model"]["merges"] = [f"{left} {right}" for left, right in rules]
    content = json.dumps(made).encode()
    texts = [text for text in [*tokens][256:] + data.draw(st.lists(st.text("ab", max_size=12), max_size=5))]
    assert recognition.loads(content).encode_batch(texts).to_pylist() == ids_of_peer(peer_of(content), texts)


@pytest.mark.parametrize(
    ("pretokenizer", "name"),
    [
        ({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}, "gpt2"),
        ({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}, "none"),
        (sequence(SPLIT, BYTE_LEVEL), "llama3"),
        (sequence({**SPLIT, "behavior": "Removed", "invert": True}, BYTE_LEVEL), "llama3"),
        (sequence({**SPLIT, "pattern": {"Regex": PATTERNS["gpt2"]}}, BYTE_LEVEL), "gpt2"),
    ],
)
def test_pre_tokenizers_by_what_they_do(pretokenizer: dict[str, Any], name: str) -> None:
    content = json.dumps(document(pre_tokenizer=pretokenizer)).encode()
    loaded, texts = recognition.loads(content), [*random_texts(60), "abc  abc\n\n ab1234"]
    assert loaded.pretokenizer.name == name
    expected = ids_of_peer(peer_of(content), texts)
    assert loaded.encode_batch(texts).to_pylist() == expected


def test_fields_that_change_no_id_are_taken() -> None:
    made = document(
        model__byte_fallback=True,
        model__fuse_unk=True,
        model__continuing_subword_prefix="",
        model__unk_token="<s>",
        model__merges=["#version: 0.2", "a b", "ab c"],
        normalizer={"type": "Sequence", "normalizers": []},
        post_processor={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
    )
    loaded = huggingface.from_document(made)
    assert (loaded.model.unk_token, loaded.encode("abc")) == ("<s>", [257])


def test_an_added_token_brings_its_id() -> None:
    made = document()
    del made["model"]["vocab"]["<s>"]
    assert huggingface.from_document(made).token_to_id("<s>") == 258
    made["added_tokens"][0]["id"] = 300
    with pytest.raises(
        TokenizerFileError, match=r"^added_tokens\[0\]\.id: 300, but by its order Hugging Face gives '<s>' the id 258"
    ):
        huggingface.from_document(made)


TEMPLATE = {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "colour: this field is not known here; known are version, model, added_tokens, normalizer, "
         "pre_tokenizer, post_processor, decoder, truncation, padding"),
        ({"truncation": 5}, "truncation: 5 found where dict belongs"),
        ({"normalizer": {"type": "Nmt"}}, "normalizer: Nmt is not known here"),
        ({"normalizer": "NFC"}, 'normalizer: "NFC" found where dict belongs'),
        ({"post_processor": TEMPLATE}, "post_processor: template '' must hold $A once, and no other text"),
        (
            {"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}, TEMPLATE]}},
            "post_processor.processors[1]: template '' must hold $A once, and no other text",
        ),
        ({"decoder": None}, "decoder: there is none; ByteLevel belongs there"),
        ({"decoder": {"type": "CTC"}}, "decoder: CTC is not known here"),
        ({"pre_tokenizer": {"type": "WhitespaceSplit"}}, "pre_tokenizer: WhitespaceSplit is not known here"),
        (
            {"pre_tokenizer": {"type": "Metaspace", "replacement": "Ġ", "split": False}},
            "pre_tokenizer.prepend_scheme: it is missing, and what stands for it is not known here",
        ),
        ({"pre_tokenizer__add_prefix_space": True}, "pre_tokenizer.add_prefix_space: true is not known here"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "pre_tokenizer.add_prefix_space: it is missing; false belongs there"),
        (
            {"pre_tokenizer": sequence({"type": "Digits"}, BYTE_LEVEL)},
            "pre_tokenizer.pretokenizers[0]: Digits is not known here",
        ),
        (
            {"pre_tokenizer": sequence(SPLIT, SPLIT, BYTE_LEVEL)},
            "pre_tokenizer: Split, Split, ByteLevel one after another are not known here",
        ),
        (
            {"pre_tokenizer": sequence(SPLIT, {**BYTE_LEVEL, "use_regex": True})},
            "pre_tokenizer.pretokenizers[1].use_regex: true after a Split cuts twice; that is not known here",
        ),
        (
            {"pre_tokenizer": sequence({**SPLIT, "pattern": {"String": " "}}, BYTE_LEVEL)},
            'pre_tokenizer.pretokenizers[0].pattern: {"String": " "} is none of those of '
            "gpt2, cl100k, o200k, llama3, qwen2, whitespace",
        ),
        (
            {"pre_tokenizer": sequence({**SPLIT, "behavior": "Removed"}, BYTE_LEVEL)},
            "pre_tokenizer.pretokenizers[0]: behavior 'Removed' would drop the words",
        ),
        ({"model": {"type": "Unigram", "vocab": []}}, "model: Unigram is not known here"),
        ({"model__dropout": 0.1}, "model.dropout: 0.1 is not known here"),
        ({"model__end_of_word_suffix": "</w>"}, 'model: "</w>" marks words; behind ByteLevel that is not known here'),
        ({"model__ignore_merges": 1}, "model.ignore_merges: 1 found where bool belongs"),
        ({"model__vocab": []}, "model.vocab: [] found where dict belongs"),
        ({"model__vocab__ab": "x"}, "vocab: the id of 'ab' is 'x'; ids are whole numbers from 0 to 2147483646"),
        ({"model__vocab__ab": 257}, "vocab: id 257 stands twice, for 'ab' and 'abc'; give each token its own"),
        ({"model__merges": None}, "model.merges: null found where list belongs"),
        ({"model__merges__1": "ab c d"}, 'model.merges[1]: ["ab", "c", "d"] is no pair of tokens'),
        ({"model__merges__1": ["ab", 3]}, 'model.merges[1]: ["ab", 3] is no pair of tokens'),
        ({"model__merges__1": ["ab", "d"]}, "model.merges[1]: ('ab', 'd') needs the token 'abd', which vocab lacks"),
        ({"model__merges": ["#version", "a b", "x y"]}, "model.merges[2]: ('x', 'y') needs the token 'xy', which vocab lacks"),
        ({"added_tokens": {}}, "added_tokens: {} found where list belongs"),
        ({"added_tokens__0": "<s>"}, 'added_tokens[0]: "<s>" found where dict belongs'),
        ({"added_tokens__0__id": 5},
         "added_tokens[0].id: 5, but '<s>' has the id 258 in model.vocab; write the id that it is to have"),
        ({"added_tokens__0__special": 0}, "added_tokens[0].special: 0 found where bool belongs"),
        ({"added_tokens__0__lstrip": 1}, "added_tokens[0].lstrip: 1 is not known here"),
        ({"added_tokens__0__content": "ab", "added_tokens__0__id": 256}, "the special token 'ab' can be no part of a rule"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused_by_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerFileError) as caught:
        recognition.loads(json.dumps(document(**changes)).encode())
    assert str(caught.value) == message or (message.startswith("the special") and str(caught.value).endswith(message))


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 300), st.floats(), st.text("ab<", max_size=2)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["type", "id", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES = [
    *document(), "model__type", "model__vocab", "model__vocab__ab", "model__merges", "model__merges__0", "model__unk_token",
    "model__ignore_merges", "added_tokens__0", "added_tokens__0__id", "added_tokens__0__content", "pre_tokenizer__type",
]  # fmt: skip


@few_cases(300, 30)
@given(st.sampled_from(PLACES), JSON_VALUES)
def test_any_json_anywhere_loads_or_is_refused(place: str, value: object) -> None:
    content = json.dumps(document(**{place: value})).encode()
    try:
        loaded = recognition.loads(content)
    except TokenizerFileError as error:
        assert "\n" not in str(error)
    else:
        assert recognition.loads(huggingface.dumps(loaded)).vocab == loaded.vocab
