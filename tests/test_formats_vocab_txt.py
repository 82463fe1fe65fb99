"""BERT's vocab.txt: read with every fault named by its line, written where it says all there is to say; a peer as oracle."""

from __future__ import annotations

import functools
import itertools
import random
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given

from tests.strategies import nasty_texts
from tests.training import few_cases, train
from tests.wordpieces import BERT_SPECIALS, byte_tokenizer_of, tokenizer_of
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import recognition, vocab_txt
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.text.normalizers import Normalizer
from tokenmill.tokenizer import Tokenizer

BERT_STEPS = ("bert_clean", "strip_accents", "lowercase")
SMALL = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "hello", "world", "##s", "##ld", "wor", ",", "!", "你"]


def content_of(tokens: list[str], end: str = "\n") -> bytes:
    return "".join(token + end for token in tokens).encode()


def refusal_of(content: bytes) -> str:
    with pytest.raises(TokenizerFileError) as caught:
        recognition.loads(content)
    return str(caught.value)


@pytest.fixture(scope="module")
def bert_file(data_folder: Path) -> Path:
    return data_folder / "vocab" / "bert-base-uncased.vocab.txt"


@pytest.fixture(scope="module")
def bert(bert_file: Path) -> Tokenizer:
    """The vocabulary of BERT, its text left as it is."""
    return vocab_txt.loads(bert_file.read_bytes(), normalizer=Normalizer())


@pytest.fixture(scope="module")
def peer(bert: Tokenizer) -> Any:
    """Hugging Face's WordPiece of the same vocabulary, its text left as it is."""
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(bert.vocab, unk_token="[UNK]", max_input_chars_per_word=100))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    made.decoder = tokenizers.decoders.WordPiece(cleanup=False)
    return made


# --- reading ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_small_vocabulary(end: str) -> None:
    tokenizer = recognition.loads(content_of(SMALL, end))
    assert tokenizer.vocab == {token: number for number, token in enumerate(SMALL)}
    assert (tokenizer.special_tokens, tokenizer.model.unk_token, str(tokenizer.pretokenizer)) == (BERT_SPECIALS, "[UNK]", "bert")
    assert tokenizer.tokenize("hello worlds, wor你!") == ["hello", "world", "##s", ",", "wor", "你", "!"]
    assert tokenizer.merge_rules == []
    assert recognition.loads(content_of(SMALL).removesuffix(b"\n")).vocab == tokenizer.vocab


def test_faults_are_named_by_their_line() -> None:
    assert refusal_of(content_of([*SMALL, "world"])) == 'line 15: the token "world" stands on line 8 too; keep one'
    assert (
        refusal_of(content_of([*SMALL[:3], "", *SMALL[3:]])) == "line 4: it is empty; a token stands on each line of a vocab.txt"
    )
    bad = content_of(SMALL) + b"\xff\n"
    assert refusal_of(bad) == f"line 15: not UTF-8 at byte {len(bad) - 2}; save the vocab.txt as UTF-8"
    assert "not JSON" in refusal_of(content_of(["hello", "##s"]))


