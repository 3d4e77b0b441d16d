"""Division of a CUDA source into what the host's compiler and what the compiler of device code compiles.

A toolkit's compiler does this itself; here each of two compilers gets one text, with the lines of the source. Host code is the source
without the bodies of kernels, and with launches as calls. Device code is what kernels consist of: all functions, types and variables with
`__global__`, `__device__` or `__constant__`, and the types and constants that these name, but no other function of the host.
"""

from __future__ import annotations

import re

from mscclpp._core.native_items import Item, after_angles, items
from mscclpp._core.native_macros import divided, in_one_line, macro_tokens
from mscclpp._core.native_tokens import Edits, Token, closing, tokens
from mscclpp_rs import InvalidInputError

__all__ = ["ENTRY", "device_text", "has_host_code", "host_text", "kernel_text"]

#: The name of the kernel in a text of `kernel_text`.
ENTRY = "mscclpp_kernel_0"

_INCLUDE = re.compile(r"#\s*include\s*([<\"])([^>\"]+)[>\"]")
_OF_DEVICES = frozenset({"__global__", "__device__", "__constant__", "__managed__"})
_HEAD = '#define MSCCLPP_DEVICE_COMPILE\n#include "mscclpp/native/entry.hpp"\n'
# At the end of the name of a function that names a kernel.
_OF_TEMPLATE = "_mscclpp_kernel"
# As compilers print it.
_ANONYMOUS = re.compile(r"(\{anonymous\}|\(anonymous namespace\)|<unnamed>)::")
# Attributes of kernels that have no meaning for the functions that kernels are made of.
_BOUNDS = frozenset({"__launch_bounds__", "__cluster_dims__", "__maxnreg__"})


def has_host_code(text: str) -> bool:
    """Returns whether a source has host code: whether it includes headers of the C++ interface or of Python."""
    includes = (_INCLUDE.match(token.text) for token in tokens(text) if token.kind == "directive")
    names = (include[2] for include in includes if include is not None)
    return any(name == "Python.h" or name.startswith(("mscclpp/", "pybind11/")) for name in names)


def host_text(name: str, text: str) -> str:
    """Returns what the host's compiler compiles."""
    code, edits = tokens(text), Edits(text)
    # Templates of kernels, with the index where each ends.
    templates: dict[str, int] = {}
    for index, token in enumerate(code):
        if token.text in ("__global__", "__device__"):
            body = _body(code, index)
            if body is not None:
                end = closing(code, body, name, text)
                edits.replace(code[body].end, code[end].begin, "")
                kernel = _template_of_kernel(code, _first_of(code, index), body) if token.text == "__global__" else None
                if kernel is not None:
                    templates.setdefault(kernel[0], end)
                    edits.insert(code[end].end, f" {kernel[1]}")
        elif token.kind == "directive":
            _launch_by_calls(macro_tokens(token), edits, name, text, {})
    _launch_by_calls(code, edits, name, text, templates)
    head = f'#include <mscclpp/native/launch.hpp>\n#line 1 "{name}"\n'
    return f"{head}{edits.made()}\n#include <mscclpp/native/module.hpp>\n"


def _launch_by_calls(code: list[Token], edits: Edits, name: str, text: str, templates: dict[str, int]) -> None:
    """Makes calls of the launches in the text of a source or of a macro."""
    for index, token in enumerate(code):
        if token.text == "__noinline__":
            # A word of the C++ library's headers, which no macro may replace.
            edits.replace(token.begin, token.end, " ")
        if _is_run(code, index, "<", 3):
            callee = _callee(code, index, name, text)
            end = _end_of_launch(code, index, name, text)
            deduced = _deduced(code, callee, index, end, templates, name, text)
            if deduced is not None:
                edits.replace(code[callee].begin, code[index + 2].end, f"::mscclpp::native::launch<{deduced}>(")
            else:
                edits.insert(code[callee].begin, "::mscclpp::native::launch<(&")
                edits.replace(token.begin, code[index + 2].end, ")>(")
            edits.replace(code[end].begin, code[end + 2].end, ")")


