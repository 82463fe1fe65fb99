"""All Hypothesis strategies of the tests."""

from __future__ import annotations

import functools
import json
import re

import regex
from hypothesis import strategies as st

from tokenmill.data import load_class_table
from tokenmill.kernels import scan_classes as bits
from tokenmill.names import PRETOKENIZERS

#: Texts that scanners get wrong: contractions, whitespace of all kinds, marks, scripts without spaces, digits, four-byte letters.
NASTY_FRAGMENTS = (
    *("a", "B", "word", "longerword", "don't", "'s", "'re", "'ll", "'S", "’", "'", "''", "_", "a_b", "x'y'z"),
    *("'vE", "'Re", "camelCase", "HTTPServer", "ABC", "'ſ", "'LL", "it'select", "a's's", ".\n", ";\n//", "/", "\n\n  ", "  \n"),
    *(" ", " ", "  ", "   ", "\n", "\r\n", "\t", "\x0b", "\x85", "\xa0", "\u3000", "\u2028", "\x1c", "\x1f", "\u200b", "\x00"),
    *("0", "42", "1234567", "٣٤", "²", "Ⅳ", "½", "१२", "𝟘"),
    *("é", "e\u0301", "ß", "ǅ", "नमस्ते", "ที่", "你好", "。", "かな", "한글", "жизнь", "𝔘", "𐐀", "ʼ", "ª", "文AB", "文Ab", "É"),
    *(".", ",", "--", "...", "(", "!?", "$", "€", "^", "😀", "👩\u200d💻", "❤\ufe0f", "\ufffd", "\U0010ffff", "\ue000"),
)

#: The pre-tokenizers that need nothing but their name.
NAMED_PRETOKENIZERS = [name for name in PRETOKENIZERS if name != "regex"]

#: Bytes that are no UTF-8: stray and truncated forms, overlong forms, surrogates, code points above 10FFFF.
BAD_BYTES = (
    *(b"\xff", b"\x80", b"\xbf\xbf", b"\xc3", b"\xe2\x80", b"\xf0\x9f", b"\xf0\x9f\x98"),
    *(
        b"\xc0\xaf",
        b"\xc1\xbf",
        b"\xe0\x80\x80",
        b"\xf0\x80\x80\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
    ),
)


@functools.cache
def classes_agree(character: str) -> bool:
    """Whether `regex` and `re`, whose Unicode tables are of other versions, see a character as the project's table does."""
    found = int(load_class_table()[ord(character)])
    seen = (
        *((r"\p{L}", bits.LETTER), (r"\p{N}", bits.NUMBER), (r"\s", bits.WHITESPACE), (r"\p{M}", bits.MARK)),
        *((r"[\p{Lu}\p{Lt}]", bits.UPPER), (r"\p{Ll}", bits.LOWER), (r"[\p{Lm}\p{Lo}]", bits.OTHER_LETTER)),
        *((r"\p{Nd}", bits.DECIMAL), (r"\p{P}", bits.PUNCTUATION)),
        (r"[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]", bits.UNICODE_WORD),
    )
    return all(bool(regex.match(pattern, character)) == bool(found & bit) for pattern, bit in seen) and (
        bool(re.match(r"\w", character)) == bool(found & bits.RE_WORD)
    )


def nasty_texts(*, max_fragments: int = 60) -> st.SearchStrategy[str]:
    """Texts of up to `max_fragments` nasty fragments, with other characters between them."""
    others = st.characters(exclude_categories=("Cs",)).filter(classes_agree)
    fragments = st.one_of(st.sampled_from(NASTY_FRAGMENTS), st.sampled_from(NASTY_FRAGMENTS), others)
    return st.lists(fragments, max_size=max_fragments).map("".join)


def ascii_texts(*, max_fragments: int = 60) -> st.SearchStrategy[str]:
    """Texts of ASCII fragments alone, mostly words with a space: long stretches without a reason to leave the fast path."""
    plain = [fragment for fragment in NASTY_FRAGMENTS if fragment.isascii()]
    return st.lists(st.sampled_from(plain + [" the", " of", " it's", " can't've"] * 5), max_size=max_fragments).map("".join)


def nasty_bytes(*, max_fragments: int = 40) -> st.SearchStrategy[bytes]:
    """Nasty texts in UTF-8 with invalid bytes among them."""
    fragments = [fragment.encode() for fragment in NASTY_FRAGMENTS] + list(BAD_BYTES) * 2
    parts = st.lists(st.one_of(st.sampled_from(fragments), st.binary(max_size=4)), max_size=max_fragments)
    return parts.map(b"".join).filter(lambda text: all(map(classes_agree, text.decode("utf-8", "ignore"))))


