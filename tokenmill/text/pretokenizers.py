"""Pre-tokenizers: how a document is cut into words before a model sees it.

Lossless ones, whose words tile the text:

    gpt2              the pattern that GPT-2 was published with
    cl100k, o200k     the patterns of tiktoken's encodings of these names (GPT-4; GPT-4o)
    llama3, qwen2     the patterns in the tokenizer files of Llama 3 and Qwen 2 to 3
    whitespace        ` ?\\S+|\\s+(?!\\S)|\\s+`
    none              a document is one word
    regex             the matches of a pattern of one's own and what lies between them; slow

One that marks whitespace, and two that drop it:

    wordpunct         `\\w+(?:'\\w+)?|[^\\w\\s]` of Python's `re`; a word that follows whitespace has a marker in front
    bert              runs of other characters between whitespace, punctuation and Chinese characters; each of the latter is a
                      word. Hugging Face does this in two steps, `BertNormalizer(handle_chinese_chars=True)`, which puts spaces
                      around Chinese characters, and `BertPreTokenizer`; doing the first step as well changes nothing here
    whitespace-punct  `\\w+|[^\\w\\s]+`, which Hugging Face calls `Whitespace` (its `WhitespaceSplit` is `\\S+`)

With any of them, `split_digits` first cuts runs of decimal digits out of the text, into single ones or groups of three counted
from the right, as Hugging Face's `Digits` or a `Split` does in a sequence before the pre-tokenizer (`Digits` also takes numbers
that are no decimal digits, such as `²`). The pre-tokenizer then finds the words of each part: qwen2 cuts groups of three again.

`PreTokenizer(name).blocks(text, doc_ends)` is the form for machines, `pretokenize(text)` the form for people. A further
pre-tokenizer is one more scanner in `kernels/`, an entry in `_RULES`, its name in `names.py` and its plain form in
`reference_words.py`, where the patterns stand.
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
    """Where a pre-tokenizer's kernels are, by the digits that they cut out, and what becomes of whitespace between words.

    It is `kept`, `marked` or `dropped`.
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

    `split_digits`: 1 or 3, see above; `pattern`: that of `regex`, which needs one. Raises UsageError for an unknown name and for
    options that are wrong.

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
        """A pre-tokenizer from what stands in files: its name, or `{"name": ..., "split_digits": ..., "pattern": ...}`.

        Raises UsageError for keys that are unknown and values of another type.
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
        """What stands in files, as `of` takes it: the name alone where there are no options."""
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
        """Whether the words, one after another, are the text: true for `gpt2`, false for `wordpunct`."""
        return _RULES[self.name].whitespace == "kept"

    @property
    def drops_spaces(self) -> bool:
        """Whether no word holds whitespace, nor a mark of it: true for `bert`."""
        return _RULES[self.name].whitespace == "dropped"

    @property
    def marks_spaces(self) -> bool:
        """Whether a character model shows a space as `Ġ`: every pre-tokenizer that cuts at spaces and keeps them does."""
        return self.name != "none" and not self.drops_spaces

    @property
    def unicode_version(self) -> str:
        """The version of the tables that words are cut by: the project's, for patterns that of `regex`."""
        return UNICODE_VERSION if self.pattern is None else regex_unicode_version()

    def scanner(self, *, block_words: int = BLOCK_WORDS) -> Scanner:
        """A scanner with scratch memory of its own, for one thread, to be used for batch after batch."""
        if self.pattern is None:
            return WordScanner(self._load_kernel(), lossless=self.lossless, block_words=block_words)
        segments = None if self.split_digits is None else PreTokenizer("none", self.split_digits).scanner()
        return PatternScanner(self.pattern, segments=segments, block_words=block_words)

    def blocks(self, text: np.ndarray, doc_ends: np.ndarray, *, block_words: int = BLOCK_WORDS) -> Iterator[Block]:
        """The words of a batch as blocks of at most `block_words`; see `WordScanner.blocks`."""
        return self.scanner(block_words=block_words).blocks(text, doc_ends)

    def pretokenize(self, text: str) -> list[str]:
        """The words of one document for people to read: under wordpunct `Hi, I'm` gives `Hi`, `,`, `ĠI'm`.

        Raises InvalidTextError for a lone surrogate, which UTF-8 cannot hold.
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
        """Numba takes a moment to import, and a kernel is compiled when it is first called: only the one that is used."""
        rule = _RULES[self.name]
        kernels: Mapping[int, Callable[..., tuple[int, int]]]
        kernels = getattr(import_module(f"tokenmill.kernels.{rule.module}"), rule.kernels)
        return kernels[self.split_digits or 0]
