"""Templates, pairs, truncation, padding, masks and offsets: by hand, and as Hugging Face's tokenizers does them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.strategies import form_texts
from tests.training import few_cases, train
from tokenmill import Tokenizer
from tokenmill.encoding.postprocessors import Padding, Truncation
from tokenmill.encoding.templates import Template
from tokenmill.errors import TokenizerFileError, UnknownCharacterError, UsageError
from tokenmill.formats import native
from tokenmill.text.normalizers import Normalizer

BERT = {"single": "[CLS] $A [SEP]", "pair": "[CLS] $A [SEP] $B:1 [SEP]:1"}
ROBERTA = {"single": "<s> $A </s>", "pair": "<s> $A </s> </s> $B </s>"}
SPECIALS = ("[CLS]", "[SEP]", "<s>", "</s>", "<pad>")
TEXTS = ["the cat sat on the mat", "a hat, a cat and 12 mats", "é 你好 naïve", "the the the"]


def with_template(spec: Any, *, normalizer: Any = None, pretokenizer: str = "gpt2", model: str = "byte-bpe") -> Tokenizer:
    base = train(TEXTS * 3, model=model, pretokenizer=pretokenizer, merges=12, special_tokens=SPECIALS)
    return Tokenizer(base.model, pretokenizer=base.pretokenizer, normalizer=Normalizer.of(normalizer), template=Template.of(spec))


# --- templates by hand ----------------------------------------------------------------------------------------------------


def test_one_text() -> None:
    tokenizer = with_template(BERT)
    encoding = tokenizer.process("the cat")
    assert (encoding.tokens[0], encoding.tokens[-1]) == ("[CLS]", "[SEP]")
    assert encoding.ids == [tokenizer.token_to_id("[CLS]"), *tokenizer.encode("the cat"), tokenizer.token_to_id("[SEP]")]
    inside = len(encoding) - 2
    assert encoding.type_ids == [0] * len(encoding) and encoding.attention_mask == [1] * len(encoding)
    assert encoding.special_tokens_mask == [1, *[0] * inside, 1]
    assert encoding.offsets[0] == encoding.offsets[-1] == (0, 0) and encoding.offsets[1][0] == 0
    assert encoding.offsets[-2][1] == len("the cat") and encoding.word_ids[0] is encoding.word_ids[-1] is None


def test_a_pair() -> None:
    tokenizer = with_template(BERT)
    encoding, first, second = tokenizer.process("the cat", "a mat"), tokenizer.encode("the cat"), tokenizer.encode("a mat")
    cls, sep = (tokenizer.vocab[token] for token in ("[CLS]", "[SEP]"))
    assert encoding.ids == [cls, *first, sep, *second, sep]
    assert encoding.type_ids == [0] * (len(first) + 2) + [1] * (len(second) + 1)


def test_without_special_tokens_and_without_a_template() -> None:
    for tokenizer in (with_template(BERT), with_template(None)):
        encoding = tokenizer.process("the", "cat", add_special_tokens=False)
        assert encoding.ids == tokenizer.encode("the") + tokenizer.encode("cat")
        assert encoding.type_ids == [0] * len(tokenizer.encode("the")) + [1] * len(tokenizer.encode("cat"))


def test_an_empty_text_is_its_special_tokens() -> None:
    assert with_template(ROBERTA).process("").tokens == ["<s>", "</s>"]
    assert with_template(None).process("").ids == []
    assert len(with_template(None).process_batch([])) == 0


def test_types_and_tokens_with_colons() -> None:
    template = Template.of("a:b:3 $A:2")
    assert [(element.token, element.type_id) for element in template.single] == [("a:b", 3), ("$A", 2)]
    assert Template.of(template.spec) == template
    odd = Template.of({"single": ["x:1:0", "two words", "$A"]})
    assert [element.token for element in odd.single] == ["x:1", "two words", "$A"]
    assert odd.spec == {"single": ["x:1:0", "two words", "$A"]} and Template.of(odd.spec) == odd


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("<s>", "template '<s>' must hold $A once, and no other text"),
        ("$A $A", "template '$A $A' must hold $A once, and no other text"),
        ("$A $B", "template '$A $B' must hold $A once, and no other text"),
        ({"single": "$A", "pair": "$A"}, "pair template '$A' must hold $A and $B once, and no other text"),
        ({"triple": "$A"}, "template: 'triple' is not known; there are single and pair"),
        ("$C", "template: '$C' is not known; $A stands for the text, $B for the second of two"),
        ("$A:128", "template: the type id of '$A:128' is above 127; give 0 to 127"),
        ({"single": 7}, "template: '7' is no text such as '<s> $A </s>', and no list of its parts"),
    ],
)
def test_what_is_no_template(spec: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Template.of(spec)
    assert str(caught.value) == message


def test_a_template_takes_special_tokens_alone() -> None:
    with pytest.raises(UsageError, match=r"^template: 'the' is no special token of this tokenizer; give it one, or take it out$"):
        with_template("the $A")


def test_the_file_holds_the_template() -> None:
    tokenizer = with_template(BERT)
    loaded = native.loads(native.dumps(tokenizer))
    assert loaded.template == tokenizer.template and loaded.to_bytes() == tokenizer.to_bytes()
    assert b'"postprocessor"' not in with_template(None).to_bytes()
    broken = tokenizer.to_bytes().replace(b'"[CLS] $A [SEP]"', b'"[cls] $A"')
    with pytest.raises(TokenizerFileError, match=r"^postprocessor: template: '\[cls\]' is no special token"):
        native.loads(broken)


# --- rows by hand ---------------------------------------------------------------------------------------------------------


def rows_of(texts: list[str], **options: Any) -> list[str]:
    """Rows of the letters of texts, a token each; special tokens and padding as signs."""
    base = train(["abcdefghijklm"], model="char-bpe", pretokenizer="none", merges=0, special_tokens=("<", ">", "_"))
    tokenizer = Tokenizer(
        base.model, pretokenizer=base.pretokenizer, template=Template.of({"single": "< $A >", "pair": "< $A > $B >"})
    )
    pairs = options.pop("pairs", None)
    processed = tokenizer.process_batch(texts, pairs, **options)
    rows = processed.columns()["input_ids"].to_pylist()
    return ["".join(tokenizer.id_to_token(one) or "" for one in row) for row in rows]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["<abcdefg>", "<>", "<ab>"]),
        ({"truncation": Truncation(5)}, ["<abc>", "<>", "<ab>"]),
        ({"truncation": Truncation(5, side="left")}, ["<efg>", "<>", "<ab>"]),
        ({"truncation": Truncation(5), "overflow": True}, ["<abc>", "<def>", "<g>", "<>", "<ab>"]),
        ({"truncation": Truncation(5, stride=1), "overflow": True}, ["<abc>", "<cde>", "<efg>", "<>", "<ab>"]),
        (
            {"truncation": Truncation(5, stride=2, side="left"), "overflow": True},
            ["<efg>", "<def>", "<cde>", "<bcd>", "<abc>", "<>", "<ab>"],
        ),
        ({"padding": Padding("_")}, ["<abcdefg>", "<>_______", "<ab>_____"]),
        ({"padding": Padding("_", side="left", multiple_of=4)}, ["___<abcdefg>", "__________<>", "________<ab>"]),
        ({"padding": Padding("_", length=6)}, ["<abcdefg>", "<>____", "<ab>__"]),
        ({"padding": Padding("_", length=6), "truncation": Truncation(6)}, ["<abcd>", "<>____", "<ab>__"]),
        ({"add_special_tokens": False, "truncation": Truncation(3)}, ["abc", "", "ab"]),
    ],
)
def test_rows(options: dict[str, Any], expected: list[str]) -> None:
    assert rows_of(["abcdefg", "", "ab"], **options) == expected


@pytest.mark.parametrize(
    ("truncation", "overflow", "expected"),
    [
        (Truncation(8), False, "<abc>hi>"),
        (Truncation(7), False, "<ab>hi>"),
        (Truncation(6), False, "<ab>h>"),
        (Truncation(5), False, "<a>h>"),
        (Truncation(9, strategy="only_second"), False, "<abcde>h>"),
        (Truncation(7, strategy="only_first"), True, "<ab>hi> <cd>hi> <e>hi>"),
        (Truncation(8, strategy="only_first", stride=1, side="left"), True, "<cde>hi> <abc>hi>"),
    ],
)
def test_rows_of_pairs(truncation: Truncation, overflow: bool, expected: str) -> None:
    assert rows_of(["abcde"], pairs=["hi"], truncation=truncation, overflow=overflow) == expected.split()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"truncation": Truncation(2)},
            "rows of 2 tokens, 2 of them special, leave 0 for text: too few; give a larger",
        ),
        ({"truncation": Truncation(4, 2)}, "leave 2 for text: too few for a stride of 2; give a larger maximum length"),
        (
            {"pairs": ["abcdefgh"], "truncation": Truncation(9, strategy="only_first")},
            "text 0: its other text leaves no room",
        ),
        ({"pairs": ["abcdefgh"], "truncation": Truncation(9), "overflow": True}, "truncate only_first or only_second"),
        ({"pairs": ["a", "b"]}, "1 texts and 2 second texts are no pairs; give as many of both"),
        ({"padding": Padding("?")}, "the padding token '?' is not in the vocabulary; its special tokens are <, >, _"),
        ({"unit": "words"}, "offsets are in bytes or characters, not in 'words'"),
    ],
)
def test_rows_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        rows_of(["abcdefg"], **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Truncation(0), "a row has 1 token at least and a stride of 0, not 0 and 0"),
        (
            lambda: Truncation(3, strategy="both"),
            "truncation strategy 'both' is not known; choose one of longest_first, only_first, ",
        ),
        (lambda: Padding("_", length=0), "rows are padded to 1 token at least, not 0, and to multiples of 1 at least"),
        (lambda: Padding("_", side="up"), "padding side 'up' is not known; choose one of right, left"),
    ],
)
def test_options_that_are_wrong(make: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_how_many_tokens_are_cut() -> None:
    tokenizer = with_template(None, pretokenizer="none", model="char-bpe")
    rows = tokenizer.process_batch(["the the", "a"], truncation=Truncation(2)).rows
    assert rows.cut == len(tokenizer.encode("the the")) - 2
    assert tokenizer.process_batch(["the the"], truncation=Truncation(2), overflow=True).rows.cut == 0


def test_unknown_characters_are_an_error() -> None:
    tokenizer = with_template(None, model="char-bpe", pretokenizer="none")
    with pytest.raises(UnknownCharacterError, match=r"^text 1, character 1: '!' \(U\+0021\) is not in the alphabet"):
        tokenizer.process_batch(["a", "a!"])


# --- as Hugging Face does -------------------------------------------------------------------------------------------------


@functools.cache
def peers(name: str) -> tuple[Tokenizer, Any]:
    """A tokenizer of ours with a template, and Hugging Face's with the same."""
    ours = with_template({"bert": BERT, "roberta": ROBERTA}[name])
    plain = Tokenizer(ours.model, pretokenizer=ours.pretokenizer)
    theirs = tokenizers.Tokenizer.from_str(plain.to_format("huggingface")["tokenizer.json"].decode())
    template = {"bert": BERT, "roberta": ROBERTA}[name]
    theirs.post_processor = tokenizers.processors.TemplateProcessing(
        single=template["single"], pair=template["pair"], special_tokens=[(token, ours.vocab[token]) for token in SPECIALS]
    )
    return ours, theirs


