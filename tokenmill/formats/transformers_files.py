"""The files that transformers saves next to vocab.txt, or next to vocab.json and merges.txt.

`tokenizer_config.json` names the class and the handling of case, accents and Chinese characters. `special_tokens_map.json` names
the special tokens, and `added_tokens.json` tokens after the vocabulary. Keys that affect ids are applied or refused; the other
keys affect no id.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenmill.errors import TokenizerFileError
from tokenmill.formats import gpt2_files, vocab_txt
from tokenmill.formats.json_text import excerpt, parse_object
from tokenmill.text.normalizers import Normalizer
from tokenmill.tokenizer import Tokenizer

CONFIG, ADDED = "tokenizer_config.json", "added_tokens.json"
_BERTS = ("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "RetriBert", "Realm", "LayoutLM", "SqueezeBert")
_GPT2S = ("GPT2", "Roberta", "Bart", "Longformer", "LED")
#: The special tokens of BERT, by the keys that name them.
_BERT_TOKENS = {
    "unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"
}  # fmt: skip


def load_bert(files: Mapping[str, bytes]) -> Tokenizer:
    """Read the tokenizer of a vocab.txt with the settings of the other files. `TokenizerFileError` names the file and key."""
    config = _parse(files, CONFIG)
    _check_class(config, _BERTS)
    normalizer = _read_normalizer(config)
    try:
        tokenizer = vocab_txt.loads(files[vocab_txt.NAME], normalizer=normalizer)
    except TokenizerFileError as error:
        raise TokenizerFileError(f"{vocab_txt.NAME}: {error}") from None
    for key, value, known in (("tokenize_chinese_chars", True, (True,)), ("do_basic_tokenize", True, (True,))):
        if config.get(key, value) not in known:
            raise TokenizerFileError(f"{CONFIG}: {key}: {excerpt(config[key])} is not known here; give the tokenizer.json")
    if config.get("never_split"):
        raise TokenizerFileError(
            f"{CONFIG}: never_split: {excerpt(config['never_split'])} is not known here; give the tokenizer.json"
        )
    for name, document in ((CONFIG, config), (gpt2_files.SPECIALS, _parse(files, gpt2_files.SPECIALS))):
        _check_specials(name, document, tokenizer)
    _check_added(files, tokenizer.vocab, tokenizer.special_tokens)
    return tokenizer


def check_gpt2(files: Mapping[str, bytes]) -> None:
    """Raise `TokenizerFileError` if vocab.json and merges.txt are not to be read like GPT-2's."""
    config = _parse(files, CONFIG)
    _check_class(config, _GPT2S)
    if config.get("add_prefix_space"):
        raise TokenizerFileError(
            f"{CONFIG}: add_prefix_space: true is not known here; set it to false, or give the tokenizer.json"
        )
    specials = gpt2_files.read_specials(_parse(files, gpt2_files.SPECIALS))
    _check_added(files, _parse(files, gpt2_files.VOCAB), specials)


def _parse(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    if name not in files:
        return {}
    try:
        return parse_object(files[name])
    except TokenizerFileError as error:
        raise TokenizerFileError(f"{name}: {error}") from None


def _check_class(config: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse an unknown class, which could change a text in other ways. If no class is named, the files decide."""
    name = config.get("tokenizer_class")
    if name is None:
        return
    bare = str(name).removesuffix("Fast").removesuffix("Tokenizer")
    if bare not in (*known, "PreTrained"):
        raise TokenizerFileError(
            f"{CONFIG}: tokenizer_class: {excerpt(name)} reads these files in a way of its own; give the tokenizer.json"
        )


def _read_normalizer(config: dict[str, Any]) -> Normalizer | None:
    """The normalizer from `do_lower_case` and `strip_accents`; None if both are missing and the tokens decide."""
    flags = {key: config.get(key) for key in ("do_lower_case", "strip_accents")}
    for key, value in flags.items():
        if value not in (None, True, False) or (isinstance(value, int) and not isinstance(value, bool)):
            raise TokenizerFileError(f"{CONFIG}: {key}: {excerpt(value)} found where true or false belongs")
    if flags["do_lower_case"] is None and flags["strip_accents"] is None:
        return None
    lowers = flags["do_lower_case"] is not False
    strips = lowers if flags["strip_accents"] is None else flags["strip_accents"]
    given = {"bert_clean": True, "strip_accents": strips, "lowercase": lowers}
    return Normalizer(tuple(name for name, is_on in given.items() if is_on))


def _check_specials(name: str, document: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Refuse special tokens other than BERT's five, which transformers would find and add differently."""
    for key, usual in _BERT_TOKENS.items():
        value = document.get(key, usual)
        token = value.get("content") if isinstance(value, dict) else value
        if token not in (usual, None):
            raise TokenizerFileError(
                f"{name}: {key}: {excerpt(token)} is not {usual}; that is not known here, give the tokenizer.json"
            )
    for entry in document.get("additional_special_tokens") or ():
        token = entry.get("content") if isinstance(entry, dict) else entry
        if token not in tokenizer.special_tokens:
            raise TokenizerFileError(
                f"{name}: additional_special_tokens: {excerpt(token)} is not known here, give the tokenizer.json"
            )
    listed = document.get("added_tokens_decoder") or {}
    for number, entry in listed.items() if isinstance(listed, dict) else ():
        token = entry.get("content") if isinstance(entry, dict) else None
        if token not in tokenizer.special_tokens or str(tokenizer.vocab[token]) != number:
            raise TokenizerFileError(
                f"{name}: added_tokens_decoder: {number}: {excerpt(token)} is no special token of that id here"
            )


def _check_added(files: Mapping[str, bytes], vocab: Mapping[str, Any], specials: Any) -> None:
    for token, token_id in _parse(files, ADDED).items():
        if vocab.get(token) != token_id or token not in specials:
            raise TokenizerFileError(
                f"{ADDED}: {excerpt(token)} is added to the vocabulary; that is not known here, give the tokenizer.json"
            )
