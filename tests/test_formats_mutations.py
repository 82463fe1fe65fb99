"""Hugging Face's tokenizer.json, changed field by field: the same ids and the same text as there, or a refusal."""

from __future__ import annotations

import contextlib
import copy
import functools
import json
import random
from typing import Any

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.encoding.decoders import Decoder
from tokenmill.errors import InvalidTextError, TokenizerFileError, UnknownCharacterError, UsageError
from tokenmill.formats import huggingface, recognition
from tokenmill.models.alphabets import byte_tokens

TEXTS = ["the cat sat", "don't stop", "a  b\n c", "low lower", "hello, world .", "naïve é", "1234 x"]
SPLIT = {"type": "Split", "pattern": {"Regex": r"\s+"}, "behavior": "Isolated", "invert": False}
BERT_NORMALIZER = {
    "type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True
}  # fmt: skip
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
#: Every component of `tokenizers` 0.23, by the place where it stands.
COMPONENTS: dict[str, list[Any]] = {
    "normalizer": [
        *({"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt", "ByteLevel")),
        *(None, BERT_NORMALIZER, {"type": "Sequence", "normalizers": []}, {"type": "Prepend", "prepend": "▁"}),
        {"type": "Strip", "strip_left": True, "strip_right": True},
        *({"type": "Replace", "pattern": {kind: text}, "content": "x"} for kind, text in (("String", " "), ("Regex", "a+"))),
        *({"type": "Replace", "pattern": {"Regex": text}, "content": "x"} for text in ("^a", "a*", "[a&&b]", "(?:a|b)+t")),
        {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}]},
    ],
    "pre_tokenizer": [
        *(None, BYTE_LEVEL, {**BYTE_LEVEL, "add_prefix_space": True}, {**BYTE_LEVEL, "use_regex": False}, METASPACE, SPLIT),
        *({"type": name} for name in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "UnicodeScripts")),
        *({"type": "Digits", "individual_digits": True}, {"type": "Punctuation", "behavior": "Isolated"}),
        *({"type": "CharDelimiterSplit", "delimiter": " "}, {"type": "FixedLength", "length": 3}),
        *({"type": "Sequence", "pretokenizers": steps}
          for steps in ([], [BYTE_LEVEL], [SPLIT, {**BYTE_LEVEL, "use_regex": False}])),
    ],
    "post_processor": [
        *(None, {**BYTE_LEVEL, "trim_offsets": False}, {"type": "Sequence", "processors": []}),
        {"type": "BertProcessing", "sep": ["<s>", 0], "cls": ["<s>", 0]},
        {"type": "RobertaProcessing", "sep": ["<s>", 0], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": True},
    ],
    "decoder": [
        *(None, BYTE_LEVEL, METASPACE, STRIP, {"type": "Fuse"}, {"type": "ByteFallback"}, {"type": "Sequence", "decoders": []}),
        *({"type": "WordPiece", "prefix": "##", "cleanup": flag} for flag in (True, False)),
        {"type": "BPEDecoder", "suffix": "</w>"},
        *({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},),
        *({"type": "Replace", "pattern": {kind: text}, "content": " "} for kind, text in (("String", "▁"), ("Regex", "e+t?"))),
        {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
                                          {"type": "ByteFallback"},
                                          {"type": "Fuse"}, STRIP]},
    ],
    "truncation": [None, {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}],
    "padding": [
        None,
        {"strategy": {"Fixed": 9}, "direction": "Right", "pad_to_multiple_of": None,
         "pad_id": 0, "pad_type_id": 0, "pad_token": "a"},
    ],
}  # fmt: skip
MODEL_FIELDS: dict[str, list[Any]] = {
    "dropout": [None, 0.0, 1.0],
    "unk_token": [None, "<unk>", "[UNK]", "nowhere"],
    "continuing_subword_prefix": [None, "", "##"],
    "end_of_word_suffix": [None, "", "</w>"],
    **{flag: [True, False] for flag in ("fuse_unk", "byte_fallback", "ignore_merges")},
    "max_input_chars_per_word": [1, 4, 100],
}
CONTENTS = ["<s>", "<t>", "<unk>", "[UNK]", "a", "th", "  ", " x", "|||A|||", "low", "É", "Éa", "<t", "t>", "漢", "K"]
FRAGMENTS = [
    *CONTENTS,
    "the",
    " ",
    "\n",
    "lower",
    "é",
    "e\u0301",
    "K",
    "\u0338",
    ".",
    "n't",
    "##a",
    "▁",
    "Ġ",
    "<0x41>",
    "</w>",
    "ß",
    "1",
    "_",
]