def check_encoding(ours: Any, theirs: Any) -> None:
    assert ours.ids == theirs.ids and ours.tokens == theirs.tokens
    assert ours.type_ids == theirs.type_ids and ours.attention_mask == theirs.attention_mask
    assert ours.special_tokens_mask == theirs.special_tokens_mask
    assert ours.offsets == theirs.offsets and ours.word_ids == theirs.word_ids
    assert len(ours.overflowing) == len(theirs.overflowing)
    for mine, peer in zip(ours.overflowing, theirs.overflowing, strict=True):
        check_encoding(mine, peer)


@few_cases(150, 5)
@given(
    name=st.sampled_from(["bert", "roberta"]),
    text=form_texts(max_fragments=8),
    pair=st.none() | form_texts(max_fragments=5),
    most=st.none() | st.integers(6, 30),
    stride=st.integers(0, 1),
    strategy=st.sampled_from(["longest_first", "only_first", "only_second"]),
    side=st.sampled_from(["right", "left"]),
    pad=st.none() | st.tuples(st.none() | st.integers(1, 40), st.sampled_from([1, 8]), st.sampled_from(["right", "left"])),
    special=st.booleans(),
)
def test_rows_are_those_of_hugging_face(
    name: str, text: str, pair: str | None, most: int | None, stride: int, strategy: str, side: str, pad: Any, special: bool
) -> None:
    ours, theirs = peers(name)
    text, pair = (one if one is None else "".join(filter(lambda c: ord(c) < 0x3000, one)) for one in (text, pair))
    if pair is None:
        strategy = "longest_first"
    options: dict[str, Any] = {"add_special_tokens": special}
    theirs.no_truncation()
    theirs.no_padding()
    if most is not None:
        options |= {"truncation": Truncation(most, stride, strategy, side), "overflow": pair is None}
        theirs.enable_truncation(most, stride=stride, strategy=strategy, direction=side)
    if pad is not None:
        options["padding"] = Padding("<pad>", pad[0], pad[1], pad[2])
        theirs.enable_padding(
            length=pad[0], pad_to_multiple_of=pad[1], direction=pad[2], pad_token="<pad>", pad_id=ours.vocab["<pad>"]
        )
    try:
        expected = theirs.encode(text, pair, add_special_tokens=special)
    except BaseException as error:
        assume(type(error).__name__ != "PanicException")  # theirs, where one of two texts is cut to no more than the stride
        if "too short" not in str(error):
            raise
        with pytest.raises(UsageError, match="leaves no room"):
            ours.process(text, pair, **options)
        return
    found = ours.process(text, pair, **options)
    if pair is None:
        check_encoding(found, expected)
    else:
        assert (found.ids, found.type_ids, found.offsets) == (expected.ids, expected.type_ids, expected.offsets)