def line_files() -> st.SearchStrategy[bytes]:
    """Small files of lines as they should not be: byte order marks, both line ends, lone returns, bad bytes, no end."""
    parts = (b"a", b"bc", "é".encode(), "😀".encode(), b"\n", b"\n", b"\r\n", b"\r", b"\xff", b"\x00", b"\xef\xbb\xbf", b" ")
    bodies = st.lists(st.sampled_from(parts), max_size=24).map(b"".join)
    return st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf"]), bodies).map(b"".join)


def jsonl_files() -> st.SearchStrategy[bytes]:
    """Small JSONL files: good records among blank lines and all kinds of bad ones, either line end, the last line perhaps cut."""
    good = nasty_texts(max_fragments=4).map(lambda text: json.dumps({"text": text, "id": len(text)}).encode())
    odd = st.sampled_from(
        [
            *(b"", b" \t", b"[1]", b'"x"', b"7", b"nul", b'{"text": null}', b'{"text": 1}', b'{"id": 1}'),
            *(b'{"text": "a", "text": "b"}', b'{"text": "\\u0000"}', b'{"text": "a"} {"text": "b"}'),
            *(b'{"text": "a", "\\u0074ext": "b"}', b'{"text": "\\ud83d"}', b'{"text": "\xff"}', b'{"text": "a", "b": "\xff"}'),
            *(b'{"text": "a", "b": NaN}', b'{"text": "a", "b": {"text": "c"}}'),
        ]
    )
    lines = st.tuples(st.one_of(good, odd), st.sampled_from([b"\n", b"\r\n"])).map(b"".join)
    bodies = st.lists(lines, max_size=8).map(b"".join)
    return st.tuples(bodies, st.sampled_from([b"", b'{"text": "the end"}', b'{"text": "ha'])).map(
        lambda parts: b'{"text": "first", "id": 0}\n' + b"".join(parts)
    )


def json_fragments() -> st.SearchStrategy[bytes]:
    """Parts of JSON lines, whole and broken: what stands in strings, around them, and where it must not stand."""
    numbers = (b"0", b"-0", b"-7.25e+3", b"1E5", b"01", b"1.", b".5", b"-", b"1e", b"NaN", b"-Infinity", b"nan")
    escapes = (b"\\n", b'\\"', b"\\\\", b"\\/", b"\\u00e9", b"\\uD83D\\ude00", b"\\ud83d", b"\\udc00", b"\\u12", b"\\x", b"\\")
    values = (b"true", b"false", b"null", b"tru", b'""', b'"a"', b"[]", b"{}", b"[1, [2, {}]]", b'{"text": {"id": [1]}}', b"[1,]")
    keys = (b'"text": ', b'"id":', b'"other" : ', b'"\\u0074ext":', b'"t\xc3\xa9xt":', b'"text"', b"text:")
    signs = (b"{", b"}", b"[", b"]", b",", b", ", b":", b'"', b'"', b" ", b"\t", b"\r", b"\x00", b"\x1f", b"\x7f")
    texts = (*(fragment.encode() for fragment in NASTY_FRAGMENTS), b"x" * 70)
    return st.sampled_from((*numbers, *escapes, *values, *keys, *signs, *texts, *BAD_BYTES)).map(
        lambda one: one.replace(b"\n", b"")
    )


@st.composite
def json_lines(draw: st.DrawFn) -> bytes:
    """A line of JSONL without its end: a record with a text, an id and more, in any order, perhaps with a few bytes wrong."""
    strings = nasty_texts(max_fragments=12) | st.just("x" * 130)
    scalars = strings | st.integers(-(10**20), 10**20) | st.floats() | st.booleans() | st.none()
    nested = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(strings, inner, max_size=3), max_leaves=6
    )
    pairs = [("text", draw(strings | nested)), ("id", draw(scalars)), *draw(st.lists(st.tuples(strings, nested), max_size=2))]
    record = dict(draw(st.permutations(pairs)))
    spaced = draw(st.sampled_from([(", ", ": "), (",", ":"), (" ,\t", " :\r")]))
    line = json.dumps(record, ensure_ascii=draw(st.booleans()), separators=spaced).encode()
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, len(line)))
        line = line[:start] + draw(st.just(b"") | json_fragments()) + line[start + draw(st.integers(0, 3)) :]
    return line


def hostile_json_lines() -> st.SearchStrategy[bytes]:
    """Lines of JSONL without their ends: real ones, broken ones, blank ones, and fragments thrown together."""
    thrown = st.lists(json_fragments(), max_size=12).map(b"".join)
    wrapped = thrown.map(lambda inner: b'{"text": "' + inner + b'", "id": 1}')
    return st.one_of(
        json_lines(), json_lines(), json_lines(), thrown, wrapped, st.sampled_from([b"", b" \t\r", b'{"text": "", "id": ""}'])
    )


