"""Kernels as plain Python and kernels compiled give the same bytes. (Most of the suite runs with NUMBA_DISABLE_JIT=1 as well.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PROGRAM = """
import hashlib, json
import numpy as np
import pyarrow as pa
from numba import config
from tests.strategies import NAMED_PRETOKENIZERS
from tests.training import count_texts, train
from tokenmill.kernels import fingerprint

texts = ["low low lower lowest", "don't 你好 你好 😀", "", "a" * 100 + " " + "ab" * 40, "naïve\\xa0café  12\\r\\n"] * 2
found = []
for pretokenizer in NAMED_PRETOKENIZERS:
    for model in ("byte-bpe", "char-bpe", "wordpiece"):
        for ties in ("smallest", "first-seen"):
            options = {"merges": 25, "ties": ties, "special_tokens": ("<s>", "lo"), "unk_token": "<unk>"}
            tokenizer = train(texts, model=model, pretokenizer=pretokenizer, **options)
            found.append([tokenizer.sha256, tokenizer.encode_batch(texts).to_pylist()])
total = np.zeros(2, np.uint64)
data = np.frombuffer("".join(texts).encode(), np.uint8)
fingerprint.add_documents(total, data, np.array([9, data.size]), 3, data, np.array([50, data.size]))
found.append([int(half) for half in total])
print(bool(config.DISABLE_JIT), hashlib.sha256(json.dumps(found).encode()).hexdigest())
"""


def run_program(*, jit: bool) -> list[str]:
    switches = {"NUMBA_DISABLE_JIT": "0", "PYTHONHASHSEED": "1"} if jit else {"NUMBA_DISABLE_JIT": "1", "PYTHONHASHSEED": "2"}
    settings = {**os.environ, **switches, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", PROGRAM]
    return subprocess.run(command, cwd=ROOT, env=settings, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.jit
def test_compiled_and_plain_kernels_give_the_same_bytes() -> None:
    compiled, plain = run_program(jit=True), run_program(jit=False)
    assert (compiled[0], plain[0]) == ("False", "True")
    assert compiled[1] == plain[1]
