"""Sums that JSON files carry of themselves: what a later run, or `tokenmill verify`, trusts them by.

    {"split": 0, "tokens": 41}  ->  {"split": 0, "tokens": 41, "sha256": "5e0c..."}

The sum is over all other entries, whatever their order and however the file is laid out. It finds damage, not forgery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SUM = "sha256"


def add_sum(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content with the sum over all that it holds; a sum that it has already is replaced."""
    rest = {name: value for name, value in content.items() if name != SUM}
    return {**rest, SUM: hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def is_summed(content: object) -> bool:
    """Whether this is the content of a JSON file with its own sum, and unchanged."""
    return isinstance(content, dict) and SUM in content and content[SUM] == add_sum(content)[SUM]
