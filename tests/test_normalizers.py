"""Normalizers: kernels against plain Python over `unicodedata2`, against Hugging Face's, and what stands in files."""

from __future__ import annotations

import functools
import itertools
import types

import numpy as np
import pytest
import tokenizers
import unicodedata2
from hypothesis import given
from hypothesis import strategies as st

from tests.normalizing import normalize_plainly, run_batch
from tests.strategies import form_texts
from tests.training import few_cases
from tokenmill.data import NORMALIZATION_FILE, UNICODE_VERSION, load_normalization_table
from tokenmill.data.build_normalization_table import build_normalization_table
from tokenmill.errors import InvalidTextError, UsageError
from tokenmill.kernels import normalize
from tokenmill.kernels.compose import FOLLOWS, STARTS
from tokenmill.names import NORMALIZERS
from tokenmill.text import normalizers
from tokenmill.text.normalizers import Normalizer, Replace
from tokenmill.text.stages import build_form

FORMS = ["nfc", "nfd", "nfkc", "nfkd"]
SINGLE = [name for name in NORMALIZERS if name != "identity"]
REPLACING = [
    Replace("e", "é"),
    Replace("a\u0301", ""),
    Replace(r"\s+", " ", is_regex=True),
    Replace(r"\p{M}|B*", "<>", is_regex=True),
]
BERT = Normalizer(("bert_clean", "strip_accents", "lowercase"))


def characters() -> list[str]:
    return [chr(point) for point in range(0x110000) if not 0xD800 <= point < 0xE000]


# --- against plain Python -------------------------------------------------------------------------------------------------


@pytest.mark.jit
@pytest.mark.parametrize("name", SINGLE)
def test_every_character(name: str) -> None:
    normalizer = Normalizer((name,))
    found, _ = run_batch(normalizer, characters())
    assert found == [normalize_plainly(normalizer, character) for character in characters()]


@pytest.mark.jit
@pytest.mark.parametrize("name", ["nfc", "nfkc"])
def test_everything_that_can_be_joined(name: str) -> None:
    """All pairs of a character that is in Unicode's rules and one that follows another; of Hangul every seventh syllable."""
    flags = build_form(name).flags
    ruled = np.flatnonzero((flags & ~np.uint8(STARTS)) | (load_normalization_table().combining > 0)).tolist()
    before = [*map(chr, (point for point in ruled if not 0xAC00 <= point < 0xD7A4 or point % 7 == 0))]
    following = [*map(chr, np.flatnonzero(flags & FOLLOWS).tolist())]
    assert len(before) > 3000 and len(following) > 130
    for separator, one in itertools.product(("|", "你"), following):
        text = separator.join(first + one for first in before)
        assert Normalizer((name,)).normalize(text) == unicodedata2.normalize(name.upper(), text)


@few_cases(200, 8)
@given(texts=st.lists(form_texts(), max_size=4), name=st.sampled_from(SINGLE))
def test_any_text(texts: list[str], name: str) -> None:
    normalizer = Normalizer((name,))
    assert run_batch(normalizer, texts)[0] == [normalize_plainly(normalizer, text) for text in texts]


@few_cases(150, 8)
@given(texts=st.lists(form_texts(), max_size=3), steps=st.lists(st.sampled_from([*SINGLE, *REPLACING]), max_size=4))
def test_one_after_the_other(texts: list[str], steps: list[str | Replace]) -> None:
    normalizer = Normalizer(tuple(steps))
    assert run_batch(normalizer, texts)[0] == [normalize_plainly(normalizer, text) for text in texts]


