"""Normalizers on their way: count, train, encode and explain use the one of the tokenizer, and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.test_cli import call, check_error
from tests.training import WAYS_OUT, train
from tokenmill import Tokenizer
from tokenmill.encoding.lost_words import PlaceNamer
from tokenmill.formats import native
from tokenmill.text.normalizers import Normalizer
from tokenmill.tokenizer import Tokenizer as TokenizerType

TEXTS = ["Émile ÉCLAIR", "e\u0301clair", "ÉCLAIR éclair", "", "Ünlü"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`corpus.txt`, and what `count` and `train` made of it with two normalizers."""
    path = tmp_path_factory.mktemp("normalized")
    (path / "corpus.txt").write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    options = ("--normalizer", "nfc", "--normalizer", "lowercase", "--normalizer", "replace:ü=>ue")
    for words in (
        ("count", path / "corpus.txt", *options, "--output", path / "counts"),
        ("train", path / "counts", "--merges", "8", "--output", path / "tokenizer.json"),
        ("train", path / "corpus.txt", *options, "--merges", "8", "--output", path / "at-once.json"),
        ("encode", path / "corpus.txt", "--tokenizer", path / "tokenizer.json", "--output", path / "tokens"),
    ):
        result = call(*words, "--quiet")
        assert (result.exit_code, result.output) == (0, ""), result.output
    return path


SPEC = ["nfc", "lowercase", {"name": "replace", "pattern": "ü", "content": "ue"}]


def test_counts_are_of_normalized_words(folder: Path) -> None:
    file = pq.ParquetFile(folder / "counts" / "part-00000-of-00001.parquet")
    words = {word.decode(): count for word, count in zip(*file.read(["word", "count"]).to_pydict().values(), strict=True)}
    assert words == {" éclair": 2, "éclair": 2, "émile": 1, "uenlue": 1}
    assert json.loads(file.schema_arrow.metadata[b"tokenmill.normalizer"]) == SPEC
    assert json.loads((folder / "counts" / "manifest.json").read_text())["normalizer"] == SPEC


def test_the_tokenizer_carries_the_normalizer_of_its_counts(folder: Path) -> None:
    assert json.loads((folder / "tokenizer.json").read_text())["normalizer"] == SPEC
    assert (folder / "tokenizer.json").read_bytes() == (folder / "at-once.json").read_bytes()


