"""The pre-tokenizers in plain Python. Tests use them as the oracle of the scanners.

`re` and `regex` run the patterns with their own Unicode tables. The scanners use the project's table, so results differ for
characters that changed between the Unicode versions.
"""

from __future__ import annotations

import re

MARKER = "Ġ"

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"

#: Patterns whose matches cover the whole text. `\s` is the property White_Space, `$` the end of the text.
PATTERNS = {
    # GPT-2, as published with the model.
    "gpt2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    # cl100k_base of tiktoken 0.14. An older form without `\s+$` is still copied in many places.
    "cl100k": rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s+$|\s*[\r\n]+|\s+(?!\S)|\s+",
    # o200k_base of tiktoken 0.14.
    "o200k": rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}?|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    # The tokenizer.json of Llama 3.1.
    "llama3": rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    # The tokenizer.json of Qwen 3, which has the same pattern as that of Qwen 2.
    "qwen2": rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "whitespace": r" ?\S+|\s+(?!\S)|\s+",
}
WORDPUNCT_PATTERN = r"\w+(?:'\w+)?|[^\w\s]"

#: Patterns whose matches exclude whitespace. `_BERT_ALONE` is the punctuation of BERT's `BasicTokenizer`, which includes ASCII
#: symbols, and the blocks that it treats as Chinese. `_WORD` is `\w` of UTS #18.
_BERT_ALONE = (
    r"\p{P}$+<=>^`|~\u3400-\u4DBF\u4E00-\u9FFF\uF900-\uFAFF"
    r"\U00020000-\U0002A6DF\U0002A700-\U0002CEAF\U0002F800-\U0002FA1F"
)
_WORD = r"\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}"
DROPPING_PATTERNS = {
    "bert": rf"[{_BERT_ALONE}]|[^\s{_BERT_ALONE}]+",
    "whitespace-punct": rf"[{_WORD}]+|[^\s{_WORD}]+",
}


def cut_words(
    name: str, text: str, *, marker: str = MARKER, split_digits: int | None = None, pattern: str | None = None
) -> list[str]:
    """Cut a document into words with the pre-tokenizer `name`: with gpt2, `Hi, I'm` gives `Hi`, `,`, ` I`, `'m`.

    `marker` is what wordpunct puts before a word after whitespace. The other options are those of `PreTokenizer`.
    """
    if split_digits:
        parts = cut_out_digits(text, split_digits, with_space=name == "wordpunct")
        return [word for part in parts for word in cut_words(name, part, marker=marker, pattern=pattern)]
    if pattern is not None:
        return cut_between(pattern, text)
    if name == "none":
        return [text] if text else []
    if name == "wordpunct":
        return cut_wordpunct(text, marker=marker)
    return cut_by_pattern({**PATTERNS, **DROPPING_PATTERNS}[name], text)


def cut_by_pattern(pattern: str, text: str) -> list[str]:
    """The matches of a pattern, one after another."""
    import regex

    return regex.findall(pattern, text)


def cut_between(pattern: str, text: str) -> list[str]:
    """The matches of a pattern and the texts between them: `\\w+` cuts `Hi, you` into `Hi`, `, `, `you`."""
    import regex

    return [part for part in regex.split(f"({pattern})", text) if part]


def cut_out_digits(text: str, group: int, *, with_space: bool) -> list[str]:
    """Cut out decimal digits in groups counted from the right: in groups of three, `ab 1234` gives `ab `, `1`, `234`.

    `with_space`: a whitespace character before digits is kept with them.
    """
    import regex

    space = r"[\s\x1c-\x1f]?" if with_space else ""
    parts: list[str] = []
    for match in regex.finditer(rf"(?s)({space})(\p{{Nd}}+)|(?:(?!{space}\p{{Nd}}).)+", text):
        digits = match.group(2) or ""
        first = len(digits) % group or group
        groups = [digits[:first], *(digits[place : place + group] for place in range(first, len(digits), group))]
        parts += [match.group(1) + groups[0], *groups[1:]] if digits else [match.group()]
    return parts


def cut_wordpunct(text: str, *, marker: str = MARKER) -> list[str]:
    """Cut into runs of word characters and single punctuation marks; a word after whitespace gets a marker.

    `Hi, I'm` gives `Hi`, `,`, `ĠI'm`.
    """
    matches = re.finditer(WORDPUNCT_PATTERN, text)
    return [marker * text[match.start() - 1 : match.start()].isspace() + match.group() for match in matches]
