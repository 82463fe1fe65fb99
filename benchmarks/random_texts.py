"""Random documents in which tokenizers go wrong: scripts of all kinds mixed, marks on anything, emoji joined and half joined,
digits, whitespace of every kind, contractions, controls, unassigned code points, long runs. One seed, the same documents.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

#: First and last code points of letters: those with case, without, joined, with vowel signs, beyond the first plane.
_SCRIPTS = [
    *((0x41, 0x5A), (0x61, 0x7A), (0x61, 0x7A), (0x61, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x58F)),
    *((0x5D0, 0x5EA), (0x600, 0x6FF), (0x900, 0x97F), (0x980, 0x9FF), (0xB80, 0xBFF), (0xE00, 0xE7F), (0xE80, 0xEFF)),
    *((0x1000, 0x109F), (0x10A0, 0x10FF), (0x1200, 0x137F), (0x1780, 0x17FF), (0x1E00, 0x1FFF), (0x3041, 0x30FF)),
    *((0x3400, 0x34FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFB00, 0xFDFF), (0xFF00, 0xFFEF), (0x10400, 0x1044F)),
    *((0x1D400, 0x1D7FF), (0x20000, 0x200FF), (0x1E900, 0x1E95F)),
]
_MARKS = [(0x300, 0x36F), (0x483, 0x489), (0x591, 0x5BD), (0x64B, 0x65F), (0x93C, 0x94D), (0xE31, 0xE3A), (0x1AB0, 0x1ACE)]
_MARKS += [(0x20D0, 0x20F0), (0xFE00, 0xFE0F), (0x1D165, 0x1D169), (0xE0100, 0xE0110)]
_DIGITS = [(0x30, 0x39)] * 4 + [(0x660, 0x669), (0x966, 0x96F), (0x2070, 0x2079), (0x2150, 0x2189), (0xFF10, 0xFF19)]
_DIGITS += [(0x1D7CE, 0x1D7FF), (0x3220, 0x3229)]
_SPACES = (
    " " * 12 + "\n\n\n\t\t\r\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2003\u2009\u200b\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_CONTRACTIONS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'vE", "'M", "'Ll", "'D", "’s", "’re", "'ſ"]
_CONTRACTIONS += ["'lſ", "'", "''", "'x", "'sa", "d's"]
_EMOJI = ["😀", "👩", "👨", "👧", "💻", "🇫", "🇷", "❤", "1", "#", "🏽", "🏿", "⚕", "🏴", "☠", "♂"]
_JOINERS = ["\u200d", "\u200d", "\ufe0f", "\u20e3", "\U000e0067", ""]
_SIGNS = r"""!"#$%&()*+,-./:;<=>?@[\]^_`{|}~«»–—…“”„•§¶†‡°±×÷€£¥₹№℃←→∑∞≠≤■★☃。、「」！？，،؛؟।"""
_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "was",
    "for",
    "it",
    "with",
    "as",
    "his",
    "on",
    "be",
    "at",
    "by",
    "had",
    "not",
    "are",
]
_CODE = [
    "def f(x):\n    return x",
    "HTTPServer",
    "parseJSON",
    "a_b",
    "x = {}\n",
    "\n\n\t\t",
    "//\n",
    "};\r\n",
    "https://a.b/c?d=e&f",
]


def make_documents(count: int, *, seed: int, real: Sequence[str] = ()) -> Iterator[str]:
    """So many documents, some 60 characters each on average; where there are `real` texts, parts of them are among them."""
    source = random.Random(seed)
    kinds = [*_KINDS, *([lambda source: _cut(source, source.choice(real))] * 4 if real else [])]
    for _ in range(count):
        # Each document prefers some kinds, so that all neighbourhoods come up.
        chosen = source.choices(kinds, k=source.randint(1, 4))
        yield "".join(source.choice(chosen)(source) for _ in range(source.randint(0, 14)))


def _character(source: random.Random, ranges: Sequence[tuple[int, int]]) -> str:
    return chr(source.randint(*source.choice(ranges)))


def _word(source: random.Random) -> str:
    first, last = source.choice(_SCRIPTS)
    return " " * source.randint(0, 1) + "".join(chr(source.randint(first, last)) for _ in range(source.randint(1, 9)))


def _marked(source: random.Random) -> str:
    base = _character(source, _SCRIPTS) if source.random() < 0.8 else source.choice(_SPACES)
    return base + "".join(_character(source, _MARKS) for _ in range(source.randint(1, 3)))


def _digits(source: random.Random) -> str:
    return "".join(_character(source, [source.choice(_DIGITS)]) for _ in range(source.randint(1, 8)))


def _spaces(source: random.Random) -> str:
    return "".join(source.choice(_SPACES) for _ in range(source.randint(1, 5)))


def _emoji(source: random.Random) -> str:
    return "".join(source.choice(_EMOJI) + source.choice(_JOINERS) for _ in range(source.randint(1, 4)))


def _control(source: random.Random) -> str:
    return chr(source.choice((*range(32), *range(0x7F, 0xA0), 0xAD, 0x200E, 0x202E, 0x2060, 0xFFFD)))


def _anything(source: random.Random) -> str:
    """Any code point, assigned or not; those of surrogates are moved to private use."""
    number = source.randrange(source.choice((0x3000, 0x10000, 0x20000, 0x110000)))
    return chr(number + 0x1000 if 0xD800 <= number < 0xE000 else number)


def _run(source: random.Random) -> str:
    unit = source.choice((_word, _digits, _spaces, _marked, _anything))(source)[:3]
    return unit * source.randint(2, 400 if source.random() < 0.02 else 20)


def _signs(source: random.Random) -> str:
    return "".join(source.choice(_SIGNS) for _ in range(source.randint(1, 4)))


def _english(source: random.Random) -> str:
    return " " * source.randint(0, 1) + source.choice(_WORDS)


def _contraction(source: random.Random) -> str:
    return source.choice(_CONTRACTIONS)


def _code(source: random.Random) -> str:
    return source.choice(_CODE)


def _cut(source: random.Random, text: str) -> str:
    start = source.randrange(len(text) + 1)
    return text[start : start + source.randint(1, 40)]


_KINDS: list[Callable[[random.Random], str]] = [
    *(_word, _word, _word, _marked, _digits, _spaces, _emoji, _control, _anything, _run, _signs, _english, _english),
    *(_contraction, _code),
]
