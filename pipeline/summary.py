"""What the commands print when they are done: what was read, learned and written, and what to do next. For people."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from tokenmill.models.alphabets import bytes_of_tokens
from tokenmill.models.kinds import kind_of
from tokenmill.models.showing import show_token
from tokenmill.pipeline.accounting import describe_reasons, name_rejected_files
from tokenmill.pipeline.progress import count_things
from tokenmill.pipeline.recognition import describe_kinds
from tokenmill.report.numbers import Report
from tokenmill.report.wording import ratio
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.training.merge_loop import MergeRules
from tokenmill.training.options import describe_shortage
from tokenmill.unicode_text import show_printable

_SHOWN_RULES = 8
_SHOWN_TOKENS = 6
_SHOWN_FILES = 3
#: What `datasets` needs to read from a store.
_READERS = {"s3://": "s3fs", "gs://": "gcsfs"}


def describe_reading(manifest: Mapping[str, Any], output: str | None) -> str:
    """The lines on what was read, of a manifest of word counts or of a dataset; `output` is the folder that keeps the rejects."""
    totals = manifest["totals"]
    source = count_things(len(manifest["files"]), "file")
    kinds = describe_kinds(file["format"] for file in manifest["files"] if "format" in file)
    documents, size = count_things(totals["documents"], "document"), count_things(totals["bytes"], "byte")
    lines = [f"read     {documents}, {size} of text, from {source}{f' ({kinds})' if kinds else ''}"]
    if totals["empty"]:
        lines.append(f"         {count_things(totals['empty'], 'document')} empty")
    if totals["replaced"]:
        lines.append(f"         {count_things(totals['replaced'], 'document')} in which invalid UTF-8 became U+FFFD")
    if totals["rejected"]:
        where = "`tokenmill count` keeps them in files" if output is None else f"{output}/rejects says which and why"
        lines.append(f"         {count_things(totals['rejected'], 'record')} rejected: {where}")
        lines += [f"           {reason}" for reason in describe_reasons(manifest.get("reasons", []))]
    if bad := name_rejected_files(manifest["files"]):
        more = f", and {count_things(len(bad) - _SHOWN_FILES, 'more file')}" if len(bad) > _SHOWN_FILES else ""
        lines.append(f"         every record rejected of {', '.join(bad[:_SHOWN_FILES])}{more}")
    return show_lines(lines)


def describe_counts(manifest: Mapping[str, Any], output: str) -> str:
    """After `count`."""
    totals, pretokenizer = manifest["totals"], PreTokenizer.of(manifest["pretokenizer"])
    return (
        describe_reading(manifest, output)
        + f"counted  {totals['words']:,} words, {totals['distinct_words']:,} distinct (pre-tokenizer {pretokenizer})\n"
        + f"wrote    {output}\n"
        + f"next     tokenmill train {output} --model byte-bpe --vocab-size 32000 --output tokenizer.json"
    )


def describe_learning(tokenizer: Tokenizer, rules: MergeRules) -> str:
    """The lines on what was learned."""
    model = tokenizer.model
    if not kind_of(model.name).has_merges:
        return f"learned  {count_things(rules.alphabet, 'character')}: vocabulary {len(tokenizer):,}\n"
    old = len(model.merge_rules) - len(rules.pairs)
    show = functools.partial(show_token, model)
    shown = [f"{show(left)} + {show(right)}" for left, right in model.merge_rules[old : old + _SHOWN_RULES]]
    words = (token for token in model.vocab if token not in tokenizer.special_tokens and _is_word(tokenizer, token))
    longest = sorted(words, key=lambda token: (-len(token), token))[:_SHOWN_TOKENS]
    basis = f"on top of {old:,} of the tokenizer that is extended" if old else f"on an alphabet of {rules.alphabet:,}"
    lines = [
        f"learned  {len(rules.pairs):,} merge rules {basis}: vocabulary {len(tokenizer):,}",
        *([f"         first rules: {',  '.join(shown)}"] if shown else []),
        *([f"         long tokens: {',  '.join(map(show, longest))}"] if longest else []),
    ]
    if rules.exhausted:
        lines.append(f"         {describe_shortage(tokenizer.training, len(rules.pairs), len(tokenizer))}")
    return show_lines(lines)


def _is_word(tokenizer: Tokenizer, token: str) -> bool:
    """Letters alone, a space in front or not; no byte token, whose letter would be one byte."""
    if token in bytes_of_tokens():
        return False
    text = tokenizer.model.alphabet.spell(token).decode("utf-8", "replace")
    return text.removeprefix(" ").isalpha()


def describe_training(tokenizer: Tokenizer, rules: MergeRules, output: str) -> str:
    """After `train`."""
    return (
        describe_learning(tokenizer, rules)
        + f"wrote    {output}\n"
        + f"next     tokenmill tokenize --tokenizer {output} 'Hello, world!'\n"
        + f"         tokenmill encode INPUT... --tokenizer {output} --output tokens"
    )


def describe_writing(manifest: Mapping[str, Any], output: str) -> str:
    """The lines on the shards of a dataset."""
    totals, rows = manifest["totals"], manifest["tokenizer"]["embedding_rows"]
    size, shards = sum(shard["bytes"] for shard in manifest["shards"]), totals["shards"]
    text_bytes, tokens = (totals.get(f"kept_{name}", totals[name]) for name in ("bytes", "tokens"))
    density = f", {text_bytes / tokens:.2f} bytes of text a token" if tokens else ""
    return (
        f"encoded  {totals['encoded']:,} documents into {totals['tokens']:,} tokens{density}\n"
        f"{describe_lost_words(totals)}"
        f"{describe_cutting(manifest)}"
        f"{describe_packing(manifest)}"
        f"wrote    {count_things(shards, 'shard')}, {size:,} bytes, in {output}\n"
        f"         an Embedding layer for these ids has {rows:,} rows\n"
    )


def describe_lost_words(totals: Mapping[str, Any]) -> str:
    """The line on words for which an unk token stands, if there are any."""
    unknown, long = totals.get("unknown_words", 0), totals.get("long_words", 0)
    if not unknown + long:
        return ""
    return f"lost     {count_things(unknown + long, 'word')} became the unk token: {unknown:,} unknown, {long:,} too long\n"


def describe_cutting(manifest: Mapping[str, Any]) -> str:
    """The lines on rows that were cut or filled up, and on special tokens found inside texts: tokens are counted as rows were
    written.
    """
    totals, rows = manifest["totals"], manifest.get("rows", {})
    lines = ""
    if totals.get("cut_documents"):
        lost = f", {count_things(totals['cut_tokens'], 'token')} dropped" if "cut_tokens" in totals else ""
        made = f", {totals['rows']:,} rows in all" if totals.get("rows", totals["encoded"]) != totals["encoded"] else ""
        length = rows["truncation"]["max_length"]
        lines += f"cut      {count_things(totals['cut_documents'], 'document')} longer than {length:,} tokens{lost}{made}\n"
    if "padding" in rows:
        lines += f"filled   rows, to {rows['padding']['length']:,} tokens: the tokens above include padding\n"
    if hits := totals.get("special_tokens_found", 0):
        lines += f"found    {count_things(hits, 'special token')} inside texts\n"
    return lines


def describe_packing(manifest: Mapping[str, Any]) -> str:
    """The lines on blocks, for a dataset that has them: how many, how full, and what is not in them."""
    if "packing" not in manifest:
        return ""
    totals, packing = manifest["totals"], manifest["packing"]
    blocks = f"{count_things(totals['blocks'], 'block')} of {packing['block']:,} tokens ({packing['pack']})"
    ends = "documents end by the template" if packing.get("bounded") else f"{totals['eos']:,} EOS"
    lines = f"packed   {blocks}, {totals['density']:.2%} full: {ends}, {totals['padding']:,} padding\n"
    if empty := totals.get("empty_documents"):
        lines += f"         {count_things(empty, 'document')} without a token: in no block\n"
    if totals["dropped_tokens"] or totals["dropped_documents"]:
        documents = count_things(totals["dropped_documents"], "document")
        lines += f"         {totals['dropped_tokens']:,} tokens at the ends of shards dropped, with them {documents} as a whole\n"
    return lines


def describe_dataset(manifest: Mapping[str, Any], output: str) -> str:
    """After `encode`."""
    return describe_reading(manifest, output) + describe_writing(manifest, output) + describe_use(output)


def describe_report(report: Report, output: str) -> str:
    """The lines on a report of one tokenizer."""
    numbers, use = report.tokenizers[0].numbers, report.tokenizers[0].vocabulary
    per_word, per_token = ratio(numbers.tokens_per_word), ratio(numbers.bytes_per_token)
    return (
        f"report   {count_things(numbers.documents, 'document')}: {per_token} bytes a token, {per_word} tokens a word; "
        f"{use.used:,} tokens used, {use.unused:,} never\n"
        f"         {output}\n"
    )


def describe_use(output: str) -> str:
    """How to go on with a dataset."""
    library = next((library for scheme, library in _READERS.items() if output.startswith(scheme)), "")
    needs = f"   (needs: pip install {library})" if library else ""
    load = f'datasets.load_dataset("parquet", data_files="{output}/part-*.parquet")'
    return f"next     {load}{needs}\n         tokenmill decode {output}"


def describe_sample(sample: tuple[str, list[int], str] | None) -> str:
    """A document's id, its first token ids and what they decode to."""
    if sample is None:
        return ""
    doc_id, ids, text = sample
    return show_lines([f"sample   {doc_id}: {' '.join(map(str, ids))} ...", f"         decodes to {text!r}"])


def show_lines(lines: list[str]) -> str:
    """Lines for a terminal; what does not print is escaped."""
    return "".join(show_printable(line) + "\n" for line in lines)
