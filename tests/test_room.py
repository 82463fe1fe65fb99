"""Kernels write inside the arrays they are given, whatever the sizes of these are, and whatever calls came before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import form_texts
from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.arrow import read_only
from tokenmill.encoding.encoder import Encoder
from tokenmill.kernels import character_map, compose, encode, forms, normalize
from tokenmill.text.character_maps import build_map
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.stages import build_form

#: Characters that become more bytes: in lower case, decomposed, in compatible forms; 18 characters of one in NFKC.
GROWING = "\u0130\u1e9e\ufdfa\u0390\u1fb7\u3300\u023a\ufb03½"
growing_texts = st.text(st.sampled_from(GROWING + "a\u0301 é가"), max_size=60) | form_texts()
STEPS: dict[str, Any] = {
    "bert": ["bert_clean", "strip_accents", "lowercase"],
    "lowercase": "lowercase",
    "nfd": "nfd",
    "nfc": "nfc",
    "nfkc": "nfkc",
    "several": ["nfkc", "lowercase", {"name": "replace", "pattern": "a", "content": "<aa>"}, "nfd"],
}
FENCE, ITEMS_OUTSIDE = 0x5A, 2048


class Guarded:
    """Arrays with memory around them that nobody may write to."""

    def __init__(self) -> None:
        self._whole: list[tuple[np.ndarray, int]] = []

    def allocate(self, shape: int | tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
        size, width = int(np.prod(shape)), np.dtype(dtype).itemsize
        whole = np.full((size + 2 * ITEMS_OUTSIDE) * width, FENCE, np.uint8)
        self._whole.append((whole, ITEMS_OUTSIDE * width))
        return whole[ITEMS_OUTSIDE * width : (ITEMS_OUTSIDE + size) * width].view(dtype).reshape(shape)

    def check(self) -> None:
        for whole, outside in self._whole:
            assert (whole[:outside] == FENCE).all() and (whole[-outside:] == FENCE).all()


# --- one call, arrays of any size -----------------------------------------------------------------------------------------------


def run_in(guarded: Guarded, call: Callable[..., None], texts: list[str], sizes: tuple[int, int]) -> tuple[bytes, np.ndarray]:
    """Run a normalizer's kernel to its end in arrays of these sizes, each grown alone by no more than is missing."""
    data = read_only(np.frombuffer("".join(texts).encode(), np.uint8))
    doc_ends = read_only(np.cumsum([len(text.encode()) for text in texts], dtype=np.int64))
    state, out_ends = guarded.allocate(normalize.STATE_SIZE, np.int64), guarded.allocate(doc_ends.size, np.int64)
    state[:] = 0
    state[character_map.MARKS_END] = -1
    out, origins = guarded.allocate(sizes[0], np.uint8), guarded.allocate((sizes[1], 2), np.int64)
    while True:
        call(data, doc_ends, state, out, out_ends, origins)
        guarded.check()
        written, missing = int(state[normalize.WRITTEN]), int(state[normalize.MISSING])
        if state[normalize.DOCUMENT] == doc_ends.size:
            return out[:written].tobytes(), origins[:written].copy()
        assert missing > 0 and min(out.size, len(origins)) < written + missing
        grown = guarded.allocate(max(out.size, written + missing), np.uint8)
        grown_origins = guarded.allocate((max(len(origins), written + missing), 2), np.int64)
        grown[:written], grown_origins[:written] = out[:written], origins[:written]
        out, origins = grown, grown_origins


def map_call(name: str) -> Callable[..., None]:
    return functools.partial(character_map.map_characters, build_map((name,)))


def form_call(guarded: Guarded, name: str) -> Callable[..., None]:
    stretch, spare = (guarded.allocate((512, 4), np.int64) for _ in range(2))

    def call(text: np.ndarray, doc_ends: np.ndarray, state: np.ndarray, *target: np.ndarray) -> None:
        forms.apply_form(build_form(name), text, doc_ends, state, stretch, spare, *target)

    return call


sizes = st.tuples(st.integers(0, 600), st.integers(1, 600))


@few_cases(60, 10)
@given(
    texts=st.lists(growing_texts, min_size=1, max_size=3), sizes=sizes, name=st.sampled_from(["lowercase", "nfc", "nfkc", "nfd"])
)
def test_room_is_that_of_the_array_written_to(texts: list[str], sizes: tuple[int, int], name: str) -> None:
    guarded = Guarded()
    call = map_call(name) if name == "lowercase" else form_call(guarded, name)
    found, origins = run_in(guarded, call, texts, sizes)
    ample, expected_origins = run_in(Guarded(), call, texts, (1 << 14, 1 << 14))
    assert found == ample and np.array_equal(origins, expected_origins)


def test_no_decomposition_is_longer_than_a_stretch_expects() -> None:
    for name in ("nfc", "nfd", "nfkc", "nfkd"):
        assert np.diff(build_form(name).starts).max() <= compose.LONGEST_DECOMPOSITION


# --- ids ------------------------------------------------------------------------------------------------------------------------

