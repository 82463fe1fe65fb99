"""Tokenizer file formats, one a file: `loads(bytes) -> Tokenizer`, `dumps(tokenizer) -> bytes`; no file system here."""
