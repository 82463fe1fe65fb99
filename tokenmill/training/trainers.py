"""Training: turns word counts and options into a `Tokenizer`.

counts = pq.read_table("word-counts/part-00000-of-00001.parquet")
tokenizer, rules = train_tokenizer(counts, TrainingOptions(model="byte-bpe", pretokenizer="gpt2", vocab_size=8192))
"""

from __future__ import annotations

import pyarrow as pa

from tokenmill.errors import NothingToTrainOnError
from tokenmill.models.kinds import load
from tokenmill.training.options import TrainingOptions
from tokenmill.training.result import OnNamedMerges, Training


def train_tokenizer(counts: pa.Table, options: TrainingOptions, *, on_merges: OnNamedMerges | None = None) -> Training:
    """Train on word counts (`schemas.WORD_COUNTS`, sorted as on disk) with the trainer of the model's kind.

    `on_merges` is called with the merge rules as they are learned. Raises `NothingToTrainOnError` if there are no words, and
    `VocabularySizeError` if the size is too small for the alphabet or, with `strict`, larger than the corpus allows.
    """
    if counts.num_rows == 0:
        raise NothingToTrainOnError("nothing to train on: the corpus holds no word; give one with text")
    train = load(options.kind.trainer)
    trained: Training = train(counts, options, on_merges)
    return trained
