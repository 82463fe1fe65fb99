"""`tokenmill explain`: what the command takes and prints. The steps themselves are found in `tokenmill.explain`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tokenmill.errors import InvalidTextError, UsageError
from tokenmill.explain.symbols import check_length
from tokenmill.explain.training import LearnedMerge, Score, TrainingExplanation, explain_training
from tokenmill.models.kinds import (
    default_pretokenizer,
    kind_of,
)
from tokenmill.pipeline.console import (
    print_result,
    print_text,
)
from tokenmill.pipeline.progress import count_things
from tokenmill.unicode_text import show_printable

if TYPE_CHECKING:
    from tokenmill.explain.encoding import TextExplanation, WordExplanation
    from tokenmill.explain.matching import Match
    from tokenmill.explain.steps import AppliedMerge
    from tokenmill.models.base import Model
    from tokenmill.text.pretokenizers import PreTokenizer

MERGES = 10
MOST_COUNT = 10**12
#: What `--ties` says.
ORDERS = {"smallest": "the one with the smallest ids", "first-seen": "the one that is seen first"}
#: So many strings that are no tokens are shown of each step of the longest match.
_SHOWN_TRIED = 4
_WIDTH = 100
_INDENT = 12


def explain(
    tokenizer_path: str | None,
    texts: tuple[str, ...],
    cutter: PreTokenizer | None,
    *,
    training: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Print how a tokenizer is trained on a few words, or how it encodes each text.

    `options` are those of training, None where they are not given, and `cutter` the pre-tokenizer that they name.
    Raises `UsageError` for options that do not go together.
    """
    given = [name for name, value in options.items() if value is not None]
    if training and tokenizer_path is not None:
        raise UsageError("--train makes rules, --tokenizer applies those of a file; give one of them")
    if training:
        chosen = {name: options[name] for name in ("model", "ties", "score", "vocab_size", "merges")}
        explained = train_on_words(texts, cutter, **chosen)
        marks_spaces = _choose_cutter(cutter, options["model"]).marks_spaces
        shown = json_line(explained) if as_json else describe_training(explained, marks_spaces=marks_spaces)
        print_result(shown) if as_json else print_text(shown)
        return
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} is for training; add --train, or leave it out")
    if tokenizer_path is None:
        raise UsageError("give --tokenizer FILE and a text, or --train and words such as low:5 lower:2")
    explain_texts(tokenizer_path, texts, as_json=as_json)


def json_line(explained: TrainingExplanation | TextExplanation) -> str:
    """The whole explanation as one line; scores that are fractions are strings such as `1/5`."""
    return json.dumps(asdict(explained), ensure_ascii=False, default=str)


# --- training ---------------------------------------------------------------------------------------------------------------


def train_on_words(
    words: Sequence[str],
    cutter: PreTokenizer | None = None,
    *,
    model: str | None = None,
    ties: str | None = None,
    score: str | None = None,
    vocab_size: int | None = None,
    merges: int | None = None,
) -> TrainingExplanation:
    """Train on words given as `low:5`, or on those of the texts of standard input; `MERGES` rules unless a size is given."""
    cutter = _choose_cutter(cutter, model)
    return explain_training(
        add_up_counts(map(parse_word, words)) if words else count_words(read_texts(), cutter),
        model=model or "char-bpe",
        marks_spaces=cutter.marks_spaces,
        ties=ties or "smallest",
        score=score,
        vocab_size=vocab_size,
        merges=MERGES if merges is None and vocab_size is None else merges,
    )


def _choose_cutter(cutter: PreTokenizer | None, model: str | None) -> PreTokenizer:
    from tokenmill.text.pretokenizers import PreTokenizer

    return cutter or PreTokenizer(default_pretokenizer(model))


def parse_word(argument: str) -> tuple[str, int]:
    """`low:5` is the word `low`, five times; the word may hold colons itself."""
    word, _, count = argument.rpartition(":")
    if not word or not re.fullmatch("[0-9]{1,13}", count) or not 1 <= int(count) <= MOST_COUNT:
        raise UsageError(
            f"{argument[:40]!r} is no counted word; write word:count, the count from 1 to {MOST_COUNT:,}, "
            "or give texts on standard input"
        )
    return word, int(count)


