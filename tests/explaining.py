"""What every explanation of a text has to be."""

from __future__ import annotations

from tokenmill.explain.encoding import explain_text
from tokenmill.tokenizer import Tokenizer


def check_explained(tokenizer: Tokenizer, text: str) -> None:
    """An explanation is what the tokenizer does; its words are the text, in place."""
    explained = explain_text(tokenizer, text)
    assert list(explained.ids) == tokenizer.encode(text)
    assert list(explained.tokens) == tokenizer.tokenize(text)
    assert explained.decoded == tokenizer.decode(tokenizer.encode(text))
    for word in explained.words:
        (start, end), (first, last) = word.characters, word.bytes
        assert text.encode()[first:last].decode() == text[start:end] != ""
    places = [place for word in explained.words for place in word.characters]
    assert places == sorted(places)
    if tokenizer.pretokenizer.lossless:
        assert "".join(text[slice(*word.characters)] for word in explained.words) == text