def _template_of_kernel(code: list[Token], first: int, body: int) -> tuple[str, str] | None:
    """Returns the name of the kernel whose template begins at an index, and a function of the same template and parameters, whose result names
    the kernel: what a launch leaves out is deduced by a call of it. `None` for a kernel that is no template, or without names of parameters."""
    if code[first].text != "template" or code[first + 1].text != "<":
        return None
    after = after_angles(code, first + 1)
    names: list[str] = []
    for parameter in divided(code[first + 2 : after - 1], brackets="([{<)]}>"):
        signs = [token.text for token in parameter]
        # Without its default value.
        declared = parameter[: signs.index("=")] if "=" in signs else parameter
        if len(declared) < 2 or declared[-1].kind != "word":
            return None
        names.append(declared[-1].text + ("..." if signs.count(".") >= 3 else ""))
    # The last brackets before the body, after those of attributes.
    depth, begin = 0, body
    for index in range(body - 1, after, -1):
        depth += {")": 1, "(": -1}.get(code[index].text, 0)
        if depth == 0 and code[index].text == "(":
            begin = index
            break
    if begin == body or code[begin - 1].kind != "word":
        return None
    kernel, header, parameters = code[begin - 1].text, in_one_line(code[first:after]), in_one_line(code[begin:body])
    return kernel, f"{header} ::mscclpp::native::KernelConstant<(&{kernel}<{', '.join(names)}>)> {kernel}{_OF_TEMPLATE}{parameters};"


def _deduced(code: list[Token], callee: int, at: int, end: int, templates: dict[str, int], name: str, text: str) -> str | None:
    """Returns the kernel of a launch of a template, whose arguments a call deduces; `None` for others, and for templates that come later."""
    index = callee
    while index < at and code[index + 1].text == ":":
        index += 3
    if templates.get(code[index].text, callee) >= callee or end + 3 >= len(code) or code[end + 3].text != "(":
        return None
    arguments = in_one_line(code[end + 3 : closing(code, end + 3, name, text) + 1])
    scope, given = in_one_line(code[callee:index]), in_one_line(code[index + 1 : at])
    return f"decltype({scope}{code[index].text}{_OF_TEMPLATE}{given}{arguments})::kKernel"


def _first_of(code: list[Token], at: int) -> int:
    """Returns the index of the first token of a declaration."""
    while at > 0 and not (code[at - 1].kind == "directive" or code[at - 1].text in (";", "{", "}")):
        at -= 1
    return at


def _body(code: list[Token], at: int) -> int | None:
    """Returns the index of the brace before the body of a device function; `None` if it is none, or if the host calls it too."""
    depth, index = 0, _first_of(code, at) - 1
    has_parameters = False
    while index + 1 < len(code):
        index += 1
        token = code[index].text
        if token == "template" and index + 1 < len(code) and code[index + 1].text == "<":
            index = after_angles(code, index + 1) - 1
            continue
        if token in ("(", "["):
            depth += 1
            has_parameters = has_parameters or token == "("
        elif token in (")", "]"):
            depth -= 1
        elif depth == 0 and (token in ("__host__", "constexpr") or token == ";" or token == "=" and not has_parameters):
            return None
        elif depth == 0 and token == "{":
            return index if has_parameters else None
    return None


def _is_run(code: list[Token], at: int, sign: str, length: int) -> bool:
    """Returns whether equal signs follow each other without space."""
    run = code[at : at + length]
    return len(run) == length and not any(token.text != sign for token in run) and run[-1].end - run[0].begin == length


