"""Pre-tokenizers: cut a document into words before the model sees it.

Lossless pre-tokenizers, whose words joined are the text:

    gpt2              the published pattern of GPT-2
    cl100k, o200k     the patterns of tiktoken's encodings of these names (GPT-4; GPT-4o)
    llama3, qwen2     the patterns in the tokenizer files of Llama 3 and Qwen 2 to 3
    whitespace        ` ?\\S+|\\s+(?!\\S)|\\s+`
    none              a document is one word
    regex             the matches of your own pattern, and the text between them; slow

One pre-tokenizer that marks whitespace, and two that drop it:

    wordpunct         `\\w+(?:'\\w+)?|[^\\w\\s]` of Python's `re`; a word after whitespace begins with a marker
    bert              cuts at whitespace; each punctuation mark and each Chinese character is a word. Hugging Face does this in
                      two steps, `BertNormalizer(handle_chinese_chars=True)`, which puts spaces around Chinese characters, and
                      `BertPreTokenizer`. Doing the first step as well changes nothing here
    whitespace-punct  `\\w+|[^\\w\\s]+`, which Hugging Face calls `Whitespace` (its `WhitespaceSplit` is `\\S+`)

With any of them, `split_digits` first cuts runs of decimal digits out of the text, as single digits or as groups of three counted
from the right. Hugging Face's `Digits`, or a `Split` before the pre-tokenizer in a sequence, does the same, but `Digits` also
takes numbers that are not decimal digits, such as `²`. The pre-tokenizer then cuts each part into words: qwen2 cuts groups of
three again.

`PreTokenizer(name).blocks(text, doc_ends)` cuts batches; `pretokenize(text)` cuts one text into words that you can read. To add a
pre-tokenizer, write a scanner in `kernels/`, an entry in `_RULES`, its name in `names.py`, and its plain form in
`reference/words.py`, which contains the patterns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tokenmill.data import UNICODE_VERSION
from tokenmill.errors import UsageError
from tokenmill.models.alphabets import MARKER
from tokenmill.names import DIGIT_GROUPS, PRETOKENIZERS
from tokenmill.text.patterns import PatternScanner, compile_pattern, regex_unicode_version
from tokenmill.text.scanners import BLOCK_WORDS, Block, Scanner, WordScanner
from tokenmill.unicode_text import encode_text


class _Rule(NamedTuple):
    """The kernels of a pre-tokenizer: their module, and the name of the table of them by the digits that they cut out.

    `whitespace` says whether whitespace between words is `kept`, `marked` or `dropped`.
    """

    module: str
    kernels: str
    whitespace: str


_RULES = {
    "gpt2": _Rule("scan", "scan_gpt2", "kept"),
    "cl100k": _Rule("scan_cl100k", "scan_cl100k", "kept"),
    "o200k": _Rule("scan_o200k", "scan_o200k", "kept"),
    "llama3": _Rule("scan_cl100k", "scan_llama3", "kept"),
    "qwen2": _Rule("scan_cl100k", "scan_qwen2", "kept"),
    "bert": _Rule("scan_dropping", "scan_bert", "dropped"),
    "wordpunct": _Rule("scan_wordpunct", "scan_wordpunct", "marked"),
    "whitespace": _Rule("scan", "scan_whitespace", "kept"),
    "whitespace-punct": _Rule("scan_dropping", "scan_whitespace_punct", "dropped"),
    "none": _Rule("scan", "scan_none", "kept"),
    "regex": _Rule("", "", "kept"),
}


@dataclass(frozen=True)
class PreTokenizer:
    """A pre-tokenizer and its options, as stored in the tokenizer file.

    `split_digits`: None, 1 or 3, see above; `pattern`: the pattern of `regex`, which requires one. Raises UsageError for an
    unknown name and for invalid options.

    `PreTokenizer("gpt2", split_digits=3).pretokenize("a 1234")` is `["a", " ", "1", "234"]`.
    """

    name: str
    split_digits: int | None = None
    pattern: str | None = None

    def __post_init__(self) -> None:
        if self.name not in PRETOKENIZERS:
            raise UsageError(f"unknown pre-tokenizer {self.name!r}; known are: {', '.join(PRETOKENIZERS)}")
        if self.split_digits is not None and (self.split_digits not in DIGIT_GROUPS or isinstance(self.split_digits, bool)):
            raise UsageError(f"digits can be split singly (1) or by three (3), not by {self.split_digits!r}")
        if (self.name == "regex") != (self.pattern is not None):
            has = "needs a pattern; give one" if self.pattern is None else "takes no pattern; leave it out, or choose regex"
            raise UsageError(f"pre-tokenizer {self.name!r} {has}")
        if self.pattern is not None:
            compile_pattern(self.pattern)

    @classmethod
    def of(cls, spec: PreTokenizer | str | Mapping[str, Any]) -> PreTokenizer:
        """Parse a pre-tokenizer from a file: its name, or `{"name": ..., "split_digits": ..., "pattern": ...}`.

        Raises UsageError for unknown keys and for values of the wrong type.
        """
        if isinstance(spec, PreTokenizer):
            return spec
        if isinstance(spec, str):
            return cls(spec)
        for key, value in spec.items():
            kind = {"name": str, "split_digits": int, "pattern": str}.get(key)
            if kind is None:
                raise UsageError(f"a pre-tokenizer has no option {key!r}; it has split_digits and pattern")
            if not isinstance(value, kind):
                raise UsageError(f"{key} of a pre-tokenizer: {value!r} is no {kind.__name__}; give one")
        if "name" not in spec:
            raise UsageError("a pre-tokenizer without a name; give one")
        return cls(**spec)

    @property
    def spec(self) -> str | dict[str, Any]:
        """The form for files, which `of` parses: only the name if there are no options."""
        options = {"split_digits": self.split_digits, "pattern": self.pattern}
        given = {key: value for key, value in options.items() if value is not None}
        return {"name": self.name, **given} if given else self.name

    def __str__(self) -> str:
        """For messages: `gpt2`, `gpt2 (split_digits 3)`."""
        options = {} if isinstance(self.spec, str) else {key: value for key, value in self.spec.items() if key != "name"}
        shown = ", ".join(f"{key} {value}" for key, value in options.items())
        return f"{self.name} ({shown})" if shown else self.name

    @property
    def lossless(self) -> bool:
        """Whether the words, joined, are the text: true for `gpt2`, false for `wordpunct`."""
        return _RULES[self.name].whitespace == "kept"

    @property
    def drops_spaces(self) -> bool:
        """Whether words contain neither whitespace nor a marker for it: true for `bert`."""
        return _RULES[self.name].whitespace == "dropped"

    @property
    def marks_spaces(self) -> bool:
        """Whether a character model shows a space as `Ġ`: true for pre-tokenizers that cut at spaces and keep or mark them."""
        return self.name != "none" and not self.drops_spaces

    @property
    def unicode_version(self) -> str:
        """The Unicode version that words are cut by: that of the project's tables or, for a pattern, that of `regex`."""
        return UNICODE_VERSION if self.pattern is None else regex_unicode_version()

    def scanner(self, *, block_words: int = BLOCK_WORDS) -> Scanner:
        """Make a scanner, which can be reused for many batches. It has its own scratch memory and is for one thread."""
        if self.pattern is None:
            return WordScanner(self._load_kernel(), lossless=self.lossless, block_words=block_words)
        segments = None if self.split_digits is None else PreTokenizer("none", self.split_digits).scanner()
        return PatternScanner(self.pattern, segments=segments, block_words=block_words)

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray, *, block_words: int = BLOCK_WORDS) -> Iterator[Block]:
        """Cut a batch into words, in blocks of at most `block_words`; see `WordScanner.blocks`."""
        return self.scanner(block_words=block_words).blocks(text, doc_ends)

    def pretokenize(self, text: str) -> list[str]:
        """Cut one document into words in visible form: with wordpunct, `Hi, I'm` gives `Hi`, `,`, `ĠI'm`.

        Raises InvalidTextError for a lone surrogate, which UTF-8 cannot encode.
        """
        encoded = np.frombuffer(encode_text(text), dtype=np.uint8)
        words = []
        for block in self.blocks(encoded, np.array([encoded.size])):
            start = block.first
            for end in block.word_ends.tolist():
                words.append(self._show(block.text[start:end].tobytes()))
                start = end
        return words

    def _show(self, word: bytes) -> str:
        shown = word.decode()
        return MARKER + shown[1:] if not self.lossless and shown.startswith(" ") else shown

    def _load_kernel(self) -> Callable[..., tuple[int, int]]:
        """Import the kernel on first use. Importing Numba takes time, and only the kernel that is used is compiled."""
        rule = _RULES[self.name]
        kernels: Mapping[int, Callable[..., tuple[int, int]]]
        kernels = getattr(import_module(f"tokenmill.kernels.{rule.module}"), rule.kernels)
        return kernels[self.split_digits or 0]
