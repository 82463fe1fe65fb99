"""Real sentences and vocabularies on every machine: the prose of Python's docstrings, and what is learned from it.

`write_folder` gives them the layout of a folder of published files, so a test runs on either.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import tokenizers

from tests.wordpieces import BERT_SPECIALS
from tokenmill.reference.bpe import visible_bytes
from tokenmill.reference.words import PATTERNS

#: The rank files of a folder, and the pre-tokenizer that each was learned behind.
RANK_FILES = {"gpt2": "gpt2", "cl100k_base": "cl100k", "o200k_base": "o200k"}
SENTENCES = 2500
RANKS = 3000
WHOLE_WORDS = 1500
WORD_ENDS = 700

#: Docstrings are nearly all ASCII, and people's texts are not.
_OTHER_SENTENCES = [
    "The café’s owners don’t agree: “naïve” pricing costs €5 – or £4½ – a day.",
    "It's 20 °C in Zürich, she'd said; we've 3,000 m² to heat… THEY'LL SEE!",
    "Müller & Søn sent 12 naïve résumés to Łódź on 2024-02-29 🙂",
    "In Tokyo (東京) the sign said こんにちは; in Москва it said «Привет, мир».",
]


def read_sentences(number: int = SENTENCES) -> list[str]:
    """Sentences of the standard library's docstrings, by file name; some sentences in other scripts among them."""
    sentences: list[str] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        sentences += _cut_sentences(_find_prose(path.read_bytes()))
        if len(sentences) >= number:
            break
    found = sentences[:number]
    for place in range(0, len(found), 100):
        found[place] = _OTHER_SENTENCES[place // 100 % len(_OTHER_SENTENCES)]
    return found


def _find_prose(source: bytes) -> Iterator[str]:
    """Paragraphs of the docstrings of a module, those that show a session left out."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, kinds):
            yield from (part for part in (ast.get_docstring(node) or "").split("\n\n") if ">>>" not in part)


def _cut_sentences(paragraphs: Iterable[str]) -> list[str]:
    """`["One. Two\\nlines."]` is `["One.", "Two lines."]`."""
    return [one for text in paragraphs for one in re.split(r"(?<=[.!?]) +", " ".join(text.split())) if one]


def learn_ranks(pretokenizer: str, texts: list[str], size: int = RANKS) -> dict[bytes, int]:
    """Ranks of byte-level BPE, which Hugging Face learns behind a published pattern."""
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(PATTERNS[pretokenizer]), "isolated")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([split, byte_level(add_prefix_space=False, use_regex=False)])
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=size, initial_alphabet=byte_level.alphabet(), show_progress=False)
    made.train_from_iterator(texts, trainer)
    byte_of = {visible: byte for byte, visible in enumerate(visible_bytes())}
    vocab = json.loads(made.to_str())["model"]["vocab"]
    return {bytes(byte_of[character] for character in token): rank for token, rank in vocab.items()}


def write_ranks(ranks: dict[bytes, int]) -> bytes:
    """A rank file of tiktoken."""
    lines = (base64.b64encode(token) + b" %d\n" % rank for token, rank in sorted(ranks.items(), key=lambda pair: pair[1]))
    return b"".join(lines)


def read_ranks(content: bytes) -> dict[bytes, int]:
    """The ranks of a file of tiktoken."""
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in content.splitlines() if line)}


def gather_wordpieces(texts: list[str]) -> list[str]:
    """An uncased WordPiece vocabulary: special tokens, characters, frequent words, frequent ends of words."""
    words = Counter(word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower()) if word.isascii())
    ends: Counter[str] = Counter()
    for word, count in words.items():
        ends.update({f"##{word[-length:]}": count for length in (2, 3, 4) if length < len(word)})
    letters = sorted({letter for word in words for letter in word})
    frequent = [token for token, _ in [*words.most_common(WHOLE_WORDS), *ends.most_common(WORD_ENDS)]]
    return list(dict.fromkeys([*BERT_SPECIALS, *letters, *(f"##{letter}" for letter in letters if letter.isalnum()), *frequent]))


def write_folder(folder: Path) -> Path:
    """`ewt/train.parquet` with sentences, `vocab/` with the rank files and BERT's vocab.txt that are learned from them."""
    texts = read_sentences()
    (folder / "ewt").mkdir(parents=True)
    pq.write_table(pa.table({"text": texts}), folder / "ewt" / "train.parquet")
    vocab = folder / "vocab"
    vocab.mkdir()
    for name, pretokenizer in RANK_FILES.items():
        (vocab / f"{name}.tiktoken").write_bytes(write_ranks(learn_ranks(pretokenizer, texts)))
    tokens = "".join(f"{token}\n" for token in gather_wordpieces(texts))
    (vocab / "bert-base-uncased.vocab.txt").write_text(tokens, encoding="utf-8", newline="\n")
    return folder
