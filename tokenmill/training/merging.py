"""The trainer of models that learn merge rules: BPE (by pair count), WordPiece (by score), and extended BPE models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tokenmill.errors import UsageError, VocabularySizeError
from tokenmill.models.base import number_tokens
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.marks import Alphabet
from tokenmill.models.showing import show_symbol
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.extension import check_extended, check_size, extend_model, new_specials, symbols_for_extension
from tokenmill.training.merge_loop import MergeOptions, MergeRules, OnMerges, learn_merges
from tokenmill.training.options import TrainingOptions, describe_least, describe_shortage
from tokenmill.training.result import OnNamedMerges, Training, describe_training
from tokenmill.training.symbols import TrainingSymbols, symbols_for_training
from tokenmill.training.word_counts import binary_buffers, in_corpus_order


def train_by_merging(counts: pa.Table, options: TrainingOptions, on_merges: OnNamedMerges | None) -> Training:
    """Learn merge rules from word counts and make a tokenizer; `Training.learned` are the rules as `MergeRules`."""
    if options.extend is not None:
        return _extend_tokenizer(counts, options, options.extend, on_merges)
    pretokenizer = PreTokenizer.of(options.pretokenizer)
    alphabet = options.alphabet(marks_spaces=pretokenizer.marks_spaces)
    ordered = in_corpus_order(counts) if options.ties == "first-seen" else counts.combine_chunks()
    word_counts = ordered["count"].to_numpy()
    base = symbols_for_training(alphabet, *_words_of(ordered), word_counts, limit_alphabet=options.limit_alphabet)
    _check_room(base, options)
    forbidden = _forbid_tokens(alphabet, base.visible, (*options.specials, *options.byte_tokens))
    rules = _learn_rules(base, alphabet, forbidden, _count_merges(base, options), options, on_merges)
    others = len(options.specials) + len(options.byte_tokens) + len(base.visible)
    _check_shortage(rules, others, options)
    return Training(_build_tokenizer(counts, rules, base.visible, options, pretokenizer), rules)


def _extend_tokenizer(
    counts: pa.Table, options: TrainingOptions, extended: Tokenizer, on_merges: OnNamedMerges | None
) -> Training:
    """As `train_by_merging`, but continue from the tokenizer `extended`."""
    model = check_extended(extended)
    specials = new_specials(model, options.special_tokens, options.unk_token)
    ordered = in_corpus_order(counts) if options.ties == "first-seen" else counts.combine_chunks()
    base = symbols_for_extension(model, ordered, specials)
    merges = options.merges if options.vocab_size is None else check_size(model, base, specials, options.vocab_size)
    rules = _learn_rules(base, model.alphabet, base.forbidden, merges or 0, options, on_merges)
    _check_shortage(rules, len(model.vocab) + len(specials) + len(base.characters), options)
    tokens = token_strings(rules, base.visible, model.alphabet)
    pairs = [(tokens[left], tokens[right]) for left, right in rules.pairs.tolist()]
    longer = extend_model(model, base, pairs, specials, options.unk_token)
    training = {**describe_training(counts, options), "extends": extended.sha256, "old_merges": len(model.merge_rules)}
    parts: dict[str, Any] = {
        "pretokenizer": extended.pretokenizer,
        "normalizer": extended.normalizer,
        "template": extended.template if options.template.is_empty else options.template,
        "decoder": extended.decoder,
    }
    return Training(Tokenizer(longer, **parts, training=training), rules)


def _learn_rules(
    base: TrainingSymbols,
    alphabet: Alphabet | ContinuationAlphabet,
    forbidden: Sequence[Sequence[int]],
    merges: int,
    options: TrainingOptions,
    on_merges: OnNamedMerges | None,
) -> MergeRules:
    return learn_merges(
        base.words,
        MergeOptions(merges, options.ties, options.min_count, options.max_token_length, options.score or options.kind.score),
        alphabet=len(base.visible),
        forbidden=forbidden,
        lengths=base.lengths,
        on_merges=None if on_merges is None else _name_merges(base.visible, alphabet, on_merges),
    )


def token_strings(rules: MergeRules, visible: Sequence[str], alphabet: Alphabet | ContinuationAlphabet) -> list[str]:
    """The visible form of every token of a training run, by number: first the base symbols, then the products."""
    tokens = list(visible)
    for left, right in zip(*rules.pairs.T.tolist(), strict=True):
        tokens.append(alphabet.join(tokens[left], tokens[right]))
    return tokens


def _count_merges(base: TrainingSymbols, options: TrainingOptions) -> int:
    """The number of rules that the options ask for."""
    if options.merges is not None or not options.kind.has_merges:
        return options.merges or 0
    return (options.vocab_size or 0) - len(options.specials) - len(options.byte_tokens) - len(base.visible)


def _name_merges(visible: Sequence[str], alphabet: Alphabet | ContinuationAlphabet, on_merges: OnNamedMerges) -> OnMerges:
    """Wrap `on_merges` so that it gets tokens as display text instead of the kernel's numbers."""
    names = list(visible)

    def tell(made: int, rows: np.ndarray) -> None:
        latest = []
        for left, right, count in rows.tolist():
            latest.append((show_symbol(alphabet, names[left]), show_symbol(alphabet, names[right]), count))
            names.append(alphabet.join(names[left], names[right]))
        on_merges(made, latest)

    return tell


