"""Encoding with WordPiece: the longest match of the plain reference, what is lost and counted, and back to text."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import wordpiece_tokens
from tests.training import JIT, few_cases
from tests.wordpieces import BERT_SPECIALS, byte_tokenizer_of, tokenizer_of
from tokenmill.errors import InvalidTextError, TokenizerFileError, UnknownCharacterError, UsageError
from tokenmill.models.alphabets import CharacterAlphabet
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.reference import wordpiece as reference
from tokenmill.reference.bpe import visible_bytes
from tokenmill.tokenizer import Tokenizer

UNAFFABLE = ["un", "##aff", "##able", "##a", "a", "low", "lo", "##w", "##ws", "##s", "n"]
#: What likelihood training makes of low, lower, newest, widest.
TRAINED = ["##st", "n", "##i", "##s", "wid", "##d", "wi", "##r", "##o", "lo", "w", "##e", "##w", "##t", "l"]


def expected_ids(tokenizer: Tokenizer, word: str, most_characters: int | None = 100) -> list[int]:
    specials = set(tokenizer.special_tokens)
    vocab = {token: token_id for token, token_id in tokenizer.vocab.items() if token not in specials}
    unk = tokenizer.vocab["[UNK]"]
    return reference.encode_word(word, vocab, unk=unk, most_characters=most_characters) if word else []


# --- by hand ----------------------------------------------------------------------------------------------------------------


def test_the_longest_match_first() -> None:
    tokenizer = tokenizer_of(UNAFFABLE)
    assert tokenizer.tokenize("unaffable") == ["un", "##aff", "##able"]
    assert tokenizer.tokenize("lows") == ["low", "##s"]  # greedy: not lo, ##ws
    assert tokenizer.tokenize("unaffabl") == ["[UNK]"]
    assert reference.match_word("lows", {"lo", "##w", "##ws"}) == ["lo", "##ws"]


def test_estimate_local_lows() -> None:
    for pretokenizer in ("bert", "whitespace-punct"):
        tokenizer = tokenizer_of(TRAINED, pretokenizer=pretokenizer)
        assert tokenizer.tokenize("estimate, local, lows") == [*["[UNK]"] * 4, "lo", "##w", "##s"]
        assert tokenizer.encode_counted(pa.array(["estimate, local, lows"], pa.large_string())).unknown_words == 4


def test_one_unknown_character_loses_the_whole_word() -> None:
    tokenizer = tokenizer_of(["h", "##u", "##g", "p"], pretokenizer="bert")
    assert tokenizer.tokenize("hug mug hum pug") == ["h", "##u", "##g", "[UNK]", "[UNK]", "p", "##u", "##g"]


def test_words_that_begin_with_the_prefix_are_looked_up_as_they_are() -> None:
    # As BERT's code and Hugging Face's do, where a pre-tokenizer gives such words at all.
    assert tokenizer_of(["#", "###", "##a"]).tokenize("##a") == ["##a"]
    assert tokenizer_of(["#", "###", "##a"]).tokenize("#a") == ["#", "##a"]


def test_special_tokens_never_come_out_of_text() -> None:
    tokenizer = tokenizer_of(["[", "##C", "##L", "##S", "##]"], specials=BERT_SPECIALS)
    assert tokenizer.tokenize("[CLS]") == ["[", "##C", "##L", "##S", "##]"]


def test_another_prefix() -> None:
    tokenizer = tokenizer_of(["un", "@aff", "@able", "##aff"], prefix="@")
    assert tokenizer.tokenize("unaffable") == ["un", "@aff", "@able"]
    assert tokenizer.decode(tokenizer.encode("unaffable")) == "unaffable"


# --- the reference ----------------------------------------------------------------------------------------------------------


@few_cases(150, 12)
@given(wordpiece_tokens(), st.lists(st.text("abc", max_size=70), max_size=6))
def test_ids_are_those_of_the_reference(tokens: list[str], words: list[str]) -> None:
    tokenizer = tokenizer_of(tokens)
    for _ in range(2):  # afresh, and from the cache
        assert tokenizer.encode_batch(words).to_pylist() == [expected_ids(tokenizer, word) for word in words]


@few_cases(100, 10)
@given(wordpiece_tokens(letters="aé😀#"), st.lists(st.text("aé😀#", max_size=20), max_size=6), st.integers(1, 12))
def test_characters_of_several_bytes_and_a_limit(tokens: list[str], words: list[str], limit: int) -> None:
    tokenizer = tokenizer_of(tokens, most_characters=limit)
    assert tokenizer.encode_batch(words).to_pylist() == [expected_ids(tokenizer, word, limit) for word in words]


@few_cases(40, 3)
@given(wordpiece_tokens(letters="ab", max_length=40), st.text("ab", min_size=64, max_size=400))
def test_long_words_are_those_of_the_reference(tokens: list[str], word: str) -> None:
    tokenizer = tokenizer_of(tokens, most_characters=None)
    assert tokenizer.encode(word) == expected_ids(tokenizer, word, None)


@few_cases(60, 6)
@given(st.lists(st.binary(max_size=40), max_size=5))
def test_a_byte_model_takes_any_bytes_and_gives_them_back(words: list[bytes]) -> None:
    shown = visible_bytes()
    tokenizer = byte_tokenizer_of([shown[0xC3] + shown[0xA9], "##" + shown[0xC3] + shown[0xA9], "##" + shown[0] * 2, "Ġ" + "a"])
    encoded = tokenizer.encode_counted(pa.array(words, pa.large_binary()))
    spelled = ["".join(shown[byte] for byte in word) for word in words]
    assert [[tokenizer.id_to_token(i) for i in ids] for ids in encoded.ids.to_pylist()] == [
        reference.match_word(word, tokenizer.vocab) for word in spelled
    ]
    assert [tokenizer.decode_bytes(ids) for ids in encoded.ids.to_pylist()] == words
    assert not encoded.unknown.any()


@pytest.mark.jit
def test_a_word_of_a_million_letters_takes_time_in_proportion() -> None:
    # Each place lets the tree of tokens be walked 1,000 bytes deep, in vain: a search from each place anew would take 10^9 steps.
    run = "a" * 1000
    tokenizer = tokenizer_of(["a", "##a", f"##{run}b"], most_characters=None)
    assert len(tokenizer.encode("a" * 1_000_000)) == 1_000_000
    assert tokenizer.tokenize("a" * 5 + run + "b")[-1] == f"##{run}b"


# --- what is lost -----------------------------------------------------------------------------------------------------------


def test_unknown_and_long_words_are_counted() -> None:
    tokenizer = tokenizer_of(["a", "##a", "b"], pretokenizer="whitespace-punct", most_characters=5)
    texts = ["aaaaa aaaaaa b", "c aaaaaa", "", "aaaaaaaaa aaaaaa"]
    for _ in range(2):  # afresh, and from the cache
        encoded = tokenizer.encode_counted(pa.array(texts, pa.large_string()))
        shown = [[tokenizer.id_to_token(i) for i in ids] for ids in encoded.ids.to_pylist()]
        assert shown == [["a", *["##a"] * 4, "[UNK]", "b"], ["[UNK]"] * 2, [], ["[UNK]"] * 2]
        assert (encoded.unknown_words, encoded.long_words, encoded.unknown.any()) == (1, 4, False)


def test_a_limit_counts_characters_not_bytes() -> None:
    tokenizer = tokenizer_of(["é", "##é"], most_characters=3)
    assert (tokenizer.tokenize("ééé"), tokenizer.tokenize("éééé")) == (["é", "##é", "##é"], ["[UNK]"])
    assert tokenizer_of(["é", "##é"], most_characters=None).tokenize("é" * 300) == ["é", *["##é"] * 299]


def test_without_an_unk_token_a_text_is_refused_with_the_place() -> None:
    tokenizer = tokenizer_of(["h", "##u", "##g"], unk=None, pretokenizer="bert", most_characters=4)
    with pytest.raises(UnknownCharacterError) as caught:
        tokenizer.encode_batch(["hug", "hug  hüm"])
    assert str(caught.value) == (
        "text 1, character 6: 'ü' (U+00FC) in the word 'hüm' begins no token that fits; "
        "train with --unk TOKEN, or --model byte-wordpiece"
    )
    with pytest.raises(UnknownCharacterError, match=r"text 0, character 4: the word 'huggg' has 5 characters, more than the 4"):
        tokenizer.encode("hug huggg")
    encoded = tokenizer.encode_counted(pa.array(["hug", "mug", "hug huggg"], pa.large_string()))
    assert (encoded.unknown.tolist(), encoded.unknown_words, encoded.long_words) == ([False, True, True], 0, 0)


def test_the_place_of_a_marked_word() -> None:
    tokenizer = tokenizer_of(["h", "Ġ", "##h", "##i"], unk=None, pretokenizer="wordpunct")
    with pytest.raises(UnknownCharacterError, match=r"^text 0, character 10: 'o' \(U\+006F\) in the word ' ho' begins no token"):
        tokenizer.encode("hi  hi\t  ho")


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(InvalidTextError, match="the text is not UTF-8 at byte 1"):
        tokenizer_of(["a"]).encode(b"a\xff")


# --- back to text -----------------------------------------------------------------------------------------------------------


def test_decoding_puts_spaces_where_they_were_dropped() -> None:
    tokenizer = tokenizer_of([*UNAFFABLE, "!"], pretokenizer="bert", specials=BERT_SPECIALS)
    ids = tokenizer.encode("low unaffable lows!")
    assert tokenizer.decode(ids) == "low unaffable lows !"
    framed = [tokenizer.vocab["[CLS]"], *ids, tokenizer.vocab["[SEP]"]]
    assert tokenizer.decode(framed) == "[CLS] low unaffable lows ! [SEP]"
    assert tokenizer.decode(framed, skip_special_tokens=True) == "low unaffable lows !"
    assert tokenizer.decode([]) == ""
    assert tokenizer.decode([tokenizer.vocab["##w"], tokenizer.vocab["a"]]) == "w a"


def test_decoding_gives_back_the_text_where_words_tile_it() -> None:
    tokenizer = tokenizer_of(["l", "##o", "Ġ", "##l", "##Ġ"], pretokenizer="gpt2")
    assert tokenizer.tokenize("lo  lo") == ["l", "##o", "Ġ", "Ġ", "##l", "##o"]
    assert tokenizer.decode(tokenizer.encode("lo  lo")) == "lo  lo"


# --- the model --------------------------------------------------------------------------------------------------------------


def test_what_a_model_refuses() -> None:
    alphabet, vocab = ContinuationAlphabet(CharacterAlphabet(False)), {"a": 0, "##b": 1, "ab": 2}
    assert WordPieceModel("wordpiece", alphabet, vocab, (("a", "##b"),)).merge_rules == (("a", "##b"),)
    with pytest.raises(TokenizerFileError, match=re.escape("merge_rules[0]: ('a', '##c') needs the token '##c'")):
        WordPieceModel("wordpiece", alphabet, vocab, (("a", "##c"),))
    with pytest.raises(TokenizerFileError, match=r"max_word_characters: 0 is no whole number from 1 to 2147483647"):
        WordPieceModel("wordpiece", alphabet, vocab, (), max_word_characters=0)
    with pytest.raises(UsageError, match="continuation prefix '' must be Unicode text, one character or more, such as '##'"):
        ContinuationAlphabet(CharacterAlphabet(False), "")


def test_a_byte_model_needs_all_bytes_in_both_forms() -> None:
    tokenizer = byte_tokenizer_of([])
    vocab = dict(tokenizer.vocab)
    del vocab["##a"]
    with pytest.raises(
        TokenizerFileError, match=r"vocab: a byte model needs all 256 continuation bytes; 1 are missing, first '##a'"
    ):
        WordPieceModel("byte-wordpiece", tokenizer.model.alphabet, vocab, (), max_word_characters=None)
    with pytest.raises(TokenizerFileError, match=r"vocab: '你' is not spelled in visible bytes; is this a wordpiece model\?"):
        WordPieceModel("byte-wordpiece", tokenizer.model.alphabet, {**tokenizer.vocab, "你": 600}, (), max_word_characters=None)
    with pytest.raises(
        TokenizerFileError, match="max_word_characters: 5, but a byte-wordpiece model takes words of any length; "
    ):
        WordPieceModel("byte-wordpiece", tokenizer.model.alphabet, tokenizer.vocab, (), max_word_characters=5)


def test_an_empty_vocabulary_knows_no_word() -> None:
    assert tokenizer_of([]).tokenize("a") == ["[UNK]"]


def test_words_of_edge_lengths() -> None:
    """Around the lengths where the key of a word changes its kind, where words stop being kept, where scratch is allocated."""
    tokenizer = tokenizer_of(["a", "##a", "##ab", "##\0", "\0", "ab"], most_characters=None)
    lengths = (1, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 257, 400)
    words = [("abaab" * 80)[:length] for length in lengths if JIT or length <= 65]
    words = [variant for word in words for variant in (word, word + "\0", "\0" + word)]
    for _ in range(2):
        assert tokenizer.encode_batch(words).to_pylist() == [expected_ids(tokenizer, word, None) for word in words]
