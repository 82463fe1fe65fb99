"""What a training gives, and what the tokenizer file says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from tokenmill.models.kinds import list_options
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.options import TrainingOptions
from tokenmill.training.word_counts import fingerprint_counts

#: Called now and then while merging: how many rules are made, and the latest of them as (left, right, count), as people see them.
OnNamedMerges = Callable[[int, list[tuple[str, str, int]]], None]

#: Options that the model keeps itself, or that are stated in a way of their own.
_SAID_ELSEWHERE = ("score", "max_word_characters")


class Training(NamedTuple):
    """A tokenizer, and what was learned to make it: of models with merge rules, `merge_loop.MergeRules`."""

    tokenizer: Tokenizer
    learned: Any


def describe_training(counts: pa.Table, options: TrainingOptions) -> dict[str, object]:
    """What the tokenizer file says of its origin: options, and the fingerprint of the counts that bear on the result."""
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
