"""Added tokens, which are not special: found in every text, before anything else; as Hugging Face `tokenizers` finds them."""

from __future__ import annotations

import functools
import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from tests.test_cli import call
from tests.test_shaped_shards import encode
from tests.training import count_texts, few_cases, train
from tokenmill import Tokenizer
from tokenmill.encoding.templates import Template
from tokenmill.errors import TokenizerFileError, UnknownCharacterError, UsageError
from tokenmill.explain.encoding import explain_text
from tokenmill.formats import huggingface, native
from tokenmill.report.vocabulary import find_unreachable
from tokenmill.text.normalizers import Normalizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer

#: Each begins, ends, or holds another; one has a letter that normalizers change, one ends where a word would go on.
ADDED = ("<think>", "</think>", "<think>>", "<t", "Éa", "kz", " x", "e\u0301!")
CORPUS = ["<think> of it </think> abba, hello éa <t x tabs", "the thinker thinks ab ove"]
NORMALIZERS = {"none": "identity", "composed": "nfc", "lower": ["nfd", "lowercase", "strip_marks"]}
BERT = ("bert_clean", "strip_accents", "lowercase")


def add_tokens(tokenizer: Tokenizer, added: tuple[str, ...] = ADDED, **parts: Any) -> Tokenizer:
    """With these tokens behind the others."""
    first = tokenizer.embedding_rows
    vocab = {**tokenizer.vocab, **{token: first + number for number, token in enumerate(added)}}
    model = replace(tokenizer.model, vocab=vocab, added_tokens=added)
    kept = {"normalizer": tokenizer.normalizer, "template": tokenizer.template, "pretokenizer": tokenizer.pretokenizer}
    return Tokenizer(model, **{**kept, **parts})


@functools.cache
def of_bytes(normalizer: str = "none") -> Tokenizer:
    made = train(CORPUS, model="byte-bpe", pretokenizer="gpt2", merges=12, special_tokens=("<|end|>", "<s>"))
    return add_tokens(made, normalizer=Normalizer.of(NORMALIZERS[normalizer]), template=Template.of("<s> $A <|end|>"))


@functools.cache
def of_wordpieces() -> Tokenizer:
    made = train(CORPUS, model="wordpiece", pretokenizer="bert", merges=12, special_tokens=("[CLS]", "[SEP]"), unk_token="[UNK]")
    return add_tokens(made, normalizer=Normalizer(BERT), template=Template.of("[CLS] $A [SEP]"))


TOKENIZERS = {
    **{name: functools.partial(of_bytes, name) for name in NORMALIZERS},
    "wordpieces": of_wordpieces,
}


@functools.cache
def peer_of(name: str) -> Any:
    return tokenizers.Tokenizer.from_str(TOKENIZERS[name]().to_format("huggingface")["tokenizer.json"].decode())


fragments = st.sampled_from(
    [
        *ADDED,
        "<",
        "<thi",
        "nk>",
        ">",
        "think",
        "a",
        "b",
        " ",
        "x",
        "k",
        "z",
        "É",
        "é",
        "e",
        "\u0301",
        "!",
        "tabs",
        "\n",
        "漢",
        "\x00",
        "",
    ]
)
texts = st.lists(fragments, max_size=12).map("".join)


@few_cases(150, 6)
@given(batch=st.lists(texts, max_size=5), name=st.sampled_from([*TOKENIZERS]))
def test_as_hugging_face_does(batch: list[str], name: str) -> None:
    tokenizer, peer = TOKENIZERS[name](), peer_of(name)
    expected = [found.ids for found in peer.encode_batch(batch, add_special_tokens=False)]
    found = tokenizer.encode_batch(batch)
    found.validate(full=True)
    assert found.to_pylist() == expected == [tokenizer.encode(text) for text in batch]
    assert tokenizer.process_batch(batch).columns()["input_ids"].to_pylist() == [found.ids for found in peer.encode_batch(batch)]


@few_cases(150, 6)
@given(text=texts)
def test_places_are_those_of_hugging_face(text: str) -> None:
    found, expected = of_bytes().process(text), peer_of("none").encode(text)
    assert (found.ids, found.tokens, found.offsets) == (expected.ids, expected.tokens, expected.offsets)
    assert (found.word_ids, found.special_tokens_mask) == (expected.word_ids, expected.special_tokens_mask)