def _callee(code: list[Token], at: int, name: str, text: str) -> int:
    """Returns the index of the first token of the kernel's name before a launch."""
    index = at - 1
    if index >= 0 and code[index].text == ">":
        # Its template arguments; signs in brackets are comparisons.
        angles = brackets = 0
        while index >= 0:
            sign = code[index].text
            brackets += {")": 1, "]": 1, "(": -1, "[": -1}.get(sign, 0)
            angles += {">": 1, "<": -1}.get(sign, 0) if brackets == 0 else 0
            index -= 1
            if angles == 0 and brackets == 0:
                break
    elif index >= 0 and code[index].text == ")":
        # A name in brackets, as macros have it, or a macro that gives the name.
        brackets = 0
        while index >= 0:
            brackets += {")": 1, "(": -1}.get(code[index].text, 0)
            if brackets == 0:
                break
            index -= 1
        if index <= 0 or code[index - 1].kind != "word":
            return max(index, 0)
        index -= 1
    if index < 0 or code[index].kind != "word":
        line = text.count("\n", 0, code[at].begin) + 1
        raise InvalidInputError(f"{name}:{line}: expected the name of a kernel before '<<<', found none; write both in one text")
    # The parts from which a macro makes the name, and its scopes.
    while index > 2 and code[index - 1].text == code[index - 2].text and code[index - 1].text in (":", "#"):
        index -= 3 if code[index - 3].kind == "word" else 2
    return index


def _end_of_launch(code: list[Token], at: int, name: str, text: str) -> int:
    """Returns the index of the first of the three signs that end a launch's numbers."""
    index = at + 3
    while index < len(code):
        if code[index].text in ("(", "[", "{"):
            index = closing(code, index, name, text)
        elif _is_run(code, index, ">", 3):
            return index
        elif code[index].text == ";":
            break
        index += 1
    line = text.count("\n", 0, code[at].begin) + 1
    raise InvalidInputError(f"{name}:{line}: expected '>>>' after '<<<', found none; write both in one text")


def device_text(name: str, text: str, kernels: list[str]) -> str:
    """Returns what the compiler of device code compiles: `kernels` become `mscclpp_kernel_0` and so on, each with one argument."""
    code = tokens(text)
    kept = _kept(items(code, name, text), code)
    edits, at = Edits(text), 0
    for item in kept:
        begin, end = code[item.begin].begin, code[item.end - 1].end
        edits.replace(at, begin, " ")
        at = end
        _adapt(code, item, edits, name, text)
    edits.replace(at, len(text), " ")
    # Names without a namespace find those of namespaces without a name.
    named = [_ANONYMOUS.sub("", kernel) for kernel in kernels]
    entries = [_in_namespace(kernel, f"MSCCLPP_KERNEL(mscclpp_kernel_{number}, {kernel})") for number, kernel in enumerate(named)]
    return f'{_HEAD}#line 1 "{name}"\n{edits.made()}\n' + "".join(f"{entry}\n" for entry in entries)


def _in_namespace(kernel: str, entry: str) -> str:
    """Returns an entry in the namespace of its kernel: compilers print templates among template arguments without their namespaces."""
    namespace = kernel.partition("<")[0].rpartition("::")[0].removeprefix("::")
    return f"namespace {namespace} {{ {entry} }}" if namespace else entry


def kernel_text(name: str, text: str, kernel: str) -> str:
    """Returns a source without host code in which `kernel` becomes `ENTRY`, whose argument has the bytes of the kernel's arguments."""
    code, edits = tokens(text), Edits(text)
    for token in code:
        if _INCLUDE.match(token.text) and not _is_of_devices(token):
            edits.replace(token.begin, token.end, " ")
    _adapt(code, Item(0, len(code), frozenset(), frozenset(), is_shared=False, is_scope=False), edits, name, text)
    return f'{_HEAD}#line 1 "{name}"\n{edits.made()}\nMSCCLPP_KERNEL_OF_BYTES({ENTRY}, {kernel})\n'


