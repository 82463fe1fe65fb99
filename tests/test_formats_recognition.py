"""GPT-2's two files, and files of all formats told apart by what they hold: on the disk, in folders, from the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import tokenizers
from click.testing import CliRunner, Result

from tests.corpora import make_texts
from tests.test_formats_huggingface import SMALL, ids_of_peer
from tests.test_formats_tiktoken import BYTES, rank_file
from tests.training import train
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.formats import gpt2_files, native, recognition
from tokenmill.names import TOKENIZER_FORMATS
from tokenmill.pipeline.cli import main as cli
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.tokenizer import Tokenizer
from tokenmill.tokenizer_files import MAX_FILE_BYTES

SPECIALS = ("<s>", "<|endoftext|>")


@pytest.fixture(scope="module")
def trained() -> Tokenizer:
    return train(make_texts(20), model="byte-bpe", pretokenizer="gpt2", merges=60, special_tokens=SPECIALS)


# --- GPT-2's files ----------------------------------------------------------------------------------------------------------


def test_the_files_of_gpt2_come_back(trained: Tokenizer) -> None:
    files = trained.to_format("gpt2")
    assert list(files) == ["vocab.json", "merges.txt", "special_tokens_map.json"]
    left, right = trained.merge_rules[0]
    assert files["merges.txt"].decode().splitlines()[:2] == ["#version: 0.2", f"{left} {right}"]
    loaded = recognition.loads_folder(files)
    assert loaded.to_format("gpt2") == files
    assert (loaded.vocab, loaded.merge_rules, loaded.special_tokens) == (trained.vocab, trained.merge_rules, SPECIALS)


def test_tokenizers_reads_the_same_from_the_files(trained: Tokenizer, tmp_path: Path) -> None:
    for name, content in trained.to_format("gpt2").items():
        (tmp_path / name).write_bytes(content)
    paths = str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt")
    peer = tokenizers.Tokenizer(tokenizers.models.BPE.from_file(*paths))
    peer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    texts = make_texts(40, seed=2)
    assert Tokenizer.from_file(tmp_path).encode_batch(texts).to_pylist() == ids_of_peer(peer, texts)


def test_special_tokens_of_a_folder(trained: Tokenizer) -> None:
    files = trained.to_format("gpt2")
    vocab, merges = files["vocab.json"], files["merges.txt"]
    assert gpt2_files.loads({"vocab.json": vocab, "merges.txt": merges}).special_tokens == ("<|endoftext|>",)
    told = {"bos_token": "<s>", "eos_token": {"content": "<|endoftext|>", "lstrip": False}, "additional_special_tokens": ["<s>"]}
    named = {"vocab.json": vocab, "merges.txt": merges, "special_tokens_map.json": json.dumps(told).encode()}
    assert gpt2_files.loads(named).special_tokens == SPECIALS


def test_merges_without_a_header_and_with_returns(trained: Tokenizer) -> None:
    files = trained.to_format("gpt2")
    bare = files["merges.txt"].removeprefix(b"#version: 0.2\n").replace(b"\n", b"\r\n")
    assert gpt2_files.loads({**files, "merges.txt": bare}).merge_rules == trained.merge_rules


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"merges.txt": b"a b\nab\n"}, 'merges.txt, line 2: "ab" is no pair of tokens; write two with a space between them'),
        (
            {"merges.txt": b"#version: 0.2\na  b\n"},
            'merges.txt, line 2: "a  b" is no pair of tokens; write two with a space between them',
        ),
        (
            {"merges.txt": b"#version: 0.2\n\na b\nx y\n"},
            "merges.txt, line 4: ('x', 'y') needs the token 'xy', which vocab lacks",
        ),
        ({"merges.txt": b"\xff"}, "merges.txt: not UTF-8 at byte 0; it is UTF-8 text"),
        (
            {"vocab.json": b'{"a": 1'},
            "vocab.json: not JSON: Expecting ',' delimiter at line 1, column 8; give an undamaged tokenizer file",
        ),
        ({"vocab.json": b""}, "vocab.json: not JSON: Expecting value at line 1, column 1; give an undamaged tokenizer file"),
        ({"vocab.json": b"[" * 200_000}, "vocab.json: not a tokenizer: nested too deeply; give an undamaged tokenizer file"),
        ({"special_tokens_map.json": b'{"bos_token": 3}'}, "special_tokens_map.json: bos_token: 3 is no token"),
        ({"special_tokens_map.json": b'{"bos_token": "<x>"}'}, "special_tokens[0]: '<x>' has no id in vocab; add it there"),
    ],
)
def test_malformed_files_of_a_folder(changes: dict[str, bytes], message: str) -> None:
    with pytest.raises(TokenizerFileError) as caught:
        gpt2_files.loads({**SMALL.to_format("gpt2"), **changes})
    assert str(caught.value) == message


def test_half_a_folder_is_refused() -> None:
    files = SMALL.to_format("gpt2")
    for missing in ("vocab.json", "merges.txt"):
        half = {name: content for name, content in files.items() if name != missing}
        with pytest.raises(TokenizerFileError) as caught:
            recognition.loads_folder(half)
        assert str(caught.value) == f"{missing}: it is missing; vocab.json and merges.txt belong together"
    with pytest.raises(TokenizerFileError, match=r"holds neither tokenizer\.json nor vocab\.txt nor vocab\.json and merges\.txt"):
        recognition.loads_folder({})


def refusal(tokenizer: Tokenizer, target: str) -> str:
    with pytest.raises(UsageError) as caught:
        tokenizer.to_format(target)
    return str(caught.value)


def test_exports_to_the_files_of_gpt2_that_are_refused() -> None:
    told = refusal(train(["a b  a b"], pretokenizer="none", merges=2), "gpt2")
    assert told.startswith("merges.txt puts a space between two tokens, and rule 0, (") and told.endswith("use --to native")
    assert "tokens of characters" in refusal(train(["abab"], merges=1), "gpt2")
    told = refusal(train(["abab"], model="byte-bpe", pretokenizer="o200k", merges=1), "gpt2")
    assert told == "vocab.json and merges.txt stand for the pre-tokenizer gpt2, not o200k; use --to huggingface"
    whole = recognition.loads(rank_file([*BYTES, b"abc"]), pretokenizer="gpt2")
    assert "cannot say that 'abc' is one token" in refusal(whole, "gpt2")
    told = refusal(train(["#version #version"], model="byte-bpe", pretokenizer="none", merges=9), "gpt2")
    assert told.startswith("merges.txt passes over lines that begin with #version")


# --- two keys ---------------------------------------------------------------------------------------------------------------


def test_a_file_of_two_keys() -> None:
    tokenizer = train(["low lower lowest"], merges=5)
    [content] = tokenizer.to_format("two-key").values()
    assert set(json.loads(content)) == {"merge_rules", "vocab"}
    loaded = recognition.loads(content)
    assert (loaded.vocab, loaded.merge_rules) == (tokenizer.vocab, tokenizer.merge_rules)
    assert native.dumps_two_keys(loaded) == content
    told = refusal(SMALL, "two-key")
    assert told == "a file of two keys stands for char-bpe behind wordpunct, this is byte-bpe behind gpt2; use --to native"
    assert "'<s>' is a special token" in refusal(train(["abab"], merges=1, special_tokens=("<s>",)), "two-key")


# --- files on the disk ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["native", "huggingface", "tiktoken", "gpt2"])
def test_formats_are_told_by_what_files_hold(trained: Tokenizer, target: str, tmp_path: Path) -> None:
    for name, content in trained.to_format(target).items():
        (tmp_path / (name if target == "gpt2" else "nameless.bin")).write_bytes(content)
    specials = {token: trained.vocab[token] for token in SPECIALS}
    if target == "tiktoken":
        loaded = Tokenizer.from_file(tmp_path / "nameless.bin", pretokenizer="gpt2", special_tokens=specials)
    else:
        loaded = Tokenizer.from_file(tmp_path if target == "gpt2" else tmp_path / "nameless.bin")
    assert (loaded.vocab, loaded.merge_rules, loaded.special_tokens) == (trained.vocab, trained.merge_rules, SPECIALS)


@pytest.mark.parametrize("pretokenizer", [PreTokenizer("gpt2", split_digits=3), PreTokenizer("regex", pattern=r"\w+|\W+")])
@pytest.mark.parametrize("target", ["tiktoken", "gpt2"])
def test_options_of_pretokenizers_stay_here(target: str, pretokenizer: PreTokenizer) -> None:
    told = refusal(train(["12 1234 abab"], model="byte-bpe", pretokenizer=pretokenizer, merges=2), target)
    assert told.endswith(f" cannot say how {pretokenizer} cuts words; use --to native")


def test_a_file_of_two_keys_has_no_options() -> None:
    told = refusal(train(["12 1234"], pretokenizer=PreTokenizer("wordpunct", split_digits=1), merges=2), "two-key")
    assert told.endswith("this is char-bpe behind wordpunct (split_digits 1); use --to native")


def test_a_format_that_is_not_known() -> None:
    assert refusal(SMALL, "gguf") == f"format 'gguf' is not known; choose one of {', '.join(TOKENIZER_FORMATS)}"


def error_of(path: Path, error: type[Exception] = TokenizerFileError, **options: str) -> str:
    with pytest.raises(error) as caught:
        Tokenizer.from_file(path, **options)  # type: ignore[arg-type]
    told = str(caught.value)
    assert "\n" not in told and told.startswith(f"{path}: ")
    return told.removeprefix(f"{path}: ")


def test_files_that_are_no_tokenizers(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for content, message in (
        (b"", "not JSON: Expecting value at line 1, column 1; give an undamaged tokenizer file"),
        (b'{"model": {"type": "BPE"', "not JSON: Expecting ',' delimiter at line 1, column 25; give an undamaged tokenizer file"),
        (b'{"a":' * 100_000, "not a tokenizer: nested too deeply; give an undamaged tokenizer file"),
        (b'{"a": 0, "b": 1}', "this is vocab.json alone; give the folder that holds merges.txt too"),
        (b"#version: 0.2\na b\n", "this is merges.txt alone; give the folder that holds vocab.json too"),
        (b"\x00\x01\x02", "not JSON: Expecting value at line 1, column 1; give an undamaged tokenizer file"),
    ):
        path.write_bytes(content)
        assert error_of(path) == message
    assert error_of(path, UsageError, pretokenizer="gpt2").startswith("only tiktoken rank files leave pre-tokenizer")
    path.write_bytes(rank_file(BYTES))
    assert error_of(path, UsageError).endswith("give its pre-tokenizer")


def test_a_file_of_a_gigabyte_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json"
    with path.open("wb") as file:
        file.write(b"[" * 1000)
        file.truncate(1 << 30)
    assert error_of(path) == f"1,073,741,824 bytes; a tokenizer file has at most {MAX_FILE_BYTES:,}"


def test_only_regular_files_of_the_folder_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, content in SMALL.to_format("gpt2").items():
        (tmp_path / name).write_bytes(content)
        (folder / name).write_bytes(content)
    assert Tokenizer.from_file(folder).vocab == SMALL.vocab
    (folder / "vocab.json").unlink()
    (folder / "vocab.json").symlink_to(tmp_path / "vocab.json")
    assert error_of(folder).startswith("vocab.json: it is a link out of the folder")
    (folder / "vocab.json").unlink()
    os.mkfifo(folder / "vocab.json")
    assert error_of(folder) == "vocab.json: it is no regular file; give the path of a tokenizer.json"


# --- the command ------------------------------------------------------------------------------------------------------------


def convert(*words: str | Path) -> Result:
    return CliRunner().invoke(cli.main, ["convert", *map(str, words)])


def test_convert_there_and_back(trained: Tokenizer, tmp_path: Path) -> None:
    source = tmp_path / "ours.json"
    trained.save(source)
    for target, source_path in (("huggingface", source), ("gpt2", tmp_path / "huggingface"), ("native", tmp_path / "gpt2")):
        result = convert(source_path, tmp_path / target, "--to", target)
        assert (result.exit_code, result.output) == (0, "")
    loaded = Tokenizer.from_file(tmp_path / "native")
    assert (loaded.vocab, loaded.merge_rules, loaded.special_tokens) == (trained.vocab, trained.merge_rules, SPECIALS)
    ids = [f"--special={token}={trained.vocab[token]}" for token in SPECIALS]
    assert convert(source, tmp_path / "ranks", "--to", "tiktoken").exit_code == 0
    assert convert(tmp_path / "ranks", tmp_path / "b.json", "--to", "native", "--pretokenizer", "gpt2", *ids).exit_code == 0
    assert Tokenizer.from_file(tmp_path / "b.json").vocab == trained.vocab


def test_convert_refuses_in_one_line(tmp_path: Path) -> None:
    source, target = tmp_path / "ours.json", tmp_path / "there.json"
    train(["low lower"], merges=2).save(source)
    target.write_bytes(b"mine")
    for words, code, part in (
        ((source, tmp_path / "x", "--to", "tiktoken"), 2, "tokens of characters"),
        ((source, target, "--to", "native"), 2, "exists; choose another name, or give --overwrite"),
        ((source, tmp_path, "--to", "native"), 2, "is a folder; give the name of a file"),
        ((source, tmp_path / "x", "--to", "gguf"), 2, "'gguf' is not one of"),
        ((source, tmp_path / "x", "--to", "native", "--special", "x"), 2, "is no token, `=` and an id"),
        ((tmp_path / "absent", tmp_path / "x", "--to", "native"), 3, "No such file or directory"),
    ):
        result = convert(*words)
        lines = result.stderr.splitlines()
        assert (result.exit_code, len(lines)) == (code, 1) and part in lines[0]
    assert target.read_bytes() == b"mine" and not (tmp_path / "x").exists()
    assert convert(source, target, "--to", "native", "--overwrite").exit_code == 0
    assert Tokenizer.from_file(target).merge_rules == [("l", "o"), ("lo", "w")]
