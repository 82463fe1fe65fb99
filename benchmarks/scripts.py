"""Pipelines as one writes them by hand or with other tools: files of documents in, files of token ids out.

python -m benchmarks.scripts gigatoken corpus/ tokens/ --tokenizer huggingface.json --format jsonl

gigatoken   gigatoken and pyarrow, a process for each core, each taking file after file; Parquet as tokenmill writes it
datasets    datasets.map with tokenizers
datatrove   its tokenization pipeline, which writes a format of its own
"""

from __future__ import annotations

import argparse
import functools
import multiprocessing
import os
from pathlib import Path
from typing import Any


def encode_with_gigatoken(source: Path, target: Path, tokenizer: Path, format: str, cores: int) -> None:
    """One Parquet file for each input file: `doc_id` and `input_ids`, zstd level 1, plain pages."""
    paths = sorted(source.glob(f"*.{format}"))
    with multiprocessing.get_context("spawn").Pool(cores, _load_gigatoken, (tokenizer,)) as pool:
        for _ in pool.imap_unordered(functools.partial(_encode_file, target=target, format=format), paths):
            pass


_loaded: list[Any] = []


def _load_gigatoken(path: Path) -> None:
    import gigatoken
    import pyarrow as pa

    pa.set_cpu_count(1)  # the cores have a process each already
    _loaded.append(gigatoken.Tokenizer(str(path)))


def _encode_file(path: Path, target: Path, format: str) -> None:
    import awkward
    import pyarrow as pa
    import pyarrow.json
    import pyarrow.parquet

    if format == "jsonl":
        table = pyarrow.json.read_json(path, pyarrow.json.ReadOptions(block_size=16 << 20))
    else:
        table = pyarrow.parquet.read_table(path, columns=["id", "text"])
    texts = awkward.from_arrow(table["text"].cast(pa.large_string()).combine_chunks())
    encoded = _loaded[0].encode_batch(texts, parallel=False).layout
    ids = pa.array(encoded.content.data.view("int32"))
    lists = pa.LargeListArray.from_arrays(pa.array(encoded.offsets.data), ids)
    rows = pa.table({"doc_id": table["id"], "input_ids": lists})
    options = {"compression": "zstd", "compression_level": 1, "use_dictionary": False}
    pyarrow.parquet.write_table(rows, target / f"{path.stem}.parquet", **options)


def encode_with_datasets(source: Path, target: Path, tokenizer: Path, format: str, cores: int) -> None:
    """`datasets.map` in batches, a process for each core, then Parquet."""
    import datasets
    from tokenizers import Tokenizer

    loaded = Tokenizer.from_file(str(tokenizer))

    def encode(batch: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        return {"input_ids": [encoding.ids for encoding in loaded.encode_batch_fast(batch["text"], add_special_tokens=False)]}

    kind = "json" if format == "jsonl" else format
    files = sorted(str(path) for path in source.glob(f"*.{format}"))
    rows = datasets.load_dataset(kind, data_files=files, split="train", cache_dir=str(target / "cache"))
    encoded = rows.map(encode, batched=True, remove_columns=["text"], num_proc=cores)
    encoded.to_parquet(target / "tokens.parquet")


def encode_with_datatrove(source: Path, target: Path, tokenizer: Path, format: str, cores: int) -> None:
    """datatrove's DocumentTokenizer, a task for each core."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader, ParquetReader
    from datatrove.pipeline.tokens import DocumentTokenizer

    reader = (JsonlReader if format == "jsonl" else ParquetReader)(str(source), glob_pattern=f"*.{format}")
    writer = DocumentTokenizer(str(target), tokenizer_name_or_path=str(tokenizer), shuffle_documents=False, eos_token=None)
    LocalPipelineExecutor([reader, writer], tasks=cores, workers=cores, logging_dir=str(target / "logs")).run()


SCRIPTS = {"gigatoken": encode_with_gigatoken, "datasets": encode_with_datasets, "datatrove": encode_with_datatrove}


def main() -> None:
    """Run the script that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", choices=SCRIPTS)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--format", choices=("jsonl", "parquet"), default="jsonl")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()
    arguments.target.mkdir(parents=True, exist_ok=True)
    SCRIPTS[arguments.script](arguments.source, arguments.target, arguments.tokenizer, arguments.format, arguments.cores)


if __name__ == "__main__":
    main()
