"""Tokens of C++ sources, as far as the division into host code and device code needs them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mscclpp_rs import InvalidInputError

__all__ = ["CLOSING", "Edits", "Token", "closing", "tokens"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<directive>\#(?:\\\r?\n|/\*.*?\*/|(?!//)[^\n])*)
    |(?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*"|(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
    |(?P<number>\.?[0-9](?:[eEpP][+-]|'[0-9a-zA-Z]|[0-9a-zA-Z_.])*)
    |(?P<word>[^\W\d]\w*)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.DOTALL,
)

#: The brackets, by those that open.
CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class Token:
    """A directive, string, number, word or sign (one character), from `begin` to before `end`."""

    kind: str
    text: str
    begin: int
    end: int


class Edits:
    """Replacements of parts of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._edits: list[tuple[int, int, str]] = []

    def replace(self, begin: int, end: int, by: str) -> None:
        """Replaces a part, and keeps its lines."""
        lines = self._text.count("\n", begin, end) - by.count("\n")
        self._edits.append((begin, end, by + "\n" * lines))

    def insert(self, at: int, text: str) -> None:
        """Inserts a text before what is at an index."""
        self._edits.append((at, at, text))

    def made(self) -> str:
        parts, at = [], 0
        for begin, end, by in sorted(self._edits):
            # Of two that overlap, the first one contains the other.
            if begin >= at:
                parts += [self._text[at:begin], by]
                at = end
        return "".join([*parts, self._text[at:]])


def tokens(text: str) -> list[Token]:
    """Returns the tokens of a source without comments."""
    found: list[Token] = []
    at, starts_line = 0, True
    while at < len(text):
        match = _TOKEN.match(text, at)
        # The last alternative matches any character.
        assert match is not None
        kind, end = str(match.lastgroup), match.end()
        if kind == "mark":
            kind = "string"
        if kind == "directive" and not starts_line:
            # An operator of macros.
            kind, end = "sign", at + 1
        if kind == "space":
            starts_line = starts_line or "\n" in match.group()
        else:
            found.append(Token(kind, text[at:end], at, end))
            starts_line = kind == "directive"
        at = end
    return found


def closing(code: list[Token], at: int, name: str, text: str) -> int:
    """Returns the index of the bracket that closes the one at an index. Raises `InvalidInputError` if there is none."""
    expected: list[str] = []
    for index in range(at, len(code)):
        token = code[index]
        if token.kind != "sign":
            continue
        if token.text in CLOSING:
            expected.append(CLOSING[token.text])
        elif token.text in CLOSING.values():
            if token.text != expected.pop():
                break
            if not expected:
                return index
    line = text.count("\n", 0, code[at].begin) + 1
    raise InvalidInputError(f"{name}:{line}: expected a bracket that closes '{code[at].text}', found none")
