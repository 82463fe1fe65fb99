"""The values that options accept, shared by the library, the command line and the configuration. Imports nothing heavy."""

from __future__ import annotations

from typing import Literal, get_args

PretokenizerName = Literal[
    "gpt2", "cl100k", "o200k", "llama3", "qwen2", "bert", "wordpunct", "whitespace", "whitespace-punct", "none", "regex"
]
#: What `--pretokenizer` takes; `text/pretokenizers.py` says what each does.
PRETOKENIZERS: tuple[str, ...] = get_args(PretokenizerName)

#: What `--normalizer` takes besides `replace:OLD=>NEW` and `replace_regex:PATTERN=>NEW`; see `text/normalizers.py`.
NORMALIZERS = ("identity", "nfc", "nfd", "nfkc", "nfkd", "lowercase", "strip_accents", "strip_marks", "bert_clean")

DigitGroup = Literal[1, 3]
#: What `--split-digits` takes.
DIGIT_GROUPS: tuple[int, ...] = get_args(DigitGroup)

#: What `tokenmill convert --to` and `Tokenizer.to_format` take.
TOKENIZER_FORMATS = ("native", "huggingface", "tiktoken", "gpt2", "two-key", "vocab-txt")

ScoreName = Literal["likelihood", "frequency"]
#: What `--score` takes.
SCORES: tuple[str, ...] = get_args(ScoreName)

#: How special and added tokens are matched: `lstrip` and `rstrip` include the whitespace before or after the token; `single_word`
#: matches only where no letter, digit or underscore is next to it.
TOKEN_FLAGS = ("lstrip", "rstrip", "single_word")

TieName = Literal["smallest", "first-seen"]
#: What `--ties` takes.
TIES: tuple[str, ...] = get_args(TieName)

IdOrderName = Literal["rank", "sorted", "codepoint"]
#: What `--ids` takes.
ID_ORDERS: tuple[str, ...] = get_args(IdOrderName)

InputFormatName = Literal["auto", "text", "jsonl", "csv", "tsv", "parquet", "arrow"]
#: What `--format` takes.
INPUT_FORMATS: tuple[str, ...] = get_args(InputFormatName)

DocumentName = Literal["line", "file"]
#: What `--document` takes.
DOCUMENT_KINDS: tuple[str, ...] = get_args(DocumentName)

TextPolicyName = Literal["error", "replace", "reject"]
#: What `--invalid-utf8` takes.
TEXT_POLICIES: tuple[str, ...] = get_args(TextPolicyName)

PackName = Literal["concat", "best-fit", "none"]
#: What `encode --pack` takes; `dataset/packing.py` says what each does.
PACKS: tuple[str, ...] = get_args(PackName)

TailName = Literal["pad", "keep", "drop"]
#: What `encode --tail` takes.
TAILS: tuple[str, ...] = get_args(TailName)

TruncationName = Literal["longest_first", "only_first", "only_second"]
#: What `encode --truncate` takes; `encoding/postprocessors.py` says what each does.
TRUNCATIONS: tuple[str, ...] = get_args(TruncationName)

OverflowName = Literal["drop", "rows"]
#: What `encode --overflow` takes.
OVERFLOWS: tuple[str, ...] = get_args(OverflowName)

OffsetUnit = Literal["bytes", "characters"]
#: What `encode --offsets` and the option `unit` of `Tokenizer.process` take.
OFFSET_UNITS: tuple[str, ...] = get_args(OffsetUnit)

#: The longest block that `encode --block` takes.
MOST_BLOCK = 1 << 20
