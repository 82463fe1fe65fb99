"""tokenmill: trains subword tokenizers on corpora and turns corpora into token ids, as Apache Beam jobs.

`import tokenmill` provides the tokenizer and the reader of token datasets, without Beam:

    from tokenmill import TokenDataset, Tokenizer
    Tokenizer.from_file("tokenizer.json").encode("Hi, I'm here.")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tokenmill.version import __version__

if TYPE_CHECKING:
    from tokenmill.dataset.token_dataset import TokenDataset
    from tokenmill.tokenizer import Tokenizer

__all__ = ["TokenDataset", "Tokenizer", "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public class on first use. Importing `Tokenizer` loads numba, and `tokenmill --help` must not wait for it."""
    if name == "Tokenizer":
        from tokenmill.tokenizer import Tokenizer

        return Tokenizer
    if name == "TokenDataset":
        from tokenmill.dataset.token_dataset import TokenDataset

        return TokenDataset
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