@few_cases(100, 6)
@given(texts=st.lists(form_texts(), max_size=3), steps=st.lists(st.sampled_from([*SINGLE, *REPLACING]), min_size=1, max_size=3))
def test_origins(texts: list[str], steps: list[str | Replace]) -> None:
    """Aligned or not, the text is the same; each byte comes from whole characters of its own document."""
    normalizer = Normalizer(tuple(steps))
    plain, _ = run_batch(normalizer, texts)
    found, origins = run_batch(normalizer, texts, align=True)
    assert found == plain
    if origins is None:
        assert found == texts
        return
    edges = np.cumsum([0, *(len(text.encode()) for text in texts)])
    lengths = [len(character.encode()) for text in texts for character in text]
    begins = {0, *np.cumsum(lengths).tolist()}
    bytes_of = np.repeat(np.arange(len(texts)), [len(text.encode()) for text in found])
    assert origins.shape == (bytes_of.size, 2)
    assert set(origins.ravel().tolist()) <= begins
    assert (origins[:, 0] >= edges[bytes_of]).all() and (origins[:, 1] <= edges[bytes_of + 1]).all()
    assert (origins[:, 0] <= origins[:, 1]).all()


@pytest.mark.parametrize(
    ("steps", "text", "expected"),
    [
        (("nfc",), "xe\u0301", [(0, 1), (1, 4), (1, 4)]),
        (("nfd",), "xé", [(0, 1), (1, 3), (1, 3), (1, 3)]),
        (("nfc",), "你xяe\u0301é", [(0, 3)] * 3 + [(3, 4)] + [(4, 6)] * 2 + [(6, 9)] * 2 + [(9, 11)] * 2),
        (("strip_accents",), "é\u0301x", [(0, 2), (4, 5)]),
        (("lowercase",), "İA", [(0, 2), (0, 2), (0, 2), (2, 3)]),
        (("nfkc", "lowercase"), "ﬁX", [(0, 3), (0, 3), (3, 4)]),
        (("nfd", Replace("e", "yy")), "é", [(0, 2), (0, 2), (0, 2), (0, 2)]),
        ((Replace("b+", "", is_regex=True), "lowercase"), "AbbC", [(0, 1), (3, 4)]),
    ],
)
def test_where_bytes_come_from(steps: tuple[str | Replace, ...], text: str, expected: list[tuple[int, int]]) -> None:
    _, origins = run_batch(Normalizer(steps), [text], align=True)
    assert origins is not None and list(map(tuple, origins.tolist())) == expected


@pytest.mark.parametrize("name", SINGLE)
def test_what_needs_no_change_is_not_copied(name: str) -> None:
    text = np.frombuffer(b"all lower case, 90 bytes of ascii; more than one block of sixty-four of them, so it is long", np.uint8)
    ends = np.array([5, text.size])
    same, same_ends = Normalizer((name,)).runner().normalize(text, ends)
    assert same.tobytes() == text.tobytes() and same_ends.tolist() == ends.tolist()
    if name not in ("lowercase", "bert_clean"):
        assert np.shares_memory(same, text)


def test_what_follows_but_is_not_joined_is_in_the_form() -> None:
    """Vowel signs of Bengali and Tamil, and the dot below behind a letter of Hindi that it is not joined to."""
    text = np.frombuffer("বাংলা ভাষা தமிழ் பாடல் बड़ा पढ़ना й é".encode(), np.uint8)
    assert np.shares_memory(Normalizer(("nfc",)).runner().normalize(text, np.array([text.size]))[0], text)


@pytest.mark.parametrize("name", SINGLE)
def test_bytes_that_are_no_utf_8_stay(name: str) -> None:
    raw = b"\xff\xcc\x81\xc3(e\xcc\x81\xe1\x84 \xed\xa0\x80\xf0\x9f"
    out, ends = Normalizer((name,)).runner().normalize(np.frombuffer(raw, np.uint8), np.array([len(raw)]))
    expected = [b"\xff", b"\xc3(", b"\xe1\x84 \xed\xa0\x80\xf0\x9f"]
    positions = [out.tobytes().index(part) for part in expected]
    assert positions == sorted(positions) and ends.tolist() == [out.size]


@pytest.mark.jit
@pytest.mark.parametrize("name", FORMS)
def test_long_runs_take_linear_room_and_time(name: str) -> None:
    """Two million marks behind one letter, in the wrong order: more than the scratch memory has at first."""
    above, below, many = "\u0301", "\u0323", 1_000_000
    first = "a" + below if name.endswith("d") else "ạ"
    assert Normalizer((name,)).normalize("a" + (above + below) * many) == first + below * (many - 1) + above * many
    text = "각\ufdfa" * 20_000
    assert Normalizer((name,)).normalize(text) == unicodedata2.normalize(name.upper(), text)