@functools.cache
def bases() -> list[dict[str, Any]]:
    """Small files of each kind."""
    specials = ("<s>", "<unk>")
    byte = train(TEXTS, model="byte-bpe", pretokenizer="gpt2", merges=20, special_tokens=specials)
    plain = train(TEXTS, pretokenizer="none", merges=15, unk_token="<unk>", special_tokens=specials[:1])
    fallback = train(TEXTS, pretokenizer="none", merges=15, byte_fallback=True, special_tokens=specials)
    marked = train(TEXTS, pretokenizer="gpt2", merges=15, unk_token="<unk>", special_tokens=specials[:1])
    prefix = train(TEXTS, pretokenizer="whitespace-punct", merges=15, continuation_prefix="##", unk_token="<unk>")
    pieces = train(TEXTS, model="wordpiece", pretokenizer="bert", merges=15, unk_token="[UNK]", special_tokens=specials)
    return [json.loads(huggingface.dumps(made)) for made in (byte, plain, fallback, marked, prefix, pieces)]


def mutate(source: random.Random) -> dict[str, Any]:
    """One to three fields of a small file take another value; often there are other added tokens."""
    made = copy.deepcopy(source.choice(bases()))
    for _ in range(source.randint(1, 3)):
        place = source.choice([*COMPONENTS, "model", "model", "added_tokens", "added_tokens"])
        if place == "model":
            field = source.choice([*MODEL_FIELDS, "type", "vocab"])
            if field == "type":
                made["model"].pop("type", None)
            elif field == "vocab":
                made["model"]["vocab"] = cut_vocabulary(made["model"]["vocab"], source)
            else:
                made["model"][field] = source.choice(MODEL_FIELDS[field])
        elif place == "added_tokens":
            made["added_tokens"] = draw_added(made, source)
        else:
            made[place] = source.choice(COMPONENTS[place])
    return made


def cut_vocabulary(vocab: dict[str, int], source: random.Random) -> dict[str, int]:
    """Without the 13 bytes that text never holds, or with holes between the ids."""
    if source.random() < 0.5:
        never = [chr(byte) for byte in (0xC0, 0xC1, *range(0xF5, 0x100))]
        return {token: token_id for token, token_id in vocab.items() if token not in never}
    return {token: token_id + 3 * (token_id > 20) for token, token_id in vocab.items()}


def draw_added(made: dict[str, Any], source: random.Random) -> list[dict[str, Any]]:
    """Entries of which most have the ids that they get, and some have others."""
    vocab = made["model"]["vocab"]
    following, entries = len(vocab), []
    for content in source.sample(CONTENTS, source.randint(0, 5)):
        token_id = vocab.get(content, following)
        following += content not in vocab
        flags = {flag: source.random() < 0.2 for flag in ("single_word", "lstrip", "rstrip", "normalized", "special")}
        wrong = source.random() < 0.05
        entries.append({"id": token_id + wrong * source.randint(1, 900), "content": content, **flags})
    return entries


def text_of(source: random.Random) -> str:
    return "".join(source.choice(FRAGMENTS) for _ in range(source.randint(0, 8)))


def load_both(made: dict[str, Any]) -> tuple[Tokenizer, Any] | None:
    """The tokenizer here and there, None where one of both refuses the file."""
    content = json.dumps(made)
    try:
        mine = recognition.loads(content.encode())
    except (TokenizerFileError, UsageError):
        return None
    try:
        peer = tokenizers.Tokenizer.from_str(content)
    except Exception as error:
        # Entries may lack fields here, or tokens of the template be checked there alone.
        raise AssertionError(f"refused there alone: {error}") from None
    peer.no_truncation()
    peer.no_padding()
    return mine, peer


