"""Packing: rows worked out by hand, and kernels against the plain definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.training import few_cases
from tokenmill.dataset.packing import Packing, cut_documents, pack_documents, permute, place_best_fit
from tokenmill.errors import UsageError
from tokenmill.reference import packing as reference_packing

EOS, PAD = ("<eos>", 9), ("<pad>", 8)
#: (document, block, offset, start, size) of each part.
Row = tuple[int, int, int, int, int]


def pack_lengths(lengths: list[int], **packing: object) -> tuple[list[Row], int]:
    parts, blocks = pack_documents(np.array(lengths, np.int64), Packing(**packing))  # type: ignore[arg-type]
    columns = (parts.documents, parts.blocks, parts.offsets, parts.starts, parts.sizes)
    return list(zip(*(column.tolist() for column in columns), strict=True)), blocks


def test_documents_of_3_5_and_9_joined() -> None:
    """aaaEbbbb bEcccccc cccE...."""
    rows, blocks = pack_lengths([3, 5, 9], block=8, mode="concat", eos=EOS, pad=PAD)
    assert rows == [(0, 0, 0, 0, 4), (1, 0, 4, 0, 4), (1, 1, 0, 4, 2), (2, 1, 2, 0, 6), (2, 2, 0, 6, 4)]
    assert blocks == 3


def test_documents_of_3_5_and_9_best_fit() -> None:
    """aaabbbbb cccccccc c......."""
    rows, blocks = pack_lengths([3, 5, 9], block=8, mode="best-fit", pad=PAD)
    assert rows == [(0, 0, 0, 0, 3), (1, 0, 3, 0, 5), (2, 1, 0, 0, 8), (2, 2, 0, 8, 1)]
    assert blocks == 3


def test_documents_of_3_5_and_9_each_with_blocks_of_its_own() -> None:
    rows, blocks = pack_lengths([3, 5, 9], block=8, mode="none", pad=PAD)
    assert rows == [(0, 0, 0, 0, 3), (1, 1, 0, 0, 5), (2, 2, 0, 0, 8), (2, 3, 0, 8, 1)]
    assert blocks == 4


def test_a_document_without_a_token_is_in_no_block() -> None:
    assert pack_lengths([0, 0], block=8, mode="concat", eos=EOS, pad=PAD) == ([(0, 0, 0, 0, 1), (1, 0, 1, 0, 1)], 1)
    assert pack_lengths([0, 2], block=2, mode="best-fit", pad=PAD) == ([(1, 0, 0, 0, 2)], 1)
    assert pack_lengths([0], block=8, mode="best-fit", pad=PAD) == ([], 0)
    assert pack_lengths([0, 0, 3, 0], block=8, mode="none", pad=PAD) == ([(2, 0, 0, 0, 3)], 1)
    assert pack_lengths([0, 3, 0, 1], block=8, bounded=True, pad=PAD) == ([(1, 0, 0, 0, 3), (3, 0, 3, 0, 1)], 1)
    assert pack_lengths([], block=8, mode="best-fit", pad=PAD) == ([], 0)


def test_an_eos_can_stand_first_in_the_next_block() -> None:
    assert pack_lengths([8, 1], block=8, eos=EOS, pad=PAD)[0] == [(0, 0, 0, 0, 8), (0, 1, 0, 8, 1), (1, 1, 1, 0, 2)]


@pytest.mark.parametrize("mode", ["concat", "best-fit", "none"])
@few_cases(400, 60)
@given(lengths=st.lists(st.integers(0, 20), max_size=30), block=st.sampled_from([1, 2, 3, 8, 63, 64, 130]), ends=st.booleans())
def test_parts_are_those_of_the_definition(mode: str, lengths: list[int], block: int, ends: bool) -> None:
    eos = EOS if ends or mode == "concat" else None
    starts = np.cumsum([0, *lengths]).tolist()
    documents = [list(range(start, start + length)) for start, length in zip(starts, lengths, strict=False)]
    expected = reference_packing.pack(documents, block, mode, None if eos is None else -1)
    rows, blocks = pack_lengths(lengths, block=block, mode=mode, eos=eos, pad=PAD)
    assert blocks == len(expected)
    found: list[list[tuple[int, int, int]]] = [[] for _ in range(blocks)]
    offset = {number: 0 for number in range(blocks)}
    for document, place, begin, start, size in rows:
        assert begin == offset[place]
        offset[place] += size
        found[place].append((document, start, size))
    assert found == [[(document, start, len(tokens)) for document, start, tokens in parts] for parts in expected]


@few_cases(200, 30)
@given(sizes=st.lists(st.integers(0, 200), max_size=60))
def test_best_fit_overfills_nothing_and_leaves_no_two_blocks_half_empty(sizes: list[int]) -> None:
    places, blocks = place_best_fit(np.array(sizes, np.int64), 200)
    filled = np.bincount(places, np.array(sizes, np.int64), minlength=blocks)
    assert len(filled) == blocks and (filled <= 200).all()
    assert sum(fill <= 100 for fill in filled) <= 1 or not any(sizes)


def test_cutting_keeps_every_token_once() -> None:
    parts = cut_documents(np.array([3, 10], np.int64), 8, joined=True)
    assert list(zip(parts.documents.tolist(), parts.blocks.tolist(), parts.sizes.tolist(), strict=True)) == [
        (0, 0, 3),
        (1, 0, 5),
        (1, 1, 5),
    ]


def test_permutation_is_the_same_everywhere() -> None:
    assert permute(4, 1).tolist() == [2, 0, 1, 3]
    assert permute(10, 7, 3).tolist()[:6] == [7, 1, 9, 6, 0, 4]
    assert sorted(permute(1000, 5).tolist()) == list(range(1000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": 0}, "--block 0: give a number of tokens from 1 to 1,048,576"),
        ({"block": 8, "mode": "worst-fit"}, "--pack 'worst-fit': choose from concat, best-fit, none"),
        ({"block": 8, "tail": "bite"}, "--tail 'bite': choose from pad, keep, drop"),
        ({"block": 8, "mode": "concat"}, "--pack concat joins documents with a token: give --eos TOKEN"),
        ({"block": 8, "mode": "best-fit"}, "blocks that are not full are padded: give --pad TOKEN"),
        ({"block": 8, "mode": "best-fit", "pad": PAD, "tail": "drop"}, "--tail drop is for --pack concat"),
        ({"block": 8, "eos": EOS}, "blocks that are not full are padded"),
    ],
)
def test_options_that_do_not_go_together(options: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Packing(**options)
    assert message in str(caught.value)
