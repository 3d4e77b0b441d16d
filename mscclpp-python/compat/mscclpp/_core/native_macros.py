"""Macros of device code, such as one that defines a kernel for each of several types.

The division of a source goes by its words, so that the uses of such macros become their texts first. Macros without words of device code, and
those with several definitions, of which conditions choose one, stay as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from mscclpp._core.native_includes import with_own_headers
from mscclpp._core.native_tokens import Edits, Token, closing, tokens
from mscclpp_rs import InvalidInputError

__all__ = ["divided", "in_one_line", "macro_tokens", "whole_text", "with_device_macros"]

_DEFINE = re.compile(r"#\s*define\s+(\w+)(\([^)]*\))?")
_UNDEFINE = re.compile(r"#\s*undef\s+(\w+)")
_CONTINUED = re.compile(r"\\\r?\n")
_OF_DEVICES = frozenset({"__global__", "__device__", "__shared__", "__constant__"})
# Bound of what macros that use one another become.
_MOST_CHARACTERS = 1 << 18


def macro_tokens(directive: Token) -> list[Token]:
    """Returns the tokens of the text of a macro that a directive defines; none of other directives."""
    # Of the same length, so that tokens stay where they are.
    text = _CONTINUED.sub(lambda match: " " * len(match[0]), directive.text)
    define = _DEFINE.match(text)
    if define is None:
        return []
    # The first sign may be an operator of macros, which is no directive.
    code = tokens(f";{text[define.end() :]}")[1:]
    begin = directive.begin + define.end() - 1
    return [Token(found.kind, found.text, begin + found.begin, begin + found.end) for found in code]


def whole_text(name: str, text: str, folder: Path) -> str:
    """Returns a source with the texts of the headers in its folder, and of macros of device code."""
    return with_device_macros(name, with_own_headers(name, text, folder))


def with_device_macros(name: str, text: str) -> str:
    """Returns a source without uses of macros of device code. Lines keep their numbers.

    Raises `InvalidInputError` for unbalanced brackets, and for macros whose texts are too long.
    """
    return _Expansion(name, text).made()


@dataclass(frozen=True)
class _Macro:
    parameters: list[str] | None
    code: list[Token]

    def substituted(self, arguments: dict[str, str]) -> str:
        """Returns the text with the texts of arguments."""
        made, at = "", 0
        is_pasted = False
        while at < len(self.code):
            token = self.code[at]
            next_text = self.code[at + 1].text if at + 1 < len(self.code) else ""
            if token.text == next_text == "#":
                made, is_pasted, at = made.rstrip(), True, at + 2
                continue
            is_apart = at > 0 and self.code[at - 1].end < token.begin and not is_pasted
            part = arguments.get(token.text, token.text)
            if token.text == "#" and next_text in arguments:
                part = '"' + arguments[next_text].replace("\\", "\\\\").replace('"', '\\"') + '"'
                at += 1
            made += f" {part}" if is_apart else part
            is_pasted, at = False, at + 1
        return made


class _Expansion:
    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._macros: dict[str, _Macro] = {}
        self._characters = 0

    def made(self) -> str:
        code, edits, index = tokens(self._text), Edits(self._text), 0
        defined = [match[1] for token in code if token.kind == "directive" and (match := _DEFINE.match(token.text))]
        while index < len(code):
            if code[index].kind == "directive":
                self._define(code[index], defined)
                index += 1
            else:
                index = self._replace(code, index, edits, self._text, frozenset())
        return edits.made()

    def _define(self, directive: Token, defined: list[str]) -> None:
        if undefined := _UNDEFINE.match(directive.text):
            self._macros.pop(undefined[1], None)
        define = _DEFINE.match(_CONTINUED.sub(" ", directive.text))
        if define is None or defined.count(define[1]) > 1:
            return
        code = macro_tokens(directive)
        if any(token.text in _OF_DEVICES or token.text in self._macros for token in code):
            parameters = None if define[2] is None else [part.strip() for part in define[2][1:-1].split(",") if part.strip()]
            self._macros[define[1]] = _Macro(parameters, code)

    def _replace(self, code: list[Token], at: int, edits: Edits, text: str, within: frozenset[str]) -> int:
        """Replaces the use of a macro, if a token begins one, and returns the index after it."""
        macro = self._macros.get(code[at].text)
        if macro is None or code[at].text in within:
            return at + 1
        end, arguments = at, {}
        if macro.parameters is not None:
            if at + 1 >= len(code) or code[at + 1].text != "(":
                return at + 1
            end = closing(code, at + 1, self._name, text)
            arguments = _arguments(macro.parameters, code[at + 2 : end])
        edits.replace(code[at].begin, code[end].end, self._expanded(macro.substituted(arguments), within | {code[at].text}))
        return end + 1

    def _expanded(self, text: str, within: frozenset[str]) -> str:
        """Returns a text in which the uses of other macros are their texts, too."""
        self._characters += len(text)
        if self._characters > _MOST_CHARACTERS:
            message = f"expected at most {_MOST_CHARACTERS} characters of macros of device code, found more; use templates"
            raise InvalidInputError(f"{self._name}: {message}")
        code, edits, index = tokens(text), Edits(text), 0
        while index < len(code):
            index = self._replace(code, index, edits, text, within)
        return edits.made()


def _arguments(parameters: list[str], code: list[Token]) -> dict[str, str]:
    """Returns the texts of a use's arguments, by the names of the parameters."""
    most = len(parameters) if parameters[-1:] == ["..."] else None
    names = ["__VA_ARGS__" if parameter == "..." else parameter for parameter in parameters]
    return dict(zip(names, map(in_one_line, divided(code, most=most)), strict=False))


def divided(code: list[Token], most: int | None = None, brackets: str = "([{)]}") -> list[list[Token]]:
    """Returns the parts between commas outside of brackets, at most `most`. `brackets`: those that open, and those that close."""
    found: list[list[Token]] = [[]]
    depth, half = 0, len(brackets) // 2
    for token in code:
        depth += (token.text in brackets[:half]) - (token.text in brackets[half:])
        if token.text == "," and depth == 0 and len(found) != most:
            found.append([])
        else:
            found[-1].append(token)
    return found


def in_one_line(code: list[Token]) -> str:
    """Returns tokens as a text without lines."""
    parts = [(" " if at > 0 and code[at - 1].end < token.begin else "") + token.text for at, token in enumerate(code)]
    return _CONTINUED.sub(" ", "".join(parts))
