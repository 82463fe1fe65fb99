"""A kind of model that is a file and a row: the most frequent words of the corpus are tokens, and so are its characters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tokenmill.models.base import number_tokens
from tokenmill.models.kinds import ModelKind
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.result import OnNamedMerges, Training, describe_training
from tokenmill.training.symbols import symbols_for_training
from tokenmill.training.word_counts import binary_buffers


class FrequentWordsModel(WordPieceModel):
    """Whole words where they are tokens, else the longest tokens that fit: here these are characters."""


def train_frequent_words(counts: pa.Table, options: TrainingOptions, on_merges: OnNamedMerges | None) -> Training:
    """The characters of the corpus, and as many of its most frequent words as there is room for; `learned` are these words."""
    pretokenizer = PreTokenizer.of(options.pretokenizer)
    alphabet = options.alphabet(marks_spaces=pretokenizer.marks_spaces)
    data, ends = binary_buffers(counts["word"])
    offsets = np.concatenate([np.zeros(1, np.int64), ends])
    symbols = symbols_for_training(alphabet, data, offsets, counts["count"].to_numpy()).visible
    words = [word.decode() for word in counts["word"].to_pylist() if len(word) > 1]
    chosen = words[: (options.vocab_size or 0) - len(symbols) - len(options.specials)]
    vocab = number_tokens(options.specials, symbols, chosen, ids=options.ids)
    model = options.make_model(alphabet, vocab, ())
    return Training(Tokenizer(model, pretokenizer=pretokenizer, training=describe_training(counts, options)), chosen)


KIND = ModelKind(
    name="frequent-words",
    help="the most frequent words, and characters",
    symbol="a symbol is a character, with ## in front inside a word",
    model="tests.toy_kind:FrequentWordsModel",
    trainer="tests.toy_kind:train_frequent_words",
    explainer="tokenmill.explain.matching:explain_word",
    pretokenizer="bert",
    unk="[UNK]",
    has_merges=False,
    options=("continuation_prefix", "max_word_characters"),
    file_keys={"continuation_prefix": str, "max_word_characters": (int, type(None))},
)
