"""Tokenizer file formats, one per module: `loads(bytes) -> Tokenizer`, `dumps(tokenizer) -> bytes`. Nothing here opens files."""
