"""Explains training and encoding step by step: the engine of `tokenmill explain`.

It uses the plain algorithms of `tokenmill/reference/`, never the kernels; tests check that its rules and tokens are the same as
those of the kernels. Results are frozen dataclasses of strings, numbers and tuples, in visible form (a space is `Ġ`).

    training.explain_training({"low": 5, "lower": 2, "newest": 6, "widest": 3}, vocab_size=13, ties="first-seen")
    encoding.explain_text(Tokenizer.from_file("tokenizer.json"), "estimate, local")
"""
