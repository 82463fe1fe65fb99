"""Templates: the special tokens around the tokens of one or two texts, and the type ids of all tokens.

    <s> $A </s>                            for one text
    [CLS] $A [SEP] $B:1 [SEP]:1            for two texts; `:1` is the type id, 0 by default

A template is stored in the tokenizer file as `postprocessor`. Hugging Face calls it TemplateProcessing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import UsageError

#: The `Element.sequence` of a special token, of the first text and of the second text.
TOKEN, FIRST, SECOND = 0, 1, 2
_SEQUENCES = {"$A": FIRST, "$B": SECOND}
MOST_TYPE = 127


@dataclass(frozen=True)
class Element:
    """One part of a template: a special token or the tokens of a text (see `sequence`), with a type id."""

    token: str
    sequence: int
    type_id: int = 0

    @classmethod
    def of(cls, text: str) -> Element:
        """Parse an element: `$B:1` is the second text with type 1, `[SEP]` is a token with type 0. Raises UsageError."""
        token, colon, number = text.rpartition(":")
        if not (colon and number.isascii() and number.isdigit()) or not token:
            token, number = text, "0"
        if int(number) > MOST_TYPE:
            raise UsageError(f"template: the type id of {text!r} is above {MOST_TYPE}; give 0 to {MOST_TYPE}")
        if token.startswith("$") and token not in _SEQUENCES:
            raise UsageError(f"template: {text!r} is not known; $A stands for the text, $B for the second of two")
        return cls(token, _SEQUENCES.get(token, TOKEN), int(number))

    def __str__(self) -> str:
        ambiguous = self.token.rpartition(":")[2].isdigit() and ":" in self.token
        return f"{self.token}:{self.type_id}" if self.type_id or ambiguous else self.token


Elements = tuple[Element, ...]
_PLAIN = (Element("$A", FIRST),)
_PLAIN_PAIR = (Element("$A", FIRST), Element("$B", SECOND, 1))


@dataclass(frozen=True)
class Template:
    """The template for one text (`single`) and for two texts (`pair`). The default adds nothing.

    `Template.of("<s> $A </s>").single` has three elements; its `pair` is `$A $B:1`, the default.
    Raises UsageError if a template does not contain each text exactly once.
    """

    single: Elements = _PLAIN
    pair: Elements = _PLAIN_PAIR

    def __post_init__(self) -> None:
        for name, elements, texts in (("template", self.single, [FIRST]), ("pair template", self.pair, [FIRST, SECOND])):
            if sorted(element.sequence for element in elements if element.sequence) != texts:
                needs = " and ".join(name for name, sequence in _SEQUENCES.items() if sequence in texts)
                raise UsageError(f"{name} {' '.join(map(str, elements))!r} must hold {needs} once, and no other text")

    @classmethod
    def of(cls, spec: Template | str | Sequence[str] | Mapping[str, Any] | None) -> Template:
        """Parse a template from a file: `{"single": ..., "pair": ...}`, each a string cut at spaces or a list of elements.

        A string or a list is taken as `single`, None as the default. Raises UsageError.
        """
        if isinstance(spec, Template):
            return spec
        if spec is None:
            return cls()
        parts = {"single": spec} if not isinstance(spec, Mapping) else spec
        if unknown := parts.keys() - {"single", "pair"}:
            raise UsageError(f"template: {min(unknown)!r} is not known; there are single and pair")
        return cls(**{key: _read_elements(value) for key, value in parts.items() if value is not None})

    @property
    def spec(self) -> dict[str, Any] | None:
        """The form for files, which `of` parses; None for the default."""
        if self.is_empty:
            return None
        written = {"single": _write_elements(self.single)}
        return written | ({} if self.pair == _PLAIN_PAIR else {"pair": _write_elements(self.pair)})

    @property
    def is_empty(self) -> bool:
        """Whether the template adds nothing."""
        return self == Template()

    @property
    def tokens(self) -> tuple[str, ...]:
        """The special tokens in the template, each once."""
        return tuple(dict.fromkeys(element.token for element in (*self.single, *self.pair) if element.sequence == TOKEN))

    def elements(self, *, pair: bool, add_special_tokens: bool = True) -> Elements:
        """The elements for one text or two. Without special tokens, these are only the texts with their types."""
        elements = self.pair if pair else self.single
        return elements if add_special_tokens else tuple(element for element in elements if element.sequence != TOKEN)


def check_template(template: Template, special_tokens: Collection[str]) -> None:
    """Raise UsageError if a token of the template is not a special token."""
    for token in template.tokens:
        if token not in special_tokens:
            raise UsageError(f"template: {token!r} is no special token of this tokenizer; give it one, or take it out")


def _read_elements(value: Any) -> Elements:
    parts = value.split() if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(part, str) and part for part in parts):
        raise UsageError(f"template: {str(value)[:80]!r} is no text such as '<s> $A </s>', and no list of its parts")
    return tuple(map(Element.of, parts))


def _write_elements(elements: Elements) -> str | list[str]:
    """Write the elements as one string, or as a list if a token contains whitespace."""
    parts = [str(element) for element in elements]
    return " ".join(parts) if all(len(part.split()) == 1 for part in parts) else parts
