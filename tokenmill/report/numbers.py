"""A report as frozen dataclasses of numbers, computed from the sums of the texts and from the tokenizers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tokenmill.models.showing import show_token
from tokenmill.report.measure import Change, Measurement, check_groups
from tokenmill.report.sums import LENGTH, OF_TEXTS, OF_TOKENIZER, TEXTS, TOKEN, read_groups, read_keys
from tokenmill.report.vocabulary import Unreachable, count_covering, find_unreachable, rank_counts, spell_token
from tokenmill.tokenizer import Tokenizer

#: How many tokens of each kind are shown.
SHOWN_TOKENS = 20
COVERED_PERCENTS = (50, 90, 99)


@dataclass(frozen=True)
class TextNumbers:
    """The numbers of the texts. `words` are runs of characters without Unicode's White_Space, for any pre-tokenizer."""

    documents: int
    empty: int
    bytes: int
    characters: int
    words: int


@dataclass(frozen=True)
class TokenNumbers:
    """The numbers of a tokenizer for the documents that it could encode, with their bytes, characters and words.

    `unknown`: the unk tokens among the tokens; `changed`: the documents among the `checked` ones that decoding does not restore.
    A ratio is None if its divisor is 0.
    """

    documents: int
    bytes: int
    characters: int
    words: int
    tokens: int
    unknown: int
    checked: int
    changed: int

    @property
    def bytes_per_token(self) -> float | None:
        return _divide(self.bytes, self.tokens)

    @property
    def characters_per_token(self) -> float | None:
        return _divide(self.characters, self.tokens)

    @property
    def tokens_per_word(self) -> float | None:
        """The fertility: 1.3 means that a word takes 1.3 tokens on average."""
        return _divide(self.tokens, self.words)

    @property
    def unknown_rate(self) -> float | None:
        return _divide(self.unknown, self.tokens)


@dataclass(frozen=True)
class Lengths:
    """Tokens per document. `histogram`: (fewest, most, documents), with powers of two as borders. Percentiles are exact."""

    mean: float
    shortest: int
    median: int
    percentile_90: int
    percentile_99: int
    longest: int
    histogram: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class TokenCount:
    """A token in visible form, its text (None if it ends inside a character), its display form, and its count in the texts."""

    id: int
    token: str
    text: str | None
    shown: str
    count: int


@dataclass(frozen=True)
class VocabularyUse:
    """Which tokens the texts used. `size` = `special` + `used` + `unused`; special tokens are counted only as such.

    `covering`: (percent, tokens), how many of the most used tokens make up this share of the text. `by_rank`: (rank, count) of
    some tokens, most used first. `most_used`, `unused_tokens` (by id) and `unreachable_tokens` contain only the first tokens.
    """

    size: int
    special: int
    used: int
    unused: int
    unreachable: int
    covering: tuple[tuple[int, int], ...]
    by_rank: tuple[tuple[int, int], ...]
    most_used: tuple[TokenCount, ...]
    unused_tokens: tuple[TokenCount, ...]
    unreachable_tokens: tuple[Unreachable, ...]


@dataclass(frozen=True)
class TokenizerReport:
    """The part of a report about one tokenizer. `not_encoded`: documents with a character that it has no token for."""

    name: str
    sha256: str
    model: str
    normalizer: str
    pretokenizer: str
    embedding_rows: int
    numbers: TokenNumbers
    not_encoded: int
    lengths: Lengths | None
    vocabulary: VocabularyUse
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Group:
    """A group of the texts, such as a language: its numbers, and those of each tokenizer."""

    name: str
    texts: TextNumbers
    tokenizers: tuple[TokenNumbers, ...]


@dataclass(frozen=True)
class Report:
    """A report on one or more tokenizers for the same texts. `by`: what the groups are; `rejected`: the number of rejects."""

    texts: TextNumbers
    rejected: int
    by: str | None
    tokenizers: tuple[TokenizerReport, ...]
    groups: tuple[Group, ...]


def measure_texts(
    tokenizers: Mapping[str, Tokenizer],
    texts: pa.Array | Sequence[str],
    *,
    groups: Sequence[str] | None = None,
    by: str = "group",
) -> Report:
    """Make the report on texts in memory; `groups` names the group of each.

    >>> measure_texts({"mine": tokenizer}, ["one", "two words"]).texts.words
    3
    """
    measurement = Measurement(list(tokenizers.values()))
    measurement.add(texts, groups="" if groups is None else groups)
    return make_report(tokenizers, measurement.table(), changes=measurement.changes, by=None if groups is None else by)


