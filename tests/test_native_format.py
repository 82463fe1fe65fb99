"""The native tokenizer.json: equal bytes after a round trip, exact golden files, a clear word for every way to be malformed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training import WRITE_GOLDEN, few_cases, train
from tokenmill.errors import TokenizerFileError
from tokenmill.formats import native
from tokenmill.models.base import MAX_ID
from tokenmill.names import NORMALIZERS, PRETOKENIZERS
from tokenmill.reference.bpe import visible_bytes
from tokenmill.tokenizer import Tokenizer

GOLDEN_FOLDER = Path(__file__).parent / "golden" / "tokenizers"
TEXTS = ["low low lower lowest", 'Größe: 12\u00a0µm, don\'t "quote"\\!', "你好 你好 😀", "the theme of the thesis"]

GOLDEN_TRAININGS: dict[str, dict[str, Any]] = {
    "byte-bpe-gpt2": {
        **{"model": "byte-bpe", "pretokenizer": "gpt2"},
        **{"vocab_size": 270, "special_tokens": ("<pad>", "<|endoftext|>")},
    },
    "char-bpe-wordpunct": {"pretokenizer": "wordpunct", "merges": 12, "ties": "first-seen", "ids": "sorted", "min_count": 2},
    "char-bpe-none": {"pretokenizer": "none", "merges": 12, "unk_token": "<unk>"},
}

#: The least that loads.
TWO_KEYS: dict[str, object] = {"merge_rules": [["a", "b"]], "vocab": {"a": 0, "b": 1, "ab": 2}}


def load(**changes: object) -> Tokenizer:
    return native.loads(json.dumps({**TWO_KEYS, **changes}).encode())


def refusal_of(content: bytes) -> str:
    with pytest.raises(TokenizerFileError) as caught:
        native.loads(content)
    return str(caught.value)


def refusal(**changes: object) -> str:
    return refusal_of(json.dumps({**TWO_KEYS, **changes}).encode())


# --- good files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOLDEN_TRAININGS)
def test_golden_tokenizer(name: str) -> None:
    path = GOLDEN_FOLDER / f"{name}.json"
    made = train(TEXTS, **GOLDEN_TRAININGS[name]).to_bytes()
    if WRITE_GOLDEN:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made)
    assert made == path.read_bytes()


@pytest.mark.parametrize("name", GOLDEN_TRAININGS)
def test_golden_tokenizers_are_plain_json_and_come_back(name: str) -> None:
    content = (GOLDEN_FOLDER / f"{name}.json").read_bytes()
    plain, loaded = json.loads(content), native.loads(content)
    assert native.dumps(loaded) == content
    assert [tuple(rule) for rule in plain["merge_rules"]] == loaded.merge_rules
    assert plain["vocab"] == loaded.vocab
    assert sorted(plain["vocab"].values()) == list(range(len(loaded)))
    keys = ["format", "version", "model", "normalizer", "pretokenizer", "special_tokens", "unk", "unicode", "training"]
    assert list(plain) == [*keys, "merge_rules", "vocab"]


def test_what_the_golden_files_hold() -> None:
    byte, words, characters = (native.loads((GOLDEN_FOLDER / f"{name}.json").read_bytes()) for name in GOLDEN_TRAININGS)
    assert (len(byte), byte.token_to_id("<pad>"), byte.token_to_id("<|endoftext|>"), byte.token_to_id("!")) == (270, 0, 1, 2)
    # lo: low, low, lower, lowest; the: the, theme, the, thesis. First come, first merged.
    assert words.merge_rules[:2] == [("l", "o"), ("lo", "w")]
    assert list(words.vocab) == sorted(words.vocab)
    assert characters.model.unk_token == characters.special_tokens[0] == characters.id_to_token(0) == "<unk>"
    for tokenizer in (byte, characters):
        assert [tokenizer.decode(tokenizer.encode(text)) for text in TEXTS] == TEXTS


def test_a_file_of_two_keys_is_a_character_model_behind_wordpunct() -> None:
    tokenizer = load(merge_rules=[["Ġ", "a"]], vocab={"a": 7, "Ġ": 3, "Ġa": 5, ",": 0})
    assert (tokenizer.model.name, tokenizer.pretokenizer.name, tokenizer.normalizer.spec) == ("char-bpe", "wordpunct", "identity")
    assert (tokenizer.special_tokens, tokenizer.model.unk_token, tokenizer.training) == ((), None, {})
    assert tokenizer.encode("a,\n a") == [7, 0, 5]
    assert tokenizer.embedding_rows == 8
    assert native.dumps(native.loads(native.dumps(tokenizer))) == native.dumps(tokenizer)


def test_the_empty_tokenizer_loads() -> None:
    tokenizer = load(merge_rules=[], vocab={})
    assert (len(tokenizer), tokenizer.embedding_rows, tokenizer.encode(" ")) == (0, 0, [])
    assert native.loads(native.dumps(tokenizer)).vocab == {}


def test_ids_may_have_gaps_and_reach_the_last() -> None:
    tokenizer = load(vocab={"a": 0, "b": MAX_ID, "ab": 9})
    assert tokenizer.encode("b") == [MAX_ID]
    assert tokenizer.decode([9, MAX_ID]) == "abb"


# --- malformed files --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON: Expecting value at line 1, column 1; give an undamaged tokenizer file"),
        (
            b'{"vocab": {},\n "merge_rules": ]}',
            "not JSON: Expecting value at line 2, column 17; give an undamaged tokenizer file",
        ),
        (b'{"vocab": \xff}', "not UTF-8 at byte 10; a tokenizer.json is UTF-8 text"),
        (b"[]", "not a tokenizer: a JSON object is needed, this is a list"),
        (b'"text"', "not a tokenizer: a JSON object is needed, this is a str"),
        (b"null", "not a tokenizer: a JSON object is needed, this is a NoneType"),
        (b"[" * 200_000, "not a tokenizer: nested too deeply; give an undamaged tokenizer file"),
        (b"{}", "the key 'merge_rules' is missing; a native tokenizer.json holds merge_rules and vocab"),
        (b'{"merge_rules": []}', "the key 'vocab' is missing; a native tokenizer.json holds merge_rules and vocab"),
        (b'{"merge_rules": [], "vocab": {"a": 0, "a": 1}}', "the key 'a' stands twice in one object; keep one"),
        (b'{"vocab": {}, "merge_rules": [], "vocab": {}}', "the key 'vocab' stands twice in one object; keep one"),
        (b'{"merge_rules": [], "vocab": {"a": NaN}}', "vocab: the id of 'a' is nan; ids are whole numbers from 0 to 2147483646"),
    ],
)
def test_what_is_no_tokenizer_file(content: bytes, message: str) -> None:
    assert refusal_of(content) == message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"colour": 1}, "the key 'colour' is not known; this is no native tokenizer.json"),
        ({"vocab": []}, "vocab: list found where dict belongs"),
        ({"merge_rules": {}}, "merge_rules: dict found where list belongs"),
        ({"version": True}, "version: bool found where int belongs"),
        ({"version": 1.0}, "version: float found where int belongs"),
        ({"unk": 3}, "unk: int found where str or NoneType belongs"),
        ({"format": "other"}, "format: 'other' is not 'tokenmill'; give a file of that format"),
        ({"version": 2}, "version: 2 is not known here (1); update tokenmill"),
        (
            {"model": "lstm"},
            "model: model 'lstm' is not known; choose one of byte-bpe, char-bpe, char, wordpiece, byte-wordpiece",
        ),
        ({"pretokenizer": "knife"}, f"pretokenizer: unknown pre-tokenizer 'knife'; known are: {', '.join(PRETOKENIZERS)}"),
        (
            {"normalizer": "loud"},
            f"normalizer: unknown normalizer 'loud'; known are: {', '.join((*NORMALIZERS, 'replace', 'replace_regex'))}",
        ),
        ({"normalizer": ["nfc", 3]}, "normalizer: 3 is no normalizer; give a name, or name replace with pattern and content"),
        ({"normalizer": 3}, "normalizer: int found where str or dict or list belongs"),
        ({"special_tokens": ["a", ""]}, 'special_tokens[1]: "" is no token'),
        ({"special_tokens": [5]}, "special_tokens[0]: 5 is no token"),
        ({"special_tokens": ["<s>"]}, "special_tokens[0]: '<s>' has no id in vocab; add it there"),
        ({"unk": "<unk>"}, "unk: '<unk>' is not among special_tokens; add it there"),
        ({"special_tokens": ["ab"]}, "merge_rules[0]: the special token 'ab' can be no part of a rule"),
        ({"special_tokens": ["b"]}, "merge_rules[0]: the special token 'b' can be no part of a rule"),
    ],
)
def test_malformed_keys(changes: dict[str, object], message: str) -> None:
    assert refusal(**changes) == message


@pytest.mark.parametrize(
    "rule", ["ab", ["a"], ["a", "b", "a"], ["a", 1], ["a", ""], [["a"], "b"], None, 3, {"a": "b"}], ids=json.dumps
)
def test_rules_that_are_no_pairs(rule: object) -> None:
    assert refusal(merge_rules=[["a", "b"], rule]) == f"merge_rules[1]: {json.dumps(rule)} is no pair of tokens"


def test_a_long_malformed_rule_is_cut() -> None:
    assert refusal(merge_rules=["x" * 500]) == 'merge_rules[0]: "' + "x" * 79 + " is no pair of tokens"


@pytest.mark.parametrize(("rule", "missing"), [(["b", "a"], "ba"), (["c", "a"], "c"), (["a", "c"], "c")])
def test_rules_need_their_tokens(rule: list[str], missing: str) -> None:
    told = f"merge_rules[1]: ({rule[0]!r}, {rule[1]!r}) needs the token {missing!r}, which vocab lacks"
    assert refusal(merge_rules=[["a", "b"], rule]) == told


@pytest.mark.parametrize("wrong", [-1, 2**31 - 1, 2**31, 2**63, 10**30, 1.0, 0.5, True, "1", None, [1]], ids=repr)
def test_ids_that_are_none(wrong: object) -> None:
    told = f"vocab: the id of 'b' is {wrong!r}; ids are whole numbers from 0 to 2147483646"
    assert refusal(vocab={"a": 5, "b": wrong, "ab": 2}) == told


def test_an_id_stands_once() -> None:
    assert refusal(vocab={"a": 0, "b": 1, "ab": 1}) == "vocab: id 1 stands twice, for 'b' and 'ab'; give each token its own"


def byte_file(*, without: str = "", **more: int) -> bytes:
    vocab = {token: place for place, token in enumerate(visible_bytes()) if token not in without}
    return json.dumps({"model": "byte-bpe", "pretokenizer": "gpt2", "merge_rules": [], "vocab": {**vocab, **more}}).encode()


def test_a_byte_model_that_lacks_a_byte_does_not_load() -> None:
    assert refusal_of(byte_file(without="a")).startswith("vocab: a byte model needs all 256 bytes; 1 are missing, first 'a'")


def test_a_byte_model_takes_no_token_outside_the_visible_alphabet() -> None:
    assert refusal_of(byte_file(好=256)).startswith("vocab: ")


SURROGATES = [
    b'{"merge_rules": [], "vocab": {"\\ud800": 0}}',
    b'{"merge_rules": [], "vocab": {"\\udc00x": 0}, "special_tokens": ["\\udc00x"]}',
    b'{"merge_rules": [], "vocab": {}, "training": {"x": "\\ud800"}}',
]


@pytest.mark.parametrize("content", SURROGATES)
def test_lone_surrogates_are_refused(content: bytes) -> None:
    assert "surrogate" in refusal_of(content)


def test_a_number_of_five_thousand_digits_is_refused() -> None:
    refusal_of(b'{"merge_rules": [], "vocab": {"a": ' + b"1" * 5000 + b"}}")


def test_a_special_token_stands_once() -> None:
    refusal(vocab={"a": 0, "b": 1, "ab": 2, "<s>": 3}, special_tokens=["<s>", "<s>"])


def test_another_unicode_version_is_refused() -> None:
    refusal(unicode="9.0.0")


# --- mutations --------------------------------------------------------------------------------------------------------------


@st.composite
def mutated_files(draw: st.DrawFn) -> bytes:
    """A good file with a few bytes replaced, cut out or put in: mostly no JSON, sometimes JSON of another shape."""
    content = native.dumps(load(special_tokens=[], unk=None))
    marks = (b'"', b"[", b"]", b"{", b"}", b",", b":", b"-", b"\n", b"")
    values = (b"1", b"e9", b".5", b"null", b"true", b'"a"', b'["a", "b"]', b"\xff")
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        end = start + draw(st.sampled_from([0, 1, 1, 2, 5, 40]))
        content = content[:start] + draw(st.sampled_from(marks + values)) + content[end:]
    return content


@few_cases(400, 200)
@given(mutated_files())
def test_a_mutated_file_loads_or_is_refused(content: bytes) -> None:
    try:
        tokenizer = native.loads(content)
    except TokenizerFileError as error:
        assert str(error)
    else:
        assert native.dumps(native.loads(native.dumps(tokenizer))) == native.dumps(tokenizer)


JSON_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-2, 3), st.floats(), st.text("ab<", max_size=2)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)),
    max_leaves=6,
)
KEYS = [line.split('"')[1] for line in native.dumps(load(merge_rules=[], vocab={})).decode().splitlines()[1:-1]]


@few_cases(400, 200)
@given(st.dictionaries(st.sampled_from(KEYS), JSON_VALUES, max_size=4))
def test_any_json_in_any_key_loads_or_is_refused(changes: dict[str, object]) -> None:
    try:
        tokenizer = load(**changes)
    except TokenizerFileError as error:
        assert str(error)
    else:
        assert native.loads(native.dumps(tokenizer)).vocab == tokenizer.vocab
