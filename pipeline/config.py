"""The configuration file of `tokenmill build`: what may stand in it, and what is said when something else does.

    input:  {inputs: [stdlib]}
    train:  {model: byte-bpe, pretokenizer: gpt2, vocab_size: 8192}
    output: {folder: out/quickstart}

`configs/` explains every key. Relative paths are relative to the folder that the command is run in, as on the command line. A key
that does not exist, one given twice, and a value of the wrong type are errors: nothing is guessed or converted.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Hashable
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from yaml.nodes import MappingNode, Node, SequenceNode

from tokenmill.errors import ConfigError
from tokenmill.models.kinds import KINDS
from tokenmill.names import (
    MOST_BLOCK,
    DigitGroup,
    DocumentName,
    IdOrderName,
    InputFormatName,
    OffsetUnit,
    OverflowName,
    PackName,
    PretokenizerName,
    ScoreName,
    TailName,
    TextPolicyName,
    TieName,
    TruncationName,
)

#: The type of errors whose message is ours, and whole.
_SAID: Final = "said"
#: A configuration with a million input files named one by one is smaller than this, and holds fewer values.
MOST_BYTES = 1 << 28
MOST_NODES = 1 << 22


def _to_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check_model(name: str) -> str:
    if name not in KINDS:
        *others, last = map(repr, KINDS)
        raise PydanticCustomError("model", "must be {names}", {"names": f"{', '.join(others)} or {last}"})
    return name


Strings = Annotated[list[str], BeforeValidator(_to_list)]


class Section(BaseModel):
    """A part of the file: no unknown keys, no conversions (`"8"` is no number, `yes` no text), no changes afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class InputSection(Section):
    """What to read, and how: the options INPUT, --format, --text-column ... of the command line."""

    inputs: Strings = Field(min_length=1)
    format: InputFormatName = "auto"
    encoding: str = "utf-8"
    delimiter: str | None = None
    max_window: float = Field(default=128, gt=0)
    text_column: str = "text"
    id_column: str | None = None
    document: DocumentName = "line"
    limit: int | None = Field(default=None, ge=1)
    invalid_utf8: TextPolicyName = "reject"
    max_document_mb: float = Field(default=128, gt=0)
    max_rejects: Annotated[int, Field(ge=0)] | str | None = None


class ReplaceSection(Section):
    """A normalizer that puts one text in the place of another, or of the matches of a pattern."""

    name: Literal["replace", "replace_regex"]
    pattern: str = Field(min_length=1)
    content: str


class TrainSection(Section):
    """Which tokenizer to train. Exactly one of `vocab_size` and `merges` says how large it gets."""

    model: Annotated[str, AfterValidator(_check_model)]
    pretokenizer: PretokenizerName | None = None
    split_digits: DigitGroup | None = None
    pattern: str | None = None
    normalizer: list[str | ReplaceSection] = Field(default_factory=list)
    template: str | None = None
    pair_template: str | None = None
    vocab_size: int | None = Field(default=None, ge=1)
    merges: int | None = Field(default=None, ge=0)
    ties: TieName = "smallest"
    ids: IdOrderName = "rank"
    special: Strings = Field(default_factory=list)
    unk: str | None = None
    min_count: int = Field(default=1, ge=1)
    strict: bool = False
    max_token_length: int | None = Field(default=None, ge=1)
    limit_alphabet: int | None = Field(default=None, ge=1)
    end_of_word_suffix: str | None = None
    continuation_prefix: str | None = None
    byte_fallback: bool = False
    extend: str | None = None
    score: ScoreName | None = None
    max_word_characters: int | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _has_one_size(self) -> TrainSection:
        given = [name for name in ("vocab_size", "merges") if getattr(self, name) is not None]
        if len(given) != 1 and (given or KINDS[self.model].has_merges):
            what = "both are given" if given else "none is given"
            raise PydanticCustomError(_SAID, f"give exactly one of vocab_size and merges: {what}")
        return self


class EncodeSection(Section):
    """Whether to encode the corpus after training, and what rows are: the options --block, --pack ... of the command line."""

    enabled: bool = True
    block: int | None = Field(default=None, ge=1, le=MOST_BLOCK)
    pack: PackName | None = None
    tail: TailName | None = None
    eos: str | None = None
    pad: str | None = None
    segment_ids: bool = False
    position_ids: bool = False
    shuffle: int | None = Field(default=None, ge=0)
    pair_column: str | None = None
    max_length: int | None = Field(default=None, ge=1)
    stride: int = Field(default=0, ge=0)
    overflow: OverflowName | None = None
    truncate: TruncationName | None = None
    pad_to: int | None = Field(default=None, ge=1, le=MOST_BLOCK)
    attention_mask: bool = False
    token_type_ids: bool = False
    special_tokens_mask: bool = False
    offsets: OffsetUnit | None = None
    special_tokens: bool = True
    allow_special: bool = False