def make_report(
    tokenizers: Mapping[str, Tokenizer],
    sums: pa.Table,
    *,
    changes: Sequence[Sequence[Change]],
    by: str | None = None,
    rejected: int = 0,
    shown: int = SHOWN_TOKENS,
) -> Report:
    """Make a report from the sums of all texts (schema `REPORT_SUMS`) and the changes of each tokenizer.

    Groups are sorted by their bytes, largest first. Raises `UsageError` for more groups than a report supports.
    """
    by_group = read_groups(sums)
    check_groups(len(by_group))
    groups = [_make_group(name, found, len(tokenizers)) for name, found in by_group.items()]
    groups.sort(key=lambda group: (-group.texts.bytes, group.name))
    texts = TextNumbers(*(sum(getattr(group.texts, name) for group in groups) for name in OF_TEXTS))
    made = []
    for number, (name, tokenizer) in enumerate(tokenizers.items()):
        parts = [group.tokenizers[number] for group in groups]
        numbers = TokenNumbers(*(sum(getattr(part, field) for part in parts) for field in OF_TOKENIZER))
        ids, counts = read_keys(sums, number, TOKEN)
        made.append(
            TokenizerReport(
                name=name,
                sha256=tokenizer.sha256,
                model=tokenizer.model.name,
                normalizer=str(tokenizer.normalizer),
                pretokenizer=str(tokenizer.pretokenizer),
                embedding_rows=tokenizer.embedding_rows,
                numbers=numbers,
                not_encoded=texts.documents - numbers.documents,
                lengths=_describe_lengths(*read_keys(sums, number, LENGTH)),
                vocabulary=_describe_use(tokenizer, ids, counts, shown),
                changes=tuple(changes[number]),
            )
        )
    return Report(texts, rejected, by, tuple(made), tuple(groups) if by is not None else ())


def _make_group(name: str, sums: Mapping[tuple[int, str], int], tokenizers: int) -> Group:
    texts = TextNumbers(*(sums.get((TEXTS, field), 0) for field in OF_TEXTS))
    numbers = (TokenNumbers(*(sums.get((number, field), 0) for field in OF_TOKENIZER)) for number in range(tokenizers))
    return Group(name, texts, tuple(numbers))


def _describe_lengths(lengths: np.ndarray, documents: np.ndarray) -> Lengths | None:
    """Describe distinct lengths (int64[n], ascending), given the number of documents of each length."""
    if not lengths.size:
        return None
    up_to, total = np.cumsum(documents), int(documents.sum())

    def percentile(percent: int) -> int:
        return int(lengths[np.searchsorted(up_to * 100, total * percent)])

    # The bins are 0, 1, 2 to 3, 4 to 7, ...: the number of bits, which frexp returns as the exponent.
    bins = np.frexp(lengths)[1]
    sums = np.bincount(bins, weights=documents).astype(np.int64)
    histogram = tuple((1 << number >> 1, max((1 << number) - 1, 0), int(count)) for number, count in enumerate(sums))
    mean = float((lengths * documents).sum() / total)
    return Lengths(mean, int(lengths[0]), percentile(50), percentile(90), percentile(99), int(lengths[-1]), histogram)


def _describe_use(tokenizer: Tokenizer, ids: np.ndarray, counts: np.ndarray, shown: int) -> VocabularyUse:
    """Describe the use of a vocabulary from the used ids (int64[n], ascending) and their counts."""
    model = tokenizer.model
    special = {model.vocab[token] for token in model.special_tokens}
    ordinary = ~np.isin(ids, list(special))
    ids, counts = ids[ordinary], counts[ordinary]
    unused = sorted(model.token_of_id.keys() - special - set(ids.tolist()))
    most = np.lexsort((ids, -counts))[:shown]
    unreachable = find_unreachable(tokenizer)
    return VocabularyUse(
        size=len(tokenizer),
        special=len(special),
        used=ids.size,
        unused=len(unused),
        unreachable=len(unreachable),
        covering=tuple((percent, count_covering(counts, percent)) for percent in COVERED_PERCENTS),
        by_rank=tuple(rank_counts(counts)),
        most_used=tuple(_count_token(tokenizer, int(ids[at]), int(counts[at])) for at in most),
        unused_tokens=tuple(_count_token(tokenizer, token_id, 0) for token_id in unused[:shown]),
        unreachable_tokens=tuple(unreachable[:shown]),
    )


def _count_token(tokenizer: Tokenizer, token_id: int, count: int) -> TokenCount:
    token = tokenizer.model.token_of_id[token_id]
    return TokenCount(token_id, token, spell_token(tokenizer, token_id), show_token(tokenizer.model, token), count)


def _divide(number: int, by: int) -> float | None:
    return number / by if by else None
