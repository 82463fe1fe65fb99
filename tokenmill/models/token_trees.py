"""Trees of tokens by their bytes, and the automaton that finds the longest token at each place of a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tokenmill.kernels import wordpiece as kernel
from tokenmill.kernels.hashing import draw_secret
from tokenmill.kernels.tables import power_of_two


@dataclass(frozen=True)
class TokenTree:
    """A tree of tokens by their bytes. `tokens` (int64[nodes]) is the token that ends at each node, as length << 32 | number."""

    edges: kernel.Edges
    origins: np.ndarray
    depths: np.ndarray
    tokens: np.ndarray

    @classmethod
    def of(cls, text: np.ndarray, ends: np.ndarray, numbers: np.ndarray, *, backwards: bool) -> TokenTree:
        """Build the tree of the tokens in `text` (uint8[n], end to end) with the given `ends` (int64[t]) and `numbers` (int[t]).

        The root is before the first byte of the tokens, or after the last byte if `backwards`.
        """
        most = text.size + 1
        edges = kernel.Edges(np.full((power_of_two(2 * most), 2), kernel.EMPTY, np.int64), draw_secret()[1])
        origins, depths, last_nodes = np.zeros(most, np.int64), np.zeros(most, np.int32), np.empty(ends.size, np.int64)
        nodes = kernel.grow_tree(edges, text, ends, backwards, origins, depths, last_nodes)
        tokens = np.full(nodes, kernel.NO_TOKEN)
        tokens[last_nodes] = np.diff(ends, prepend=0) << kernel.LENGTH_SHIFT | numbers
        return cls(edges, origins[:nodes], depths[:nodes], tokens)

    def link(self) -> tuple[np.ndarray, np.ndarray]:
        """For each node, the longest token that ends there (int64) and the node of its longest suffix in the tree (int32)."""
        longest, fallbacks = self.tokens.copy(), np.zeros(self.tokens.size, np.int32)
        kernel.link_fallbacks(self.edges, self.origins, np.argsort(self.depths, kind="stable"), longest, fallbacks)
        return longest, fallbacks
