"""The tokenizer: turns text into token ids, and token ids back into text.

A tokenizer is a normalizer, a pre-tokenizer, a model and a template. It can be used without Beam:

    tokenizer = Tokenizer.from_file("tokenizer.json")
    tokenizer.encode("Hi, I'm here.")            # [66, 289, 17, 650, 847, 19]
    tokenizer.encode_batch(["one", "two"])       # pyarrow LargeListArray of int32
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tokenmill.arrow import large_strings, text_buffers, wrap_binary
from tokenmill.encoding.decoders import Decoder
from tokenmill.encoding.encoder import Encoded, Encoder
from tokenmill.encoding.lost_words import PlaceNamer, describe_lost_character, describe_lost_word
from tokenmill.encoding.processing import Encoding, Processed, process_text, process_texts
from tokenmill.encoding.templates import FIRST, SECOND, Template, check_template
from tokenmill.encoding.token_ids import list_ids
from tokenmill.encoding.tracing import Trace, join_traces
from tokenmill.errors import InvalidTextError, TokenizerFileError, UnknownCharacterError, UsageError
from tokenmill.models.alphabets import MARKER
from tokenmill.models.base import Model
from tokenmill.text.normalizers import Normalizer
from tokenmill.text.pretokenizers import PreTokenizer
from tokenmill.text.special_text import Allowed, SpecialFinder, SplitTexts, join_parts
from tokenmill.tokenizer_files import read_file, read_folder, write_file
from tokenmill.unicode_text import encode_text


class Tokenizer:
    """A trained or loaded tokenizer.

    `training` holds what the trainer recorded (options and fingerprints). It is saved with the tokenizer and never read.
    `decoder` turns tokens into text as another program does; with None, the default, decoding joins the bytes of the tokens.
    A tokenizer keeps a bounded cache of words. It is safe to call from several threads; the calls take turns.
    """

    def __init__(
        self,
        model: Model,
        *,
        pretokenizer: PreTokenizer,
        normalizer: Normalizer | None = None,
        template: Template | None = None,
        decoder: Decoder | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.model = model
        self.pretokenizer = pretokenizer
        self.normalizer = normalizer or Normalizer()
        self.template = template or Template()
        self.decoder = decoder
        check_template(self.template, model.special_tokens)
        self.training = dict(training or {})
        self._lock = threading.Lock()
        self._encoder: Encoder | None = None

    def __repr__(self) -> str:
        return f"Tokenizer({self.model.name}, {self.pretokenizer}, {len(self):,} tokens)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the tokenizer as the bytes of its file. The cache is not copied: each process fills its own."""
        from tokenmill.formats import native

        return native.loads, (self.to_bytes(),)

    # --- files

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        pretokenizer: str | None = None,
        special_tokens: Mapping[str, int] | None = None,
    ) -> Tokenizer:
        """Load a tokenizer. The format is recognised by the content: a native or a Hugging Face tokenizer.json, a tiktoken rank
        file, or a folder with GPT-2's vocab.json and merges.txt.

        `pretokenizer` and `special_tokens` (with their ids) are for your own rank files: a rank file contains neither, and only
        the published ones are known. Raises `TokenizerFileError`, which names the file and the place in it.
        """
        # The formats import this module, so they are imported inside functions here.
        from tokenmill.formats import recognition

        target = Path(path)
        try:
            if target.is_dir():
                tokenizer = recognition.loads_folder(read_folder(target, recognition.FOLDER_FILES))
            else:
                tokenizer = recognition.loads(read_file(target), pretokenizer=pretokenizer, special_tokens=special_tokens)
        except (TokenizerFileError, UsageError) as error:
            raise type(error)(f"{path}: {error}") from None
        tokenizer._encoder = Encoder(tokenizer.model, tokenizer.pretokenizer, tokenizer.normalizer)
        return tokenizer

    def to_format(self, target: str) -> dict[str, bytes]:
        """Convert to a format and return its files, by file name.

        `target` is `native`, `huggingface`, `tiktoken`, `vocab-txt`, `gpt2` (a folder) or `two-key`.
        Raises `UsageError` if programs that read the format would produce other ids.
        """
        from tokenmill.formats import recognition

        return recognition.dumps(self, target)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a tokenizer.json. The file is replaced atomically: readers see the old file or the new one."""
        write_file(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """The tokenizer.json as bytes. Equal tokenizers have equal bytes."""
        from tokenmill.formats import native

        return native.dumps(self)

    @cached_property
    def sha256(self) -> str:
        """The sha256 of `to_bytes()`, which identifies the tokenizer in shards and manifests."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    # --- vocabulary

    @property
    def vocab(self) -> dict[str, int]:
        """The ids of all tokens, by visible form; includes special tokens."""
        return dict(self.model.vocab)

    @property
    def merge_rules(self) -> list[tuple[str, str]]:
        """The merge rules, in order of rank."""
        return list(self.model.merge_rules)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        """The special tokens, in the order in which they were given."""
        return self.model.special_tokens

    @property
    def embedding_rows(self) -> int:
        """The number of rows that an embedding layer needs for all ids: the largest id + 1."""
        return self.model.embedding_rows

    @property
    def added_tokens(self) -> tuple[str, ...]:
        """Tokens that are found in every text before it is normalized and cut into words, but are not special."""
        return self.model.added_tokens

    def __len__(self) -> int:
        """The number of tokens."""
        return len(self.model.vocab)

    def id_to_token(self, token_id: int) -> str | None:
        """The token with this id, in its visible form, or None if no token has it."""
        return self.model.token_of_id.get(token_id)

    def token_to_id(self, token: str) -> int | None:
        """The id of a token given in its visible form, or None if it is not in the vocabulary."""
        return self.model.vocab.get(token)

    # --- encoding

    def encode(self, text: str | bytes, *, allow_special: Allowed = False) -> list[int]:
        """Encode one text to token ids. A text given as bytes need not be UTF-8 if the model's alphabet is bytes.

        Special tokens inside the text are encoded as plain text, unless `allow_special` is True or lists the ones to recognise.
        Added tokens are always recognised. The special tokens of the template are not added: use `process` or `wrap` for that.
        Raises `UnknownCharacterError` for a character that is not in the alphabet of a model without an unk token.
        """
        data = text if isinstance(text, bytes) else encode_text(text)
        array = wrap_binary(np.frombuffer(data, np.uint8), np.array([0, len(data)]))
        if isinstance(text, bytes) and not self.model.takes_any_bytes:
            _check_utf_8(text)
        ids: list[int] = self._encode_checked(array, allow_special).values.to_pylist()
        return ids

    def tokenize(self, text: str) -> list[str]:
        """Encode one text and return the tokens in their visible form."""
        return [self.model.token_of_id[token_id] for token_id in self.encode(text)]

    def encode_batch(
        self, texts: pa.Array | pa.ChunkedArray | Sequence[str], *, allow_special: Allowed = False
    ) -> pa.LargeListArray:
        """Encode many texts to a `LargeListArray` of int32: one list per text, an empty list for an empty text or a null.

        Raises `UnknownCharacterError` as `encode` does; the message gives the index of the text.
        """
        array = large_strings(texts)
        if not self.model.takes_any_bytes:
            _check_texts(array)
        return self._encode_checked(array, allow_special)

    def wrap(self, ids: Sequence[int], pair: Sequence[int] | None = None) -> list[int]:
        """Put the template around the ids of one or two texts: with the template `<s> $A </s>`, `[7]` becomes `[1, 7, 2]`."""
        parts = {FIRST: list(ids), SECOND: list(pair or ())}
        elements = self.template.elements(pair=pair is not None)
        return [one for element in elements for one in parts.get(element.sequence, [self.model.vocab.get(element.token, 0)])]

    def encode_known(self, texts: pa.Array) -> tuple[pa.LargeListArray, np.ndarray]:
        """As `encode_batch`, but a character without an id becomes -1. Also returns bool[d]: which texts have such characters."""
        encoded = self.encode_counted(texts)
        return encoded.ids, encoded.unknown

    def encode_counted(self, texts: pa.Array, *, allow_special: Allowed = False) -> Encoded:
        """As `encode_known`; also counts the words that became an unk token and the special tokens that were found."""
        if texts.type not in (pa.large_string(), pa.large_binary()):
            texts = large_strings(texts)
        split = self.split_texts(texts, allow_special)
        with self._lock:
            encoded = self._warm_encoder().encode(texts if split is None else split.parts)
        return encoded if split is None else self._join(encoded, split)

    def split_texts(self, texts: pa.Array, allow_special: Allowed = False) -> SplitTexts | None:
        """Cut texts (large_string or large_binary) at added tokens and allowed special tokens. None if they contain none."""
        finder = self._added_finder
        if allow_special:
            finder = self._make_finder(allow_special)
        return None if finder is None else finder.split(texts)

    @cached_property
    def _added_finder(self) -> SpecialFinder | None:
        return self._make_finder(False)

    def _make_finder(self, allow_special: Allowed) -> SpecialFinder | None:
        model = self.model
        return SpecialFinder.of(allow_special, model.special_tokens, model.added_tokens, model.vocab, model.token_flags)

    def _join(self, parts: Encoded, split: SplitTexts) -> Encoded:
        ids, unknown = join_parts(parts.ids, parts.unknown, split)
        specials = np.isin(split.hits[:, 1], [self.model.vocab[token] for token in self.special_tokens])
        return parts._replace(ids=ids, unknown=unknown, specials=int(specials.sum()))

    def _warm_encoder(self) -> Encoder:
        if self._encoder is None:
            self._encoder = Encoder(self.model, self.pretokenizer, self.normalizer)
        return self._encoder

    def process_batch(
        self, texts: pa.Array | Sequence[str], pairs: pa.Array | Sequence[str] | None = None, **options: Any
    ) -> Processed:
        """Encode many texts, or pairs of texts, to rows for a model; `options` as in `process`.

        Without a `unit`, no offsets are computed. They take ten times as long as encoding.
        """
        return process_texts(self, texts, pairs, **options)

    def process(self, text: str, pair: str | None = None, **options: Any) -> Encoding:
        """Encode one text, or a pair, to a model's input: ids with the template's special tokens, masks, type ids and offsets.

        `options`: `add_special_tokens` (True), `truncation` (a `Truncation`), `overflow` (False; True keeps what is cut off),
        `padding` (a `Padding`), `unit` of the offsets (`characters` or `bytes`), `allow_special` as in `encode`.
        `tokenizer.process("Hi", "you").type_ids` is `[0, 1]` without a template.
        """
        return process_text(self, text, pair, **options)

    def trace_batch(self, texts: pa.Array, unit: str = "characters", *, allow_special: Allowed = False) -> tuple[Encoded, Trace]:
        """As `encode_counted`; also returns which part of its text each token comes from."""
        texts = large_strings(texts)
        split = self.split_texts(texts, allow_special)
        with self._lock:
            if split is None:
                return self._warm_encoder().trace(texts, unit)
            encoded, trace = self._warm_encoder().trace(split.parts, "bytes")
        return self._join(encoded, split), join_traces(trace, encoded.ids.offsets.to_numpy(), split, texts, unit)

    def _encode_checked(self, texts: pa.Array, allow_special: Allowed) -> pa.LargeListArray:
        encoded, unknown, *_ = self.encode_counted(texts, allow_special=allow_special)
        if unknown.any():
            place = int(np.flatnonzero(unknown)[0])
            raise UnknownCharacterError(self.describe_lost(texts.slice(place, 1), f"text {place}", allow_special))
        return encoded

    def describe_lost(self, texts: pa.Array, place: str, allow_special: Allowed) -> str:
        """As `describe_unknown`, for an array of one text, which may contain special or added tokens."""
        split = self.split_texts(texts, allow_special)
        if split is None:
            return self.describe_unknown(texts[0].as_py(), place)
        with self._lock:
            part = int(np.flatnonzero(self._warm_encoder().encode(split.parts).unknown)[0])
        before = text_buffers(texts)[0][: split.starts[part]].tobytes().decode("utf-8", "replace")
        return self.describe_unknown(split.parts[part].as_py(), place, len(before))

    def describe_unknown(self, text: str | bytes, place: str, first: int = 0) -> str:
        """Say which character is not in the alphabet, where it is and what to do. `first` is the offset of the text's start."""
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        if self.model.lacks_bytes:
            return f"{place}: it is not UTF-8, and this model has no token for some of its bytes; repair the text"
        describe = describe_lost_word if self.model.loses_words else describe_lost_character
        return describe(self.model, self.pretokenizer, place, PlaceNamer(text, self.normalizer, first))

    # --- decoding

    def decode(self, ids: Any, *, skip_special_tokens: bool = False) -> str:
        """Decode token ids to text. Bytes that are not UTF-8 become U+FFFD.

        `ids` is any one-dimensional sequence of integers: a list, a NumPy, torch, JAX or Arrow array, a cell of a shard, or
        `encode_batch(...)[0]`. Raises `UsageError` for an id outside the vocabulary and TypeError for any other input.
        """
        return self.decode_bytes(ids, skip_special_tokens=skip_special_tokens).decode("utf-8", "replace")

    def decode_batch(self, rows: Any, *, skip_special_tokens: bool = False) -> list[str]:
        """Decode rows of ids: the result of `encode_batch`, a column of a shard, a two-dimensional array, a list of lists."""
        if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
            raise TypeError(f"rows is a {type(rows).__name__}; give rows of token ids, such as a list of lists")
        return [self.decode(row, skip_special_tokens=skip_special_tokens) for row in rows]

    def decode_bytes(self, ids: Any, *, skip_special_tokens: bool = False) -> bytes:
        """As `decode`, but return bytes. A byte model with a lossless pre-tokenizer returns exactly what was encoded."""
        ids = list_ids(ids)
        if skip_special_tokens:
            special = {self.model.vocab[token] for token in self.special_tokens}
            ids = [token_id for token_id in ids if token_id not in special]
        if self.decoder is not None:
            return self.decoder.decode(self._written_tokens(ids)).encode("utf-8", "surrogatepass")
        return self.model.spell(ids, between_words=b" " if self.pretokenizer.drops_spaces else b"")

    def _written_tokens(self, ids: Iterable[int]) -> list[str]:
        """Tokens as written in the file that the decoder came from. With byte fallback, a space is ` ` there and `Ġ` here."""
        found = self.model.tokens_of(ids)
        if not (self.model.alphabet.byte_fallback and self.pretokenizer.marks_spaces):
            return found
        reserved = self.model.reserved_tokens
        return [token if token in reserved else token.replace(MARKER, " ") for token in found]


def _check_utf_8(data: bytes) -> None:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidTextError(f"the text is not UTF-8 at byte {error.start}; decode it first, or use a byte-bpe model") from None


def _check_texts(texts: pa.LargeStringArray) -> None:
    """Raise `InvalidTextError` if a text is not UTF-8. Arrow does not check the strings of arrays built by other programs."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidTextError(f"the texts are not valid: {error}; repair them, or use a byte-bpe model") from None
