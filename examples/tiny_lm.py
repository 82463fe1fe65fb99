"""Train a very small language model on the shards of a dataset, on a CPU, in a minute or two.

    make run                                        # writes out/quickstart/tokens, one row a document
    python examples/tiny_lm.py out/quickstart/tokens

An Embedding layer, one block of causal attention, and the Embedding layer again as output: enough to see the loss fall. Packed
blocks (`tokenmill encode --block 128 ...`) come as batches from `TokenDataset`; rows that are documents are joined here first.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from tokenmill import TokenDataset


class TinyModel(nn.Module):
    """Ids int[B, T] -> logits float[B, T, rows]: what comes next, for every place."""

    def __init__(self, rows: int, block: int, width: int, heads: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(rows, width)
        self.places = nn.Embedding(block, width)
        self.attention = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.tokens.weight, std=0.02)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        length = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        hidden = self.tokens(ids) + self.places(torch.arange(length))
        hidden = self.norm(self.attention(hidden, src_mask=mask, is_causal=True))
        return hidden @ self.tokens.weight.T


def batches_of(dataset: TokenDataset, block: int) -> Iterator[torch.Tensor]:
    """Batches int32[B, T] without end, epoch after epoch."""
    if dataset.block is not None:
        loader = DataLoader(dataset.to_torch(), batch_size=None)
        for batch in itertools.chain.from_iterable(itertools.repeat(loader)):
            yield batch["input_ids"][:, :block]
    shards = [pq.read_table(Path(dataset.folder) / shard["path"]) for shard in dataset.manifest["shards"]]
    flat = np.concatenate([shard["input_ids"].combine_chunks().flatten().to_numpy() for shard in shards])
    rows = torch.from_numpy(flat[: flat.size // block * block].reshape(-1, block))
    while True:
        yield from torch.split(rows[torch.randperm(len(rows))], dataset.batch_size)


def train(folder: str, *, steps: int, batch_size: int, block: int, width: int = 64, heads: int = 4) -> list[float]:
    """The loss of every step, in nats a token."""
    torch.manual_seed(1)
    dataset = TokenDataset(folder, batch_size=batch_size, shuffle=True, seed=1)
    model = TinyModel(dataset.embedding_rows, block, width, heads)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for ids in itertools.islice(batches_of(dataset, block), steps):
        logits = model(ids[:, :-1])
        loss = functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten().long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) % 25 == 1 or len(losses) == steps:
            print(f"step {len(losses):4d}   loss {np.mean(losses[-25:]):.3f}", flush=True)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="a dataset that tokenmill encode or build wrote")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--block", type=int, default=64, help="how many tokens of a row the model sees")
    options = parser.parse_args()
    started = time.perf_counter()
    losses = train(options.folder, steps=options.steps, batch_size=options.batch_size, block=options.block)
    tokens = options.steps * options.batch_size * options.block
    print(f"{tokens:,} tokens in {time.perf_counter() - started:.0f} s: loss {losses[0]:.2f} -> {np.mean(losses[-10:]):.2f}")


if __name__ == "__main__":
    main()
