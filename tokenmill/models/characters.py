"""The model `char`: every character is a token, and there are no merge rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenmill.errors import TokenizerFileError
from tokenmill.models.alphabets import CODE_POINTS
from tokenmill.models.base import CommonFields, Rules
from tokenmill.models.bpe import BpeModel
from tokenmill.models.code_points import CodePointModel


@dataclass(frozen=True)
class CharacterModel(BpeModel):
    """A vocabulary of the characters of a corpus."""

    @classmethod
    def of_fields(cls, name: str, common: CommonFields, *, marks_spaces: bool, **fields: Any) -> BpeModel:
        """Make the model of a native tokenizer.json; if the file has the key `ids`, the ids are code points."""
        if "ids" in fields:
            return CodePointModel.of_fields(name, common, marks_spaces=marks_spaces, **fields)
        return super().of_fields(name, common, marks_spaces=marks_spaces, **fields)

    @classmethod
    def of_training(cls, name: str, alphabet: Any, vocab: Mapping[str, int], rules: Rules, **options: Any) -> BpeModel:
        """Make a model from the result of training. If ids are code points, special tokens come after the last code point."""
        specials: tuple[str, ...] = options["specials"]
        if options["ids"] == "codepoint":
            return CodePointModel.of({token: CODE_POINTS + place for place, token in enumerate(specials)})
        return cls(name, alphabet, vocab, rules, specials, options["unk"])

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.merge_rules:
            raise TokenizerFileError(f"merge_rules[0]: a char model has no rules, this is {self.merge_rules[0]}; choose char-bpe")
