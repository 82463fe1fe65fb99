"""Peers as oracles of the scanners: the words of tiktoken's and Hugging Face's own patterns, run by their own engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers
from hypothesis import given, settings
from tiktoken_ext import openai_public

from tests.real_data import read_ranks
from tests.scanning import scanned
from tests.strategies import ascii_texts, nasty_texts
from tokenmill.data import load_class_table
from tokenmill.kernels.scan_classes import PUNCTUATION
from tokenmill.reference.words import PATTERNS
from tokenmill.text.pretokenizers import PreTokenizer

pytestmark = pytest.mark.jit

EXAMPLES = settings(max_examples=80, deadline=None)
TIKTOKEN = {"cl100k": "cl100k_base", "o200k": "o200k_base", "gpt2": "r50k_base"}
SPLIT_BY_HUGGING_FACE = ["llama3", "qwen2", "gpt2", "o200k"]

#: One text of everything: both ends of a document, case, contractions, line breaks, numbers, marks, joiners.
HARD_TEXTS = [
    "It's IT'S it’s 'ſ x'ſ they'LL we'vE it'select a's's's don'tX don't文A",
    "HTTPServer parseJSON ǅungla 文AB 文Ab文 ÉCOLE École E\u0301COLE \u0301abc 1\u0301ab ❤\ufe0f❤\ufe0fab !❤\ufe0f",
    "x;\n// y\n\n/z .\n/\n/(a \r\n \n\t\tif (a) {\n\n    b(); } // 1234567 १२३४५ ²²²²",
    " \n \n ",
    "end  ",
    "end \n\n  ",
    "end\n",
    "\u3000\u00a0a\u2028\u2028b \u00a0",
]


def tiktoken_pattern(name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The pattern in the installed tiktoken, whose vocabularies would come over the network."""
    monkeypatch.setattr(openai_public, "load_tiktoken_bpe", lambda *_, **__: {})
    pattern: str = getattr(openai_public, TIKTOKEN[name])()["pat_str"]
    return pattern