@few_cases(100, 4)
@given(text=texts, name=st.sampled_from([*TOKENIZERS]), unit=st.sampled_from(["characters", "bytes"]))
def test_places_are_those_of_the_parts(text: str, name: str, unit: str) -> None:
    tokenizer = TOKENIZERS[name]()
    # A normalizer that changes anything in a batch tells places by whole characters: a part alone may have finer ones in bytes.
    unit = unit if tokenizer.normalizer.is_identity else "characters"
    expected: list[tuple[int, int, int | None]] = []
    start = word = 0
    for part, token in split_plainly(text):
        one = tokenizer.process(part, add_special_tokens=False, unit=unit)
        places = (one.offsets, one.word_ids)
        expected += [(first + start, last + start, number + word) for (first, last), number in zip(*places, strict=True)]
        start += len(part if unit == "characters" else part.encode())
        word = max([word, *(number + 1 for _, _, number in expected)])
        if token:
            size = len(token if unit == "characters" else token.encode())
            expected.append((start, start + size, word))
            start, word = start + size, word + 1
    found = tokenizer.process(text, add_special_tokens=False, unit=unit)
    assert [(*place, number) for place, number in zip(found.offsets, found.word_ids, strict=True)] == expected


def split_plainly(text: str) -> list[tuple[str, str]]:
    """What lies between added tokens, each with the token behind it: the longest at the first place where there is one."""
    for place in range(len(text)):
        for token in sorted(ADDED, key=len, reverse=True):
            if text.startswith(token, place):
                return [(text[:place], token), *split_plainly(text[place + len(token) :])]
    return [(text, "")]


def test_several_texts_at_once_have_places_of_their_own() -> None:
    tokenizer = of_bytes()
    batch = ["é<think>", "", "<think><t", "no", "a kz b"]
    alone = [tokenizer.process(text) for text in batch]
    traced = tokenizer.process_batch(batch, unit="characters")
    assert traced.offsets().tolist() == [list(place) for one in alone for place in one.offsets]
    assert traced.word_ids().tolist() == [-1 if word is None else word for one in alone for word in one.word_ids]
    assert alone[0].offsets == [(0, 0), (0, 1), (0, 1), (1, 8), (0, 0)] and alone[0].word_ids == [None, 0, 0, 1, None]


def test_pairs_hold_them_too() -> None:
    tokenizer = of_bytes()
    assert tokenizer.process("<t", "<think>", add_special_tokens=False).tokens == ["<t", "<think>"]


def test_special_tokens_stay_plain_text_and_are_counted_apart() -> None:
    tokenizer = of_bytes()
    text = "<|end|><think><|end|>"
    ends = tokenizer.encode("<|end|>")
    assert len(ends) > 1 and tokenizer.encode(text) == [*ends, tokenizer.vocab["<think>"], *ends]
    special, think = tokenizer.vocab["<|end|>"], tokenizer.vocab["<think>"]
    assert tokenizer.encode(text, allow_special=True) == [special, think, special]
    batch = pa.array([text, "<t"], pa.large_string())
    assert tokenizer.encode_counted(batch, allow_special=True).specials == 2
    assert tokenizer.encode_counted(batch).specials == 0
    with pytest.raises(UsageError, match=r"^allow_special: '<think>' is no special token; there are: "):
        tokenizer.encode(text, allow_special={"<think>"})


def test_decoding_gives_their_text() -> None:
    for make in (of_bytes, functools.partial(of_bytes, "composed")):
        text = "hello <think> it's </think>Éa  x"
        assert make().decode(make().encode(text)) == text == make().decode(make().encode(text), skip_special_tokens=True)
    bert = of_wordpieces()
    assert bert.decode(bert.process("the Éa").ids, skip_special_tokens=True) == "the Éa"


def test_bytes_that_are_no_text() -> None:
    tokenizer = of_bytes()
    content = b"\xff<think>\xc3"
    assert tokenizer.decode_bytes(tokenizer.encode(content)) == content
    assert tokenizer.vocab["<think>"] in tokenizer.encode(content)


def test_a_character_without_an_id_is_named_beside_them() -> None:
    tokenizer = add_tokens(train(["ab c"], model="char-bpe", pretokenizer="none", merges=0), ("<t>",))
    assert tokenizer.encode("a<t>b") == [tokenizer.vocab[token] for token in ("a", "<t>", "b")]
    message = r"character 5: '!' "
    with pytest.raises(UnknownCharacterError, match=f"^text 1, {message}"):
        tokenizer.encode_batch(["a", "a<t>b!"])
    with pytest.raises(UnknownCharacterError, match=f"^text 0, {message}"):
        tokenizer.process("a<t>b!")


# --- files ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TOKENIZERS)
def test_files_hold_them(name: str) -> None:
    tokenizer = TOKENIZERS[name]()
    content = tokenizer.to_bytes()
    again = native.loads(content)
    assert (again.added_tokens, again.special_tokens) == (ADDED, tokenizer.special_tokens)
    assert again.to_bytes() == content and again.vocab == tokenizer.vocab
    exported = huggingface.dumps(tokenizer)
    back = huggingface.loads(exported)
    assert (back.vocab, back.added_tokens, huggingface.dumps(back)) == (tokenizer.vocab, ADDED, exported)
    assert peer_of(name).to_str(pretty=True).encode() == exported