def add_up_counts(words: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Counts of words in the order in which they first come; a word that comes again adds to its count."""
    counts: Counter[str] = Counter()
    for word, count in words:
        counts[word] += count
    return counts


def count_words(texts: Iterable[str], pretokenizer: PreTokenizer) -> dict[str, int]:
    """The words of texts and their counts, in corpus order; stops with UsageError at more text than can be explained."""
    from tokenmill.explain.encoding import place_words

    counts: Counter[str] = Counter()
    characters = 0
    for text in texts:
        characters += len(text)
        check_length(characters, "standard input has, so far,", "give less text")
        counts.update(word for word, _ in place_words(pretokenizer, text))
    return counts


def describe_training(explained: TrainingExplanation, *, marks_spaces: bool = True) -> str:
    """The rounds of a training, for people; `marks_spaces` as in `explain_training`."""
    symbols = _Symbols(_show_as_trained(explained.model, marks_spaces))
    lines = [
        *entry("model", f"{explained.model}: {kind_of(explained.model).symbol}"),
        *entry("merged", f"is the pair with the highest {explained.score}, of equal ones {ORDERS[explained.ties]}"),
        *entry("words", *(f"{show(word.word)} {word.count:,}" for word in explained.words), between="   "),
        *entry("symbols", *map(symbols.join, (word.symbols for word in explained.words)), between="   "),
        *entry("alphabet", describe_alphabet(explained, symbols)),
    ]
    for merge in explained.merges:
        lines += ["", *describe_merge(merge, explained.score, symbols)]
    start = len(explained.alphabet)
    learned = [f"{start + number} {symbols.show(token)}" for number, token in enumerate(explained.vocabulary[start:])]
    lines += ["", *entry("stop", explained.stop)]
    lines += entry("vocabulary", f"{len(explained.vocabulary):,} tokens, each with its id: the alphabet, then what merges made")
    lines += entry("", *(f"{number} {symbols.show(symbol)}" for number, symbol in number_seen(explained)), between="   ")
    return "\n".join(lines + entry("", *learned, between="   "))


def describe_alphabet(explained: TrainingExplanation, symbols: _Symbols) -> str:
    """The base symbols; of the 256 bytes those that the words hold."""
    seen, size = [symbol for _, symbol in number_seen(explained)], len(explained.alphabet)
    more = "" if len(seen) == size else f"   and {size - len(seen)} bytes more, which no word holds"
    return f"{count_things(size, 'symbol')}: {symbols.join(seen)}{more}"


def number_seen(explained: TrainingExplanation) -> list[tuple[int, str]]:
    """The symbols of the alphabet that the words hold, with their ids."""
    held = {symbol for word in explained.words for symbol in word.symbols}
    return [(number, symbol) for number, symbol in enumerate(explained.alphabet) if symbol in held]


def describe_merge(merge: LearnedMerge, score: str, symbols: _Symbols) -> list[str]:
    """One round: the leading pairs, the one that is merged, and the words after it."""
    lines = entry(f"rank {merge.rank}", f"{symbols.pair(merge)} -> {symbols.show(merge.product)}")
    lines += entry("why", f"{score} {show_score(merge.score)}: {show_printable(merge.reason)}")
    width = max(len(symbols.join((one.left, one.right))) for one in merge.candidates)
    for number, one in enumerate(merge.candidates):
        mark = "merged" if one.chosen else "tie" if one.tied else ""
        pair = f"{symbols.join((one.left, one.right)):{width}}"
        row = f"{pair}  {show_score(one.score):>5}  {mark:6}  = {show_printable(one.working)}"
        lines += entry("" if number else "pairs", row)
    more = merge.pairs - len(merge.candidates)
    lines += entry("", f"and {count_things(more, 'pair')} more") if more else []
    return lines + entry("words", *map(symbols.join, merge.words), between="   ")


# --- encoding ---------------------------------------------------------------------------------------------------------------


def explain_texts(tokenizer_path: str, texts: tuple[str, ...], *, as_json: bool) -> None:
    """Print the explanation of each text, or of each line of standard input, one after another."""
    from tokenmill.explain.encoding import explain_text
    from tokenmill.pipeline.tokenize_command import naming_the_line, open_tokenizer

    tokenizer = open_tokenizer(tokenizer_path)
    for place, text in enumerate(texts or read_texts(), start=1):
        with naming_the_line(None if texts else place):
            explained = explain_text(tokenizer, text)
        if as_json:
            print_result(json_line(explained))
        else:
            print_text(("\n" if place > 1 else "") + describe_text(explained, tokenizer.model))


def describe_text(explained: TextExplanation, model: Model) -> str:
    """A text's way to tokens of a model and back, for people."""
    from tokenmill.models.showing import show_token

    symbols = _Symbols(partial(show_token, model))
    size = f"{count_things(len(explained.text), 'character')}, {count_things(len(explained.text.encode()), 'byte')}"
    changed = "unchanged" if explained.normalized == explained.text else repr(explained.normalized)
    words = count_things(len(explained.words), "word")
    lines = [
        *entry("text", f"{explained.text!r}: {size}"),
        *entry("normalized", f"by {explained.normalizer}: {changed}"),
        *entry("cut", f"by {explained.pretokenizer}: {words}; their places are start:end, the end left out"),
        *entry("model", f"{explained.model}: {kind_of(explained.model).symbol}"),
    ]
    for number, word in enumerate(explained.words, start=1):
        lines += ["", *describe_word(number, word, explained.normalized, explained.model, symbols)]
    lines += ["", *entry("tokens", *map(symbols.show, explained.tokens)), *entry("ids", *map(show_id, explained.ids))]
    return "\n".join(lines + describe_characters(explained) + entry("decoded", describe_decoded(explained, model)))


def describe_word(number: int, word: WordExplanation, text: str, model: str, symbols: _Symbols) -> list[str]:
    """A word: its place, its symbols, each merge with its rank, its tokens and ids."""
    (start, end), (first, last) = word.characters, word.bytes
    lines = entry(f"word {number}", f"{text[start:end]!r}   characters {start}:{end}, bytes {first}:{last}")
    lines += entry("symbols", *map(symbols.show, word.symbols))
    pairs = [symbols.pair(merge) for merge in word.merges]
    width = max(map(len, pairs), default=0)
    for merge, pair in zip(word.merges, pairs, strict=True):
        lines += entry(f"  rank {merge.rank}", f"{pair:{width}} -> {symbols.join(merge.symbols)}")
    for match in word.matches:
        lines += describe_match(match, symbols)
    if not word.merges and not word.matches:
        lines += entry("", "too many characters" if kind_of(model).takes("max_word_characters") else "no rule applies")
    lines += [*entry("tokens", *map(symbols.show, word.tokens)), *entry("ids", *map(show_id, word.ids))]
    if [show(spell) for spell in word.spells] != list(map(symbols.show, word.tokens)):
        lines += entry("stand for", *(f"'{show_printable(spell)}'" for spell in word.spells))
    return lines


def describe_match(match: Match, symbols: _Symbols) -> list[str]:
    """A step of the longest match: `from 4   not ##able, ##abl; ##ab`."""
    shown = [symbols.show(text) for text in match.tried[:_SHOWN_TRIED]]
    more = [f"and {len(match.tried) - _SHOWN_TRIED} shorter"] if len(match.tried) > _SHOWN_TRIED else []
    tried = f"   no {', '.join(shown + more)}" if match.tried else ""
    return entry(f"  from {match.at}", f"{'none fits' if match.token is None else symbols.show(match.token)}{tried}")


def describe_characters(explained: TextExplanation) -> list[str]:
    """The characters that the alphabet lacks, and those that `tokenize` may see otherwise."""
    lines: list[str] = []
    for one in explained.unknown:
        becomes = "has no id" if one.becomes is None else f"becomes {show(one.becomes)}"
        lines += entry("unknown", f"{one.character!r} {one.code_point} {one.name}, character {one.at}: {becomes}")
    for character in explained.doubtful:
        told = f"{character!r} U+{ord(character):04X} has another class in the tables used here: tokenize may cut other words"
        lines += entry("note", told)
    return lines


def describe_decoded(explained: TextExplanation, model: Model) -> str:
    """What the ids give back, and why where it is not the text."""
    from tokenmill.models.base import describe_remedies

    if explained.decoded is None:
        return f"not possible: encode rejects this text; {describe_remedies(model)}"
    if explained.same:
        return f"{explained.decoded!r}, the same as the text"
    if explained.decoded == explained.normalized:
        return f"{explained.decoded!r}, the same as the normalized text"
    reason = "unknown characters are lost" if explained.unknown else f"{explained.pretokenizer} does not keep all whitespace"
    return f"{explained.decoded!r}, not the text: {reason}"


# --- lines ------------------------------------------------------------------------------------------------------------------


def entry(label: str, *parts: str, between: str = " ") -> list[str]:
    """The lines of an entry, its label in front; a new line begins between parts, never in the middle of one."""
    lines = [""]
    for part in parts:
        longer = lines[-1] + between + part if lines[-1] else part
        if lines[-1] and len(longer) > _WIDTH - _INDENT:
            lines.append(part)
        else:
            lines[-1] = longer
    return [f"{'' if number else label:{_INDENT - 1}} {line}".rstrip() for number, line in enumerate(lines)]


def show(text: str) -> str:
    """A text for a terminal, in one line: a space shows as `␣`, what does not print as an escape."""
    return show_printable(text).replace(" ", "␣")


@dataclass(frozen=True)
class _Symbols:
    """How symbols are shown, and several of them side by side."""

    show: Callable[[str], str]

    def join(self, symbols: Iterable[str]) -> str:
        """Symbols with spaces between them."""
        return " ".join(map(self.show, symbols))

    def pair(self, merge: LearnedMerge | AppliedMerge) -> str:
        """What a rule merges."""
        return f"{self.show(merge.left)} + {self.show(merge.right)}"


def _show_as_trained(model: str, marks_spaces: bool) -> Callable[[str], str]:
    """How the symbols of a model are shown that is trained without options for its alphabet."""
    from tokenmill.models.showing import show_symbol

    kind = kind_of(model)
    plain = {"end_of_word_suffix": None, "continuation_prefix": None, "byte_fallback": False}
    return partial(show_symbol, kind.load_model().make_alphabet(model, marks_spaces=marks_spaces, **plain))


def show_score(score: Score) -> str:
    """A count as `1,000`, a fraction as `0.2000`."""
    return f"{score:,}" if isinstance(score, int) else f"{float(score):.4f}"


def show_id(token_id: int | None) -> str:
    """An id, `?` for none."""
    return "?" if token_id is None else str(token_id)


def read_texts() -> Iterator[str]:
    """Lines of standard input. Raises InvalidTextError for one that is not UTF-8, naming it."""
    from tokenmill.pipeline.tokenize_command import read_lines

    for place, line in enumerate(read_lines(), start=1):
        try:
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidTextError(
                f"standard input, line {place}: not UTF-8 at byte {error.start}; explain takes Unicode text, so convert it"
            ) from None