def words_by_tiktoken(pattern: str, text: str, words: list[str]) -> list[str]:
    """The words of tiktoken, to which each of `words` is a token, and any two or three neighbours together another one."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    for length in (1, 2, 3):
        for place in range(len(words) - length + 1):
            ranks.setdefault("".join(words[place : place + length]).encode(), len(ranks))
    peer = tiktoken.Encoding("words", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return [peer.decode_single_token_bytes(token).decode() for token in peer.encode_ordinary(text)]


def words_by_hugging_face(pattern: str, text: str) -> list[str]:
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    return [word for word, _ in split.pre_tokenize_str(text)]


@pytest.mark.parametrize("name", TIKTOKEN)
class TestTiktoken:
    def test_hard_texts(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        pattern = tiktoken_pattern(name, monkeypatch)
        for text in HARD_TEXTS:
            words = PreTokenizer(name).pretokenize(text)
            assert words_by_tiktoken(pattern, text, words) == words

    def test_random_texts(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        pattern = tiktoken_pattern(name, monkeypatch)

        @EXAMPLES
        @given(text=nasty_texts() | ascii_texts())
        def check(text: str) -> None:
            words = PreTokenizer(name).pretokenize(text)
            assert words_by_tiktoken(pattern, text, words) == words

        check()

    def test_ids_of_a_vocabulary(
        self, name: str, monkeypatch: pytest.MonkeyPatch, data_folder: Path, real_texts: list[str]
    ) -> None:
        """Ids of whole texts are those of our words, one after another."""
        ranks = read_ranks((data_folder / "vocab" / f"{'gpt2' if name == 'gpt2' else TIKTOKEN[name]}.tiktoken").read_bytes())
        chosen: dict[str, Any] = {"mergeable_ranks": ranks, "special_tokens": {}}
        peer = tiktoken.Encoding(name, pat_str=tiktoken_pattern(name, monkeypatch), **chosen)
        of_one_word = tiktoken.Encoding("one word", pat_str=r"(?s:.+)", **chosen)
        sources = [Path(__file__).read_text(encoding="utf-8"), Path(pytest.__file__).read_text(encoding="utf-8")]
        for text in [*HARD_TEXTS, *sources, "\n".join(real_texts[:3000])]:
            words = PreTokenizer(name).pretokenize(text)
            assert [token for word in words for token in of_one_word.encode_ordinary(word)] == peer.encode_ordinary(text)


@pytest.mark.parametrize("name", SPLIT_BY_HUGGING_FACE)
class TestHuggingFace:
    def test_hard_texts(self, name: str, real_texts: list[str]) -> None:
        for text in [*HARD_TEXTS, "\n".join(real_texts[:3000])]:
            assert PreTokenizer(name).pretokenize(text) == words_by_hugging_face(PATTERNS[name], text)

    @EXAMPLES
    @given(text=nasty_texts() | ascii_texts())
    def test_random_texts(self, name: str, text: str) -> None:
        assert PreTokenizer(name).pretokenize(text) == words_by_hugging_face(PATTERNS[name], text)


@pytest.fixture(scope="module")
def bert_peer() -> Any:
    normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    split = tokenizers.pre_tokenizers.BertPreTokenizer()
    return lambda text: [word for word, _ in split.pre_tokenize_str(normalizer.normalize_str(text))]


@pytest.fixture(scope="module")
def told_apart(bert_peer: Any) -> set[str]:
    """The characters that Hugging Face takes for something else; ideographs and private characters by their borders alone."""
    ranges = [range(0x3410), range(0x4DA0, 0x4E10), range(0x9FE0, 0xAC10), range(0xD7A0, 0xD800), range(0xE000, 0xE010)]
    ranges += [range(0xF8F0, 0x20010), range(0x2A6D0, 0x2CEC0), range(0x2F7F0, 0x2FA30), range(0xE0000, 0xE0200)]
    characters = [chr(point) for points in ranges for point in points]
    found = scanned("bert", [f"a{character}b".encode() for character in characters])
    pairs = zip(characters, found, strict=True)
    return {character for character, words in pairs if [w.decode() for w in words] != bert_peer(f"a{character}b")}


class TestBert:
    """Hugging Face knows the punctuation of an older Unicode, and passes over the Chinese characters U+2B820 to U+2B91F."""

    @pytest.mark.slow
    def test_every_character(self, told_apart: set[str]) -> None:
        chinese = {chr(point) for point in range(0x2B820, 0x2B920)}
        assert chinese <= told_apart
        table = load_class_table()
        since_moved = {"\u166d", "\U000111c9"}
        newer = {character for character in told_apart - chinese if table[ord(character)] & PUNCTUATION}
        assert told_apart == chinese | newer | since_moved
        assert len(newer) == 140

    @pytest.mark.slow
    def test_random_texts(self, bert_peer: Any, told_apart: set[str]) -> None:
        @EXAMPLES
        @given(text=nasty_texts() | ascii_texts())
        def check(text: str) -> None:
            text = "".join(character for character in text if character not in told_apart)
            assert PreTokenizer("bert").pretokenize(text) == bert_peer(text)

        check()

    def test_real_texts(self, bert_peer: Any, real_texts: list[str]) -> None:
        text = "\n".join(real_texts)
        assert PreTokenizer("bert").pretokenize(text) == bert_peer(text)

    def test_chinese_characters_are_words_without_the_normalizer_too(self, bert_peer: Any) -> None:
        words = ["你", "好", "abc", "世", "。", "カタカナ", "ab"]
        assert PreTokenizer("bert").pretokenize("你好abc世。カタカナ ab") == words == bert_peer("你好abc世。カタカナ ab")
        assert PreTokenizer("bert").pretokenize(" 你  好 abc 世 。カタカナ ab") == words


class TestWhitespace:
    """`Whitespace` of Hugging Face."""

    def test_random_texts(self) -> None:
        split = tokenizers.pre_tokenizers.Whitespace()

        @EXAMPLES
        @given(text=nasty_texts() | ascii_texts())
        def check(text: str) -> None:
            assert PreTokenizer("whitespace-punct").pretokenize(text) == [word for word, _ in split.pre_tokenize_str(text)]

        check()

    def test_real_texts(self, real_texts: list[str]) -> None:
        text, split = "\n".join(real_texts), tokenizers.pre_tokenizers.Whitespace()
        assert PreTokenizer("whitespace-punct").pretokenize(text) == [word for word, _ in split.pre_tokenize_str(text)]