def _words_of(counts: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Words as `(data, offsets)`: uint8[n], int64[w + 1]."""
    data, ends = binary_buffers(counts["word"])
    return data, np.concatenate([np.zeros(1, np.int64), ends])


def _check_room(base: TrainingSymbols, options: TrainingOptions) -> None:
    """Check that the specials and the alphabet fit into the vocabulary, and that no special token is a symbol."""
    symbols = {*base.visible, *options.byte_tokens}
    if options.vocab_size is not None and options.vocab_size < len(options.specials) + len(symbols):
        limit = ", or --limit-alphabet N" if options.kind.takes("limit_alphabet") else ""
        raise VocabularySizeError(describe_least(options.vocab_size, len(symbols), len(options.specials)) + limit)
    for token in options.specials:
        if token in symbols:
            raise UsageError(f"special token {token!r} is a symbol of the alphabet; choose a longer one")


def _forbid_tokens(alphabet: Alphabet | ContinuationAlphabet, visible: Sequence[str], tokens: Sequence[str]) -> list[list[int]]:
    """Existing tokens that text could spell, as symbol numbers; no rule may produce them."""
    number_of = {symbol: number for number, symbol in enumerate(visible)}
    spelled = (alphabet.base_symbols(token) for token in tokens)
    return [
        [number_of[symbol] for symbol in symbols]
        for symbols in spelled
        if symbols and all(symbol in number_of for symbol in symbols)
    ]


def _check_shortage(rules: MergeRules, others: int, options: TrainingOptions) -> None:
    """With `strict`, raise `VocabularySizeError` for fewer rules than asked for. `others` counts the tokens no rule makes."""
    if not (options.strict and rules.exhausted):
        return
    asked = {name: getattr(options, name) for name in ("vocab_size", "merges", "min_count", "max_token_length")}
    raise VocabularySizeError(describe_shortage(asked, len(rules.pairs), others + len(rules.pairs)))


def _build_tokenizer(
    counts: pa.Table, rules: MergeRules, visible: Sequence[str], options: TrainingOptions, pretokenizer: PreTokenizer
) -> Tokenizer:
    alphabet = options.alphabet(marks_spaces=pretokenizer.marks_spaces)
    tokens = token_strings(rules, visible, alphabet)
    symbols, products = [*options.byte_tokens, *visible], tokens[len(visible) :]
    vocab = {} if options.ids == "codepoint" else number_tokens(options.specials, symbols, products, ids=options.ids)
    lefts, rights = ([tokens[token] for token in column] for column in rules.pairs.T.tolist())
    model = options.make_model(alphabet, vocab, tuple(zip(lefts, rights, strict=True)))
    return Tokenizer(
        model,
        pretokenizer=pretokenizer,
        normalizer=options.normalizer,
        template=options.template,
        training=describe_training(counts, options),
    )