def check_same(made: dict[str, Any], source: random.Random) -> bool:
    """Whether both took the file; ids of texts and the text of any ids are the same then."""
    both = load_both(made)
    if both is None:
        return False
    mine, peer = both
    again = recognition.loads(mine.to_bytes())
    assert again.to_bytes() == mine.to_bytes()
    # An unk token that is not among the added tokens is special here alone.
    specials = {entry["content"] for entry in made["added_tokens"] if entry["special"]}
    for _ in range(6):
        text, told = (
            text_of(source),
            json.dumps({key: value for key, value in made.items() if key != "model"}, ensure_ascii=False),
        )
        # Hugging Face drops an unknown character, or misses the unk token of the model only then.
        with contextlib.suppress(UnknownCharacterError):
            expected = ids_there(peer, text)
            assert expected in (None, mine.encode(text, allow_special=specials)), (text, told)
            assert expected in (None, again.encode(text, allow_special=specials)), (text, told)
            row = ids_there(peer, text, add_special_tokens=True)
            assert row in (None, mine.process(text, allow_special=specials).ids), (text, told)
        ids = source.choices(sorted(mine.vocab.values()), k=source.randint(0, 6))
        for skips in (False, True)[: 1 + (len(specials) == len(mine.special_tokens))]:
            decoded = mine.decode(ids, skip_special_tokens=skips)
            assert decoded == peer.decode(ids, skip_special_tokens=skips), ([mine.id_to_token(one) for one in ids], told)
    return True


def ids_there(peer: Any, text: str, *, add_special_tokens: bool = False) -> list[int] | None:
    """The ids of a text, None where the text makes the other program fail."""
    try:
        ids: list[int] = peer.encode(text, add_special_tokens=add_special_tokens).ids
    except Exception as error:
        assert "not found in the vocabulary" in str(error) or "Missing [UNK] token" in str(error)
        return None
    return ids


def run_mutations(count: int, seed: int) -> int:
    """How many of so many changed files were taken."""
    source = random.Random(seed)
    return sum(check_same(mutate(source), source) for _ in range(count))


@pytest.mark.jit
def test_changed_files_give_the_same_or_are_refused() -> None:
    assert 20 < run_mutations(150, 1) < 150


@pytest.mark.deep
def test_many_changed_files_give_the_same_or_are_refused() -> None:
    assert run_mutations(4000, 2) > 400


# --- ids of added tokens ------------------------------------------------------------------------------------------------------

entries = st.lists(st.tuples(st.sampled_from(["<a>", "<b>", "<c>", "ab", "x"]), st.integers(0, 12), st.booleans()), max_size=5)


@few_cases(200, 10)
@given(entries, st.lists(st.integers(0, 9), min_size=4, max_size=4, unique=True))
def test_added_tokens_have_the_ids_of_tokenizers_or_are_refused(listed: list[tuple[str, int, bool]], ids: list[int]) -> None:
    vocab = dict(zip(("a", "b", "c", "<c>"), ids, strict=True))
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    added = [{"id": number, "content": content, **flags, "special": special} for content, number, special in listed]
    made = {"version": "1.0", "added_tokens": added, "decoder": {"type": "Fuse"}, "model": {"vocab": vocab, "merges": []}}
    peer = tokenizers.Tokenizer.from_str(json.dumps(made))
    try:
        mine = recognition.loads(json.dumps(made).encode())
    except TokenizerFileError:
        told = {entry["content"]: entry["id"] for entry in added}
        held = {*vocab.values()}
        wrong = any(peer.token_to_id(entry["content"]) != entry["id"] for entry in added)
        clash = any(content not in vocab and number in held for content, number in told.items())
        other = any(one[0] == two[0] and one[2] != two[2] for one in listed for two in listed)
        assert wrong or clash or other or any(content == "<c>" and not special for content, _, special in listed)
        return
    assert mine.vocab == peer.get_vocab(with_added_tokens=True)


# --- kinds of files that people have ------------------------------------------------------------------------------------------


