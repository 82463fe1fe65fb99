"""The sums that a report is made from, as one table. The tables of the parts of a corpus are added up.

tokenizer  sum         group  key   value
-1         words       en       0    1200     the texts themselves: words in the group `en`
 0         tokens      en       0    1633     the first tokenizer's tokens in that group
 0         token               17      95     its token of id 17 was used 95 times
 0         length              12       3     3 documents have 12 tokens
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.schemas import REPORT_SUMS

#: The sums of a group: of its texts (tokenizer -1), and of the texts that a tokenizer could encode.
OF_TEXTS = ("documents", "empty", "bytes", "characters", "words")
OF_TOKENIZER = ("documents", "bytes", "characters", "words", "tokens", "unknown", "checked", "changed")
#: The sums over all groups, by token id and by number of tokens.
TOKEN, LENGTH = "token", "length"

TEXTS = -1
_KEYS = ["tokenizer", "sum", "group", "key"]


def table_of_keys(tokenizer: int, name: str, keys: np.ndarray, values: np.ndarray) -> pa.Table:
    """Make rows that differ only in keys and values: int64[n] each."""
    same = {"tokenizer": tokenizer, "sum": name, "group": ""}
    columns = [pa.repeat(pa.scalar(value, REPORT_SUMS.field(key).type), keys.size) for key, value in same.items()]
    return pa.Table.from_arrays([*columns, pa.array(keys, pa.int64()), pa.array(values, pa.int64())], schema=REPORT_SUMS)


def table_of_groups(tokenizer: int, names: Sequence[str], groups: Mapping[str, np.ndarray]) -> pa.Table:
    """Make rows for the sums of each group (int64, in the order of `names`)."""
    rows = [
        {"tokenizer": tokenizer, "sum": name, "group": group, "key": 0, "value": int(value)}
        for group, values in groups.items()
        for name, value in zip(names, values, strict=True)
    ]
    return pa.Table.from_pylist(rows, schema=REPORT_SUMS)


def add_tables(tables: Iterable[pa.Table]) -> pa.Table:
    """Add up tables. Rows are sorted by all columns but the value, so the result does not depend on the parts of the corpus."""
    together = pa.concat_tables([REPORT_SUMS.empty_table(), *tables])
    summed = together.group_by(_KEYS, use_threads=False).aggregate([("value", "sum")]).rename_columns([*_KEYS, "value"])
    return summed.sort_by([(name, "ascending") for name in _KEYS]).combine_chunks()


def read_groups(table: pa.Table) -> dict[str, dict[tuple[int, str], int]]:
    """The sums of each group, by tokenizer and name."""
    groups: dict[str, dict[tuple[int, str], int]] = {}
    for row in table.filter(pc.invert(pc.is_in(table["sum"], pa.array([TOKEN, LENGTH])))).to_pylist():
        groups.setdefault(row["group"], {})[row["tokenizer"], row["sum"]] = row["value"]
    return groups


def read_keys(table: pa.Table, tokenizer: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The keys in ascending order, and their values (int64 each)."""
    wanted = pc.and_(pc.equal(table["tokenizer"], tokenizer), pc.equal(table["sum"], name))
    found = table.filter(wanted).sort_by("key")
    return found["key"].to_numpy(), found["value"].to_numpy()
