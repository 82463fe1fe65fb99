"""tiktoken's rank files: ids and bytes as tiktoken has them, rules as the reference recovers them, a clear word for bad files."""

from __future__ import annotations

import base64
import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiktoken import Encoding

from tests.corpora import make_texts
from tests.real_data import RANK_FILES, read_ranks
from tests.strategies import NASTY_FRAGMENTS
from tests.training import few_cases, train
from tokenmill.encoding import encoder
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import recognition, tiktoken
from tokenmill.formats.tiktoken import MAX_TOKEN_BYTES, recover_splits
from tokenmill.kernels import encode
from tokenmill.models.base import MAX_ID, TokenWords
from tokenmill.reference import bpe as reference
from tokenmill.reference.words import PATTERNS
from tokenmill.tokenizer import Tokenizer

VOCABULARIES = {pretokenizer: name for name, pretokenizer in RANK_FILES.items()}
BYTES = [bytes([byte]) for byte in range(256)]


def rank_file(tokens: list[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def peer_of(content: bytes, pattern: str) -> Any:
    """tiktoken itself, on the same ranks and without special tokens."""
    return Encoding("peer", pat_str=pattern, mergeable_ranks=read_ranks(content), special_tokens={})


def random_texts(number: int, *, seed: int = 7) -> list[str]:
    """Texts of nasty fragments and of any characters."""
    source = random.Random(seed)
    texts = []
    for _ in range(number):
        fragments = source.choices(NASTY_FRAGMENTS, k=source.randint(0, 12))
        points = [source.choice([source.randint(0, 0x2FF), source.randint(0xE000, 0x1FFFF)]) for _ in range(4)]
        texts.append("".join(fragments) + "".join(chr(point) for point in points if point != 0xFFFF))
    return texts


# --- files of real texts, and published ones ----------------------------------------------------------------------------------


@cache
def load_ranks(folder: Path, name: str) -> tuple[bytes, Tokenizer]:
    content = (folder / "vocab" / f"{VOCABULARIES[name]}.tiktoken").read_bytes()
    return content, recognition.loads(content, pretokenizer=name)


@pytest.mark.jit
@pytest.mark.parametrize("name", VOCABULARIES)
class TestRankFiles:
    def test_ids_equal_those_of_tiktoken(self, name: str, data_folder: Path, real_texts: list[str]) -> None:
        content, tokenizer = load_ranks(data_folder, name)
        peer = peer_of(content, PATTERNS[name])
        texts = [*real_texts[:2000], *random_texts(1500), *make_texts(100), " " * 200, "a" * 300]
        assert tokenizer.encode_batch(texts).to_pylist() == peer.encode_ordinary_batch(texts, num_threads=1)

    def test_every_token_is_merged_from_two(self, name: str, data_folder: Path) -> None:
        """So looking words up before merging, as tiktoken does, changes nothing for these files."""
        content, tokenizer = load_ranks(data_folder, name)
        assert len(tokenizer.merge_rules) == content.count(b"\n") - 256
        assert (tokenizer.model.ignore_merges, tokenizer.model.unmerged.ids.size) == (False, 0)

    @pytest.mark.parametrize("data_folder", ["own"], indirect=True)
    def test_rules_are_those_of_the_reference(self, name: str, data_folder: Path) -> None:
        content, tokenizer = load_ranks(data_folder, name)
        ranks, show = read_ranks(content), reference.visible_bytes()
        recovered = [reference.recover_rule(token, ranks) for token in sorted(ranks, key=ranks.__getitem__) if len(token) > 1]
        pairs = [["".join(show[byte] for byte in part) for part in rule] for rule in recovered if rule is not None]
        assert [list(rule) for rule in tokenizer.merge_rules] == pairs

    def test_the_file_comes_back(self, name: str, data_folder: Path) -> None:
        content, tokenizer = load_ranks(data_folder, name)
        assert tokenizer.to_format("tiktoken") == {"ranks.tiktoken": content}


@pytest.mark.jit
@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("data_folder", ["own"], indirect=True)
def test_special_tokens_behind_a_gap(name: str, data_folder: Path) -> None:
    content, plain = load_ranks(data_folder, name)
    first = len(plain) + 5
    specials = {"<|endoftext|>": first, "<|endofprompt|>": first + 18}
    tokenizer = recognition.loads(content, pretokenizer=name, special_tokens=specials)
    peer = Encoding("peer", pat_str=PATTERNS[name], mergeable_ranks=read_ranks(content), special_tokens=specials)
    text = "Hello world<|endofprompt|> and<|endoftext|>"
    assert tokenizer.encode(text, allow_special=True) == peer.encode(text, allowed_special="all")
    assert tokenizer.encode(text) == peer.encode_ordinary(text)
    assert (tokenizer.special_tokens, tokenizer.embedding_rows) == (tuple(specials), first + 19)


@pytest.mark.parametrize("data_folder", ["own"], indirect=True)
def test_other_rank_files_need_a_pretokenizer(data_folder: Path) -> None:
    path = data_folder / "vocab" / "gpt2.tiktoken"
    with pytest.raises(
        UsageError, match=r"gpt2\.tiktoken: a tiktoken rank file does not say how text is cut into words; give its"
    ):
        Tokenizer.from_file(path)


@pytest.mark.jit
@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_special_tokens_of_published_files(data_folder: Path) -> None:
    tokenizer = Tokenizer.from_file(data_folder / "vocab" / "cl100k_base.tiktoken")
    assert tokenizer.token_to_id("<|endofprompt|>") == 100276
    assert (tokenizer.special_tokens[0], tokenizer.embedding_rows) == ("<|endoftext|>", 100277)
    assert tokenizer.encode("Hello world") == [9906, 1917]


# --- any files --------------------------------------------------------------------------------------------------------------


@st.composite
def token_lists(draw: st.DrawFn) -> list[bytes]:
    """The 256 bytes and tokens over two letters in any order: some cannot be merged, some are reached over higher ranks."""
    words = draw(st.lists(st.text("ab", min_size=2, max_size=6), unique=True, max_size=14))
    return [*BYTES, *(word.encode() for word in words)]


@few_cases(300, 15)
@given(token_lists())
def test_rules_are_recovered_as_the_reference_does(tokens: list[bytes]) -> None:
    ranks = {token: rank for rank, token in enumerate(tokens)}
    words = TokenWords.of(ranks)
    starts, ends, splits = [0, *words.ends.tolist()], words.ends.tolist(), recover_splits(words).tolist()
    data = words.text.tobytes()
    found = [(data[a:s], data[s:b]) if s >= 0 else None for a, s, b in zip(starts, splits, ends, strict=False)]
    assert found == [reference.recover_rule(token, ranks) for token in tokens]


@few_cases(300, 15)
@given(token_lists(), st.lists(st.text("ab", max_size=20), max_size=8))
def test_ids_of_any_ranks_equal_those_of_tiktoken(tokens: list[bytes], texts: list[str]) -> None:
    content = rank_file(tokens)
    tokenizer = recognition.loads(content, pretokenizer="none")
    texts += [token.decode() for token in tokens[256:]]
    peer = peer_of(content, r"(?s:.+)")
    expected = [peer.encode_ordinary(text) for text in texts]
    assert tokenizer.encode_batch(texts).to_pylist() == expected
    assert tiktoken.dumps(tokenizer) == content
    again = recognition.loads(tokenizer.to_bytes())
    assert (again.to_bytes(), again.encode_batch(texts).to_pylist()) == (tokenizer.to_bytes(), expected)


def test_a_token_that_merging_does_not_give_is_found_whole() -> None:
    tokenizer = recognition.loads(rank_file([*BYTES, b"abc", b"abcabc" * 9]), pretokenizer="none")
    assert tokenizer.model.ignore_merges and tokenizer.model.unmerged.ids.tolist() == [256, 257]
    assert tokenizer.encode("abc") == [256] and tokenizer.encode("abcabc" * 9) == [257]
    assert tokenizer.encode("abca") == [97, 98, 99, 97]


def test_words_that_are_tokens_outlive_a_full_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any length: in an entry, in the arena, longer than what the cache learns by itself. They may be more than it learns."""
    for name, size in (("CACHE_WORDS", 8), ("FIRST_WORDS", 2), ("CACHE_ARENA_BYTES", 64), ("CACHE_IDS", 8)):
        monkeypatch.setattr(encoder, name, size)
    words = [b"abc", b"abc" * 9, b"abc" * (encode.CACHED_BYTES // 3 + 1), *(b"xyz%d" % number for number in range(30))]
    tokenizer = recognition.loads(rank_file([*BYTES, *words]), pretokenizer="none")
    assert tokenizer.model.unmerged.ids.size == len(words)
    expected = [[256 + place] for place in range(len(words))]
    for number in range(60):
        texts = [str(number), f"long word {number}", *(word.decode() for word in words), *map(str, range(number))]
        split = [[*text.encode()] for text in texts]
        assert tokenizer.encode_batch(texts).to_pylist() == split[:2] + expected + split[2 + len(words) :]


def test_words_that_are_tokens_with_ids_too_large_for_an_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "CACHE_IDS", 4)
    lines = b"".join(base64.b64encode(b"xyz%d" % number) + b" %d\n" % (MAX_ID - number) for number in range(30))
    tokenizer = recognition.loads(rank_file(BYTES) + lines, pretokenizer="none")
    for number in range(40):
        texts = [f"ab{number} cd", *(f"xyz{other}" for other in range(30))]
        assert tokenizer.encode_batch(texts).to_pylist() == [[*texts[0].encode()], *([MAX_ID - other] for other in range(30))]


def test_gaps_and_line_ends_are_taken() -> None:
    lines = rank_file(BYTES) + base64.b64encode(b"ab") + b" 400\r\n\n"
    tokenizer = recognition.loads(lines, pretokenizer="gpt2", special_tokens={"<s>": 300})
    assert (tokenizer.encode("ab"), tokenizer.embedding_rows, tokenizer.special_tokens) == ([400], 401, ("<s>",))


# --- export -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pretokenizer", ["gpt2", "cl100k", "o200k", "llama3", "qwen2", "whitespace"])
def test_what_was_trained_here_gives_the_same_ids_there(pretokenizer: str) -> None:
    texts = make_texts(20) + random_texts(20)
    tokenizer = train(texts, model="byte-bpe", pretokenizer=pretokenizer, merges=60, special_tokens=("<s>", "</s>"))
    peer = peer_of(tiktoken.dumps(tokenizer), PATTERNS[pretokenizer])
    assert tokenizer.encode_batch(texts).to_pylist() == [peer.encode_ordinary(text) for text in texts]


def refusal(tokenizer: Tokenizer) -> str:
    with pytest.raises(UsageError) as caught:
        tiktoken.dumps(tokenizer)
    return str(caught.value)


def test_what_cannot_be_exact_is_refused() -> None:
    texts = ["low low lower lowest", "the theme of the thesis"]
    assert "tokens of characters" in refusal(train(texts, merges=3))
    told = refusal(train(texts, model="byte-bpe", pretokenizer="wordpunct", merges=3))
    assert told == "tiktoken's words are stretches of the text, those of wordpunct are not; use --to native"
    told = refusal(train(texts, model="byte-bpe", pretokenizer="gpt2", merges=12, ids="sorted"))
    assert told.startswith("tiktoken takes ids for ranks, and here they are not: its merge ")


def test_tokens_without_rules_are_refused() -> None:
    tokenizer = recognition.loads(rank_file([*BYTES, b"abc"]), pretokenizer="none")
    content = tokenizer.to_bytes().replace(b'  "ignore_merges": true,\n', b"")
    assert "merging does not give 'abc'" in refusal(recognition.loads(content))


# --- malformed files --------------------------------------------------------------------------------------------------------


def refusal_of(content: bytes, error: type[Exception] = TokenizerFileError, **options: Any) -> str:
    with pytest.raises(error) as caught:
        tiktoken.loads(content, **{"pretokenizer": "gpt2", **options})
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"YWI= x", "b'x' is no rank"),
        (b"YWI= -1", "b'-1' is no rank"),
        (b"YWI= 1.5", "b'1.5' is no rank"),
        (b"YWI= 2147483647", f"b'2147483647' is no rank; ranks are whole numbers from 0 to {MAX_ID}"),
        (b"YWI= " + b"9" * 5000, "is no rank"),
        (b"YWI=", "is no token in base64, a space and a rank"),
        (b"YWI= 1 2", "is no token in base64, a space and a rank"),
        (b"YWI 300", "b'YWI' is no base64"),
        (b"Y!I= 300", "b'Y!I=' is no base64"),
        (b" 300", "a token of 0 bytes"),
        (base64.b64encode(b"a" * (MAX_TOKEN_BYTES + 1)) + b" 300", f"a token of {MAX_TOKEN_BYTES + 1} bytes; 1 to"),
        (b"YQ== 300", "the token b'a' stands twice"),
    ],
)
def test_malformed_lines(line: bytes, message: str) -> None:
    told = refusal_of(rank_file(BYTES) + line + b"\n")
    assert told.startswith("line 257: ") and message in told


def test_malformed_files() -> None:
    assert refusal_of(b"") == "the file holds no tokens; a rank file has one on each line"
    assert refusal_of(rank_file(BYTES[1:])).startswith("vocab: a byte model needs all 256 bytes; 1 are missing")
    assert refusal_of(rank_file(BYTES) + b"YWI= 7\n") == "vocab: id 7 stands twice, for 'ć' and 'ab'; give each token its own"
    assert "is an ordinary token of the file, of rank 97" in refusal_of(rank_file(BYTES), special_tokens={"a": 300})
    assert "id 97 stands twice" in refusal_of(rank_file(BYTES), special_tokens={"<s>": 97})
    assert "unknown pre-tokenizer 'gpt3'" in refusal_of(rank_file(BYTES), pretokenizer="gpt3")
    told = refusal_of(rank_file(BYTES), UsageError, pretokenizer=None)
    assert told == "a tiktoken rank file does not say how text is cut into words; give its pre-tokenizer"
