"""Every store of the kernels, and why it is in range.

A store is `array[...] = ...`, or a call of an intrinsic that writes. A function that stores to an array either looks at its size
(`array.size`, `array.shape`, `room_of(array, ...)`) or stands here with the reason: where the number that the position is below
comes from. What each array is, and its size, stands in the docstring of the kernel that Python calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

KERNELS = Path(__file__).resolve().parents[1] / "tokenmill" / "kernels"
#: They define what writes, and no kernels.
WITHOUT_KERNELS = {"intrinsics", "vectors", "compiling", "keeping"}
#: What writes to which of its arguments.
WRITERS = {"store_item": 0, "store_u64": 0, "shift_64_bytes": 2, "copy_64_bytes": 2, "unpack_six": 2}

#: Stores by reason, each as `module.function: array`.
REASONS: dict[str, tuple[str, ...]] = {
    "an id for each byte of the word, and one for its ending: `encode_block` checks `ids` for all words of its block at once; "
    "`find_unmerged` makes room for one word, the callers of `encode_each` for all": (
        "base_symbols.look_up_symbols: symbols",
        "base_symbols.look_up_bytes: symbols",
        "base_symbols.look_up_characters: symbols",
        "encode.write_alive: ids",
        "wordpiece.match_word: ids",
        "wordpiece.match_rest: ids",
    ),
    "as many ids as the word had when it was first encoded, rounded up to 16: IDS_IN_VAIN, which `encode_block` checks too": (
        "encode.encode_rare_word: ids",
        "encode.write_kept: ids",
        "encode.encode_words: ids",
    ),
    "below SHORT_SYMBOLS, which `allocate_scratch` has room for twice": (
        "encode.stage_bytes: symbols",
        "encode.stage_bytes: ranks",
        "encode.stage_symbols: symbols",
        "encode.stage_symbols: ranks",
        "encode.clear_ranks: ranks",
        "bpe_merge.allocate_scratch: symbols",
        "bpe_merge.merge_short: symbols",
        "bpe_merge.merge_short: ranks",
    ),
    "an array of fixed size, and a constant": (
        "encode.remember_word: cache.ids_used",
        "character_map.note_marks: state",
        "character_map.map_characters: state",
        "forms.apply_form: state",
        "fingerprint.add_documents: total",
        "json_values._make_table: table",
        "merge.merge_best_pairs: counters",
        "merge.refill_heap: counters",
        "merge.offer_pairs: counters",
        "merge.drop_top: counters",
        "merge.count_new_pair: counters",
        "merge.open_slices: counters",
        "score_merge.merge_best_scored: counters",
        "scan_digits.end_of_segment: cursor",
        "scan_dropping.scan: cursor",
        "scan_tiling.scan: cursor",
        "token_search.find_tokens: state",
        "tables.add_word: table.fill",
        "tables.empty_table: table.fill",
    ),
    "an entry that a search has found: hashes are masked by the size of the table": (
        "encode.remember_word: table.entries",
        "encode.write_inline_ids: entries",
        "count.count_words: numbers",
        "count.add_new_word: table.entries",
        "count.add_up_words: entries",
        "ranks.add_tokens: table.entries",
        "tables.put_entry: entries",
        "tables.take_entry: entries",
        "tables.add_word: entries",
        "wordpiece.grow_tree: edges.slots",
    ),
    "all of the array": ("tables.empty_table: table.entries", "rules.build_table: buckets"),
    "made in the same kernel, for as many as are written": (
        "bpe_merge.merge_long: spans",
        "bpe_merge.merge_long: symbols",
        "bpe_merge.close_gaps: symbols",
        "compose.sort_run: places",
        "count.measure_partitions: sizes",
        "count.extract_words: rows",
        "count.extract_words: places",
        "pack.place_best_fit: below",
        "pack.place_best_fit: tops",
        "pack.place_best_fit: bits",
        "rules.rank_byte_pairs: ranks",
        "tables.take_entry: target",
        "thrift_fields.scan_struct: stack",
        "thrift_fields._next_head: stack",
        "thrift_fields._open: stack",
    ),
    "a heap of two entries a symbol: each symbol is offered with its neighbour once, and each merge, of which there are fewer "
    "than symbols, takes one out and offers two; a pair whose fingerprint lied is taken out before it is offered again": (
        "bpe_merge.offer_rank: heap",
        "bpe_merge.drop_first: heap",
    ),
    "`room_of(out, origins)`, which the caller has compared with BLOCK, or with the bytes that it writes": (
        "character_map.map_block: out",
        "character_map.map_short: out",
        "character_map.map_character: out",
        "normalize.note_origins: origins",
        "normalize.note_copied: origins",
        "normalize.copy_character: out",
    ),
    "`collect_stretch` has compared with the rows of `stretch` and `spare`, which the others only go through or shorten": (
        "compose.add_point: stretch",
        "compose.copy_row: target",
        "compose.compose_stretch: stretch",
    ),
    "four bytes a code point, which `rewrite_stretch` has compared with `room_of(out, origins)`; an escape of JSON is longer "
    "than what it stands for": ("utf8.write_code_point: target",),
    "what is unescaped is no longer than what was read, and `sink` has 64 bytes more than the block": (
        "json_values.copy_string: sink",
        "json_lines.copy_id: ids",
    ),
    "`has_room` has looked, or, where words are added up, `measure_long_words` has measured": (
        "tables.keep_word: arena",
        "count.add_up_words: sums.counts",
        "count.add_up_words: sums.first_seen",
        "count.begin_sum: sums.offsets",
        "count.begin_sum: sums.counts",
        "tables.copy_bytes: target",
        "tables.copy_word: target",
    ),
    "as many words as `measure_partitions` has listed of the same table": (
        "count.extract_words: word_ends",
        "count.extract_words: counts",
        "count.extract_words: first_seen",
    ),
    "parts as `cut_documents` cuts them: none reaches beyond its block, and the arrays have a row for each block": (
        "pack.fill_blocks: blocks",
        "pack.number_parts: segments",
        "pack.number_parts: positions",
    ),
    "STAGED keys at most": ("tables.stage_keys: keys",),
    "two runs a row and one behind the last: its caller makes room for so many of MOST_RUN_BYTES": ("levels.put_run: target",),
    "a scanner calls it with room for BLOCK_BYTES words, and for two blocks of bytes, behind what it has written": (
        "scan_blocks.write_word_ends: word_ends",
        "scan_blocks.write_kept_ends: word_ends",
        "scan_blocks.write_spaces: target",
        "scan_blocks.copy_kept: target",
    ),
    "`learn_merges` makes room for all symbols that there can be, and calls for no more rules than `merges` has rows": (
        "merge.merge_best_pairs: lengths",
        "merge.merge_best_pairs: merges",
        "merge.count_new_pair: mates",
        "merge.clear_mates: mates",
        "score_merge.merge_best_scored: scoring.symbol_counts",
        "score_merge.merge_best_scored: state.lengths",
        "score_merge.merge_best_scored: state.merges",
        "score_merge.link_pairs: scoring.heads",
        "score_merge.score_pairs_of: scoring.heads",
    ),
    "a pair that there is: `has_room` has looked before the merge; `heap`, `links`, `scores` and `winners` grow with `pairs`": (
        "merge.merge_best_pairs: pairs",
        "merge.tie_of: pairs",
        "merge.replace_pair: pairs",
        "merge.count_new_pair: pairs",
        "merge.open_slices: pairs",
        "merge.place_new_pairs: pairs",
        "merge_heap.push_entry: heap",
        "merge_heap.replace_top: heap",
        "merge_index.place_first_pairs: pairs",
        "score_merge.merge_best_scored: pairs",
        "score_merge.link_pairs: scoring.links",
        "score_merge.score_pairs_of: scoring.links",
        "score_merge.score_pair: scores",
        "score_merge.score_pair: winners",
        "score_merge.fill_winners: scoring.scores",
        "score_merge.fill_winners: winners",
    ),
    "cells of words, of which a barrier stands at both ends; three positions a cell and two events a place of a pair "
    "(`merge_state.py`) are what there can be": (
        "merge.replace_pair: cells",
        "merge.replace_pair: events",
        "merge.place_new_pairs: positions",
        "merge_index.lay_out_words: cells",
        "merge_index.place_first_pairs: positions",
    ),
    "`split_tokens` makes room for the longest token": ("ranks.split_token: bounds", "ranks.split_token: found"),
    "`build_rows` makes arrays for all rows; the last of `row_ends` is their size, and no row is longer than it is padded to": (
        "rows.write_rows: rows.ids",
        "rows.write_rows: rows.types",
        "rows.write_rows: rows.special",
        "rows.write_rows: rows.attention",
        "rows.write_rows: rows.sources",
        "rows.write_padding: rows.ids",
        "rows.write_padding: rows.types",
        "rows.write_padding: rows.special",
        "rows.write_padding: rows.attention",
        "rows.write_padding: rows.sources",
    ),
    "a node for each byte of the tokens, and the root: the caller makes room for so many": (
        "wordpiece.grow_tree: origins",
        "wordpiece.grow_tree: depths",
        "wordpiece.link_fallbacks: fallbacks",
        "wordpiece.link_fallbacks: longest",
    ),
    "`match_word` takes scratch of the size of the word where `found` is shorter": ("wordpiece.match_rest: found",),
}


def list_stores() -> dict[str, bool]:
    """All stores, as `module.function: array`, with whether the function looks at the array's size."""
    stores: dict[str, bool] = {}
    for path in sorted(KERNELS.glob("*.py")):
        if path.stem not in WITHOUT_KERNELS:
            stores |= find_stores(ast.parse(path.read_text("utf-8")), path.stem)
    return stores


def find_stores(tree: ast.AST, module: str) -> dict[str, bool]:
    """The stores of a module."""
    return {
        f"{module}.{function.name}: {array}": array in checked
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for checked in [set(_checked_arrays(function))]
        for array in _stored_arrays(function)
    }


def _own_nodes(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """What stands in a function, but not in functions within it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            waiting += ast.iter_child_nodes(node)


def _stored_arrays(function: ast.FunctionDef) -> Iterator[str]:
    for node in _own_nodes(function):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield ast.unparse(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WRITERS:
            yield ast.unparse(node.args[WRITERS[node.func.id]])


def _checked_arrays(function: ast.FunctionDef) -> Iterator[str]:
    """Arrays whose size bounds a loop, is compared, or is asked of `room_of`."""
    for node in _own_nodes(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "room_of":
            yield from map(ast.unparse, node.args)
        bounds = isinstance(node, ast.Compare) or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("range", "min")
        )
        if bounds:
            for part in ast.walk(node):
                if isinstance(part, ast.Attribute) and part.attr in ("size", "shape"):
                    yield ast.unparse(part.value)
