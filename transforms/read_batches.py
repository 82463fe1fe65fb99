"""What a reader hands on: a batch of documents of one file, and the records that could not become documents.

Every record of a range is in one or the other, exactly once: this is what the accounting of the manifest rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tokenmill.arrow import read_only, text_buffers
from tokenmill.errors import InvalidTextError
from tokenmill.kernels.lines import PADDING
from tokenmill.kernels.utf8 import is_utf8
from tokenmill.schemas import DOCUMENTS, SECOND_TEXT
from tokenmill.transforms.document_limit import HEAD_BYTES, find_long, reject_long
from tokenmill.transforms.splits import ReadOptions, Reject, SourceFile

Int64s = npt.NDArray[np.int64]

#: The first two bits of a byte that goes on with a character.
_FOLLOWER = 0b10


@dataclass(frozen=True, eq=False)
class DocumentBatch:
    """Documents of one file, in the file's order.

    `file` is the file's name; `documents` has the schema `DOCUMENTS` (with the column `SECOND_TEXT` where pairs are read), no
    nulls, text that is valid UTF-8. Its arrays may be slices: mind `array.offset`. `rows: int64[d]` are the documents' row
    numbers in the file; `first_row` is that of the first record the batch accounts for. `rejects` are in the order of their rows.
    `replaced` are the rows of documents in which invalid text was replaced by U+FFFD.
    """

    file: str
    documents: pa.RecordBatch
    rows: Int64s
    rejects: tuple[Reject, ...]
    first_row: int
    replaced: tuple[int, ...] = ()

    def between(self, first: int, last: int) -> DocumentBatch:
        """What the batch holds of the rows `first` .. `last - 1`."""
        start, stop = np.searchsorted(self.rows, [first, last]).tolist()
        return DocumentBatch(
            self.file,
            self.documents.slice(start, stop - start),
            self.rows[start:stop],
            tuple(reject for reject in self.rejects if first <= reject.row < last),
            max(self.first_row, first),
            tuple(row for row in self.replaced if first <= row < last),
        )

    @property
    def pair(self) -> pa.LargeStringArray | None:
        """The second texts of pairs, None where documents are single texts."""
        return self.documents[SECOND_TEXT.name] if self.documents.num_columns > len(DOCUMENTS) else None

    @property
    def texts(self) -> tuple[pa.LargeStringArray, ...]:
        """The texts, or the first and the second texts of pairs."""
        return self.documents["text"], *(() if self.pair is None else (self.pair,))

    @property
    def all_texts(self) -> pa.LargeStringArray:
        """Every text once, the second one of a pair behind its first."""
        text, pair = self.documents["text"], self.pair
        if pair is None:
            return text
        places = np.arange(2 * len(text)).reshape(2, -1).T.ravel()
        return pa.concat_arrays([text, pair]).take(pa.array(places))


@dataclass(frozen=True, eq=False)
class Records:
    """Candidates for documents: `ids: string[n]`, `text: large_string[n]` not yet known to be UTF-8, their `rows: int64[n]`.

    `offsets: int64[n]` are the byte positions of lines in the (decompressed) file; None for formats that have none. `pair`:
    large_string[n], the second texts where pairs are read.
    """

    ids: pa.StringArray
    text: pa.LargeStringArray
    rows: Int64s
    offsets: Int64s | None = None
    pair: pa.LargeStringArray | None = None

    @property
    def texts(self) -> tuple[pa.LargeStringArray, ...]:
        """The texts, or the first and the second texts of pairs."""
        return self.text, *(() if self.pair is None else (self.pair,))

    def filter(self, kept: npt.NDArray[np.bool_]) -> Records:
        """The records for which bool[n] is true."""
        mask = pa.array(kept)
        offsets = None if self.offsets is None else self.offsets[kept]
        pair = None if self.pair is None else self.pair.filter(mask)
        return Records(self.ids.filter(mask), self.text.filter(mask), self.rows[kept], offsets, pair)


def name_rows(name: str, rows: Int64s) -> pa.StringArray:
    """Document ids of records that have no id of their own.

    >>> name_rows("a.txt", np.array([0, 1])).to_pylist()
    ['a.txt:0', 'a.txt:1']
    """
    return pc.binary_join_element_wise(name, pa.array(rows).cast(pa.string()), ":")


def make_documents(ids: pa.StringArray, text: pa.LargeStringArray, pair: pa.LargeStringArray | None = None) -> pa.RecordBatch:
    """Arrays of one length as a batch of the schema `DOCUMENTS`, with `SECOND_TEXT` for pairs."""
    if pair is None:
        return pa.RecordBatch.from_arrays([ids, text], schema=DOCUMENTS)
    return pa.RecordBatch.from_arrays([ids, text, pair], schema=DOCUMENTS.append(SECOND_TEXT))


def finish_batch(
    records: Records, file: SourceFile, options: ReadOptions, *, first_row: int, rejects: tuple[Reject, ...] = ()
) -> DocumentBatch:
    """Check the text of all records at once; where that fails, apply `options.invalid_utf8` record by record.

    Documents that are too long become rejects. `rejects` are those found before. Raises `InvalidTextError` under the policy
    `error`.
    """
    sizes = find_long(records.texts, options.max_document_bytes)
    if sizes is not None:
        records, rejects = _drop_long(records, sizes, file, options.max_document_bytes, rejects)
    if is_valid_utf8(records.text) and (records.pair is None or is_valid_utf8(records.pair)):
        documents = make_documents(records.ids, records.text, records.pair)
        return DocumentBatch(file.name, documents, records.rows, rejects, first_row)
    return _screen_text(records, file, options, first_row=first_row, rejects=rejects)


def _drop_long(
    records: Records, sizes: Int64s, file: SourceFile, most: int, rejects: tuple[Reject, ...]
) -> tuple[Records, tuple[Reject, ...]]:
    found = list(rejects)
    for place in np.flatnonzero(sizes > most).tolist():
        offset = -1 if records.offsets is None else int(records.offsets[place])
        text, _ = text_buffers(records.text.slice(place, 1))
        found.append(
            reject_long(file.name, int(records.rows[place]), offset, int(sizes[place]), text[:HEAD_BYTES].tobytes(), most)
        )
    return records.filter(sizes <= most), sort_rejects(found)


def is_valid_utf8(texts: pa.LargeStringArray) -> bool:
    """Whether all strings of an array are UTF-8 (no surrogates, no overlong forms): Arrow itself takes this on trust.

    The kernel looks at all of them as one string, five times as fast as Arrow at each; then none may begin within a character.
    """
    text, ends = text_buffers(texts)
    starts = ends[ends < text.size]
    if np.any(text[starts] >> 6 == _FOLLOWER):
        return False
    # The kernel reads up to `PADDING` bytes too many: so the last ones are looked at in a copy, from where a character begins.
    cut = max(0, text.size - PADDING)
    while cut and text[cut] >> 6 == _FOLLOWER and text.size - cut < 2 * PADDING:
        cut -= 1
    rest = np.zeros(text.size - cut + PADDING, np.uint8)
    rest[: text.size - cut] = text[cut:]
    return bool(is_utf8(text, 0, cut) and is_utf8(read_only(rest), 0, text.size - cut))


def _screen_text(
    records: Records, file: SourceFile, options: ReadOptions, *, first_row: int, rejects: tuple[Reject, ...]
) -> DocumentBatch:
    texts: list[list[bytes | str]] = []
    kept: list[int] = []
    found = list(rejects)
    replaced: list[int] = []
    columns = [records.text] if records.pair is None else [records.text, records.pair]
    for position, raws in enumerate(zip(*(column.cast(pa.large_binary()).to_pylist() for column in columns), strict=True)):
        errors = [_find_damage(raw) for raw in raws]
        damaged, error = next(((number, error) for number, error in enumerate(errors) if error is not None), (0, None))
        if error is not None and options.invalid_utf8 != "replace":
            name = "text" if damaged == 0 else "second text"
            found.append(
                _reject_damage(records, position, raws[damaged], error, name=name, file=file, policy=options.invalid_utf8)
            )
            continue
        kept.append(position)
        texts.append([raw if fault is None else raw.decode("utf-8", "replace") for raw, fault in zip(raws, errors, strict=True)])
        if error is not None:
            replaced.append(int(records.rows[position]))
    arrays = [pa.array([row[number] for row in texts], pa.large_string()) for number in range(len(columns))]
    documents = make_documents(records.ids.take(pa.array(kept, pa.int64())), *arrays)
    return DocumentBatch(file.name, documents, records.rows[kept], sort_rejects(found), first_row, tuple(replaced))


def _find_damage(raw: bytes) -> UnicodeDecodeError | None:
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return error
    return None


def _reject_damage(
    records: Records, position: int, raw: bytes, error: UnicodeDecodeError, *, name: str, file: SourceFile, policy: str
) -> Reject:
    row = int(records.rows[position])
    offset = -1 if records.offsets is None else int(records.offsets[position])
    if policy == "error":
        place = f"byte {error.start} of the {name}" if offset < 0 else f"byte {offset + error.start} of the file"
        raise invalid_text(file, row, f"{place} is 0x{raw[error.start]:02x}, not valid UTF-8")
    return Reject(file.name, row, offset, f"invalid UTF-8: byte {error.start} of the {name} is 0x{raw[error.start]:02x}", raw)


def invalid_text(file: SourceFile, row: int, what: str) -> InvalidTextError:
    """The error of the policy `error`, for the record at `row`."""
    return InvalidTextError(f"{file.path}: row {row}: {what}; `--invalid-utf8 replace` or `--invalid-utf8 reject` reads on")


def reject_batch(reject: Reject) -> DocumentBatch:
    """A batch of one reject, for a reader that finds it between its batches."""
    nothing = make_documents(pa.array([], pa.string()), pa.array([], pa.large_string()))
    return DocumentBatch(reject.file, nothing, np.empty(0, np.int64), (reject,), reject.row)


def sort_rejects(rejects: list[Reject]) -> tuple[Reject, ...]:
    """Rejects in the order of their records, whatever check found them first."""
    return tuple(sorted(rejects, key=lambda reject: reject.row))
