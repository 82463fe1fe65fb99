"""Peers as oracles: trainings equal those of Hugging Face tokenizers, ids equal those of tokenizers and of tiktoken."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import pytest
import tiktoken
import tokenizers

from tests.real_data import read_ranks
from tests.training import count_texts, train
from tokenmill.models.alphabets import ByteAlphabet
from tokenmill.models.bpe import BpeModel
from tokenmill.reference import bpe as reference
from tokenmill.reference import words as reference_words
from tokenmill.reference.bpe import Pair
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

pytestmark = pytest.mark.jit

SPECIALS = ("<pad>", "<eos>", "<unk>")
VOCAB_SIZE = 1000
SOURCE_BYTES = 800_000

#: Scripts with and without spaces, marks, joiners, digits of several kinds, whitespace of several kinds.
WORLD = [
    "你好世界。这是一个测试,看看分词器是否正确。", "日本語のテキスト、カタカナとひらがな。", "한국어 문장도 있습니다.",
    "مرحبا بالعالم، هذا نص عربي ١٢٣.", "नमस्ते दुनिया, यह हिंदी है।", "สวัสดีชาวโลก", "Привет, мир! Ёлки-палки.",
    "😀😃 👩‍💻👨‍👩‍👧 🇫🇷 ❤️ 1️⃣", "e\u0301 é ﬁ ½ Ⅳ x² ٣٤٥", "a  b\tc\n d\r\n\r\n  e\u00a0f\u3000g\u200bh   ",
    "Hello, world!", "don't they'll WE'VE it’s 'tis 's", "^" * 300, "ACGT" * 200, " " * 50, "\n" * 7, "\x00\x01\x7f", "",
]  # fmt: skip


@pytest.fixture(scope="module")
def corpus(real_texts: list[str]) -> list[str]:
    """Some 1 or 2 MB: sentences, Python sources, other scripts."""
    return [*real_texts, *python_sources(SOURCE_BYTES), *WORLD * 3]


def python_sources(size: int) -> list[str]:
    """Sources of the running Python's standard library, by name, up to `size` bytes of those that are UTF-8."""
    sources: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        text = path.read_bytes().decode("utf-8", "ignore")
        size -= len(text)
        if size < 0:
            break
        sources.append(text)
    return sources