def test_a_file_without_them_does_not_name_them() -> None:
    assert b"added_tokens" not in train(["ab"], model="byte-bpe", merges=1).to_bytes()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"added_tokens": ["<t>"]}, "added_tokens[0]: '<t>' has no id in vocab; add it there"),
        ({"added_tokens": ["b", "b"]}, "added_tokens[1]: 'b' stands twice; keep one"),
        ({"added_tokens": ["b"], "special_tokens": ["b"]}, "added_tokens[0]: 'b' stands twice, in special_tokens too; keep one"),
        ({"added_tokens": ["ab"]}, "merge_rules[0]: the added token 'ab' can be no part of a rule"),
        ({"added_tokens": [7]}, "added_tokens[0]: 7 is no token"),
        ({"added_tokens": "b"}, "added_tokens: str found where list belongs"),
        ({"ids": "codepoint", "model": "char", "merge_rules": [], "vocab": {}, "added_tokens": ["b"]},
         "added_tokens: there is none where code points are ids; leave it out"),
    ],
)  # fmt: skip
def test_native_files_that_are_wrong(changes: dict[str, Any], message: str) -> None:
    document = {"merge_rules": [["a", "b"]], "vocab": {"a": 0, "b": 1, "ab": 2}, **changes}
    with pytest.raises(TokenizerFileError) as caught:
        native.loads(json.dumps(document).encode())
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("tiktoken", "tiktoken cannot say that '<t>' is found in every text; use --to native or --to huggingface"),
        ("gpt2", "vocab.json and merges.txt cannot say that '<t>' is found in every text"),
    ],
)
def test_formats_that_cannot_hold_them(target: str, message: str) -> None:
    tokenizer = add_tokens(train(["ab"], model="byte-bpe", pretokenizer="gpt2", merges=1), ("<t>",))
    with pytest.raises(UsageError) as caught:
        tokenizer.to_format(target)
    assert str(caught.value).startswith(message)


def test_two_keys_and_vocab_txt_cannot_hold_them() -> None:
    characters = add_tokens(train(["ab"], model="char-bpe", pretokenizer="wordpunct", merges=1), ("<t>",))
    with pytest.raises(UsageError, match=r"^a file of two keys cannot say that '<t>' is found in every text"):
        characters.to_format("two-key")
    with pytest.raises(UsageError, match=r"^vocab\.txt cannot say that '<think>' is found in every text"):
        of_wordpieces().to_format("vocab-txt")


# --- Hugging Face's files ---------------------------------------------------------------------------------------------------

ENTRY = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}


def document(*entries: dict[str, Any], model: dict[str, Any] | None = None, **parts: Any) -> dict[str, Any]:
    """A tokenizer of the rule `a b`, with added tokens; the next free id is 257."""
    made = json.loads(huggingface.dumps(train(["ab"], model="byte-bpe", pretokenizer="gpt2", merges=1)))
    numbered = [{"id": 257 + number, **ENTRY, **entry} for number, entry in enumerate(entries)]
    return {**made, **parts, "added_tokens": numbered, "model": {**made["model"], **(model or {})}}


NFC = {"type": "NFC"}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (document({"content": "<t>", "rstrip": True}, {"content": " x"}),
         "added_tokens[0].rstrip: true is not known here beside ' x', which begins with whitespace"),
        (document({"content": "<t>"}, {"content": "<t>", "lstrip": True, "id": 257}),
         "added_tokens[1]: '<t>' stands at added_tokens[0] too, with other values; keep one"),
        (document({"content": "<t>", "special": 1}), "added_tokens[0].special: 1 found where bool belongs"),
        (document({"content": "<t>", "normalized": None}), "added_tokens[0].normalized: null found where bool belongs"),
        (document({"content": "<t>", "normalized": True}, normalizer=NFC),
         "added_tokens[0].normalized: true is not known here for '<t>', whose '>' the normalizer nfc can make or change; write "
         "false if the token is to be found as it is written"),
        (document({"content": "<t>"}, {"content": "a<", "normalized": True}),
         "added_tokens[1].normalized: true is not known here for 'a<', which can overlap with '<t>'"),
        (document({"content": "b<|end|>", "normalized": True}, {"content": "end", "special": True}),
         "added_tokens[0].normalized: true is not known here for 'b<|end|>', which can overlap with 'end'"),
        (document({"content": "<t>", "id": 300}),
         "added_tokens[0].id: 300, but by its order Hugging Face gives '<t>' the id 257; write the id that it is to have"),
        (document({"content": "é", "id": 168}),
         "added_tokens[0]: 'é' stands in model.vocab too, where the model finds it; that is not known here"),
        (document({"content": "ab", "id": 256}), "model.merges[0]: the added token 'ab' can be no part of a rule"),
        (document({"content": "ab", "id": 256}, model={"ignore_merges": True}),
         "added_tokens[0]: 'ab' stands in model.vocab too, where the model finds it; that is not known here"),
    ],
)  # fmt: skip
def test_what_is_not_exact_is_refused(made: dict[str, Any], message: str) -> None:
    made["added_tokens"][0]["id"] = made["model"]["vocab"].get(made["added_tokens"][0]["content"], made["added_tokens"][0]["id"])
    with pytest.raises(TokenizerFileError) as caught:
        huggingface.from_document(made)
    assert str(caught.value) == message


