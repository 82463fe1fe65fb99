"""Every error that a user can meet, as one tree with the exit codes of the command line.

    TokenmillError                     1  our bug, or a process that died under us
    ├── WorkerError                    1  a worker process ended in the middle of a job
    ├── OutputError                    1  a file that cannot be written: the disk is full, or the folder is gone
    ├── UsageError                     2  an option, configuration or request that cannot be carried out
    │   ├── ConfigError                2  a configuration file that does not validate
    │   ├── MissingColumnError         2  a text or id column that the input does not have
    │   ├── OutputExistsError          2  the output already holds something that would be lost
    │   ├── VocabularySizeError        2  fewer tokens asked for than the alphabet and the specials need
    │   └── StoreAccessError           2  an object store: no such bucket, access denied, or its library is not installed
    ├── DataError                      3  the data cannot be used as it is; nothing is published
    │   ├── UnreadableFileError        3  missing, truncated, corrupt, or not of the stated format
    │   ├── InvalidTextError           3  a record that the policy says must end the run
    │   ├── NothingToTrainOnError      3  no word at all in the corpus
    │   ├── NothingEncodedError        3  an empty result that would replace one which is not
    │   ├── TooManyRejectsError        3  more rejected records than `--max-rejects`
    │   ├── AccountingError            3  documents read are not documents encoded plus rejected
    │   ├── UnknownCharacterError      3  a character outside the alphabet of a model without an unk token
    │   ├── TokenizerFileError         3  a malformed tokenizer file
    │   └── StoreError                 3  an object store that does not answer, or answers with an error of its own
    └── LockedError                    4  another build holds the folder

A message says which value is wrong, where it is (file, row, offset) and what to do. Errors are pickled when they cross process
boundaries, so each one is built from its message alone.
"""

from __future__ import annotations


class TokenmillError(Exception):
    """The root of the tree. `exit_code` is the exit code of the command line."""

    exit_code = 1


class WorkerError(TokenmillError):
    """A worker process ended in the middle of a job."""


class OutputError(TokenmillError):
    """A file that cannot be written: the disk is full, or the folder is gone."""


class UsageError(TokenmillError):
    """An option, configuration or request that cannot be carried out."""

    exit_code = 2


class ConfigError(UsageError):
    """A configuration file that does not validate."""


class MissingColumnError(UsageError):
    """A text or id column that the input does not have; the message lists the columns that it has."""


class OutputExistsError(UsageError):
    """The output already holds something that would be lost."""


class VocabularySizeError(UsageError):
    """A vocabulary size that is too small for the alphabet and the special tokens."""


class StoreAccessError(UsageError):
    """An object store that cannot be used as asked: no such bucket, access denied, or its library is not installed."""


class DataError(TokenmillError):
    """The data cannot be used as it is; nothing is published."""

    exit_code = 3


class UnreadableFileError(DataError):
    """A file that is missing, truncated, corrupt, or not of the stated format."""


class InvalidTextError(DataError):
    """A text that cannot be used, such as a record that is not UTF-8 if the policy is to end the run."""


class NothingToTrainOnError(DataError):
    """The corpus contains no words."""


class NothingEncodedError(DataError):
    """An empty result would replace a result that is not empty."""


class TooManyRejectsError(DataError):
    """More rejected records than `--max-rejects`."""


class AccountingError(DataError):
    """The number of documents read is not the number encoded plus the number rejected."""


class UnknownCharacterError(DataError):
    """A character outside the alphabet of a model that has no unk token."""


class TokenizerFileError(DataError):
    """A malformed tokenizer file."""


class StoreError(DataError):
    """An object store that does not answer, or answers with an error of its own."""


class LockedError(TokenmillError):
    """Another build holds the folder."""

    exit_code = 4
