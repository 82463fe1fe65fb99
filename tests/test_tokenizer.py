"""The tokenizer: texts of every kind of array to ids and back, what is lost and what is not, and what it says when it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenmill
from tests.strategies import NAMED_PRETOKENIZERS, nasty_bytes, nasty_texts
from tests.training import JIT, WAYS_OUT, few_cases, train
from tokenmill.errors import InvalidTextError, TokenizerFileError, UnknownCharacterError, UsageError
from tokenmill.models.alphabets import CharacterAlphabet
from tokenmill.models.bpe import BpeModel
from tokenmill.reference import bpe as reference
from tokenmill.reference import words as reference_words
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

CORPUS = ["the cat sat on the mat", "the caféteria, don't!", "好好 学习  天天\n\nup", "aaaa aaa aa a"] * 3
LOSSLESS = tuple(name for name in NAMED_PRETOKENIZERS if PreTokenizer(name).lossless)
BYTE_TOKENIZERS = {name: train(CORPUS, model="byte-bpe", pretokenizer=name, merges=40) for name in LOSSLESS}


@pytest.fixture(scope="module")
def characters() -> Tokenizer:
    """A character model without an unk token."""
    return train(CORPUS, merges=20, special_tokens=("<s>", "</s>"))


@pytest.fixture(scope="module")
def with_unk() -> Tokenizer:
    return train(CORPUS, merges=20, special_tokens=("<s>",), unk_token="<unk>")


def by_reference(tokenizer: Tokenizer, text: str) -> list[str]:
    """Tokens of a character model by the plain algorithms."""
    words = reference_words.cut_words(tokenizer.pretokenizer.name, text)
    symbols = map(reference.split_into_characters, words)
    return [token for word in symbols for token in reference.encode_word(word, tokenizer.merge_rules)]


def message_of(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return str(caught.value)


# --- encoding ---------------------------------------------------------------------------------------------------------------


def test_tokens_and_ids_are_those_of_the_reference(characters: Tokenizer) -> None:
    for text in [*CORPUS, "", " ", "a  the,cat\tsat\n"]:
        expected = by_reference(characters, text)
        assert characters.tokenize(text) == expected
        assert characters.encode(text) == [characters.vocab[token] for token in expected]
        assert characters.encode(text.encode()) == characters.encode(text)


def arrays_of_texts() -> dict[str, Any]:
    """The texts `the cat`, none, nothing, `mat` in every form that Arrow has for them."""
    texts = ["the cat", None, "", "mat"]
    padded = pa.array(["x", *texts, "y"], pa.string())
    return {
        "list": texts,
        "tuple": tuple(texts),
        "string": pa.array(texts, pa.string()),
        "large_string": pa.array(texts, pa.large_string()),
        "string_view": pa.array(texts, pa.string_view()),
        "dictionary": pa.array(texts).dictionary_encode(),
        "slice": padded.slice(1, 4),
        "large slice": padded.cast(pa.large_string()).slice(1, 4),
        "chunked": pa.chunked_array([texts[:1], texts[1:3], [], texts[3:]], pa.string()),
        "chunked slice": pa.chunked_array([["x", "the cat"], [None, "", "mat", "y"]], pa.large_string()).slice(1, 4),
        "chunked dictionary": pa.chunked_array([texts[:2], texts[2:]], pa.string()).dictionary_encode(),
    }


@pytest.mark.parametrize("form", arrays_of_texts())
def test_every_form_of_texts_encodes_alike(form: str, characters: Tokenizer) -> None:
    encoded = characters.encode_batch(arrays_of_texts()[form])
    assert encoded.type == pa.large_list(pa.int32())
    assert encoded.null_count == 0
    ids = [[characters.vocab[token] for token in by_reference(characters, text)] for text in ("the cat", "", "", "mat")]
    assert encoded.to_pylist() == ids


@pytest.mark.parametrize(
    "texts",
    [[], pa.array([], pa.string()), pa.chunked_array([], pa.large_string()), pa.array(["a"]).slice(1), pa.array([], pa.null())],
)
def test_no_texts_give_no_lists(texts: object, characters: Tokenizer) -> None:
    assert characters.encode_batch(texts).to_pylist() == []


def test_only_nulls_give_empty_lists(characters: Tokenizer) -> None:
    assert characters.encode_batch([None, None]).to_pylist() == [[], []]
    assert characters.encode_batch(pa.array([None, None])).to_pylist() == [[], []]


@few_cases(60, 6)
@given(st.lists(st.sampled_from([*CORPUS, "", "mat", "on the"]), max_size=6), st.integers(0, 6))
def test_a_batch_is_its_texts_one_by_one(texts: list[str], start: int) -> None:
    tokenizer = BYTE_TOKENIZERS["gpt2"]
    whole = tokenizer.encode_batch(pa.array(texts, pa.string()).slice(start))
    assert whole.to_pylist() == [tokenizer.encode(text) for text in texts[start:]]


def test_special_tokens_in_text_are_plain_text() -> None:
    chosen: dict[str, Any] = {"pretokenizer": "gpt2", "merges": 9, "special_tokens": ("<|end|>",)}
    tokenizer = train(["user wrote <|end|> here"], model="byte-bpe", **chosen)
    ids = tokenizer.encode("user wrote <|end|> here")
    assert tokenizer.vocab["<|end|>"] not in ids
    assert tokenizer.decode(ids) == "user wrote <|end|> here"
    spelled = BpeModel("char-bpe", CharacterAlphabet(marks_spaces=True), {"a": 0, "b": 1, "ab": 2, "x": 3}, (), ("ab", "x"), None)
    plain = Tokenizer(spelled, pretokenizer=PreTokenizer("none"))
    assert plain.encode("ab") == [0, 1]
    assert "'x' (U+0078)" in message_of(lambda: plain.encode("x"), UnknownCharacterError)


def test_vocabulary_look_ups(characters: Tokenizer) -> None:
    assert (characters.token_to_id("<s>"), characters.id_to_token(1), characters.special_tokens) == (0, "</s>", ("<s>", "</s>"))
    assert (characters.token_to_id("zzz"), characters.id_to_token(10_000), characters.id_to_token(-1)) == (None, None, None)
    assert characters.embedding_rows == len(characters) == len(characters.vocab)
    changed = characters.vocab
    changed.clear()
    assert len(characters) == len(characters.vocab) > 0


# --- unknown characters -----------------------------------------------------------------------------------------------------


def test_an_unknown_character_is_named_with_its_place(characters: Tokenizer) -> None:
    told = message_of(lambda: characters.encode("the zebra"), UnknownCharacterError)
    assert told == "text 0, character 4: 'z' (U+007A) is not in the alphabet; " + WAYS_OUT
    told = message_of(lambda: characters.encode_batch(["the", "", "cat 😀z"]), UnknownCharacterError)
    assert told == "text 2, character 4: '😀' (U+1F600) is not in the alphabet; " + WAYS_OUT
    assert UnknownCharacterError.exit_code == 3


def test_the_unk_token_stands_for_each_unknown_character(with_unk: Tokenizer) -> None:
    unk = with_unk.vocab["<unk>"]
    assert with_unk.encode("zß😀") == [unk, unk, unk]
    assert with_unk.tokenize("theß cat") == ["the", "<unk>", "Ġc", "at"]
    assert train(["hug pug"], merges=3, unk_token="<unk>").tokenize("mug")[0] == "<unk>"


def test_encode_known_tells_which_texts_hold_unknowns(characters: Tokenizer) -> None:
    encoded, unknown = characters.encode_known(pa.array(["the", "", "zt", "cat", "q", None], pa.large_string()))
    assert unknown.tolist() == [False, False, True, False, True, False]
    assert encoded.to_pylist()[2] == [-1, characters.vocab["t"]]


def test_an_unknown_marker_is_named_with_its_place() -> None:
    told = message_of(lambda: train(["ab"], merges=1).encode("ab a"), UnknownCharacterError)
    assert told.startswith("text 0, character 2: ' ' (U+0020)")


# --- decoding ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pretokenizer", LOSSLESS)
def test_byte_models_give_back_any_bytes(pretokenizer: str) -> None:
    tokenizer = BYTE_TOKENIZERS[pretokenizer]

    @few_cases(100, 10)
    @given(st.one_of(nasty_bytes(max_fragments=20), st.binary(max_size=40), st.sampled_from([text.encode() for text in CORPUS])))
    def check(data: bytes) -> None:
        ids = tokenizer.encode(data)
        assert tokenizer.decode_bytes(ids) == data
        assert tokenizer.decode(ids) == data.decode("utf-8", "replace")

    check()
    everything = bytes(range(256)) * 3
    assert tokenizer.decode_bytes(tokenizer.encode(everything)) == everything


@few_cases(60, 6)
@given(nasty_texts(max_fragments=15))
def test_byte_models_give_back_any_text(text: str) -> None:
    for tokenizer in BYTE_TOKENIZERS.values():
        assert tokenizer.decode(tokenizer.encode(text)) == text


@few_cases(60, 6)
@given(st.text("ab,' \t\n\u3000é", max_size=30))
def test_wordpunct_loses_the_kind_of_whitespace_alone(text: str) -> None:
    vocab = {token: place for place, token in enumerate([*"ab,'éĠ", "ab", "Ġa"])}
    model = BpeModel("char-bpe", CharacterAlphabet(marks_spaces=True), vocab, (("a", "b"), ("Ġ", "a")))
    tokenizer = Tokenizer(model, pretokenizer=PreTokenizer("wordpunct"))
    words = reference_words.cut_wordpunct(text)
    assert tokenizer.decode(tokenizer.encode(text)) == "".join(words).replace("Ġ", " ")


def test_a_literal_marker_comes_back_as_a_space() -> None:
    marked = train(["Ġa b"], merges=0, pretokenizer="whitespace")
    assert marked.decode(marked.encode("Ġa b")) == " a b"
    kept = train(["Ġa b"], merges=5, pretokenizer="none")
    assert kept.decode(kept.encode("Ġa b")) == "Ġa b"


def test_special_tokens_are_skipped_on_request(characters: Tokenizer) -> None:
    ids = [0, *characters.encode("the cat"), 1]
    assert characters.decode(ids) == "<s>the cat</s>"
    assert characters.decode(ids, skip_special_tokens=True) == "the cat"
    assert characters.decode_bytes(iter(ids), skip_special_tokens=True) == b"the cat"


def test_a_special_token_of_a_byte_model_is_its_own_text() -> None:
    tokenizer = train(["ab"], model="byte-bpe", pretokenizer="gpt2", merges=1, special_tokens=("<好>", "Ġx"))
    assert tokenizer.decode_bytes([0, 1]) == "<好>Ġx".encode()


def test_ids_of_numpy_and_arrow_decode(characters: Tokenizer) -> None:
    ids = characters.encode("the cat")
    assert characters.decode(np.array(ids, np.int32)) == characters.decode(pa.array(ids).to_pylist()) == "the cat"


@pytest.mark.parametrize("wrong", [-1, 10_000, 1 << 40])
def test_an_id_outside_the_vocabulary_is_refused(wrong: int, characters: Tokenizer) -> None:
    told = message_of(lambda: characters.decode([0, wrong]), UsageError)
    assert told == f"id {wrong} is not in the vocabulary (ids 0 to {len(characters) - 1})"


# --- what is no text --------------------------------------------------------------------------------------------------------


def test_lone_surrogates_are_refused(characters: Tokenizer) -> None:
    told = message_of(lambda: characters.encode("the\ud83d"), InvalidTextError)
    assert told == "the text holds the lone surrogate U+D83D at character 3, which UTF-8 cannot hold; replace it with U+FFFD"
    told = message_of(lambda: characters.encode_batch(["the", "c\udc00"]), InvalidTextError)
    assert told == "text 1 holds the lone surrogate U+DC00 at character 1, which UTF-8 cannot hold; replace it with U+FFFD"


@pytest.mark.parametrize(
    ("texts", "start"),
    [
        ([1, 2], "texts must be str: "),
        ([b"\xff"], "texts must be str: "),
        (None, "texts must be str: "),
        (pa.array([[1]]), "texts of type list<"),
        (pa.array([b"\xff"]), "texts of type binary cannot be encoded; give an array of strings"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(texts: object, start: str, characters: Tokenizer) -> None:
    assert message_of(lambda: characters.encode_batch(texts), UsageError).startswith(start)


def test_one_str_is_no_batch(characters: Tokenizer) -> None:
    message_of(lambda: characters.encode_batch("the"), UsageError)


def test_numbers_are_no_texts(characters: Tokenizer) -> None:
    message_of(lambda: train(["1"], merges=0).encode_batch(pa.array([1, 11])), UsageError)


def test_a_character_model_refuses_bytes_that_are_no_utf_8() -> None:
    message_of(lambda: train(["ÿa"], merges=0).encode(b"a\xff"), InvalidTextError)


def test_an_array_of_strings_that_are_no_utf_8_is_refused(characters: Tokenizer) -> None:
    buffers = [None, pa.py_buffer(np.array([0, 3])), pa.py_buffer(b"a\xe4b")]
    message_of(lambda: characters.encode_batch(pa.Array.from_buffers(pa.large_string(), 1, buffers)), InvalidTextError)


# --- files and threads ------------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path: Path, characters: Tokenizer) -> None:
    path = tmp_path / "tokenizer.json"
    for tokenizer in (train(["ab"], merges=1), characters):
        tokenizer.save(path)
    loaded = tokenmill.Tokenizer.from_file(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert loaded.sha256 == characters.sha256
    assert loaded.encode("the cat") == characters.encode("the cat")


def test_errors_of_files_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    told = message_of(lambda: Tokenizer.from_file(path), TokenizerFileError)
    assert told == f"{path}: No such file or directory; give the path of a tokenizer.json"
    path.write_bytes(b"[]")
    told = message_of(lambda: Tokenizer.from_file(path), TokenizerFileError)
    assert told == f"{path}: not a tokenizer: a JSON object is needed, this is a list"


def test_the_package_has_no_other_names() -> None:
    with pytest.raises(AttributeError, match="module 'tokenmill' has no attribute 'Tokeniser'"):
        _ = tokenmill.Tokeniser


def test_threads_may_share_a_tokenizer() -> None:
    tokenizer = train(CORPUS, model="byte-bpe", pretokenizer="gpt2", merges=40)
    texts = [f"{text} {number} " * (number % 7) for number in range(60 if JIT else 6) for text in CORPUS[:4]]
    expected = [tokenizer.encode(text) for text in texts]
    shared, wrong = train(CORPUS, model="byte-bpe", pretokenizer="gpt2", merges=40), []

    def encode_all(order: int) -> None:
        for place in range(len(texts))[::order]:
            if shared.encode(texts[place]) != expected[place]:
                wrong.append(place)

    threads = [threading.Thread(target=encode_all, args=(order,)) for order in (1, -1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
