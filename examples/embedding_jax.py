"""Look up the vectors of token ids in JAX, straight from the shards.

    tokenmill encode stdlib --tokenizer out/quickstart/tokenizer.json --block 128 --eos '<|endoftext|>' --output out/blocks
    python examples/embedding_jax.py out/blocks

The table has `embedding_rows` rows, and takes the ids as they are: int32, no cast, none out of range.
"""

from __future__ import annotations

import argparse
import itertools

import jax
import jax.numpy as jnp

from tokenmill import TokenDataset


@jax.jit
def look_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    """float[B, T, width] of ids int32[B, T]."""
    return jnp.take(table, ids, axis=0, mode="fill")  # "fill" makes ids that the table lacks visible, as NaN


def run(folder: str, *, batches: int, width: int = 64, batch_size: int = 8) -> list[tuple[int, ...]]:
    """The shapes of the vectors of the first batches. Every id has a row."""
    dataset = TokenDataset(folder, batch_size=batch_size)
    table = jax.random.normal(jax.random.key(1), (dataset.embedding_rows, width))
    shapes = []
    for batch in itertools.islice(dataset.to_jax(), batches):
        vectors = look_up(table, batch["input_ids"])
        assert not jnp.isnan(vectors).any()
        shapes.append(vectors.shape)
        print(f"ids {batch['input_ids'].dtype}{list(batch['input_ids'].shape)} -> vectors {vectors.dtype}{list(vectors.shape)}")
    return shapes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="packed blocks that tokenmill encode --block wrote")
    parser.add_argument("--batches", type=int, default=3)
    options = parser.parse_args()
    run(options.folder, batches=options.batches)


if __name__ == "__main__":
    main()
