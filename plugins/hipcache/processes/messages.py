"""The text of what a compiler says: bytes of its own choice, whatever the locale. Users of all locales share the
records with it."""

from __future__ import annotations


def decode(said: bytes) -> str:
    return said.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """The bytes of `decode`. Raises ValueError for a text that is none of its."""
    return text.encode("utf-8", "surrogateescape")
