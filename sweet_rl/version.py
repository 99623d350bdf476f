"""The version of the library, for its records."""

__version__ = "0.1.0"
