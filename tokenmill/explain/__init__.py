"""How a model comes by its merge rules, and a text by its tokens, step by step: the engine of `tokenmill explain`.

Built on the plain algorithms of `reference.py` and `reference_words.py`, never on the kernels; tests hold its rules and tokens to
theirs. Everything it gives is frozen dataclasses of strings, numbers and tuples, in the visible form (a space is `Ġ`).

    training.explain_training({"low": 5, "lower": 2, "newest": 6, "widest": 3}, vocab_size=13, ties="first-seen")
    encoding.explain_text(Tokenizer.from_file("tokenizer.json"), "estimate, local")
"""
