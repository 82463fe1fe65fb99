"""The version of tokenmill, as artefacts state it."""

__version__ = "0.1.0"
