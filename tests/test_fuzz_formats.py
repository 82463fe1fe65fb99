"""Tokenizer files that nobody should write: each gives a tokenizer that works, or one line that says what is wrong.

TOKENMILL_FUZZ_INPUTS says how many inputs are tried (default: some), TOKENMILL_FUZZ_SEED where to begin.
"""

from __future__ import annotations

import base64
import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.by_hand import make_tokenizer
from tests.mutations import mutate_bytes, mutate_json
from tests.training import count_texts, train
from tests.wordpieces import tokenizer_of
from tokenmill.errors import TokenizerFileError, TokenmillError, UsageError
from tokenmill.explain.encoding import explain_text
from tokenmill.formats import recognition
from tokenmill.names import TOKENIZER_FORMATS
from tokenmill.tokenizer import Tokenizer

INPUTS = int(os.environ.get("TOKENMILL_FUZZ_INPUTS", "4000"))
SEED = int(os.environ.get("TOKENMILL_FUZZ_SEED", "1"))
#: No small file takes longer, whatever it holds.
MOST_SECONDS = 5.0
MOST_MESSAGE = 500
TEXTS = ["the the", "", "don't ab é 你好 😀\n  x", "\x00[UNK] </w> ##a <0x41>"]


def seed_files() -> dict[str, bytes]:
    """Small whole files of each format."""
    texts = ["low low lower the the ab aab é 你好"]
    bytes_model = make_tokenizer("", [("t", "h"), ("th", "e"), ("Ġ", "the")], model="byte-bpe")
    letters = make_tokenizer("abehtĠ", [("a", "b"), ("ab", "a")], unk="<unk>", pretokenizer="wordpunct")
    suffixed = train(
        count_texts(texts, "whitespace-punct"),
        model="char-bpe",
        pretokenizer="whitespace-punct",
        merges=6,
        unk_token="<unk>",
        end_of_word_suffix="</w>",
    )
    fallback = train(count_texts(texts, "gpt2"), model="char-bpe", pretokenizer="gpt2", merges=4, byte_fallback=True)
    wordpieces = tokenizer_of(["the", "##a", "ab", "##b", "a"], pretokenizer="bert", specials=("[PAD]",))
    plain = make_tokenizer("abeht", [("a", "b")], pretokenizer="wordpunct")
    found = {
        "byte-bpe": bytes_model.to_bytes(),
        "char-bpe": letters.to_bytes(),
        "suffixed": suffixed.to_bytes(),
        "fallback": fallback.to_bytes(),
        "wordpiece": wordpieces.to_bytes(),
        "two-key": plain.to_format("two-key")["tokenizer.json"],
        "huggingface": bytes_model.to_format("huggingface")["tokenizer.json"],
        "tiktoken": bytes_model.to_format("tiktoken")["ranks.tiktoken"],
    }
    document = json.loads(found["huggingface"])
    document["added_tokens"] = [{"id": 300, "content": "<s>", "special": True, "normalized": False}]
    document["post_processor"] = {"type": "Sequence", "processors": [document["decoder"]]}
    document["model"]["vocab"] = {"<s>": 300, **document["model"]["vocab"]}
    vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##a\nab\n##b\na\n"
    return {**found, "huggingface-added": json.dumps(document).encode(), "vocab-txt": vocabulary.encode()}


def check_works(tokenizer: Tokenizer) -> None:
    """A tokenizer that was taken encodes, decodes, explains and is saved, or says in one line why not."""
    allowed: list[Callable[[], Any]] = [
        *(lambda text=text: tokenizer.decode(tokenizer.encode(text)) for text in TEXTS),  # type: ignore[misc]
        lambda: tokenizer.encode_batch(TEXTS),
        lambda: tokenizer.decode([0, 1, 2**31 - 2, -1]),
        lambda: explain_text(tokenizer, TEXTS[2]),
        lambda: (
            recognition.loads(tokenizer.to_bytes()).to_bytes() == tokenizer.to_bytes() or pytest.fail("it changes when saved")
        ),
        *(lambda form=form: tokenizer.to_format(form) for form in TOKENIZER_FORMATS),  # type: ignore[misc]
    ]
    for use in allowed:
        try:
            use()
        except TokenmillError as error:
            check_message(error)


def check_message(error: TokenmillError) -> None:
    message = str(error)
    assert message and "\n" not in message and len(message) < MOST_MESSAGE, message
    message.encode("utf-8", "surrogateescape")


def try_file(load: Callable[[], Tokenizer], content: object) -> bool:
    """Whether a file was taken. Only errors of a malformed file may come out."""
    started = time.process_time()
    try:
        tokenizer = load()
    except (TokenizerFileError, UsageError) as error:
        check_message(error)
        return False
    finally:
        assert time.process_time() - started < MOST_SECONDS, content
    check_works(tokenizer)
    assert time.process_time() - started < MOST_SECONDS, content
    return True


@pytest.mark.jit
@pytest.mark.parametrize("name", seed_files())
def test_damaged_files_give_one_line(name: str) -> None:
    content, source, taken = seed_files()[name], random.Random(f"{SEED} {name}"), 0
    assert try_file(lambda: load(content, name), content)
    for number in range(INPUTS // 10):
        bytewise = name in ("tiktoken", "vocab-txt") or number % 4 == 0
        damaged = mutate_bytes(source, content) if bytewise else mutate_json(source, content)
        try:
            taken += try_file(lambda: load(damaged, name), damaged)  # noqa: B023 - called at once
        except BaseException:
            print(f"{name}, input {number}: {base64.b64encode(damaged).decode()}")
            raise
    assert taken < INPUTS // 10, "some are refused"


def load(content: bytes, name: str) -> Tokenizer:
    chosen: dict[str, Any] = {"pretokenizer": "gpt2", "special_tokens": {}} if name == "tiktoken" else {}
    try:
        return recognition.loads(content, **chosen)
    except UsageError:
        return recognition.loads(content)


@pytest.mark.jit
def test_damaged_folders_give_one_line() -> None:
    files = make_tokenizer("", [("t", "h"), ("th", "e")], model="byte-bpe").to_format("gpt2")
    source = random.Random(f"{SEED} folder")
    for number in range(INPUTS // 10):
        name = source.choice(sorted(files))
        mutate = mutate_bytes if name == "merges.txt" or number % 4 == 0 else mutate_json
        damaged = {**files, name: mutate(source, files[name])}
        if source.random() < 0.02:
            del damaged[source.choice(sorted(damaged))]
        try:
            try_file(lambda: recognition.loads_folder(damaged), damaged)  # noqa: B023 - called at once
        except BaseException:
            print(f"folder, input {number}: {damaged[name]!r}")
            raise


def test_the_path_stands_in_front(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b'{"vocab": {}}')
    with pytest.raises(TokenizerFileError, match=r"t\.json: the key 'merge_rules' is missing"):
        Tokenizer.from_file(path)
