"""The table of model kinds: a kind is a file and a row, and the rows hold what the models do."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.toy_kind import KIND, FrequentWordsModel
from tests.training import count_texts, few_cases, train
from tokenmill.errors import TokenizerFileError, UsageError
from tokenmill.explain.encoding import explain_text
from tokenmill.formats import native
from tokenmill.models.base import Model
from tokenmill.models.kinds import (
    DEFAULT,
    KINDS,
    ModelKind,
    check_options,
    choose_unk,
    default_pretokenizer,
    kind_of,
    list_options,
    load,
)
from tokenmill.report.vocabulary import find_unreachable
from tokenmill.training.options import TrainingOptions
from tokenmill.training.trainers import train_tokenizer

TEXTS = ["the cat sat on the mat", "the dog sat"]


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, KIND.name, KIND)


@pytest.mark.usefixtures("toy")
class TestToyKind:
    def test_it_is_trained_and_encodes(self) -> None:
        tokenizer = train(TEXTS, model=KIND.name, pretokenizer="bert", vocab_size=16, unk_token="[UNK]")
        assert isinstance(tokenizer.model, FrequentWordsModel)
        assert tokenizer.tokenize("the cat set!") == ["the", "c", "##a", "##t", "s", "##e", "##t", "[UNK]"]
        assert tokenizer.tokenize("sat") == ["sat"]

    def test_its_file_comes_back(self) -> None:
        tokenizer = train(TEXTS, model=KIND.name, pretokenizer="bert", vocab_size=16, unk_token="[UNK]")
        loaded = native.loads(tokenizer.to_bytes())
        assert isinstance(loaded.model, FrequentWordsModel)
        assert loaded.to_bytes() == tokenizer.to_bytes()
        assert pickle.loads(pickle.dumps(loaded)).encode("the mat") == tokenizer.encode("the mat")

    def test_reports_and_explanations_know_it(self) -> None:
        tokenizer = train(TEXTS, model=KIND.name, pretokenizer="bert", vocab_size=16, unk_token="[UNK]")
        assert find_unreachable(tokenizer) == []
        assert [word.tokens for word in explain_text(tokenizer, "the mat").words] == [("the",), ("m", "##a", "##t")]

    def test_options_of_others_are_refused(self) -> None:
        with pytest.raises(UsageError, match="score 'frequency' is for wordpiece, byte-wordpiece, not for frequent-words"):
            TrainingOptions(KIND.name, "bert", vocab_size=30, score="frequency")
        with pytest.raises(UsageError, match="merges 3: a frequent-words model has none"):
            TrainingOptions(KIND.name, "bert", merges=3)
        content = train(TEXTS, model=KIND.name, pretokenizer="bert", vocab_size=16, unk_token="[UNK]").to_bytes()
        with pytest.raises(TokenizerFileError, match="fuse_unk: a frequent-words model has none; leave it out"):
            native.loads(content.replace(b'"merge_rules"', b'"fuse_unk": true, "merge_rules"'))

    def test_it_has_its_own_defaults(self) -> None:
        assert (default_pretokenizer(KIND.name), choose_unk(KIND.name, None), choose_unk(KIND.name, "")) == (
            "bert",
            "[UNK]",
            None,
        )


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="model 'bpe' is not known; choose one of byte-bpe, char-bpe, char, wordpiece"):
        kind_of("bpe")


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
class TestRows:
    def test_names_lead_to_models_trainers_and_explainers(self, kind: ModelKind) -> None:
        assert kind.name in KINDS and issubclass(kind.load_model(), Model)
        assert callable(load(kind.trainer)) and callable(load(kind.explainer))
        assert set(kind.options) <= set(list_options())

    def test_the_smallest_alphabet_is_what_training_gives(self, kind: ModelKind) -> None:
        size = {} if not kind.has_merges else {"merges": 0}
        made = train_tokenizer(count_texts(["a"], kind.pretokenizer), TrainingOptions(kind.name, kind.pretokenizer, **size))
        assert len(made.tokenizer) == max(kind.least_alphabet, len(made.tokenizer.model.alphabet.base_symbols("a") or ()))
        assert made.tokenizer.model.takes_any_bytes == kind.of_bytes

    def test_files_have_no_keys_but_those_of_the_row(self, kind: ModelKind) -> None:
        size = {} if not kind.has_merges else {"merges": 2}
        made = train(["aab ab"], model=kind.name, pretokenizer=kind.pretokenizer, **size)
        assert set(made.model.describe_fields()) <= set(kind.file_keys)
        assert native.loads(made.to_bytes()).to_bytes() == made.to_bytes()


@few_cases(100, 20)
@given(st.sampled_from(list(KINDS)), st.sampled_from(list_options()), st.sampled_from([None, False, True, 3, "##"]))
def test_an_option_is_taken_or_refused_by_the_row(model: str, option: str, value: object) -> None:
    kind = kind_of(model)
    if value in (None, False) or option in kind.options:
        check_options(kind, {option: value})
        return
    with pytest.raises(UsageError, match=f"is for .*, not for {model}; leave it out"):
        check_options(kind, {option: value})


def test_the_default_is_a_kind() -> None:
    assert DEFAULT in KINDS