def neox() -> dict[str, Any]:
    """As GPT-NeoX and OLMo: NFC, runs of spaces and names as tokens that are looked for in normalized text."""
    made = json.loads(
        huggingface.dumps(train(TEXTS, model="byte-bpe", pretokenizer="gpt2", merges=20, special_tokens=("<|end|>",)))
    )
    made["model"]["vocab"] = {
        token: number for token, number in made["model"]["vocab"].items() if ord(token[0]) not in (0xC0, 0xFF)
    }
    made["model"]["vocab"] = {token: number for number, token in enumerate(made["model"]["vocab"])}
    del made["model"]["type"]
    size = len(made["model"]["vocab"])
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    more = [{"id": size + place, "content": content, **flags} for place, content in enumerate(("    ", "  ", "|||MAIL|||"))]
    mask = {"id": size + 3, "content": "[MASK]", **flags, "normalized": False, "special": True}
    made["added_tokens"] = (
        [{**entry, "id": made["model"]["vocab"][entry["content"]]} for entry in made["added_tokens"]] + more + [mask]
    )
    made["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "NFC"}]}
    return {**made, "truncation": COMPONENTS["truncation"][1], "padding": COMPONENTS["padding"][1]}


@few_cases(150, 10)
@given(
    st.lists(
        st.sampled_from(
            ["a", "e", "\u0301", " ", "  ", "|||MAIL|||", "|", "[MASK]", "\u00a0", "\u2028", "É", "\u0338", "<|end|>"]
        ),
        max_size=10,
    )
)
def test_files_as_those_of_neox(fragments: list[str]) -> None:
    mine, peer = loaded_neox()
    text = "".join(fragments)
    found = mine.process(text, add_special_tokens=False, allow_special=True)
    expected = peer.encode(text, add_special_tokens=False)
    assert (found.ids, found.tokens) == (expected.ids, expected.tokens)
    assert mine.decode(found.ids) == peer.decode(expected.ids, skip_special_tokens=False)


@functools.cache
def loaded_neox() -> tuple[Tokenizer, Any]:
    both = load_both(neox())
    assert both is not None
    return both


def test_bytes_without_a_token_are_an_error() -> None:
    mine, _ = loaded_neox()
    assert mine.decode(mine.encode("é漢😀".encode())) == "é漢😀"
    with pytest.raises(
        UnknownCharacterError, match=r"^text 0: it is not UTF-8, and this model has no token for some of its bytes"
    ):
        mine.encode(b"a\xff")


def test_the_decoder_of_llama_gives_its_text() -> None:
    vocab = {token: number for number, token in enumerate([*byte_tokens(), "▁", "a", "b", "▁a", "<s>"])}
    decoder = COMPONENTS["decoder"][-1]
    made = {
        "version": "1.0",
        "added_tokens": [],
        "decoder": decoder,
        "model": {"type": "BPE", "vocab": vocab, "merges": [["▁", "a"]]},
    }
    made["model"] |= {"byte_fallback": True, "unk_token": None}
    both = load_both(made)
    assert both is not None
    mine, peer = both
    for tokens in (["▁a", "b", "▁"], ["<0xE4>", "<0xBD>", "a"], ["a"], [], ["<0xE4>", "<0xBD>", "<0xA0>", "▁a"]):
        ids = [vocab[token] for token in tokens]
        assert mine.decode(ids) == peer.decode(ids, skip_special_tokens=False)
    assert mine.decode([vocab["▁a"], vocab["b"]]) == "ab"


def test_a_pattern_of_a_file_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tokenmill.text.patterns.SECONDS", 0.2)
    made = copy.deepcopy(bases()[1])
    made["normalizer"] = {"type": "Replace", "pattern": {"Regex": r"(?:a|a)*\z"}, "content": "y"}
    with pytest.raises(TokenizerFileError, match="can match nothing"):
        recognition.loads(json.dumps(made).encode())
    made["normalizer"]["pattern"] = {"Regex": r"(?:a|a)+\z"}
    with pytest.raises(InvalidTextError, match=r"^pattern '\(\?:a\|a\)\+.*it backtracks too much: use possessive"):
        recognition.loads(json.dumps(made).encode()).encode("a" * 40 + "!")
    slow = Decoder.of([{"name": "replace", "pattern": r"(?:a|a)+\Z", "content": "", "is_regex": True}])
    assert slow is not None
    with pytest.raises(InvalidTextError, match="it backtracks too much"):
        slow.decode(["a" * 40 + "!"])


# --- folders ------------------------------------------------------------------------------------------------------------------

VOCAB_TXT = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nHello\nhello\n##a\n"


def folder(config: dict[str, Any] | None = None, **files: Any) -> Tokenizer:
    made = {"vocab.txt": VOCAB_TXT, **{name.replace("__", "."): json.dumps(value).encode() for name, value in files.items()}}
    if config is not None:
        made["tokenizer_config.json"] = json.dumps(config).encode()
    return recognition.loads_folder(made)


def test_the_config_of_a_folder_decides() -> None:
    assert folder().tokenize("Hello") == ["Hello"]
    assert folder({"do_lower_case": True, "tokenizer_class": "BertTokenizer"}).tokenize("Hello") == ["hello"]
    assert folder({"do_lower_case": False}).tokenize("Hello") == ["Hello"]
    assert folder({"do_lower_case": False, "strip_accents": True}).tokenize("Hélló") == ["Hello"]
    assert folder({"strip_accents": False}).tokenize("HELLO") == ["hello"]
    assert folder({}, special_tokens_map__json={"unk_token": "[UNK]"}, added_tokens__json={}).tokenize("x") == ["[UNK]"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"config": {"tokenize_chinese_chars": False}}, "tokenizer_config.json: tokenize_chinese_chars: false is not known here"),
        ({"config": {"do_lower_case": 1}}, "tokenizer_config.json: do_lower_case: 1 found where true or false belongs"),
        ({"config": {"tokenizer_class": "MPNetTokenizer"}}, 'tokenizer_config.json: tokenizer_class: "MPNetTokenizer" reads'),
        ({"config": {"unk_token": "<unk>"}}, 'tokenizer_config.json: unk_token: "<unk>" is not [UNK]'),
        ({"config": {"never_split": ["a"]}}, 'tokenizer_config.json: never_split: ["a"] is not known here'),
        (
            {"special_tokens_map__json": {"additional_special_tokens": ["<x>"]}},
            "special_tokens_map.json: additional_special_tokens",
        ),
        ({"added_tokens__json": {"<x>": 8}}, 'added_tokens.json: "<x>" is added to the vocabulary'),
    ],
)
def test_what_a_folder_may_not_say(files: dict[str, Any], message: str) -> None:
    with pytest.raises(TokenizerFileError) as caught:
        folder(**files)
    assert str(caught.value).startswith(message)