def _kept(found: list[Item], code: list[Token]) -> list[Item]:
    """Returns the items of device code, in order."""
    kept = {index for index, item in enumerate(found) if item.is_scope or _is_device_directive(item, code) or item.words & _OF_DEVICES}
    by_name: dict[str, list[int]] = {}
    for index, item in enumerate(found):
        for known in item.names if item.is_shared else ():
            by_name.setdefault(known, []).append(index)
    pending = list(kept)
    while pending:
        for word in found[pending.pop()].words:
            for index in by_name.pop(word, ()):
                if index not in kept:
                    kept.add(index)
                    pending.append(index)
    return [found[index] for index in sorted(kept)]


def _is_device_directive(item: Item, code: list[Token]) -> bool:
    """Returns whether a directive is for device code: all but those that include headers of the host."""
    return code[item.begin].kind == "directive" and _is_of_devices(code[item.begin])


def _is_of_devices(directive: Token) -> bool:
    include = _INCLUDE.match(directive.text)
    if include is None:
        return True
    is_of_devices = include[2].startswith("mscclpp/") and not include[2].startswith("mscclpp/ext/")
    return is_of_devices or include[2] in ("cuda_fp16.h", "cuda_bf16.h")


def _adapt(code: list[Token], item: Item, edits: Edits, name: str, text: str) -> None:
    """Makes functions of the kernels of an item, and declares shared memory by a macro."""
    index = item.begin
    while index < item.end:
        token = code[index]
        if token.text in ("__global__", "__constant__"):
            # Kernels write what the host copies to variables, those of constant memory too.
            edits.replace(token.begin, token.end, "__device__")
        elif token.text in _BOUNDS and index + 1 < item.end and code[index + 1].text == "(":
            end = closing(code, index + 1, name, text)
            edits.replace(token.begin, code[end].end, " ")
            index = end
        elif token.text == "__shared__":
            index = _declare_shared(code, index, item, edits, name, text)
        index += 1


def _ends_statement(code: list[Token], at: int) -> bool:
    """Returns whether what follows a token is another statement: after a semicolon, brace, directive or label."""
    token = code[at]
    is_scope = any(code[other].text == ":" for other in (at - 1, at + 1) if 0 <= other < len(code))
    return token.kind == "directive" or token.text in (";", "{", "}") or token.text == ":" and not is_scope


def _declare_shared(code: list[Token], at: int, item: Item, edits: Edits, name: str, text: str) -> int:
    """Declares a variable of shared memory by a macro. Returns the index of the token before the semicolon."""
    line = text.count("\n", 0, code[at].begin) + 1
    # The declaration, with its attributes and without words for the storage.
    begin = at
    while begin > item.begin and not _ends_statement(code, begin - 1):
        begin -= 1
    storage = [token for token in code[begin:at] if token.text in ("extern", "static")]
    is_of_launch = any(token.text == "extern" for token in storage)
    variable, end = "", at + 1
    while end < item.end and code[end].text != ";":
        if code[end].text == ",":
            raise InvalidInputError(f"{name}:{line}: expected one variable of shared memory in a declaration, found several; declare each one")
        if code[end].text in ("[", "(", "{"):
            end = closing(code, end, name, text)
        elif code[end].text == "<":
            end = after_angles(code, end) - 1
        elif code[end].kind == "word":
            variable = code[end].text
        end += 1
    for token in (*storage, code[at]):
        edits.replace(token.begin, token.end, "")
    start = code[begin].begin
    if not is_of_launch:
        edits.insert(start, f"MSCCLPP_SHARED({variable}, ")
        edits.insert(code[end - 1].end, ")")
        return end - 1
    if [token.text for token in code[end - 2 : end]] != ["[", "]"]:
        raise InvalidInputError(f"{name}:{line}: expected an array without a size after 'extern __shared__', found another declaration")
    edits.insert(start, f"MSCCLPP_SHARED_OF_LAUNCH({variable}, ")
    edits.replace(code[end - 2].begin, code[end - 1].end, ")")
    return end - 1