# --- against Hugging Face -------------------------------------------------------------------------------------------------

PEERS = {
    **{name: getattr(tokenizers.normalizers, name.upper())() for name in FORMS},
    "lowercase": tokenizers.normalizers.Lowercase(),
    "strip_marks": tokenizers.normalizers.StripAccents(),
    "bert_clean": tokenizers.normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=False, strip_accents=False, lowercase=False
    ),
    "strip_accents": tokenizers.normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=False, strip_accents=True, lowercase=False
    ),
}


@functools.cache
def peer_knows(name: str, character: str) -> bool:
    """Whether Hugging Face's tables, which are of other Unicode versions, say of a character by itself and behind a letter what
    ours do.
    """
    normalizer = Normalizer((name,))
    tried = (character, f"a{character}", f"{character}\u0301", f"\u0301{character}")
    return all(PEERS[name].normalize_str(text) == normalize_plainly(normalizer, text) for text in tried)


@few_cases(200, 5)
@given(text=form_texts(), name=st.sampled_from(SINGLE))
def test_as_hugging_face_does(text: str, name: str) -> None:
    text = "".join(character for character in text if peer_knows(name, character))
    assert Normalizer((name,)).normalize(text) == PEERS[name].normalize_str(text)


@pytest.mark.jit
@pytest.mark.parametrize(
    ("name", "most"), [("nfc", 0), ("nfd", 21), ("nfkc", 170), ("nfkd", 191), ("lowercase", 28), ("strip_marks", 408)]
)
def test_how_many_characters_hugging_face_does_not_know(name: str, most: int) -> None:
    """All differences are of characters that its older tables lack, or in `lowercase`, its newer ones know in advance."""
    found, _ = run_batch(Normalizer((name,)), characters())
    others = [one for one, ours in zip(characters(), found, strict=True) if PEERS[name].normalize_str(one) != ours]
    assert len(others) <= most
    assert all(ord(one) > 0x7F0 for one in others)


def test_bert_uncased() -> None:
    peer = tokenizers.normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=True, lowercase=True)
    text = "Héllo\u200b\x00, WÖRLD!\tİstanbul\u2028ΟΔΟΣ 你好 ﬁ\ufffd\xad"
    assert BERT.normalize(text) == peer.normalize_str(text) == "hello, world! istanbul οδοσ 你好 ﬁ"


@pytest.mark.parametrize(("pattern", "is_regex"), [("aa", False), ("", False), (".", False), ("a+", True), (r"\s+", True)])
def test_replace_as_hugging_face_does(pattern: str, is_regex: bool) -> None:
    text = "aaaa baaa.  a\n\nc"
    if not pattern:
        with pytest.raises(UsageError, match=r"^replace: there is nothing to replace; give a text or a pattern$"):
            Replace(pattern, "x")
        return
    peer = tokenizers.normalizers.Replace(tokenizers.Regex(pattern) if is_regex else pattern, r"\1$0")
    assert Normalizer((Replace(pattern, r"\1$0", is_regex=is_regex),)).normalize(text) == peer.normalize_str(text)


# --- what is meant --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lowercase", "MAß ΟΔΟΣ İ में ที่ É e\u0301", "maß οδοσ i\u0307 में ที่ é e\u0301"),
        ("strip_accents", "é Ångström ñ ø में ที่", "e Angstrom n ø म ท"),
        ("strip_marks", "é e\u0301 में", "é e म"),
        ("bert_clean", "a\tb\r\nc\x00\u200d\ue000\ufffd\xa0d", "a b  c d"),
        ("nfkc", "ﬁ ² Å ㍿", "fi 2 Å 株式会社"),
        ("identity", "É", "É"),
    ],
)
def test_by_hand(name: str, text: str, expected: str) -> None:
    assert Normalizer.of(name).normalize(text) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "identity",
        "nfc",
        ["nfc", "lowercase"],
        {"name": "replace", "pattern": "a", "content": ""},
        ["bert_clean", {"name": "replace_regex", "pattern": "a+", "content": "b"}],
    ],
)
def test_spec_and_back(spec: object) -> None:
    normalizer = Normalizer.of(spec)  # type: ignore[arg-type]
    assert normalizer.spec == spec and Normalizer.of(normalizer.spec) == normalizer == Normalizer.of(normalizer)