def test_normalized_is_the_same_without_a_normalizer() -> None:
    made = document({"content": "<t>", "normalized": True}, {"content": "<|s|>", "special": True})
    tokenizer, peer = huggingface.from_document(made), tokenizers.Tokenizer.from_str(json.dumps(made))
    assert tokenizer.encode("ab<t>a") == peer.encode("ab<t>a").ids == [256, 257, tokenizer.vocab["a"]]
    assert json.loads(huggingface.dumps(tokenizer))["added_tokens"][0] == {"id": 257, "content": "<t>", **ENTRY}


def test_many_tokens_that_could_overlap_are_refused_soon() -> None:
    entries = [{"content": f"<{number}>", "normalized": number % 2 == 0} for number in range(3000)]
    with pytest.raises(TokenizerFileError, match=r"^added_tokens\[0\]\.normalized: .* so many tokens together$"):
        huggingface.from_document(document(*entries))


def test_added_tokens_between_others_keep_their_ids() -> None:
    """They stand in model.vocab then, where no merges lead to them; a model that looks words up would find them."""
    plain = train(["ab abc"], model="byte-bpe", pretokenizer="gpt2", merges=2)
    vocab = {"<t>": 0, **{token: token_id + 1 for token, token_id in plain.vocab.items()}}
    model = replace(plain.model, vocab=vocab, added_tokens=("<t>",))
    tokenizer = Tokenizer(model, pretokenizer=plain.pretokenizer)
    exported = huggingface.dumps(tokenizer)
    peer = tokenizers.Tokenizer.from_str(exported.decode())
    for text in ("<t>", "ab<t>c <t", "a<t>"):
        assert tokenizer.encode(text) == peer.encode(text).ids == huggingface.loads(exported).encode(text)
    whole = Tokenizer(replace(model, ignore_merges=True), pretokenizer=plain.pretokenizer)
    with pytest.raises(UsageError, match=r"^Hugging Face would not give the added token '<t>' the id 0, "):
        huggingface.dumps(whole)


# --- commands ---------------------------------------------------------------------------------------------------------------


def test_shards_hold_them(tmp_path: Path) -> None:
    tokenizer = of_bytes()
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "corpus.txt").write_text("a<think>b\n\n<|end|>\n")
    table, manifest = encode(tmp_path, tmp_path / "tokens")
    assert table["input_ids"].to_pylist() == [tokenizer.wrap(tokenizer.encode(text)) for text in ("a<think>b", "", "<|end|>")]
    assert tokenizer.vocab["<think>"] in table["input_ids"][0].as_py()
    assert "special_tokens_found" not in manifest["totals"]
    told = json.loads(call("tokenize", "--tokenizer", tmp_path / "tokenizer.json", "a<think>b").stdout)
    assert told["tokens"] == ["<s>", "a", "<think>", "b", "<|end|>"]


def test_explain_shows_them_as_they_are() -> None:
    tokenizer = of_bytes("lower")
    told = explain_text(tokenizer, "Hé<think>É kz")
    assert (told.normalized, list(told.ids)) == ("he<think>e kz", tokenizer.encode("Hé<think>É kz"))
    assert [told.normalized[slice(*word.characters)] for word in told.words] == ["he", "<think>", "e", " ", "kz"]
    assert told.words[1].bytes == (2, 9) and told.words[1].merges == () and told.unknown == ()
    assert list(itertools.chain.from_iterable(word.ids for word in told.words)) == list(told.ids)


def test_nothing_is_unreachable_and_extension_leaves_them() -> None:
    tokenizer = of_bytes()
    assert not {one.token for one in find_unreachable(tokenizer)} & set(ADDED)
    counts = count_texts(["ab ab zz zz zz"], "gpt2")
    longer, _ = train_tokenizer(counts, TrainingOptions(model="byte-bpe", pretokenizer="gpt2", extend=tokenizer, merges=3))
    assert longer.added_tokens == ADDED and longer.encode("zz<think>")[-1] == tokenizer.vocab["<think>"]
