"""The result of training, and its description in the tokenizer file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from tokenmill.models.kinds import list_options
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.word_counts import fingerprint_counts

#: Called during merging with the number of rules so far and the latest of them as (left, right, count), in display form.
OnNamedMerges = Callable[[int, list[tuple[str, str, int]]], None]

#: Options that `describe_training` does not copy: the model stores them, or they are written separately.
_SAID_ELSEWHERE = ("score", "max_word_characters")


class Training(NamedTuple):
    """A trained tokenizer and what was learned: `merge_loop.MergeRules` for models with merge rules."""

    tokenizer: Tokenizer
    learned: Any


def describe_training(counts: pa.Table, options: TrainingOptions) -> dict[str, object]:
    """Describe the origin of a tokenizer for its file: the options, and a fingerprint of the counts it was trained on."""
    chosen = {name: value for name in list_options() if name not in _SAID_ELSEWHERE and (value := getattr(options, name))}
    return {
        "word_counts_sha256": fingerprint_counts(counts, with_order=options.ties == "first-seen"),
        "distinct_words": counts.num_rows,
        "merges": options.merges,
        "vocab_size": options.vocab_size,
        "ties": options.ties,
        "ids": options.ids,
        "min_count": options.min_count,
        **chosen,
        **({"score": options.score or options.kind.score} if options.kind.takes("score") else {}),
    }