def test_names() -> None:
    assert str(Normalizer.of(["nfc", "lowercase"])) == "nfc, lowercase"
    assert str(Normalizer()) == "identity" and Normalizer().is_identity and Normalizer.of(None) == Normalizer.of([])
    assert str(Normalizer((Replace("a", "b"),))) == "replace 'a' by 'b'"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("loud", "unknown normalizer 'loud'; known are: identity, nfc, nfd, nfkc, nfkd, lowercase, strip_accents, "),
        ([7], "7 is no normalizer; give a name, or name replace with pattern and content"),
        ({"name": "replace", "pattern": "a"}, "a normalizer replace needs content"),
        (
            {"name": "replace", "pattern": "a", "content": "b", "by": "c"},
            "a normalizer replace has no option 'by'; it has pattern ",
        ),
        ({"name": "replace", "pattern": "a", "content": 7}, "content of a normalizer: 7 is no str; give a text"),
        (
            {"name": "replace_regex", "pattern": "(", "content": ""},
            "pattern '(': missing ) at character 1; it must be a pattern ",
        ),
        (
            {"name": "replace", "pattern": "\ud800", "content": ""},
            "replace: '\\ud800' is not Unicode text; leave its surrogates out",
        ),
    ],
)
def test_what_is_no_normalizer(spec: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Normalizer.of(spec)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("nfc", "nfc"),
        ("replace:a=>b", {"name": "replace", "pattern": "a", "content": "b"}),
        ("replace:=>=>", {"name": "replace", "pattern": "=>", "content": ""}),
        ("replace_regex:a:b=>", {"name": "replace_regex", "pattern": "a:b", "content": ""}),
    ],
)
def test_options(text: str, spec: object) -> None:
    assert normalizers.parse_option(text) == spec


def test_option_without_content() -> None:
    with pytest.raises(UsageError, match=r"what is put in its place is missing; write replace:OLD=>NEW$"):
        normalizers.parse_option("replace:a")


def test_lone_surrogate() -> None:
    with pytest.raises(InvalidTextError, match=r"^the text holds the lone surrogate U\+D800 at character 1, which UTF-8 cannot"):
        BERT.normalize("a\ud800")


# --- the table ------------------------------------------------------------------------------------------------------------


@pytest.mark.jit
def test_the_table_is_what_its_generator_makes() -> None:
    assert build_normalization_table(unicodedata2) == NORMALIZATION_FILE.read_bytes()


def test_the_table_is_of_one_unicode_version() -> None:
    old = types.ModuleType("unicodedata2")
    old.unidata_version = "1.1"  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=f"^the table is of Unicode {UNICODE_VERSION}, but this module holds 1.1; install "):
        build_normalization_table(old)


def test_tables_name_bits_once() -> None:
    assert normalize.NONSPACING & normalize.CONTROL == 0


def test_replacing_must_not_fill_the_memory() -> None:
    twice = {"name": "replace", "pattern": "a", "content": "a" * 31}
    assert Normalizer.of([twice, twice]).normalize("a") == "a" * 31 * 31
    message = r"^replace: texts could get 29,791 times as long; at most 1,000 times is allowed$"
    with pytest.raises(UsageError, match=message):
        Normalizer.of([twice, twice, twice])
    assert Normalizer.of({"name": "replace", "pattern": "x" * 10, "content": "a" * 1500}).normalize("a") == "a"
    with pytest.raises(UsageError, match="1,500 times"):
        Normalizer.of({"name": "replace_regex", "pattern": "x{10}", "content": "a" * 1500})
