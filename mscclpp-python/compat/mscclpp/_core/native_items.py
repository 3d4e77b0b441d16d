"""The declarations of a C++ source, one after the other, with the names that they define."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mscclpp._core.native_tokens import Token, closing

__all__ = ["Item", "after_angles", "items"]

_CLASS_KEYS = frozenset({"struct", "class", "union", "enum"})
_ATTRIBUTES = frozenset({"alignas", "__align__", "__attribute__", "__declspec"})


@dataclass(frozen=True)
class Item:
    """A declaration or directive: the tokens from `begin` to before `end`.

    `names`: what it defines; `words`: all words in it. `is_shared`: whether device code may use it without an attribute: types and
    constants. `is_scope`: begin or end of a namespace, or a directive for namespaces.
    """

    begin: int
    end: int
    names: frozenset[str]
    words: frozenset[str]
    is_shared: bool
    is_scope: bool


def items(code: list[Token], name: str, text: str) -> list[Item]:
    """Returns the declarations of a source in namespaces and outside, in order. Raises `InvalidInputError` for unbalanced brackets."""
    found, at = [], 0
    while at < len(code):
        item = _item(code, at, name, text)
        found.append(item)
        at = item.end
    return found


def _item(code: list[Token], begin: int, name: str, text: str) -> Item:
    first = code[begin]
    if first.kind == "directive":
        return _made(code, begin, begin + 1, set(), False, False)
    if first.text in ("}", ";"):
        return _made(code, begin, begin + 1, set(), False, True)
    scope = _scope(code, begin)
    if scope is not None:
        return _made(code, begin, scope, set(), False, True)
    return _declaration(code, begin, name, text)


def _scope(code: list[Token], begin: int) -> int | None:
    """Returns the index after the brace that begins a namespace or a block of linkage; `None` at anything else."""
    at = begin + 1 if code[begin].text == "inline" else begin
    if at >= len(code):
        return None
    is_linkage = code[at].text == "extern" and at + 1 < len(code) and code[at + 1].kind == "string"
    if code[at].text != "namespace" and not is_linkage:
        return None
    for index in range(at + 1, len(code)):
        if code[index].text == "{":
            return index + 1
        if code[index].text in (";", "=", "(") or is_linkage and code[index].kind != "string":
            return None
    return None


def _declaration(code: list[Token], begin: int, name: str, text: str) -> Item:
    at = begin
    names: set[str] = set()
    keyword, has_class, has_parameters, has_value, is_enum = code[begin].text, False, False, False, False
    # Whether the present one of several variables has an argument list, as a constructor's.
    has_list = False
    last_word = ""
    is_constant = is_named = False
    while at < len(code):
        token = code[at]
        if token.text == "template" and at + 1 < len(code) and code[at + 1].text == "<":
            at = after_angles(code, at + 1)
            keyword = code[at].text if at < len(code) and keyword == "template" else keyword
            continue
        if token.kind == "word":
            is_constant = is_constant or token.text in ("const", "constexpr")
            if token.text in _CLASS_KEYS and not has_parameters:
                has_class, is_enum, is_named = True, is_enum or token.text == "enum", False
            elif token.text in _ATTRIBUTES and at + 1 < len(code) and code[at + 1].text == "(":
                at = closing(code, at + 1, name, text)
            else:
                last_word = token.text
                if has_class and not is_named:
                    names.add(last_word)
                    is_named = True
        elif token.kind == "directive":
            # Conditions within a declaration belong to it.
            pass
        elif token.text in (";", ",", "=", "[") and not has_list and not has_value:
            names.add(last_word)
        if token.text in ("(", "["):
            if token.text == "(" and not has_value:
                names.add(last_word)
                has_parameters = has_list = True
            at = closing(code, at, name, text)
        elif token.text == "<" and at > begin and code[at - 1].kind == "word" and last_word != "operator":
            # Commas in template arguments are not between variables.
            at = _end_of_arguments(code, at, has_value)
        elif token.text == "=" and last_word != "operator":
            has_value = True
        elif token.text == ",":
            # The next variable of the declaration.
            has_value = has_list = False
        elif token.text == "{":
            end = closing(code, at, name, text)
            if not has_parameters and not has_class and not has_value:
                names.add(last_word)
            if is_enum and not has_value:
                names.update(inner.text for inner in code[at:end] if inner.kind == "word")
            at = end
            follows = code[end + 1].text if end + 1 < len(code) else ""
            is_body = has_parameters and not has_value and follows not in (",", "{")
            if is_body:
                at += 1
                break
        elif token.text == "}":
            # The end of a namespace, after a declaration without its end.
            break
        elif token.text == ";":
            at += 1
            break
        at += 1
    is_namespaces = keyword == "using" and begin + 1 < len(code) and code[begin + 1].text == "namespace"
    # A namespace with another name is one, too.
    is_type = keyword in ("using", "typedef", "namespace") or has_class and not has_parameters
    if keyword == "typedef":
        names.add(last_word)
    is_shared = is_type or is_constant and (not has_parameters or any(t.text == "constexpr" for t in code[begin:at]))
    return _made(code, begin, max(at, begin + 1), names, is_shared, is_namespaces)


def _end_of_arguments(code: list[Token], at: int, is_value: bool) -> int:
    """Returns the index of the sign that ends the template arguments which a sign may begin; that of the sign itself if it compares."""
    angles = brackets = 0
    for index in range(at, len(code)):
        sign = code[index].text
        brackets += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(sign, 0)
        if brackets < 0 or sign == ";" and brackets == 0:
            break
        angles += {"<": 1, ">": -1}.get(sign, 0) if brackets == 0 else 0
        if angles == 0 and brackets == 0:
            follows = code[index + 1].text if index + 1 < len(code) else ""
            return at if is_value and follows not in ("(", "{", ":", ",", ";") else index
    return at


def after_angles(code: list[Token], at: int) -> int:
    """Returns the index after the angle brackets that begin at an index."""
    angles = brackets = 0
    while at < len(code):
        sign = code[at].text
        brackets += {"(": 1, "[": 1, ")": -1, "]": -1}.get(sign, 0)
        # Signs in brackets are comparisons.
        angles += {"<": 1, ">": -1}.get(sign, 0) if brackets == 0 else 0
        at += 1
        if angles == 0 and brackets == 0:
            break
    return at


def _made(code: list[Token], begin: int, end: int, names: set[str], is_shared: bool, is_scope: bool) -> Item:
    words = {token.text for token in code[begin:end] if token.kind == "word"}
    if code[begin].kind == "directive" and code[begin].text.lstrip("# \t").startswith("define"):
        # The text of a macro may name what device code consists of.
        words = set(re.findall(r"[^\W\d]\w*", code[begin].text))
    return Item(begin, end, frozenset(names - {""}), frozenset(words), is_shared, is_scope)