# --- tokenizers -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hf_tokenizer(corpus: list[str]) -> Any:
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = tokenizers.decoders.ByteLevel()
    trained.train_from_iterator(
        corpus,
        tokenizers.trainers.BpeTrainer(
            vocab_size=VOCAB_SIZE,
            special_tokens=list(SPECIALS),
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return trained


@pytest.fixture(scope="module")
def byte_tokenizer(corpus: list[str]) -> Tokenizer:
    counts = count_texts(corpus, "gpt2")
    return train(counts, model="byte-bpe", pretokenizer="gpt2", vocab_size=VOCAB_SIZE, special_tokens=SPECIALS)


def hf_rules(hf_tokenizer: Any) -> list[Pair]:
    import json

    merges = json.loads(hf_tokenizer.to_str())["model"]["merges"]
    pairs = (rule.split(" ") if isinstance(rule, str) else rule for rule in merges)
    return [(left, right) for left, right in pairs]


def test_training_equals_that_of_tokenizers(hf_tokenizer: Any, byte_tokenizer: Tokenizer) -> None:
    assert byte_tokenizer.merge_rules == hf_rules(hf_tokenizer)
    assert byte_tokenizer.vocab == hf_tokenizer.get_vocab()
    assert [byte_tokenizer.id_to_token(number) for number in range(3)] == list(SPECIALS)


def test_ids_equal_those_of_tokenizers(hf_tokenizer: Any, byte_tokenizer: Tokenizer, corpus: list[str]) -> None:
    plain = [text for text in corpus if not any(special in text for special in SPECIALS)]
    assert len(plain) > len(corpus) - 3
    expected = [encoding.ids for encoding in hf_tokenizer.encode_batch(plain, add_special_tokens=False)]
    assert byte_tokenizer.encode_batch(plain).to_pylist() == expected


def test_every_text_comes_back(byte_tokenizer: Tokenizer, corpus: list[str]) -> None:
    encoded = byte_tokenizer.encode_batch(corpus).to_pylist()
    assert [byte_tokenizer.decode(ids) for ids in encoded[-200:]] == corpus[-200:]
    assert byte_tokenizer.decode([number for ids in encoded for number in ids]) == "".join(corpus)


# --- tiktoken ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2_ranks(data_folder: Path) -> dict[bytes, int]:
    """A vocabulary behind the pattern of GPT-2, or its published one: bytes to rank."""
    return read_ranks((data_folder / "vocab" / "gpt2.tiktoken").read_bytes())


def parts_of(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """A token as the two it was merged from: encode it with the tokens of lower rank alone."""
    parts, limit = [bytes([byte]) for byte in token], ranks[token]
    while len(parts) > 2:
        rank, place = min((ranks.get(parts[at] + parts[at + 1], limit), at) for at in range(len(parts) - 1))
        assert rank < limit, f"{token!r} cannot be made of tokens of lower rank"
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts


@pytest.fixture(scope="module")
def gpt2(gpt2_ranks: dict[bytes, int]) -> Tokenizer:
    """GPT-2 as a model of ours, its merge rules recovered from the ranks."""
    visible = reference.visible_bytes()

    def show(token: bytes) -> str:
        return "".join(visible[byte] for byte in token)

    by_rank = sorted(gpt2_ranks, key=lambda token: gpt2_ranks[token])
    parts = [parts_of(token, gpt2_ranks) for token in by_rank if len(token) > 1]
    vocab = {**{show(token): rank for token, rank in gpt2_ranks.items()}, "<|endoftext|>": len(gpt2_ranks)}
    rules = tuple((show(left), show(right)) for left, right in parts)
    model = BpeModel("byte-bpe", ByteAlphabet(), vocab, rules, ("<|endoftext|>",))
    return Tokenizer(model, pretokenizer=PreTokenizer("gpt2"))


@pytest.fixture(scope="module")
def gpt2_peer(gpt2_ranks: dict[bytes, int]) -> Any:
    specials, pattern = {"<|endoftext|>": len(gpt2_ranks)}, reference_words.PATTERNS["gpt2"]
    return tiktoken.Encoding("gpt2", pat_str=pattern, mergeable_ranks=gpt2_ranks, special_tokens=specials)


@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_gpt2_by_hand(gpt2: Tokenizer) -> None:
    assert gpt2.encode("Hello, world!") == [15496, 11, 995, 0]
    assert (len(gpt2), len(gpt2.merge_rules), gpt2.merge_rules[0]) == (50_257, 50_000, ("Ġ", "t"))
    assert gpt2.decode([15496, 11, 995, 0, 50256]) == "Hello, world!<|endoftext|>"
    assert 50256 not in gpt2.encode("<|endoftext|>")


def test_the_end_of_a_text_is_plain_text_unless_it_is_an_id(gpt2: Tokenizer, gpt2_peer: Any) -> None:
    end, text = gpt2.vocab["<|endoftext|>"], "Hello, world!<|endoftext|>"
    assert gpt2.encode(text) == gpt2_peer.encode_ordinary(text) and end not in gpt2.encode(text)
    assert gpt2.decode([*gpt2.encode("Hello, world!"), end]) == text
    assert len(gpt2) == len(gpt2.merge_rules) + 257


def test_ids_equal_those_of_tiktoken(gpt2: Tokenizer, gpt2_peer: Any, corpus: list[str]) -> None:
    encoded = gpt2.encode_batch(corpus).to_pylist()
    assert encoded == [gpt2_peer.encode_ordinary(text) for text in corpus]
    assert gpt2.encode_batch(corpus).to_pylist() == encoded


def test_one_word_of_all_texts_equals_tiktoken(gpt2: Tokenizer, gpt2_ranks: dict[bytes, int], corpus: list[str]) -> None:
    """Without a pre-tokenizer: a long word, through the heap."""
    peer = tiktoken.Encoding("one word", pat_str=r"(?s:.+)", mergeable_ranks=gpt2_ranks, special_tokens={})
    whole = Tokenizer(gpt2.model, pretokenizer=PreTokenizer("none"))
    text = "".join(WORLD) + "".join(corpus[:40])
    assert whole.encode(text) == peer.encode_ordinary(text)


def test_gpt2_comes_back_from_its_file(gpt2: Tokenizer) -> None:
    from tokenmill.formats import native

    loaded = native.loads(gpt2.to_bytes())
    assert loaded.to_bytes() == gpt2.to_bytes()
    assert loaded.encode("Hello, world!") == gpt2.encode("Hello, world!")
