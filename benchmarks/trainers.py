"""Everyone who trains a byte-level BPE under GPT-2's pattern, from documents in memory to a vocabulary.

`prepare` turns a list of str into what a trainer takes, untimed; `train` is timed; `tokens` gives the bytes of what was
learned, in order of rank, without the alphabet. Every library is imported by its own class alone.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.peers import GPT2_PATTERN, SEPARATOR, share_out


class Trainer:
    """What a trainer has in common with the others."""

    def prepare(self, texts: list[str]) -> Any:
        return texts

    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        raise NotImplementedError

    def tokens(self, result: Any) -> list[bytes]:
        """The products, in order of rank."""
        raise NotImplementedError

    def phases(self, result: Any) -> dict[str, float]:
        """Seconds of each phase, where the trainer tells."""
        return {}


class TokenmillTrainer(Trainer):
    """Count, merge, build the tokenizer: what `tokenmill train` does, without Beam. A counter and a thread for each core."""

    def prepare(self, texts: list[str]) -> Any:
        import pyarrow as pa

        self.train(pa.array(["one two two three three three"], pa.large_string()), 258, 1)  # loads the kernels
        return pa.array(texts, pa.large_string())

    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        from tokenmill.training.options import TrainingOptions
        from tokenmill.training.trainers import train_tokenizer
        from tokenmill.training.word_counts import combine_counts, sort_counts

        started = time.perf_counter()
        with ThreadPoolExecutor(cores) as threads:
            places = share_out(batch, cores)
            parts = threads.map(_count_part, range(cores), [batch[start:stop] for start, stop in places])
            counts = sort_counts(combine_counts(table for part in parts for table in part))
        counted = time.perf_counter()
        tokenizer = train_tokenizer(counts, TrainingOptions("byte-bpe", "gpt2", vocab_size=vocab_size))[0]
        return tokenizer, {"count": counted - started, "merge": time.perf_counter() - counted}

    def tokens(self, result: Any) -> list[bytes]:
        spellings = sorted(result[0].model.spellings.items())
        return [token for _, token in spellings if len(token) > 1]

    def phases(self, result: Any) -> dict[str, float]:
        phases: dict[str, float] = result[1]
        return phases


class GigatokenTrainer(Trainer):
    """Ties broken as Hugging Face tokenizers does, which is its default."""

    def prepare(self, texts: list[str]) -> bytes:
        return SEPARATOR.join(text.encode() for text in texts)

    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        import gigatoken

        return gigatoken.train_bpe(batch, vocab_size, [], separator=SEPARATOR)

    def tokens(self, result: Any) -> list[bytes]:
        return [left + right for left, right in result[1]]


class RustbpeTrainer(Trainer):
    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        import rustbpe

        tokenizer = rustbpe.Tokenizer()
        tokenizer.train_from_iterator(iter(batch), vocab_size, pattern=GPT2_PATTERN)
        return tokenizer

    def tokens(self, result: Any) -> list[bytes]:
        return [bytes(token) for token, _ in sorted(result.get_mergeable_ranks(), key=lambda pair: pair[1]) if len(token) > 1]


class BpeasyTrainer(Trainer):
    """The longest token is given as 1,000 bytes, which is as good as no limit."""

    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        from bpeasy import train_bpe

        return train_bpe(iter(batch), GPT2_PATTERN, 1000, vocab_size)

    def tokens(self, result: Any) -> list[bytes]:
        return [token for token, _ in sorted(result.items(), key=lambda pair: pair[1]) if len(token) > 1]


class SentencepieceTrainer(Trainer):
    """BPE with byte fallback over lines: its own pre-tokenizer and alphabet, so its vocabulary is another one."""

    def prepare(self, texts: list[str]) -> list[str]:
        return [line for text in texts for line in text.split("\n") if line]

    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        import io

        import sentencepiece

        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(batch),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            num_threads=cores,
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 20,
            minloglevel=2,
        )
        return model.getvalue()

    def tokens(self, result: Any) -> list[bytes]:
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_proto=result)
        tokens = (processor.id_to_piece(place).replace("▁", " ").encode() for place in range(processor.get_piece_size()))
        return [token for token in tokens if len(token) > 1]


class TokenizersTrainer(Trainer):
    def train(self, batch: Any, vocab_size: int, cores: int) -> Any:
        import tokenizers

        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False, initial_alphabet=alphabet)
        tokenizer.train_from_iterator(batch, trainer)
        return tokenizer

    def tokens(self, result: Any) -> list[bytes]:
        byte_of = visible_bytes()
        vocab = sorted(result.get_vocab().items(), key=lambda pair: pair[1])
        return [bytes(byte_of[character] for character in token) for token, _ in vocab if len(token) > 1]


class TrainerRow(NamedTuple):
    """One row of the tables. A `slow` one trains one size of vocabulary.

    `comparable`: it learns under the same pattern and alphabet.
    """

    title: str
    trainer: Trainer
    distribution: str
    slow: bool = False
    comparable: bool = True


TRAINERS = {
    "tokenmill": TrainerRow("tokenmill", TokenmillTrainer(), "tokenmill"),
    "gigatoken": TrainerRow("gigatoken, train_bpe", GigatokenTrainer(), "gigatoken"),
    "rustbpe": TrainerRow("rustbpe", RustbpeTrainer(), "rustbpe"),
    "bpeasy": TrainerRow("bpeasy", BpeasyTrainer(), "bpeasy", slow=True),
    "sentencepiece": TrainerRow("sentencepiece, BPE", SentencepieceTrainer(), "sentencepiece", slow=True, comparable=False),
    "tokenizers": TrainerRow("tokenizers 0.23", TokenizersTrainer(), "tokenizers", slow=True),
}


def visible_bytes() -> dict[str, int]:
    """GPT-2's visible characters and the bytes they stand for: printable ones stand for themselves, the others follow U+0100."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + place): byte for place, byte in enumerate(others)}


def read_tokens(path: Path) -> list[bytes]:
    """Tokens as `benchmarks.measure` writes them: one a line, in hexadecimal."""
    return [bytes.fromhex(line) for line in path.read_text().split()]


def _count_part(index: int, texts: Any) -> list[Any]:
    """Tables of the word counts of one core's documents."""
    from tokenmill.text.pretokenizers import PreTokenizer
    from tokenmill.training.word_counts import WordCounter

    counter = WordCounter(PreTokenizer("gpt2"))
    counter.begin_split(index)
    return [table for _, table in [*counter.count(texts), *counter.drain()]]
