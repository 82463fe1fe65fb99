"""The native tokenizer.json.

One JSON object; `merge_rules` and `vocab` are always there in a shape that a plain reader of those two keys can use. A file that
holds only those two keys is a `char-bpe` model behind the `wordpunct` pre-tokenizer. No timestamps, no paths: equal tokenizers
are equal bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from tokenmill import schemas
from tokenmill.decoders import Decoder
from tokenmill.encoding.templates import Template
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats.building import refuse_added, refuse_parts
from tokenmill.formats.json_text import excerpt, parse_object, strings_to_json, to_json
from tokenmill.models import wordpiece
from tokenmill.models.bpe import BpeModel, Model, alphabet_of
from tokenmill.models.code_points import CodePointModel
from tokenmill.models.marks import WordMarks
from tokenmill.models.wordpiece import WordPieceModel, wordpiece_alphabet
from tokenmill.names import WORDPIECE_MODELS
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer

_KEYS = {
    "format": str,
    "version": int,
    "model": str,
    "ids": str,
    "normalizer": (str, dict, list),
    "postprocessor": dict,
    "pretokenizer": (str, dict),
    "special_tokens": list,
    "added_tokens": list,
    "token_flags": dict,
    "decoder": list,
    "unk": (str, type(None)),
    "unicode": str,
    "training": dict,
    "ignore_merges": bool,
    "fuse_unk": bool,
    "byte_fallback": bool,
    "end_of_word_suffix": str,
    "suffix_attached": bool,
    "continuation_prefix": str,
    "max_word_characters": (int, type(None)),
    "merge_rules": list,
    "vocab": dict,
}


def dumps(tokenizer: Tokenizer) -> bytes:
    """The file of a tokenizer: UTF-8, one merge rule and one vocabulary entry a line, so that versions can be compared by eye."""
    model = tokenizer.model
    head = {
        "format": schemas.TOKENIZER_FORMAT,
        "version": schemas.TOKENIZER_VERSION,
        "model": model.name,
        "normalizer": tokenizer.normalizer.spec,
        "pretokenizer": tokenizer.pretokenizer.spec,
        "special_tokens": list(model.special_tokens),
        **({"added_tokens": list(model.added_tokens)} if model.added_tokens else {}),
        **({"token_flags": {token: list(flags) for token, flags in model.token_flags.items()}} if model.token_flags else {}),
        "unk": model.unk_token,
        "unicode": tokenizer.pretokenizer.unicode_version,
        "training": tokenizer.training,
        **({} if tokenizer.template.spec is None else {"postprocessor": tokenizer.template.spec}),
        **({} if tokenizer.decoder is None else {"decoder": tokenizer.decoder.spec}),
        **_describe_encoding(model),
    }
    return _write(head, model)


def _describe_encoding(model: BpeModel | WordPieceModel) -> dict[str, Any]:
    """What encoding goes by beside vocabulary and rules; of BPE only what is not the usual."""
    if isinstance(model, WordPieceModel):
        return {"continuation_prefix": model.continuation_prefix, "max_word_characters": model.max_word_characters}
    if isinstance(model, CodePointModel):
        return {"ids": "codepoint"}
    told = {
        "ignore_merges": model.ignore_merges,
        "fuse_unk": model.fuse_unk,
        "byte_fallback": model.alphabet.byte_fallback,
        "end_of_word_suffix": model.marks.suffix,
        "suffix_attached": model.marks.attached,
        "continuation_prefix": model.marks.prefix,
    }
    return {key: value for key, value in told.items() if value}


def dumps_two_keys(tokenizer: Tokenizer) -> bytes:
    """The file without anything but `merge_rules` and `vocab`, for readers that refuse other keys.

    Raises `UsageError` for a tokenizer that those two keys do not tell: any but `char-bpe` behind `wordpunct`, special tokens.
    """
    model, pretokenizer = tokenizer.model, tokenizer.pretokenizer
    if (model.name, pretokenizer.spec) != ("char-bpe", "wordpunct"):
        raise UsageError(
            "a file of two keys stands for char-bpe behind wordpunct, "
            f"this is {model.name} behind {pretokenizer}; use --to native"
        )
    refuse_parts(tokenizer, "a file of two keys")
    if told := _describe_encoding(model):
        raise UsageError(f"a file of two keys cannot say {next(iter(told))}; use --to native")
    refuse_added(tokenizer, "a file of two keys")
    if model.special_tokens:
        raise UsageError(f"a file of two keys cannot say that {model.special_tokens[0]!r} is a special token; use --to native")
    return _write({}, model)


def _write(head: dict[str, Any], model: Model) -> bytes:
    lines = [f"  {to_json(key)}: {to_json(value)}," for key, value in head.items()]
    tokens = iter(strings_to_json([token for rule in model.merge_rules for token in rule]))
    rules = _block("[", [f"[{left}, {right}]" for left, right in zip(tokens, tokens, strict=True)], "]")
    held = model.vocab.specials if isinstance(model, CodePointModel) else model.vocab
    ordered = sorted(held.items(), key=lambda item: item[1])
    names = strings_to_json([token for token, _ in ordered])
    vocab = _block("{", [f"{name}: {token_id}" for name, (_, token_id) in zip(names, ordered, strict=True)], "}")
    return "\n".join(["{", *lines, f'  "merge_rules": {rules},', f'  "vocab": {vocab}', "}", ""]).encode("utf-8")


def loads(content: bytes) -> Tokenizer:
    """A tokenizer from the bytes of its file; `TokenizerFileError` names the key and the entry that is wrong."""
    return from_document(parse_object(content))


def from_document(document: dict[str, Any]) -> Tokenizer:
    """As `loads`, from the object that the file holds."""
    _check_keys(document)
    pretokenizer = _named(PreTokenizer.of, document, "pretokenizer", "wordpunct")
    _check_unicode(document, pretokenizer)
    read_model = _read_wordpiece if document.get("model") in WORDPIECE_MODELS else _read_bpe
    model = _read_code_points(document) if "ids" in document else read_model(document, marks_spaces=pretokenizer.marks_spaces)
    normalizer = _named(Normalizer.of, document, "normalizer", "identity")
    template = _named(Template.of, document, "postprocessor", None)
    decoder = _named(Decoder.of, document, "decoder", None)
    parts = {"pretokenizer": pretokenizer, "normalizer": normalizer, "template": template, "decoder": decoder}
    try:
        return Tokenizer(model, **parts, training=document.get("training", {}))
    except UsageError as error:
        raise TokenizerFileError(f"postprocessor: {error}") from None


def _read_tokens(document: dict[str, Any], key: str) -> tuple[str, ...]:
    """`special_tokens` or `added_tokens`."""
    return tuple(_check_string(f"{key}[{place}]", token) for place, token in enumerate(document.get(key, [])))


def _read_flags(document: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    """`token_flags`: names of flags, by token; the model says which are known."""
    for token, flags in document.get("token_flags", {}).items():
        if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
            raise TokenizerFileError(f"token_flags: {token!r} has {excerpt(flags)}; a list of names belongs there")
    return {token: tuple(flags) for token, flags in document.get("token_flags", {}).items()}


def _read_bpe(document: dict[str, Any], *, marks_spaces: bool) -> BpeModel:
    rules = _check_rules(document["merge_rules"])
    _refuse_keys(document, ("max_word_characters",))
    name, fallback = document.get("model", "char-bpe"), document.get("byte_fallback", False)
    specials = _read_tokens(document, "special_tokens")
    try:
        alphabet = alphabet_of(name, marks_spaces=marks_spaces, marks=_read_marks(document), byte_fallback=fallback)
    except UsageError as error:
        raise TokenizerFileError(f"model: {error}") from None
    return BpeModel(
        name,
        alphabet,
        document["vocab"],
        rules,
        specials,
        document.get("unk"),
        ignore_merges=document.get("ignore_merges", False),
        fuse_unk=document.get("fuse_unk", False),
        added_tokens=_read_tokens(document, "added_tokens"),
        token_flags=_read_flags(document),
    )


def _read_wordpiece(document: dict[str, Any], *, marks_spaces: bool) -> WordPieceModel:
    _refuse_keys(document, ("ignore_merges", "fuse_unk", "byte_fallback", "end_of_word_suffix", "suffix_attached"))
    rules = _check_rules(document["merge_rules"])
    name, prefix = document["model"], document.get("continuation_prefix")
    try:
        alphabet = wordpiece_alphabet(name, marks_spaces=marks_spaces, prefix=prefix)
    except UsageError as error:
        raise TokenizerFileError(f"continuation_prefix: {error}") from None
    limit = document.get("max_word_characters", wordpiece.limit_of(name, None))
    specials, added = (_read_tokens(document, key) for key in ("special_tokens", "added_tokens"))
    found = {"added_tokens": added, "token_flags": _read_flags(document)}
    return WordPieceModel(name, alphabet, document["vocab"], rules, specials, document.get("unk"), limit, **found)  # type: ignore[arg-type]


def _refuse_keys(document: dict[str, Any], keys: tuple[str, ...]) -> None:
    """Keys of other models would change nothing, in silence."""
    for key in keys:
        if key in document:
            raise TokenizerFileError(f"{key}: a {document.get('model', 'char-bpe')} model has none; leave it out")


def _read_code_points(document: dict[str, Any]) -> CodePointModel:
    """A model without a written vocabulary: `vocab` holds the special tokens, and nothing else says how to encode."""
    specials = _read_tokens(document, "special_tokens")
    if document["ids"] != "codepoint" or document.get("model") != "char":
        raise TokenizerFileError(f"ids: {excerpt(document['ids'])} is not known; it can be codepoint in a char model")
    absent = ("merge_rules", "unk", "ignore_merges", "fuse_unk", "byte_fallback", "end_of_word_suffix", "continuation_prefix")
    for key in (*absent, "added_tokens", "token_flags"):
        if document.get(key):
            raise TokenizerFileError(f"{key}: there is none where code points are ids; leave it out")
    if sorted(document["vocab"]) != sorted(specials):
        raise TokenizerFileError("vocab: where code points are ids it holds the special tokens alone; leave the others out")
    return CodePointModel.of({token: document["vocab"][token] for token in specials})


def _read_marks(document: dict[str, Any]) -> WordMarks:
    suffix, prefix = document.get("end_of_word_suffix", ""), document.get("continuation_prefix", "")
    attached = document.get("suffix_attached", False)
    if attached and not suffix:
        raise TokenizerFileError("suffix_attached: there is no end_of_word_suffix that could be; add one, or leave it out")
    return WordMarks(suffix, prefix, attached)


def _check_keys(document: dict[str, Any]) -> None:
    for key in ("merge_rules", "vocab"):
        if key not in document:
            raise TokenizerFileError(f"the key {key!r} is missing; a native tokenizer.json holds merge_rules and vocab")
    for key, value in document.items():
        if key not in _KEYS:
            raise TokenizerFileError(f"the key {key!r} is not known; this is no native tokenizer.json")
        if not isinstance(value, _KEYS[key]) or (isinstance(value, bool) and _KEYS[key] is not bool):  # type: ignore[arg-type]
            raise TokenizerFileError(f"{key}: {type(value).__name__} found where {_names(_KEYS[key])} belongs")
    if document.get("format", schemas.TOKENIZER_FORMAT) != schemas.TOKENIZER_FORMAT:
        raise TokenizerFileError(
            f"format: {document['format']!r} is not {schemas.TOKENIZER_FORMAT!r}; give a file of that format"
        )
    if document.get("version", schemas.TOKENIZER_VERSION) != schemas.TOKENIZER_VERSION:
        raise TokenizerFileError(
            f"version: {document['version']} is not known here ({schemas.TOKENIZER_VERSION}); update tokenmill"
        )


def _check_unicode(document: dict[str, Any], pretokenizer: PreTokenizer) -> None:
    """Other tables would cut other words out of the same text, and give other ids in silence."""
    version = document.get("unicode", pretokenizer.unicode_version)
    if version != pretokenizer.unicode_version:
        here = pretokenizer.unicode_version
        raise TokenizerFileError(f"unicode: words were cut by the tables of Unicode {version}, here they are {here}; train again")


def _names(types: Any) -> str:
    return " or ".join(one.__name__ for one in (types if isinstance(types, tuple) else (types,)))


def _check_rules(rules: list[Any]) -> tuple[tuple[str, str], ...]:
    """Rules as pairs of tokens. All are looked at at once, and one by one only where one is wrong."""
    pairs = set(map(type, rules)) <= {list} and set(map(len, rules)) <= {2}
    if pairs and set(map(type, chain.from_iterable(rules))) <= {str} and all(chain.from_iterable(rules)):
        return tuple(map(tuple, rules))
    return tuple(_check_rule(place, rule) for place, rule in enumerate(rules))


def _check_rule(place: int, rule: Any) -> tuple[str, str]:
    if not isinstance(rule, list) or len(rule) != 2 or not all(isinstance(token, str) and token for token in rule):
        raise TokenizerFileError(f"merge_rules[{place}]: {excerpt(rule)} is no pair of tokens")
    return rule[0], rule[1]


def _check_string(place: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TokenizerFileError(f"{place}: {excerpt(value)} is no token")
    return value


def _named(kind: Any, document: dict[str, Any], key: str, default: str | None) -> Any:
    try:
        return kind(document.get(key, default))
    except UsageError as error:
        raise TokenizerFileError(f"{key}: {error}") from None


def _block(opening: str, entries: Sequence[str], closing: str) -> str:
    return f"{opening}\n    {_NEXT_ENTRY.join(entries)}\n  {closing}" if entries else f"{opening}{closing}"


_NEXT_ENTRY = ",\n    "
