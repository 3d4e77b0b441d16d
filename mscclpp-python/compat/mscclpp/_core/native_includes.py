"""The texts of headers beside a source, in place of the directives that include them: the compiler of device code reads no files.

Which of several directives a preprocessor follows depends on macros, so that each of them gets the text, under the header's guard.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mscclpp._core.native_tokens import Token, tokens
from mscclpp_rs import InvalidInputError

__all__ = ["source_text", "with_own_headers"]

_OWN = re.compile(r"#\s*include\s*\"([^\"\n]+)\"")
_ONCE = re.compile(r"#\s*pragma\s+once\b")
_KIND = re.compile(r"#\s*(\w*)")
_GUARD = re.compile(r"#\s*(?:ifndef\s+(\w+)|if\s+!\s*defined\s*\(?\s*(\w+)\s*\)?\s*$)")
_DEFINED = re.compile(r"#\s*define\s+(\w+)")
# Bounds of what sources that include headers again and again become.
_MOST_CHARACTERS = 1 << 24
_MOST_OPEN = 100


def source_text(path: Path) -> str:
    """Returns the text of a file. Raises `InvalidInputError` with the path if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"{path}:{line}: expected text in UTF-8, found the byte {error.object[error.start]:#04x}; save the file as UTF-8"
        raise InvalidInputError(message) from None


def with_own_headers(name: str, text: str, folder: Path) -> str:
    """Returns a source with the texts of the headers in its folder.

    Raises `InvalidInputError` for a header that is not UTF-8, that includes itself without a guard, or whose text would be there too often.
    """
    return _Expansion().of(_File(text), name, folder, is_sure=True)


@dataclass(frozen=True)
class _File:
    text: str

    @cached_property
    def directives(self) -> list[Token]:
        return [token for token in self.code if token.kind == "directive"]

    @cached_property
    def code(self) -> list[Token]:
        return tokens(self.text)

    @cached_property
    def depths(self) -> list[int]:
        """In how many conditions each directive is, without that of an include guard."""
        return [depth - self.has_guard for depth in self._all_depths]

    @cached_property
    def once(self) -> Token | None:
        """The directive by which a preprocessor reads the file once."""
        found = (token for token, depth in zip(self.directives, self.depths, strict=True) if depth == 0 and _ONCE.match(token.text))
        return next(found, None)

    @cached_property
    def has_guard(self) -> bool:
        """Whether an include guard has all that is in the file."""
        if len(self.code) < 3 or self.code[0].kind != "directive":
            return False
        guard, defined = _GUARD.match(self.code[0].text), _DEFINED.match(self.code[1].text)
        if guard is None or defined is None or defined[1] not in (guard[1], guard[2]) or _kind(self.code[-1]) != "endif":
            return False
        # No other branch, and no end before the last directive.
        within = zip(self.directives[1:-1], self._all_depths[1:-1], strict=True)
        return not any(depth < 1 or depth == 1 and _kind(token).startswith(("else", "elif")) for token, depth in within)

    @cached_property
    def _all_depths(self) -> list[int]:
        depth, found = 0, []
        for token in self.directives:
            kind = _kind(token)
            depth -= kind == "endif"
            found.append(depth)
            depth += kind in ("if", "ifdef", "ifndef")
        return found


def _kind(token: Token) -> str:
    match = _KIND.match(token.text) if token.kind == "directive" else None
    return match[1] if match is not None else ""


def _line_after(file: _File, token: Token, name: str) -> str:
    """Returns a directive that numbers the line after another one."""
    return f'\n#line {file.text.count(chr(10), 0, token.end) + 2} "{name}"'


class _Expansion:
    def __init__(self) -> None:
        self._files: dict[Path, _File] = {}
        # Those that any preprocessor has read before, and those whose text this is within.
        self._done: set[Path] = set()
        self._open: list[Path] = []
        self._characters = 0

    def of(self, file: _File, name: str, folder: Path, is_sure: bool) -> str:
        """Returns the text of a file. `is_sure`: whether any preprocessor reads it, if not before."""
        parts, at = [], 0
        has_moved = False
        for token, depth in zip(file.directives, file.depths, strict=True):
            own = _OWN.match(token.text)
            path = folder / own[1] if own is not None else None
            if token is file.once:
                parts.append(file.text[at : token.begin])
                at = token.end
            elif own is not None and path is not None and os.path.isfile(path):
                inner = self._header(path.resolve(), own[1], is_sure and depth == 0)
                parts += [file.text[at : token.begin], inner, _line_after(file, token, name) if inner else ""]
                at = token.end
                has_moved = has_moved or inner != ""
            elif has_moved and _kind(token).startswith(("else", "elif", "endif")):
                # Preprocessors do not count what they skip as its `#line` states.
                parts += [file.text[at : token.end], _line_after(file, token, name)]
                at = token.end
        return "".join([*parts, file.text[at:]])

    def _header(self, path: Path, name: str, is_sure: bool) -> str:
        """Returns what a header is for a directive; nothing if a preprocessor has read it before and does not again."""
        file = self._files.get(path)
        if file is None:
            file = self._files.setdefault(path, _File(source_text(path)))
        if file.once is not None or file.has_guard:
            if path in self._done or path in self._open:
                return ""
            if is_sure:
                self._done.add(path)
        elif path in self._open:
            raise InvalidInputError(f"{path}: expected a guard in a header that includes itself, found none; begin it with `#pragma once`")
        # An empty one takes time too.
        self._characters += len(file.text) + 4096
        if self._characters > _MOST_CHARACTERS or len(self._open) >= _MOST_OPEN:
            raise InvalidInputError(
                f"{path}: expected at most {_MOST_CHARACTERS} characters of headers, and {_MOST_OPEN} that include one another, found more; "
                "begin those that are included several times with `#pragma once`, and include them under no condition"
            )
        self._open.append(path)
        inner = f'#line 1 "{name}"\n{self.of(file, name, path.parent, is_sure)}'
        self._open.pop()
        if file.once is None:
            return inner
        guard = f"MSCCLPP_OWN_HEADER_{list(self._files).index(path)}"
        return f"#ifndef {guard}\n#define {guard}\n{inner}\n#endif"
