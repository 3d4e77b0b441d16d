"""The fenced blocks of the reference system's documents, by document and number."""

from __future__ import annotations

import os
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

FOLDER = os.environ.get("MSCCLPP_SEEDS", "")
_FENCE = re.compile(r"\s*```\s*(\S*)")


@dataclass(frozen=True)
class Block:
    """A block, with the file and the line of its text."""

    language: str
    text: str
    path: Path
    line: int

    def run(self, names: dict[str, object]) -> dict[str, object]:
        """Executes the block with names, and returns them. Places in its errors are those of the document."""
        exec(compile("\n" * (self.line - 1) + self.text, str(self.path), "exec"), names)
        return names


def documents() -> list[Path]:
    """Returns the documents in order."""
    return sorted(Path(FOLDER).glob("[0-9][0-9][0-9]_*.txt")) if FOLDER else []


def read(path: Path) -> list[Block]:
    """Returns the blocks of a document; the first one is number 1."""
    blocks, begun = [], None
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        fence = _FENCE.match(line)
        if not fence:
            continue
        if begun is None:
            begun = (number, fence[1])
        else:
            first, language = begun
            text = textwrap.dedent("\n".join(lines[first : number - 1])) + "\n"
            blocks.append(Block(language, text, path, first + 1))
            begun = None
    return blocks
