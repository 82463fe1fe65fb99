"""Several normalizers in one pass: against plain Python over `unicodedata2`, and against a pass for each of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.normalizing import normalize_plainly, run_batch
from tests.strategies import BAD_BYTES, MARK_FRAGMENTS, MARKS, form_texts, mark_texts
from tests.training import few_cases
from tokenmill.kernels import character_map
from tokenmill.text.character_maps import DECOMPOSING, MAPS, build_map
from tokenmill.text.normalizers import Normalizer, Replace
from tokenmill.text.stages import FormStage, MapStage, build_stages

STEPS = ["lowercase", "bert_clean", "strip_marks", "strip_accents", "nfd", "nfkd"]
#: What is one pass. No order of marks is left behind the first three, but for a few that are no Mn.
FUSED: list[tuple[str | Replace, ...]] = [
    ("bert_clean", "strip_accents", "lowercase"),
    ("strip_accents",),
    ("nfkd", "strip_marks"),
    ("nfd",),
    ("nfkd",),
    ("lowercase", "nfd"),
    ("nfd", "lowercase", "strip_marks", "bert_clean"),
    ("lowercase", "bert_clean"),
    (Replace(" ", "▁"),),
    ("lowercase", Replace("e", "É"), "nfd", Replace("x", ""), Replace("\n", "\t\n")),
    (Replace("Q", "q"), "bert_clean", Replace("é", "e\u0301" * 9), Replace("\u0301", "\u302e"), "lowercase"),
]
#: Steps of characters that are replaced: of ASCII, of more, by nothing, by what later steps change, by much.
REPLACED = [Replace(" ", "▁"), Replace("e", "É"), Replace("\n", ""), Replace("각", "\u0323\u0301E"), Replace("\x00", "\x00 ")]
ENCODED_MARKS = [text.encode() for text in (*MARKS, *MARK_FRAGMENTS)]
CHARACTERS = [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]


def check(steps: tuple[str | Replace, ...], texts: list[str]) -> None:
    normalizer = Normalizer(steps)
    assert run_batch(normalizer, texts)[0] == [normalize_plainly(normalizer, text) for text in texts]


@pytest.mark.parametrize("steps", FUSED)
def test_it_is_one_pass(steps: tuple[str | Replace, ...]) -> None:
    (stage,) = Normalizer(steps).runner().stages
    assert type(stage) is MapStage


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (("nfc", "lowercase", "strip_accents"), [FormStage, MapStage]),
        (("strip_accents", "lowercase", "nfd", "nfc"), [MapStage, MapStage, FormStage]),
        (("nfkc", "nfc"), [FormStage, FormStage]),
    ],
)
def test_what_is_one_pass(steps: tuple[str | Replace, ...], expected: list[type]) -> None:
    assert [type(stage) for stage in build_stages(steps, fused=True)] == expected
    unfused = [type(stage) for stage in build_stages(steps, fused=False)]
    assert len(unfused) > len(expected) or steps == ("nfkc", "nfc")


@pytest.mark.jit
@pytest.mark.parametrize("steps", FUSED)
def test_every_character_among_others(steps: tuple[str | Replace, ...]) -> None:
    """As parts of long texts, where most go by blocks and eight bytes at a time; `test_every_character` has them alone."""
    check(steps, ["x".join(CHARACTERS), "X" * 70, " \t".join(CHARACTERS[::-1]), "".join(CHARACTERS)])


@pytest.mark.jit
@pytest.mark.parametrize("steps", FUSED)
def test_every_character_between_marks(steps: tuple[str | Replace, ...]) -> None:
    """One that goes, or is not in order, between two that stay and have classes (U+302E 224, U+1B44 9)."""
    few = [one for one in CHARACTERS if not 0x3400 <= ord(one) <= 0xD7A3 and ord(one) < 0x1F000]
    check(steps, [f"\u1b44{one}\u302e{one}\u1b44" for one in few])


@few_cases(400, 10)
@given(
    texts=st.lists(st.one_of(mark_texts(), form_texts()), max_size=5),
    steps=st.lists(st.sampled_from([*STEPS, *REPLACED]), max_size=4),
)
@example(texts=["\u302e\u200d\u1b44"], steps=["bert_clean", "strip_accents"])
@example(texts=["\u1b44", "\u200d\u200d\u302e\u1b44"], steps=["bert_clean", "strip_accents"])
@example(texts=["\u0301\u0301", "\u0301\u302e\u1b44", "\u0301\u302e\u1b44"], steps=["strip_accents"])
@example(texts=["a\u302e", "\u1b44", "a\u0301\u1b44"], steps=["strip_accents"])
@example(texts=["e" * 70 + " ee e\u0301\n\x00" * 20], steps=["lowercase", *REPLACED])
@example(texts=["각" * 30 + "\u0301\u0323" * 3], steps=["nfd"])
def test_any_texts(texts: list[str], steps: list[str | Replace]) -> None:
    check(tuple(steps), texts)


@few_cases(300, 10)
@given(
    parts=st.lists(st.one_of(*map(st.sampled_from, (BAD_BYTES, ENCODED_MARKS))), max_size=30),
    steps=st.sampled_from(FUSED),
)
def test_bytes_that_are_no_utf_8(parts: list[bytes], steps: tuple[str | Replace, ...]) -> None:
    raw, normalizer = b"".join(parts), Normalizer(steps)
    found, ends = normalizer.runner().normalize(np.frombuffer(raw, np.uint8), np.array([len(raw)]))
    plain = normalize_plainly(normalizer, raw.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    assert found.tobytes() == plain and ends.tolist() == [len(plain)]


@few_cases(100, 5)
@given(texts=st.lists(mark_texts(), min_size=1, max_size=4), steps=st.sampled_from(FUSED))
def test_a_runner_is_used_again(texts: list[str], steps: tuple[str | Replace, ...]) -> None:
    """What one batch has left in the scratch memory does not reach the next."""
    normalizer = Normalizer(steps)
    runner = normalizer.runner()
    for text in [*texts, "", "".join(texts)]:
        data = np.frombuffer(text.encode(), np.uint8)
        assert runner.normalize(data, np.array([data.size]))[0].tobytes().decode() == normalize_plainly(normalizer, text)


@pytest.mark.parametrize("steps", [("nfd",), ("strip_accents", "lowercase")])
def test_disorder_in_some_documents_of_many(steps: tuple[str | Replace, ...]) -> None:
    """Among them the first, the last, neighbours, and one whose disorder begins late."""
    texts = [f"Écrit {number} \u1b44" for number in range(40)]
    for number in (0, 3, 4, 5, 20, 39):
        texts[number] = f"Écrit\u302e e\u0301 {number}\u302e\u1b44 É\u302e"
    check(steps, texts)


def test_entries_that_are_long_get_room() -> None:
    """U+FDFA becomes 18 characters, 33 bytes: eleven times as many."""
    check(("nfkd",), ["\ufdfa" * 500, "", "각\ufdfa" * 300])


@pytest.mark.parametrize("steps", [("bert_clean", "lowercase"), ("nfd",), ("nfkd", "strip_nonspacing"), ("strip_marks",)])
def test_both_tables_say_the_same(steps: tuple[str | Replace, ...]) -> None:
    """`quick` and `entries`, of each character that has two or three bytes."""
    assert {*steps} <= {*MAPS, *DECOMPOSING}
    table = build_map(steps)
    for point in itertools.chain(range(0x80, 0xD800), range(0xE000, 0x10000)):
        entry, quick = int(table.entries[point]), int(table.quick[point])
        data = chr(point).encode() if entry < 0 else table.data[table.starts[entry] : table.starts[entry + 1]].tobytes()
        if quick >= 0:
            assert quick == int.from_bytes(data, "little") | len(data) << character_map.LENGTH_BIT
            assert entry < 0 or not table.classes[entry].any()
        elif quick == character_map.CAREFUL:
            assert len(data) > character_map.ENTRY_BYTES
        else:
            assert quick == -1 - entry
    assert (table.quick[0xD800:0xE000] == character_map.CAREFUL).all()


def test_what_has_no_entry_is_not_copied() -> None:
    text = np.frombuffer(("你好，世界 " * 20 + "x" * 70 + "😀").encode(), np.uint8)
    for steps in (("nfd",), ("strip_accents",), ("strip_marks",)):
        assert np.shares_memory(Normalizer(steps).runner().normalize(text, np.array([text.size]))[0], text)