# --- where tokens come from -----------------------------------------------------------------------------------------------


@few_cases(120, 5)
@given(
    texts=st.lists(form_texts(max_fragments=10), max_size=3),
    pretokenizer=st.sampled_from(["gpt2", "whitespace", "none", "bert", "wordpunct", "whitespace-punct", "o200k"]),
    model=st.sampled_from(["byte-bpe", "char-bpe"]),
    normalizer=st.sampled_from([None, "nfc", "nfkd", ["strip_accents", "lowercase"], "bert_clean"]),
)
def test_offsets_of_bytes_spell_the_tokens(texts: list[str], pretokenizer: str, model: str, normalizer: Any) -> None:
    tokenizer = traced(
        pretokenizer,
        model,
        str(normalizer),
    )
    encoded, trace = tokenizer.trace_batch(texts, "bytes")
    assert encoded.ids.to_pylist() == tokenizer.encode_counted(np_strings(texts)).ids.to_pylist()
    edges = encoded.ids.offsets.to_pylist()
    ids = encoded.ids.values.to_pylist()
    for place, text in enumerate(texts):
        last, data = 0, text.encode()
        for token in range(edges[place], edges[place + 1]):
            start, end = trace.spans[token].tolist()
            assert 0 <= start <= end <= len(data)
            if normalizer is None:
                assert start >= last
                last = end
                spelled = tokenizer.model.spellings[ids[token]]
                if tokenizer.id_to_token(ids[token]) != "<unk>" and not spelled.startswith(b" "):
                    assert data[start:end] == spelled


