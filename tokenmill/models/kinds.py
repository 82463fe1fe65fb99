"""The table of model kinds. A row holds everything that the library, the command line and the file formats need to use a kind.

To add a kind, write a module with its model (and one with its trainer, if no existing trainer fits) and add a row to `KINDS`;
`docs/adding-a-model.md` shows an example. The table imports nothing heavy, so that `--help` can read it: models and trainers are
named as `module:name` and imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tokenmill.errors import UsageError

if TYPE_CHECKING:
    from tokenmill.models.base import Model


@dataclass(frozen=True)
class ModelKind:
    """One kind of model.

    `model` is a subclass of `Model`, `trainer` a function that `training/trainers.py` calls, and `explainer` the function that
    `tokenmill explain` uses to show the encoding of a word step by step. `options` are the training options of this kind that
    other kinds may not take. `file_keys` are the keys of a native tokenizer.json that only some kinds have, with the types of
    their values. `least_alphabet` is the number of symbols that are in the alphabet for every corpus. `pretokenizer`, `unk` and
    `score` are the defaults for training. `byte_kind` is the kind like this one to which no character is unknown.
    """

    name: str
    help: str
    symbol: str
    model: str
    trainer: str = "tokenmill.training.merging:train_by_merging"
    explainer: str = "tokenmill.explain.merging:explain_word"
    of_bytes: bool = False
    least_alphabet: int = 0
    pretokenizer: str = "gpt2"
    unk: str | None = None
    score: str = "frequency"
    byte_kind: str = "byte-bpe"
    has_merges: bool = True
    can_be_extended: bool = False
    explains_training: bool = False
    options: tuple[str, ...] = ()
    file_keys: Mapping[str, Any] = field(default_factory=dict)

    def load_model(self) -> type[Model]:
        """Import the class of the model."""
        return load(self.model)

    def takes(self, option: str) -> bool:
        """Whether this kind takes a training option, given by its name in `TrainingOptions`."""
        return option in self.options


def load(name: str) -> Any:
    """Import the object that `module:name` names."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


_MARKS = ("end_of_word_suffix", "continuation_prefix")
_BPE_KEYS = {
    **dict.fromkeys(("ignore_merges", "fuse_unk", "byte_fallback", "suffix_attached"), bool),
    **dict.fromkeys(_MARKS, str),
}
_CHARACTER_OPTIONS = ("max_token_length", "limit_alphabet", *_MARKS, "byte_fallback")
_WORDPIECE_KEYS = {"continuation_prefix": str, "max_word_characters": (int, type(None))}

KINDS = {
    kind.name: kind
    for kind in (
        ModelKind(
            name="byte-bpe",
            help="alphabet of 256 bytes, lossless",
            symbol="a symbol is a byte; a space shows as ␣, a byte that is no character as \\xc3",
            model="tokenmill.models.bpe:BpeModel",
            of_bytes=True,
            least_alphabet=256,
            can_be_extended=True,
            explains_training=True,
            options=("max_token_length", "end_of_word_suffix"),
            file_keys=_BPE_KEYS,
        ),
        ModelKind(
            name="char-bpe",
            help="alphabet of the characters seen",
            symbol="a symbol is a character",
            model="tokenmill.models.bpe:BpeModel",
            can_be_extended=True,
            explains_training=True,
            options=_CHARACTER_OPTIONS,
            file_keys=_BPE_KEYS,
        ),
        ModelKind(
            name="char",
            help="these characters alone",
            symbol="a symbol is a character, and a token",
            model="tokenmill.models.characters:CharacterModel",
            has_merges=False,
            options=_CHARACTER_OPTIONS,
            file_keys={**_BPE_KEYS, "ids": str},
        ),
        ModelKind(
            name="wordpiece",
            help="the longest tokens that fit, as in BERT, of characters",
            symbol="a symbol is a character, with ## in front inside a word",
            model="tokenmill.models.wordpiece:WordPieceModel",
            explainer="tokenmill.explain.matching:explain_word",
            pretokenizer="bert",
            byte_kind="byte-wordpiece",
            unk="[UNK]",
            score="likelihood",
            explains_training=True,
            options=("max_token_length", "limit_alphabet", "continuation_prefix", "score", "max_word_characters"),
            file_keys=_WORDPIECE_KEYS,
        ),
        ModelKind(
            name="byte-wordpiece",
            help="the same, of bytes",
            symbol="a symbol is a byte, with ## in front inside a word; a space shows as ␣, a byte that is no character as \\xc3",
            model="tokenmill.models.wordpiece:WordPieceModel",
            explainer="tokenmill.explain.matching:explain_word",
            of_bytes=True,
            least_alphabet=512,
            pretokenizer="bert",
            score="likelihood",
            options=("max_token_length", "continuation_prefix", "score", "max_word_characters"),
            file_keys=_WORDPIECE_KEYS,
        ),
    )
}
#: The kind that is trained by default.
DEFAULT = "byte-bpe"


def kind_of(name: str) -> ModelKind:
    """The kind with this name. Raises `UsageError` for an unknown name."""
    if name not in KINDS:
        raise UsageError(f"model {name!r} is not known; choose one of {', '.join(KINDS)}")
    return KINDS[name]


def check_options(kind: ModelKind, given: Mapping[str, Any]) -> None:
    """Raise `UsageError` if a training option is set that this kind does not take."""
    for name, value in given.items():
        if value in (None, False) or kind.takes(name):
            continue
        takers = ", ".join(other.name for other in KINDS.values() if other.takes(name))
        said = name.replace("_", " ") + ("" if value is True else f" {value!r}")
        raise UsageError(f"{said} is for {takers}, not for {kind.name}; leave it out")


def list_options() -> tuple[str, ...]:
    """The training options that only some kinds take."""
    return tuple(dict.fromkeys(option for kind in KINDS.values() for option in kind.options))


def list_file_keys() -> dict[str, Any]:
    """The keys of a native tokenizer.json that only some kinds have, and the types of their values."""
    return {key: kinds for kind in KINDS.values() for key, kinds in kind.file_keys.items()}


def default_pretokenizer(model: str | None) -> str:
    """The default pre-tokenizer of a model."""
    return kind_of(model or DEFAULT).pretokenizer


def choose_unk(model: str, given: str | None) -> str | None:
    """Choose the unk token: the given one, no token if it is the empty string, or the kind's default if it is None."""
    return kind_of(model).unk if given is None else given or None
