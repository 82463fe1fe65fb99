"""What is done to a text before it is cut into words. So far nothing: `identity`, which keeps every byte."""

from __future__ import annotations

from dataclasses import dataclass

from tokenmill.errors import UsageError

_NAMES = ("identity",)


def names() -> list[str]:
    """The names that `Normalizer` takes: `["identity"]`."""
    return list(_NAMES)


@dataclass(frozen=True)
class Normalizer:
    """A named normalizer, as stored in the tokenizer file. Raises UsageError for an unknown name.

    `Normalizer("identity").name` is `identity`.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in _NAMES:
            raise UsageError(f"unknown normalizer {self.name!r}; known are: {', '.join(_NAMES)}")
