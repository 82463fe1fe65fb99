"""The version of tokenmill, which output files record."""

__version__ = "0.1.0"
