"""WordPiece in Hugging Face's tokenizer.json: both ways with the same ids, byte for byte as that program saves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given

from tests.strategies import nasty_texts
from tests.training import few_cases, train
from tests.wordpieces import BERT_SPECIALS, byte_tokenizer_of, tokenizer_of
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import recognition
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.tokenizer import Tokenizer

TEXTS = ["low lower newest, widest 你好", "the lows of the unknown ü", "", "a" * 101]


def make_peer(**changes: Any) -> Any:
    """A BERT tokenizer made with Hugging Face's own parts."""
    vocab = {token: place for place, token in enumerate([*BERT_SPECIALS, "low", "##er", "##s", "l", "##o", "##w", ",", "你"])}
    peer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocab, **{"unk_token": "[UNK]", **changes}))
    peer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    peer.normalizer = tokenizers.normalizers.BertNormalizer(
        clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
    )
    peer.decoder = tokenizers.decoders.WordPiece(prefix=changes.get("continuing_subword_prefix", "##"), cleanup=False)
    peer.add_special_tokens(list(BERT_SPECIALS))
    return peer


def save(peer: Any) -> bytes:
    saved: str = peer.to_str(pretty=True)
    return saved.encode()


def refusal(**changes: Any) -> str:
    document = json.loads(save(make_peer()))
    for place, value in changes.items():
        *path, last = place.split("__")
        part = document
        for key in path:
            part = part[key]
        part[last] = value
    with pytest.raises(TokenizerFileError) as caught:
        recognition.loads(json.dumps(document).encode())
    return str(caught.value)


def test_a_file_of_hugging_face_is_read_and_written_byte_for_byte() -> None:
    peer = make_peer(max_input_chars_per_word=50)
    tokenizer = recognition.loads(save(peer))
    assert isinstance(tokenizer.model, WordPieceModel)
    assert (tokenizer.model.max_word_characters, tokenizer.special_tokens, str(tokenizer.pretokenizer)) == (
        50,
        BERT_SPECIALS,
        "bert",
    )
    assert tokenizer.to_format("huggingface") == {"tokenizer.json": save(peer)}
    for text in TEXTS:
        assert tokenizer.encode(text) == peer.encode(text).ids


def test_a_trained_tokenizer_gives_the_same_ids_there() -> None:
    for cutter in ("bert", "whitespace-punct"):
        made = train(
            TEXTS[:2], model="wordpiece", pretokenizer=cutter, merges=20, unk_token="[UNK]", special_tokens=BERT_SPECIALS
        )
        content = made.to_format("huggingface")["tokenizer.json"]
        peer = tokenizers.Tokenizer.from_str(content.decode())
        assert [peer.encode(text).ids for text in TEXTS] == made.encode_batch(TEXTS).to_pylist()
        assert save(peer) == content
        back = recognition.loads(content)
        assert (back.vocab, back.to_format("huggingface")["tokenizer.json"]) == (made.vocab, content)


def test_another_prefix_and_no_limit() -> None:
    made = tokenizer_of(["a", "@a"], prefix="@", most_characters=None, pretokenizer="bert")
    content = made.to_format("huggingface")["tokenizer.json"]
    peer = tokenizers.Tokenizer.from_str(content.decode())
    assert peer.encode("a" * 200).ids == made.encode("a" * 200)
    assert peer.decode(made.encode("aaa a")) == made.decode(made.encode("aaa a")) == "aaa a"
    back = recognition.loads(content)
    assert isinstance(back.model, WordPieceModel)
    assert (back.model.continuation_prefix, back.model.max_word_characters) == ("@", None)


def test_a_vocab_txt_goes_there_and_comes_back(data_folder: Path, real_texts: list[str]) -> None:
    bert = Tokenizer.from_file(data_folder / "vocab" / "bert-base-uncased.vocab.txt")
    content = bert.to_format("huggingface")["tokenizer.json"]
    peer = tokenizers.Tokenizer.from_str(content.decode())
    texts = ["hello, world!", *real_texts[:200]]
    expected = [encoding.ids for encoding in peer.encode_batch(texts, add_special_tokens=False)]
    assert bert.encode_batch(texts).to_pylist() == expected
    assert recognition.loads(content).to_format("huggingface") == {"tokenizer.json": content}


@few_cases(60, 6)
@given(text=nasty_texts(max_fragments=20))
def test_nasty_texts_have_the_same_ids(text: str) -> None:
    peer = make_peer()
    if not any(special in text for special in BERT_SPECIALS):
        assert recognition.loads(save(peer)).encode(text) == peer.encode(text).ids


def test_what_a_file_may_not_say() -> None:
    known = "type, vocab, unk_token, continuing_subword_prefix, max_input_chars_per_word"
    assert refusal(model__dropout=0.1) == f"model.dropout: this field is not known here; known are {known}"
    assert refusal(model__continuing_subword_prefix="").startswith(
        "model.continuing_subword_prefix: continuation prefix '' must be"
    )
    assert refusal(model__max_input_chars_per_word="9") == 'model.max_input_chars_per_word: "9" found where int belongs'
    assert refusal(pre_tokenizer=None) == "pre_tokenizer: there is none; BertPreTokenizer or Whitespace belongs there"
    assert refusal(pre_tokenizer={"type": "Metaspace"}) == "pre_tokenizer: Metaspace is not known here"
    assert refusal(decoder={"type": "CTC"}) == "decoder: CTC is not known here"
    assert refusal(decoder={"type": "WordPiece"}) == "decoder.cleanup: it is missing; true or false belongs there"
    assert "handle_chinese_chars" in refusal(normalizer=None)
    assert refusal(model__type="Unigram") == "model: Unigram is not known here"


def test_what_hugging_face_cannot_say_is_refused() -> None:
    def said(tokenizer: Tokenizer) -> str:
        with pytest.raises(UsageError) as caught:
            tokenizer.to_format("huggingface")
        return str(caught.value)

    assert said(byte_tokenizer_of([], pretokenizer="bert")).startswith(
        "Hugging Face's WordPiece has tokens of characters, a byte-"
    )
    assert said(tokenizer_of(["a"], pretokenizer="bert", unk=None)).startswith("Hugging Face's WordPiece needs an unk token")
    assert said(tokenizer_of(["a"], pretokenizer="gpt2")) == (
        "before a WordPiece model Hugging Face cuts as bert or whitespace-punct, this is gpt2; use --to native"
    )