def test_a_folder_with_a_vocabulary(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(content_of(SMALL))
    assert Tokenizer.from_file(tmp_path).tokenize("hello") == ["hello"]


# --- BERT -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_bert_by_hand(bert: Tokenizer) -> None:
    assert bert.encode("hello, world!") == [7592, 1010, 2088, 999]
    assert bert.encode("hello how are u tday") == [7592, 2129, 2024, 1057, 14595, 4710]
    assert bert.tokenize("hello how are u tday") == ["hello", "how", "are", "u", "td", "##ay"]
    assert (len(bert), bert.token_to_id("[UNK]"), bert.token_to_id("[CLS]")) == (30_522, 100, 101)


def test_ids_are_places_of_lines(bert: Tokenizer, bert_file: Path) -> None:
    lines = bert_file.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert bert.vocab == {token: number for number, token in enumerate(lines)}
    words = [token for token in lines if token.isascii() and token.isalpha()][:500]
    assert bert.encode_batch(words).to_pylist() == [[lines.index(word)] for word in words]
    assert bert.tokenize("\ue000the") == ["[UNK]"]


def test_pairs_are_decoded_as_by_hugging_face(bert: Tokenizer, peer: Any, real_texts: list[str]) -> None:
    cls, sep = bert.vocab["[CLS]"], bert.vocab["[SEP]"]
    for first, second in itertools.pairwise(text.lower() for text in real_texts[:40]):
        ids = [cls, *bert.encode(first), sep, *bert.encode(second), sep]
        assert bert.decode(ids) == peer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_bert_decodes_pairs(bert: Tokenizer) -> None:
    cls, sep = bert.vocab["[CLS]"], bert.vocab["[SEP]"]
    ids = [cls, *bert.encode("hello how are you"), sep, *bert.encode("i am fine thank you"), sep]
    assert bert.decode(ids) == "[CLS] hello how are you [SEP] i am fine thank you [SEP]"
    assert bert.decode(bert.encode("unaffable tokenizers")) == "unaffable tokenizers"


@pytest.mark.jit
def test_real_texts_are_those_of_hugging_face(bert: Tokenizer, peer: Any, real_texts: list[str]) -> None:
    texts = [*real_texts, *(text.lower() for text in real_texts)]
    expected = [encoding.ids for encoding in peer.encode_batch(texts, add_special_tokens=False)]
    assert bert.encode_batch(texts).to_pylist() == expected
    assert [bert.decode(ids) for ids in expected[:500]] == [peer.decode(ids, skip_special_tokens=False) for ids in expected[:500]]


@pytest.mark.jit
def test_random_texts_are_those_of_hugging_face(bert: Tokenizer, peer: Any) -> None:
    """Texts of its tokens, glued anew, with unknown letters and long words among them."""
    source = random.Random(7)
    spelled = [token.removeprefix("##") for token in bert.vocab if token not in BERT_SPECIALS]
    texts = [
        "".join(source.choice(spelled) + source.choice(["", "", " ", "-", "ы", "\u3000"]) for _ in range(source.randint(0, 60)))
        for _ in range(3000)
    ]
    assert bert.encode_batch(texts).to_pylist() == [encoding.ids for encoding in peer.encode_batch(texts)]


@few_cases(150, 10)
@given(text=nasty_texts())
def test_nasty_texts_are_those_of_hugging_face(bert: Tokenizer, peer: Any, text: str) -> None:
    if not any(special in text for special in BERT_SPECIALS):
        assert bert.encode(text) == peer.encode(text).ids


@pytest.fixture(scope="module")
def uncased(bert_file: Path) -> Tokenizer:
    return Tokenizer.from_file(bert_file)


def test_an_uncased_vocabulary_brings_bert_whole(uncased: Tokenizer, bert_file: Path, real_texts: list[str]) -> None:
    """Its normalizer, its pre-tokenizer and the special tokens around one text and around a pair."""
    assert str(uncased.normalizer) == "bert_clean, strip_accents, lowercase"
    peer = bert_peer(str(bert_file))
    for first, second in itertools.pairwise(["Héllò\t\x00the a", *real_texts[:30]]):
        assert uncased.process(first).ids == peer.encode(first).ids
        assert_same_rows(uncased.process(first, second), peer.encode(first, second))


@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_ids_of_bert_by_hand(uncased: Tokenizer) -> None:
    assert uncased.encode("Hello, world!") == [7592, 1010, 2088, 999]
    encoding = uncased.process("Hello how are U tday")
    assert encoding.ids == [101, 7592, 2129, 2024, 1057, 14595, 4710, 102]
    assert encoding.tokens == ["[CLS]", "hello", "how", "are", "u", "td", "##ay", "[SEP]"]
    assert uncased.encode("Héllò\t\x00how") == [7592, 2129]


@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_where_the_words_of_bert_stand(uncased: Tokenizer) -> None:
    encoding = uncased.process("hello how are u tday")
    words: dict[int | None, list[tuple[int, int]]] = {}
    for word, span in zip(encoding.word_ids, encoding.offsets, strict=True):
        words.setdefault(word, []).append(span)
    found = [(words[word][0][0], words[word][-1][1]) for word in range(5)]
    assert found == [(0, 5), (6, 9), (10, 13), (14, 15), (16, 20)]
    assert encoding.offsets[5:7] == [(16, 18), (18, 20)]


@pytest.mark.parametrize("data_folder", ["published"], indirect=True)
def test_a_pair_of_texts(uncased: Tokenizer) -> None:
    encoding = uncased.process("Hello how are you", "I am fine thank you")
    assert encoding.type_ids == [0] * 6 + [1] * 6
    assert uncased.decode(encoding.ids) == "[CLS] hello how are you [SEP] i am fine thank you [SEP]"


def test_a_cased_vocabulary_keeps_capitals() -> None:
    cased = recognition.loads(content_of([*SMALL, "World"]))
    assert str(cased.normalizer) == "bert_clean"
    assert cased.tokenize("World\x00 world") == ["World", "world"]


@few_cases(100, 5)
@given(text=nasty_texts())
def test_rows_of_bert_are_those_of_hugging_face(uncased: Tokenizer, bert_file: Path, text: str) -> None:
    peer = bert_peer(str(bert_file))
    text = "".join(one for one in text if one.isprintable() and ord(one) < 0x10000)
    if any(special in text for special in BERT_SPECIALS):
        return
    mine, theirs = uncased.process(text, "a second one"), peer.encode(text, "a second one")
    assert_same_rows(mine, theirs)
    if text.isascii():
        assert mine.offsets == theirs.offsets


def assert_same_rows(mine: Any, theirs: Any) -> None:
    assert (mine.ids, mine.type_ids, mine.word_ids) == (theirs.ids, theirs.type_ids, theirs.word_ids)
    assert mine.special_tokens_mask == theirs.special_tokens_mask


@functools.cache
def bert_peer(path: str) -> Any:
    return tokenizers.BertWordPieceTokenizer(path, lowercase=True)


# --- writing ----------------------------------------------------------------------------------------------------------------


def test_bert_comes_back_byte_for_byte(uncased: Tokenizer, bert_file: Path) -> None:
    assert uncased.to_format("vocab-txt") == {"vocab.txt": bert_file.read_bytes()}


def test_a_trained_vocabulary_can_be_written() -> None:
    made = train(["low lower newest, widest"], model="wordpiece", pretokenizer="bert", merges=8, special_tokens=BERT_SPECIALS,
                 unk_token="[UNK]")  # fmt: skip
    made = Tokenizer(made.model, pretokenizer=made.pretokenizer, normalizer=Normalizer(BERT_STEPS))
    loaded = recognition.loads(made.to_format("vocab-txt")["vocab.txt"])
    assert (loaded.vocab, loaded.encode("lowest, x")) == (made.vocab, made.encode("lowest, x"))


@pytest.mark.parametrize(
    ("tokens", "steps", "known"),
    [
        (["a"], (), "bert_clean, strip_accents, lowercase"),
        (["a"], ("nfc", *BERT_STEPS), "bert_clean, strip_accents, lowercase"),
        (["a"], ("bert_clean",), "bert_clean, strip_accents, lowercase"),
        (["A"], BERT_STEPS, "bert_clean"),
        (["A"], (), "bert_clean"),
    ],
)
def test_a_normalizer_that_readers_would_not_have_is_refused(tokens: list[str], steps: tuple[str, ...], known: str) -> None:
    made = loaded_with([*SMALL, *tokens], steps)
    message = rf"^vocab\.txt with such tokens stands for the normalizer {known}, here it is "
    with pytest.raises(UsageError, match=message):
        made.to_format("vocab-txt")
    assert loaded_with([*SMALL, *tokens], tuple(known.split(", "))).to_format("vocab-txt")


def loaded_with(tokens: list[str], steps: tuple[str, ...]) -> Tokenizer:
    loaded = recognition.loads(content_of(list(dict.fromkeys(tokens))))
    return Tokenizer(loaded.model, pretokenizer=loaded.pretokenizer, normalizer=Normalizer(steps))


def test_what_the_file_cannot_say_is_refused() -> None:
    def said(tokenizer: Tokenizer) -> str:
        with pytest.raises(UsageError) as caught:
            tokenizer.to_format("vocab-txt")
        return str(caught.value)

    def small(**changes: Any) -> Tokenizer:
        return tokenizer_of(["a", "##a"], **{"pretokenizer": "bert", **changes})

    assert said(small(pretokenizer="gpt2")).startswith("vocab.txt stands for the pre-tokenizer bert, here it is gpt2; use --to")
    assert said(small(prefix="@")).startswith("vocab.txt stands for the continuation prefix ##, here it is @")
    assert said(small(most_characters=None)).startswith("vocab.txt stands for a limit of characters 100, here it is None")
    assert said(small(unk="<unk>")).startswith("vocab.txt stands for the unk token [UNK], here it is <unk>")
    assert said(small()) == "vocab.txt has an id for each line, and no token has the id 0 here; use --to native"
    assert said(byte_tokenizer_of([], pretokenizer="bert")).startswith(
        "vocab.txt stands for the model wordpiece, here it is byte-"
    )
    assert said(train(["ab"], merges=1)) == "vocab.txt holds a WordPiece vocabulary, this is a char-bpe model; use --to native"
    model = small().model
    assert isinstance(model, WordPieceModel)
    for vocab, specials, told in (
        ({"[UNK]": 0, "[X]": 1}, ("[UNK]", "[X]"), "vocab.txt has the special tokens"),
        ({"[UNK]": 0, "[CLS]": 1}, ("[UNK]",), "'[CLS]' is not one here"),
        ({"[UNK]": 0, "a\u3000": 1}, ("[UNK]",), "vocab.txt cannot hold the token 'a\\u3000'"),
    ):
        other = WordPieceModel("wordpiece", model.alphabet, vocab, (), specials, "[UNK]")
        assert told in said(Tokenizer(other, pretokenizer=small().pretokenizer))


def test_other_formats_refuse_wordpiece() -> None:
    tokenizer = tokenizer_of(["a"], pretokenizer="bert")
    for target in ("tiktoken", "gpt2"):
        with pytest.raises(UsageError, match=r"holds merge rules to encode by, a wordpiece model has none"):
            tokenizer.to_format(target)
    with pytest.raises(UsageError, match="a file of two keys stands for char-bpe behind wordpunct, this is wordpiece"):
        tokenizer.to_format("two-key")
    assert vocab_txt.is_vocabulary(content_of(SMALL)) and not vocab_txt.is_vocabulary(b"[UNK]\n")