@functools.cache
def traced(pretokenizer: str, model: str, normalizer: str) -> Tokenizer:
    base = train(TEXTS, model=model, pretokenizer=pretokenizer, merges=10, unk_token="<unk>" if model == "char-bpe" else None)
    spec = {"None": None}.get(normalizer, normalizer)
    spec = ["strip_accents", "lowercase"] if "strip" in normalizer else spec
    return Tokenizer(base.model, pretokenizer=base.pretokenizer, normalizer=Normalizer.of(spec))


def np_strings(texts: list[str]) -> Any:
    import pyarrow as pa

    return pa.array(texts, pa.large_string())


def test_offsets_lead_back_to_the_text_before_normalizing() -> None:
    tokenizer = with_template(None, normalizer=["nfd", "strip_accents", "lowercase"], pretokenizer="bert")
    text = "É\u0301  THE ﬁ Ma\u0301t"
    encoding = tokenizer.process(text)
    words: dict[int, list[tuple[int, int]]] = {}
    for word, span in zip(encoding.word_ids, encoding.offsets, strict=True):
        words.setdefault(word if word is not None else -1, []).append(span)
    assert [text[spans[0][0] : spans[-1][1]] for spans in words.values()] == ["É", "THE", "ﬁ", "Ma\u0301t"]
    in_bytes = tokenizer.process(text, unit="bytes").offsets
    assert in_bytes[0] == (0, 2) and in_bytes[-1][1] == len(text.encode())


def test_unknown_characters_have_places_too() -> None:
    base = train(["ab ab"], model="char-bpe", pretokenizer="gpt2", merges=1, unk_token="<unk>")
    encoding = base.process("ab你b好 é")
    assert encoding.offsets == [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    assert encoding.word_ids == [0, 0, 0, 0, 1, 1]


def test_columns_are_arrow_lists() -> None:
    columns = with_template(BERT).process_batch(["a", "the"]).columns()
    assert list(columns) == ["input_ids", "attention_mask", "token_type_ids", "special_tokens_mask"]
    assert str(columns["input_ids"].type) == "large_list<item: int32>" and str(columns["attention_mask"].type).endswith("int8>")
    assert np.array_equal(
        columns["special_tokens_mask"].values.to_numpy(), [1, 0, 1, 1, *[0] * (len(columns["input_ids"][1]) - 2), 1]
    )


def test_rows_without_places() -> None:
    tokenizer = with_template(BERT)
    fast, traced = (
        tokenizer.process_batch(["a", "the"], ["b", "c"]),
        tokenizer.process_batch(["a", "the"], ["b", "c"], unit="bytes"),
    )
    assert fast.columns() == traced.columns() and traced.offsets().tolist()[1] == [0, 1]
    with pytest.raises(UsageError, match=r"^the rows were made without places in the text; give a unit, characters or bytes$"):
        fast.offsets()