def test_shards_hold_normalized_documents(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(folder / "tokenizer.json")
    (shard,) = (folder / "tokens").glob("part-*.parquet")
    rows = pq.read_table(shard)["input_ids"].to_pylist()
    assert rows == [tokenizer.encode(text) for text in TEXTS]
    assert [tokenizer.decode(row) for row in rows] == ["émile éclair", "éclair", "éclair éclair", "", "uenlue"]


def test_training_on_counts_with_another_normalizer_is_refused(folder: Path, tmp_path: Path) -> None:
    asked = ("train", folder / "counts", "--merges", "2", "--output", tmp_path / "t.json", "--normalizer")
    message = "was counted with normalizer nfc, lowercase, replace 'ü' by 'ue', not nfc; leave --normalizer out, or count again"
    check_error(call(*asked, "nfc"), 2, message)
    same = call(*asked, "nfc", "--normalizer", "lowercase", "--normalizer", "replace:ü=>ue", "--quiet")
    assert same.exit_code == 0, same.output


def test_a_normalizer_cannot_be_given_to_encode(folder: Path, tmp_path: Path) -> None:
    words = ("encode", folder / "corpus.txt", "--tokenizer", folder / "tokenizer.json", "--output", tmp_path / "t")
    check_error(call(*words, "--normalizer", "nfc"), 2, "No such option")


def test_unknown_normalizer_on_the_command_line(folder: Path, tmp_path: Path) -> None:
    result = call("count", folder / "corpus.txt", "--output", tmp_path / "c", "--normalizer", "loud")
    check_error(result, 2, "unknown normalizer 'loud'; known are: identity, nfc, nfd")


def test_a_configuration_names_normalizers(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "build.yaml").write_text(
        f"input: {{inputs: [{folder}/corpus.txt]}}\n"
        "train: {model: byte-bpe, pretokenizer: gpt2, merges: 8, normalizer: [nfc, lowercase, "
        "{name: replace, pattern: ü, content: ue}]}\n"
        f"output: {{folder: {tmp_path}/out}}\n",
        encoding="utf-8",
    )
    result = call("build", tmp_path / "build.yaml", "--quiet")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


def lowered() -> TokenizerType:
    base = train(["el\u0301 el"], model="char-bpe", pretokenizer="gpt2", merges=2)
    return TokenizerType(base.model, pretokenizer=base.pretokenizer, normalizer=Normalizer.of(["nfd", "lowercase"]))


def test_marks_are_kept_by_lowercase_alone() -> None:
    """Of Devanagari, Thai and an accent that stands by itself."""
    text = "में ที่ e\u0301 É"
    tokenizer = train([text], model="byte-bpe", pretokenizer="gpt2", merges=3)
    lower = TokenizerType(tokenizer.model, pretokenizer=tokenizer.pretokenizer, normalizer=Normalizer.of("lowercase"))
    assert lower.decode(lower.encode(text)) == "में ที่ e\u0301 é"


def test_encoding_normalizes_and_the_file_says_how() -> None:
    tokenizer = lowered()
    loaded = native.loads(native.dumps(tokenizer))
    assert loaded.normalizer == tokenizer.normalizer and loaded.to_bytes() == tokenizer.to_bytes()
    assert loaded.encode("EĹ") == tokenizer.encode_batch(["EĹ"]).to_pylist()[0] == tokenizer.encode("el\u0301")


def test_unknown_characters_are_named_by_their_place_in_the_text() -> None:
    reason = lowered().describe_unknown("ELĹx", "text 0")
    assert reason == "text 0, character 3 (4 when normalized): 'x' (U+0078) is not in the alphabet; " + WAYS_OUT


@pytest.mark.parametrize(
    ("normalizer", "text", "place"),
    [
        ("identity", "a😀x", "character 2"),
        ("nfkc", "ﬁ\u2460x", "character 2 (3 when normalized)"),
        ("nfc", "e\u0301ax", "character 3 (2 when normalized)"),
        (["strip_accents", "lowercase"], "E\u0301Xx", "character 2 (1 when normalized)"),
        ("nfc", "abx", "character 2 (2 when normalized)"),
    ],
)
@pytest.mark.parametrize("first", [0, 7])
def test_places_before_normalizing(normalizer: Any, text: str, place: str, first: int) -> None:
    namer = PlaceNamer(text, Normalizer.of(normalizer), first)
    number, _, rest = place.removeprefix("character ").partition(" ")
    assert namer.name(namer.text.index("x")) == f"character {int(number) + first}{rest and ' ' + rest}"


def test_wordpiece_names_places_before_normalizing() -> None:
    base = train(["fin ab"], model="wordpiece", pretokenizer="bert", merges=0)
    tokenizer = TokenizerType(base.model, pretokenizer=base.pretokenizer, normalizer=Normalizer.of("nfkc"))
    reason = tokenizer.describe_unknown("ﬁn ax", "text 0")
    assert reason.startswith("text 0, character 4 (5 when normalized): 'x' (U+0078) in the word 'ax' begins no token that fits")


def test_explain_shows_the_normalized_text(folder: Path) -> None:
    result = call("explain", "--tokenizer", folder / "tokenizer.json", "E\u0301CLAIR ü")
    assert result.exit_code == 0, result.output
    assert "by nfc, lowercase, replace 'ü' by 'ue': 'éclair ue'" in result.stdout
    assert "'éclair ue', the same as the normalized text" in result.stdout


def test_two_keys_cannot_say_it() -> None:
    from tokenmill.errors import UsageError

    tokenizer = train(["a b"], model="char-bpe", pretokenizer="wordpunct", merges=1)
    changed = TokenizerType(tokenizer.model, pretokenizer=tokenizer.pretokenizer, normalizer=Normalizer.of("nfc"))
    with pytest.raises(UsageError, match=r"^a file of two keys cannot say that text is normalized by nfc; use --to native$"):
        changed.to_format("two-key")