def test_merges_that_end_words_are_not_those_of_gpt2() -> None:
    files = train(TEXTS, model="byte-bpe", pretokenizer="gpt2", merges=3).to_format("gpt2")
    assert recognition.loads_folder(files).encode("the")
    for config, message in (
        ({"tokenizer_class": "CLIPTokenizer"}, "tokenizer_config.json: tokenizer_class: "),
        ({"add_prefix_space": True}, "tokenizer_config.json: add_prefix_space: true is not known here"),
    ):
        with pytest.raises(TokenizerFileError, match=f"^{message}"):
            recognition.loads_folder({**files, "tokenizer_config.json": json.dumps(config).encode()})
    ends = {**files, "merges.txt": files["merges.txt"] + b"h e</w>\n"}
    with pytest.raises(TokenizerFileError, match=r"^merges\.txt, line 5: \"e</w>\" ends a word, as the tokens of CLIP do"):
        recognition.loads_folder(ends)


def test_a_vocab_txt_without_continuations_or_with_a_mark_in_front() -> None:
    lines = VOCAB_TXT.replace(b"##a\n", b"")
    assert recognition.loads(lines).vocab["[PAD]"] == 0
    assert recognition.loads(b"\xef\xbb\xbf" + VOCAB_TXT).vocab == recognition.loads(VOCAB_TXT).vocab
    with pytest.raises(TokenizerFileError, match=r"^vocab\.txt: no line is \[UNK\]"):
        recognition.loads_folder({"vocab.txt": b"a\nb\n"})
