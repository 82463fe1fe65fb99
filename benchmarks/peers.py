"""Everyone who encodes: tokenmill and its peers, each by its fastest way from documents in memory to ids in memory.

An encoder is made from a folder that `benchmarks.vocabularies` wrote. `prepare` turns a list of str into what it takes,
untimed; `encode` is timed; `flatten` gives its result the one form that all are compared in. Every library is imported by its
own class alone: this module loads in environments that hold only some of them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

GPT2_PATTERN = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
#: Stands between documents where a peer wants one buffer; no document of the corpora holds it.
SEPARATOR = b"\0"

#: Bytes of text of a batch, where documents come in batches.
BATCH_BYTES = 4 << 20

Flat = tuple[np.ndarray, np.ndarray]


class Encoder:
    """What a peer has in common with the others: it takes a list of str as it is."""

    def __init__(self, vocabulary: Path, cores: int) -> None:
        self.cores = cores

    def prepare(self, texts: list[str]) -> Any:
        return texts

    def encode(self, batch: Any) -> Any:
        raise NotImplementedError

    def flatten(self, result: Any) -> Flat:
        """Ids of all documents, one after another, and how many each has."""
        return _join_lists(result)


class TokenmillArrow(Encoder):
    """Documents as an Arrow array, as they come from files. More cores: a tokenizer and a thread for each."""

    def __init__(self, vocabulary: Path, cores: int) -> None:
        from tokenmill import Tokenizer

        super().__init__(vocabulary, cores)
        self._tokenizers = [Tokenizer.from_file(vocabulary / "tokenmill.json") for _ in range(cores)]
        for tokenizer in self._tokenizers:
            _ = tokenizer.model.tables  # made when first asked for; the others make theirs while loading

    def prepare(self, texts: list[str]) -> Any:
        import pyarrow as pa

        return pa.array(texts, pa.large_string())

    def encode(self, batch: Any) -> list[Any]:
        if self.cores == 1:
            return [self._tokenizers[0].encode_batch(batch)]
        with ThreadPoolExecutor(self.cores) as threads:
            parts = [batch[start:stop] for start, stop in share_out(batch, self.cores)]
            return list(threads.map(lambda tokenizer, part: tokenizer.encode_batch(part), self._tokenizers, parts))

    def flatten(self, result: list[Any]) -> Flat:
        ids = np.concatenate([part.flatten().to_numpy() for part in result])
        return ids, np.concatenate([np.diff(part.offsets.to_numpy()) for part in result])


class TokenmillBatches(TokenmillArrow):
    """Documents as Arrow arrays of a few MB each, as tokenmill's own pipelines read them."""

    def prepare(self, texts: list[str]) -> list[Any]:
        whole = super().prepare(texts)
        return [whole[start:stop] for start, stop in share_out(whole, max(1, whole.nbytes // BATCH_BYTES))]

    def encode(self, batch: Any) -> list[Any]:
        shares = [batch[place :: self.cores] for place in range(self.cores)]
        with ThreadPoolExecutor(self.cores) as threads:
            encoded = list(threads.map(_encode_batches, self._tokenizers, shares))
        return [encoded[place % self.cores][place // self.cores] for place in range(len(batch))]


class TokenmillStr(TokenmillArrow):
    """Documents as a list of str: what the others are given."""

    def prepare(self, texts: list[str]) -> list[str]:
        return texts


class GigatokenStr(Encoder):
    def __init__(self, vocabulary: Path, cores: int) -> None:
        import gigatoken

        super().__init__(vocabulary, cores)
        self._tokenizer = gigatoken.Tokenizer(str(vocabulary / "huggingface.json"))

    def encode(self, batch: Any) -> Any:
        return self._tokenizer.encode_batch(batch, parallel=self.cores > 1)

    def flatten(self, result: Any) -> Flat:
        layout = result.layout
        offsets = np.asarray(layout.offsets.data)
        return np.asarray(layout.content.data)[offsets[0] : offsets[-1]], np.diff(offsets)


class GigatokenBytes(GigatokenStr):
    """Documents as one buffer with separators, which gigatoken splits itself: the way its authors name as the fastest."""

    def prepare(self, texts: list[str]) -> Any:
        from gigatoken import BytesSource

        return BytesSource(SEPARATOR.join(text.encode() for text in texts), separator=SEPARATOR)


class Fastokens(Encoder):
    def __init__(self, vocabulary: Path, cores: int) -> None:
        import fastokens

        super().__init__(vocabulary, cores)
        self._tokenizer = fastokens.Tokenizer.from_file(str(vocabulary / "huggingface.json"))

    def encode(self, batch: Any) -> Any:
        return self._tokenizer.encode_batch_flat(batch)

    def flatten(self, result: Any) -> Flat:
        ids, offsets = result
        return np.frombuffer(ids, np.uint32), np.diff(np.frombuffer(offsets, np.uint64).astype(np.int64))


class Tokie(Encoder):
    def __init__(self, vocabulary: Path, cores: int) -> None:
        import tokie

        super().__init__(vocabulary, cores)
        self._tokenizer = tokie.Tokenizer.from_json(str(vocabulary / "huggingface.json"))

    def encode(self, batch: Any) -> Any:
        return self._tokenizer.encode_batch(batch, add_special_tokens=False)

    def flatten(self, result: Any) -> Flat:
        return _join_lists(encoding.ids for encoding in result)


class Tiktoken(Encoder):
    def __init__(self, vocabulary: Path, cores: int) -> None:
        import tiktoken

        super().__init__(vocabulary, cores)
        ranks = read_ranks(vocabulary / "ranks.tiktoken")
        self._encoding = tiktoken.Encoding("benchmark", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens={})

    def encode(self, batch: Any) -> Any:
        if self.cores == 1:
            return [self._encoding.encode_ordinary(text) for text in batch]
        return self._encoding.encode_ordinary_batch(batch, num_threads=self.cores)


class Tokenizers(Encoder):
    """Hugging Face tokenizers, either version: 0.23 has a batch without offsets, 1.0 has no other."""

    def __init__(self, vocabulary: Path, cores: int) -> None:
        import tokenizers

        super().__init__(vocabulary, cores)
        tokenizer = tokenizers.Tokenizer.from_file(str(vocabulary / "huggingface.json"))
        self._encode_batch = getattr(tokenizer, "encode_batch_fast", tokenizer.encode_batch)

    def encode(self, batch: Any) -> Any:
        return self._encode_batch(batch, add_special_tokens=False)

    def flatten(self, result: Any) -> Flat:
        return _join_lists(encoding.ids for encoding in result)


class Peer(NamedTuple):
    """One row of the tables.

    `environment` is whose interpreter runs it (`ours` or `next`); a `slow` one encodes a slice of the corpus.
    """

    title: str
    encoder: type[Encoder]
    distribution: str
    environment: str = "ours"
    slow: bool = False


PEERS = {
    "tokenmill": Peer("tokenmill, Arrow array", TokenmillArrow, "tokenmill"),
    "tokenmill-batches": Peer("tokenmill, Arrow batches of 4 MB", TokenmillBatches, "tokenmill"),
    "tokenmill-str": Peer("tokenmill, list of str", TokenmillStr, "tokenmill"),
    "gigatoken": Peer("gigatoken, list of str", GigatokenStr, "gigatoken"),
    "gigatoken-bytes": Peer("gigatoken, BytesSource", GigatokenBytes, "gigatoken"),
    "fastokens": Peer("fastokens, encode_batch_flat", Fastokens, "fastokens"),
    "tokie": Peer("tokie, encode_batch", Tokie, "tokie"),
    "tokenizers-next": Peer("tokenizers 1.0, encode_batch", Tokenizers, "tokenizers", environment="next"),
    "tiktoken": Peer("tiktoken, encode_ordinary", Tiktoken, "tiktoken", slow=True),
    "tokenizers": Peer("tokenizers 0.23, encode_batch_fast", Tokenizers, "tokenizers", slow=True),
}


def _encode_batches(tokenizer: Any, batches: list[Any]) -> list[Any]:
    return [tokenizer.encode_batch(batch) for batch in batches]


def read_ranks(path: Path) -> dict[bytes, int]:
    """A .tiktoken file: on each line a token in base64 and its rank."""
    lines = path.read_bytes().splitlines()
    return {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines)}


def _join_lists(lists: Iterable[Any]) -> Flat:
    arrays = [np.asarray(ids, np.int32) for ids in lists]
    return np.concatenate([np.empty(0, np.int32), *arrays]), np.array([array.size for array in arrays], np.int64)


def share_out(batch: Any, parts: int) -> list[tuple[int, int]]:
    """Ranges of documents with about the same number of bytes each; `batch` is a list of str or an Arrow array."""
    if isinstance(batch, list):
        sizes = np.array([len(text) for text in batch])
    else:
        import pyarrow.compute as pc

        sizes = pc.binary_length(batch).to_numpy()
    sums = np.cumsum(sizes)
    stops = [int(np.searchsorted(sums, sums[-1] * part / parts)) + 1 for part in range(1, parts)]
    return list(zip([0, *stops], [*stops, len(batch)], strict=True))