MODELS = {
    "byte-bpe": {"pretokenizer": "gpt2"},
    "char-bpe": {"pretokenizer": "wordpunct", "unk_token": "<unk>"},
    "wordpiece": {"pretokenizer": "bert", "unk_token": "[UNK]"},
    "suffixes": {"model": "char-bpe", "pretokenizer": "bert", "unk_token": "<unk>", "end_of_word_suffix": "</w>"},
}
CORPUS = ["low lower lowest newest é", "the thinker thinks ab ove"] * 2


@functools.cache
def model_of(name: str) -> Tokenizer:
    options: dict[str, Any] = {"model": name, "merges": 12, **MODELS[name]}
    return train(CORPUS, **options)


@functools.cache
def encoder_of(name: str) -> Encoder:
    return Encoder(model_of(name).model, model_of(name).pretokenizer, Normalizer())


@pytest.mark.parametrize("name", MODELS)
@few_cases(40, 6)
@given(texts=st.lists(st.text("lower é.", max_size=40), min_size=1, max_size=3), room=st.integers(0, 200))
def test_a_block_without_room_for_its_ids_is_not_begun(name: str, texts: list[str], room: int) -> None:
    tokenizer, encoder, guarded = model_of(name), encoder_of(name), Guarded()
    data, doc_ends = np.frombuffer("".join(texts).encode(), np.uint8), np.cumsum([len(text.encode()) for text in texts])
    ids, unk = guarded.allocate(room, np.int32), tokenizer.vocab.get("[UNK]")
    expected = [-1 if one == unk else one for text in texts for one in tokenizer.encode(text)]
    for block in tokenizer.pretokenizer.blocks(data, doc_ends):
        doc_ids = guarded.allocate(block.doc_words.size, np.int64)
        arguments = (encoder._tables, encoder._cache, *block)
        found = encode.encode_block(*arguments, ids, 0, doc_ids)
        guarded.check()
        if found < 0:
            assert -found > room and (ids.view(np.uint8) == FENCE).all()
            ids = guarded.allocate(-found, np.int32)
            found = encode.encode_block(*arguments, ids, 0, doc_ids)
            guarded.check()
        assert ids[:found].tolist() == expected and doc_ids.tolist()[-1:] == [found]


def test_ids_get_larger_memory_where_they_have_no_room() -> None:
    tokenizer, encoder = (
        model_of("suffixes"),
        Encoder(model_of("suffixes").model, model_of("suffixes").pretokenizer, Normalizer()),
    )
    encoder._ids_per_byte = 0
    assert encoder.encode(pa.array(CORPUS, pa.large_string())).ids.to_pylist() == tokenizer.encode_batch(CORPUS).to_pylist()


# --- one call after another -----------------------------------------------------------------------------------------------------

calls = st.lists(
    st.tuples(st.sampled_from(["align", "normalize"]), st.lists(growing_texts, max_size=3), st.sampled_from([1, 1, 40])),
    min_size=2,
    max_size=6,
)


def run(runner: Any, how: str, texts: list[str]) -> list[Any]:
    data = np.frombuffer("".join(texts).encode(), np.uint8)
    ends = np.cumsum([len(text.encode()) for text in texts], dtype=np.int64)
    return [None if array is None else array.tolist() for array in getattr(runner, how)(data, ends)]


@pytest.mark.parametrize("steps", STEPS)
@few_cases(25, 3)
@given(calls=calls)
def test_a_normalizer_keeps_nothing_of_earlier_texts(steps: str, calls: list[tuple[str, list[str], int]]) -> None:
    normalizer = Normalizer.of(STEPS[steps])
    runner = normalizer.runner()
    for how, texts, times in calls:
        repeated = [text * times for text in texts]
        assert run(runner, how, repeated) == run(normalizer.runner(), how, repeated)


@pytest.mark.jit
def test_a_text_that_grows_each_time_is_processed_alike() -> None:
    tokenizer = model_of("wordpiece")
    tokenizer = Tokenizer(tokenizer.model, pretokenizer=tokenizer.pretokenizer, normalizer=Normalizer.of(STEPS["bert"]))
    text = "\u0130" * 2000
    first = tokenizer.process(text)
    assert first.offsets == [(0, 2000)]
    assert all(tokenizer.process(text) == first for _ in range(29))


@pytest.mark.parametrize("name", ["byte-bpe", "wordpiece"])
@few_cases(25, 4)
@given(texts=st.lists(st.text("lower é.", max_size=30) | st.none(), max_size=8), data=st.data())
def test_slices_of_arrays(name: str, texts: list[str | None], data: st.DataObject) -> None:
    tokenizer = model_of(name)
    first = data.draw(st.integers(0, len(texts)))
    count = data.draw(st.integers(0, len(texts) - first))
    part = pa.array(texts, pa.large_string()).slice(first, count)
    expected = [tokenizer.encode(text or "") for text in texts[first : first + count]]
    assert tokenizer.encode_batch(part).to_pylist() == expected
    encoded, trace = tokenizer.trace_batch(part)
    assert encoded.ids.to_pylist() == expected and len(trace.spans) == sum(map(len, expected))