class ReportSection(Section):
    """Whether to report on the tokenizer at the end, over how many documents of the corpus, and by which groups."""

    enabled: bool = False
    limit: int | None = Field(default=None, ge=1)
    by: str | None = None
    by_file: bool = False


class OutputSection(Section):
    """Where everything goes: word counts, tokenizer.json, token shards, the report."""

    folder: str = Field(min_length=1, pattern=r"^[^\x00]*$")


class BuildConfig(Section):
    """The whole file. `split_mb` is the size of a unit of work, in MB; `beam` is what follows `--` on the command line."""

    input: InputSection
    train: TrainSection
    encode: EncodeSection = EncodeSection()
    report: ReportSection = ReportSection()
    output: OutputSection
    workers: int | None = Field(default=None, ge=1)
    split_mb: float = Field(default=32, gt=0)
    beam: Strings = Field(default_factory=list)


def load_config(path: str) -> BuildConfig:
    """Read a configuration file. Raises ConfigError: unreadable, no YAML, or one line for each key that is wrong."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
        text = content.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); configs/quickstart.yaml is one to start from") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from None
    if len(content) > MOST_BYTES:
        raise ConfigError(f"{path}: larger than {MOST_BYTES:,} bytes; configs/quickstart.yaml is one to start from")
    return parse_config(text, name=path)


def parse_config(text: str, *, name: str = "configuration") -> BuildConfig:
    """The same for a text; `name` is what messages call it."""
    content = _parse_yaml(text, name)
    if not isinstance(content, dict):
        found = "nothing" if content is None else f"a {type(content).__name__}"
        raise ConfigError(f"{name}: {found} found where the keys {', '.join(BuildConfig.model_fields)} belong")
    try:
        return BuildConfig.model_validate(content)
    except ValidationError as error:
        lines = [_explain(detail) for detail in error.errors(include_url=False)]
    if len(lines) == 1:
        raise ConfigError(f"{name}: {lines[0]}")
    raise ConfigError("\n  ".join([f"{name}: {len(lines)} errors", *lines]))


def _parse_yaml(text: str, name: str) -> Any:
    try:
        return yaml.load(text, Loader=_UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "somewhere"
        raise ConfigError(f"{name}: {place}: {error.problem or error.context}; the file must be YAML") from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{name}: {str(error).splitlines()[0]}; the file must be YAML") from None


class _UniqueKeyLoader(yaml.SafeLoader):
    """The safe loader, but a key given twice is an error, and so are aliases that stand for too much."""

    def get_single_node(self) -> Node | None:
        node: Node | None = super().get_single_node()
        if node is not None and _count_nodes(node, {}) > MOST_NODES:
            problem = f"aliases stand for more than {MOST_NODES:,} values, or for themselves; write the values out"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return node

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: dict[Any, int] = {}
        for key_node, _ in node.value:
            key, line = (key_node.tag, str(key_node.value)), key_node.start_mark.line + 1
            if key in seen:
                problem = f"key {key_node.value!r} is given twice (first on line {seen[key]}); keep one"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen[key] = line
        return super().construct_mapping(node, deep)


def _count_nodes(node: Node, known: dict[int, float]) -> float:
    """How many values a node holds, with those that aliases in it stand for; infinite if it holds itself."""
    if id(node) not in known:
        known[id(node)] = math.inf
        pairs = node.value if isinstance(node, MappingNode) else []
        inner = [*node.value] if isinstance(node, SequenceNode) else [one for pair in pairs for one in pair]
        known[id(node)] = 1 + sum(_count_nodes(one, known) for one in inner)
    return known[id(node)]


def _explain(detail: ErrorDetails) -> str:
    """One line for one fault: `train.vocab_sise: no such key; did you mean vocab_size?`."""
    place = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{place}: no such key; {_suggest(detail['loc'])}"
    if detail["type"] == "missing":
        return f"{place}: missing, and has no default; add it"
    if detail["type"] == _SAID:
        return f"{place}: {detail['msg']}"
    if detail["type"] == "model_type":
        return f"{place}: {_shorten(detail['input'])}: must be a mapping of keys; write each on a line of its own under {place}:"
    return f"{place}: {_shorten(detail['input'])}: {detail['msg'].replace('Input should', 'must')}"


def _suggest(location: tuple[int | str, ...]) -> str:
    model: Any = BuildConfig
    for part in location[:-1]:
        model = model.model_fields[part].annotation
    close = difflib.get_close_matches(str(location[-1]), model.model_fields, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(model.model_fields)}"


def _shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