def counted_words(*, letters: str = "ab", max_words: int = 10, max_length: int = 14) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Distinct words over few letters with small counts, in corpus order: ties and overlaps are common."""
    words = st.text(letters, min_size=1, max_size=max_length)
    entries = st.tuples(words, st.integers(1, 4))
    return st.lists(entries, min_size=1, max_size=max_words, unique_by=lambda entry: entry[0])


@st.composite
def rule_sets(draw: st.DrawFn, *, letters: str = "ab", max_rules: int = 14, max_length: int = 12) -> list[tuple[str, str]]:
    """Merge rules that no training made: any two tokens, in any order of rank, some twice, several with one product."""
    tokens = list(letters)
    rules: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, max_rules))):
        left, right = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if len(left + right) <= max_length:
            rules.append((left, right))
            tokens += [left + right] * (left + right not in tokens)
    return draw(st.permutations(rules))


#: What Unicode forms get wrong: composites, marks of several classes, singletons, exclusions, syllables and their parts.
FORM_FRAGMENTS = (
    *(
        "é",
        "e\u0301",
        "e\u0327\u0301",
        "a\u0301\u0327",
        "\u0344",
        "\u0301",
        "\u0345",
        "\u0327",
        "Å",
        "\u212b",
        "\u0958",
        "\ufb1d",
    ),
    *("한글", "\u1112\u1161\u11ab", "\u1100", "\u1161", "\u11a8", "가\u11a7", "각\u11a8", "\u3131", "\u314f", "ﾊﾞ", "\uff9e"),
    *("\u09c7\u09be", "\u09c7\u0301\u09be", "\u09be", "ﬁ", "\ufdfa", "²", "①", "㍿", "ǅ", "İ", "Σ", "ΑΣ", "ς", "ß", "ẞ", "K"),
    *("ที่", "में", "\u0f73\u0f71", "\U0001d15e", "\U0001d165", "\U00011938", "\U000105c9", "\u00ad", "\u200d", "\ue000", "\x00"),
    *(
        " ",
        "a",
        "B",
        "plain text that is long enough for a whole block of sixty-four bytes of it",
        "\x85",
        "\u2028",
        "\xa0",
        "\t",
    ),
)


def form_texts(*, max_fragments: int = 30) -> st.SearchStrategy[str]:
    """Texts of such fragments, nasty ones and any other characters, with long runs of marks now and then."""
    runs = st.tuples(st.sampled_from("\u0301\u0327\u0323\u05b0"), st.integers(1, 60)).map(lambda one: one[0] * one[1])
    characters = st.characters(exclude_categories=("Cs",))
    parts = st.one_of(*[st.sampled_from(FORM_FRAGMENTS)] * 3, st.sampled_from(NASTY_FRAGMENTS), characters, runs)
    return st.lists(parts, max_size=max_fragments).map("".join)


#: Marks of many classes. Of the first line none is Mn, so that an order is left when accents are stripped.
MARKS = (
    *("\u302e", "\u302f", "\u1b44", "\U0001d165", "\U0001d16d", "\U00016ff0", "\U0001d15e"),
    *("\u094d", "\u093c", "\u0e48", "\u0345", "\u0301", "\u0323", "\u0327", "\u0651", "\u064e", "\u05b0", "\u0308"),
    *("\u0f71", "\u0f72", "\u0f73", "\u0344"),
)
#: What stands between marks: what goes, what has class 0 (U+034F, U+0903), what ends with marks, what becomes long.
MARK_FRAGMENTS = (
    *("\u034f", "\u0903", "\ufe0f", "\u200d", "\x00", "\ufffd", " ", "\n", "e", "ế", "ḍ\u0307", "İ", "가", "각", "\ufdfa"),
    *("😀", "क", "\ue000", "words of ASCII, for which whole blocks are taken at once, from here to HERE at least."),
)


def mark_texts(*, max_fragments: int = 25) -> st.SearchStrategy[str]:
    """Texts full of marks, in order or not."""
    parts = st.one_of(*map(st.sampled_from, (MARKS, MARKS, MARK_FRAGMENTS, FORM_FRAGMENTS)))
    return st.lists(parts, max_size=max_fragments).map("".join)


@st.composite
def wordpiece_tokens(draw: st.DrawFn, *, letters: str = "abc", max_tokens: int = 20, max_length: int = 6) -> list[str]:
    """Tokens of a WordPiece vocabulary that no training made: any strings, with the prefix `##` or without, letters missing."""
    tokens = st.tuples(st.sampled_from(["", "##", "##"]), st.text(letters, min_size=1, max_size=max_length)).map("".join)
    return draw(st.lists(tokens, max_size=max_tokens, unique=True)) + draw(
        st.sampled_from([[], [prefix + letter for prefix in ("", "##") for letter in letters]])
    )
