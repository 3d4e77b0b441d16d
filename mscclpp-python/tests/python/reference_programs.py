"""Runs the reference's own programs on this package and compares the plans with those of the reference.

Usage: reference_programs.py EXAMPLES PLANS, a checkout of microsoft/mscclpp and a folder of its plans (`index.json`).

Every plan equals the reference's as a JSON value, with channel lists of signals, waits and flushes and lists of access
types taken as sets, or differs as `docs/differences.md` states. With the checks, the plans of programs that are correct
are accepted, and the others are refused.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import sys
import types
from collections import Counter
from typing import Any

import mscclpp.language
from mscclpp.language.program import CollectiveProgram
from mscclpp_rs import PlanError

# Keys of this project's plan files for which the reference has none (DIFF-21).
OWN = {"chunk_factor", "ranks_per_node", "root", "tags"}
SETS = {"signal", "wait", "rlxsignal", "rlxwait", "flush"}

# Plans that differ, with the entry of docs/differences.md.
DIFFERENT = {
    "exec-reduce-i2": "DIFF-15",
    "exec-reduce_pack_tbg-i2": "DIFF-14",
    "multi-reducescatter_pkt-n2x4-i2": "DIFF-14",
    "unit-put_with_signal_fuse_test-patched": "DIFF-03",
    "unit-read_reduce_fuse_test": "DIFF-01",
    "unit-read_reduce_fuse_test-i2": "DIFF-01",
    "unit-reduce_copy_packet_test-i2": "DIFF-14",
    "unit-reduce_copy_send_packet_test-i2": "DIFF-14",
    "unit-reduce_fuse_test": "DIFF-01",
    "unit-reduce_fuse_test-i2": "DIFF-01",
    "unit-reduce_packets_fuse_test": "DIFF-01",
    "unit-reduce_packets_fuse_test-i2": "DIFF-01",
    "unit-tbg_reduce_fuse_test": "DIFF-01",
    "unit-tbg_reduce_fuse_test-i2": "DIFF-01",
}

# Programs of the reference that are wrong, so that the checks refuse their plans: a group copies a chunk and one member
# alone signals it; a port sends a rank's input, and the rank ends without a flush.
WRONG = ("exec-reduce_tbg", "multi-send_recv", "multi-reducescatter-")


class Overridden(CollectiveProgram):
    """A program whose constructor's arguments are overridden, and that need not pass the checks."""

    overrides: dict[str, Any] = {}
    check = False

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        options = dict(self.overrides)
        if "in_place" in options:
            arguments[1].inplace = options.pop("in_place")
        super().__init__(*arguments, **(keywords | options))

    def to_json(self, *arguments: Any, **keywords: Any) -> str:
        return super().to_json(*arguments, check=self.check, **keywords)


def source(path: pathlib.Path, patched: bool) -> str:
    """Returns the text of a program; with `patched`, without the defect that keeps it from running."""
    text = path.read_text()
    if not patched:
        return text
    if path.name == "put_with_signal_fuse_test.py":
        # Each rank sends two signals and waits for one.
        head, wait, tail = text.rpartition("                    ch.wait(tb=0, data_sync=SyncType.after)\n")
        return head + wait + wait + tail
    return (
        text.replace("MSCCLPPProgram", "CollectiveProgram")
        .replace("unpack_packet(", "unpack_packets(")
        .replace("put_packet(", "put_packets(")
    )


def run(entry: dict[str, Any], examples: pathlib.Path) -> str:
    """Returns what a program prints: its plan."""
    path = examples / entry["source"]
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    code = compile(source(path, entry.get("patched", False)), str(path), "exec")
    arguments = entry["args"]
    output = io.StringIO()
    before = sys.argv
    sys.argv = [str(path), *arguments]
    try:
        with contextlib.redirect_stdout(output):
            exec(code, module.__dict__)
    finally:
        sys.argv = before
    return output.getvalue()


def normalized(value: Any) -> Any:
    """Returns a plan without this project's keys, and with lists that are sets in order."""
    if isinstance(value, list):
        return [normalized(item) for item in value]
    if not isinstance(value, dict):
        return value
    value = {key: normalized(item) for key, item in value.items()}
    if value.get("name") in SETS and "channel_ids" in value:
        value["channel_ids"].sort()
    if "access_channel_types" in value:
        value["access_channel_types"].sort()
    return value


def outcome(entry: dict[str, Any], examples: pathlib.Path, theirs: Any, overrides: dict[str, Any]) -> str:
    """Returns `equal`, `different`, or the rule with which the program is refused."""
    Overridden.overrides, Overridden.check = overrides, False
    try:
        plan = normalized(json.loads(run(entry, examples)))
    except PlanError as error:
        return error.findings[0].code if error.findings else str(error)
    ours = {key: value for key, value in plan.items() if key not in OWN}
    return "equal" if ours == theirs else "different"


def refusal(entry: dict[str, Any], examples: pathlib.Path) -> PlanError | None:
    """Returns why the checks refuse a program."""
    Overridden.overrides, Overridden.check = entry["overrides"], True
    try:
        run(entry, examples)
    except PlanError as error:
        return error
    return None


def main() -> None:
    examples, plans = map(pathlib.Path, sys.argv[1:])
    # Programs take the name from these modules.
    for module in (mscclpp.language, sys.modules["mscclpp.language.program"]):
        module.CollectiveProgram = Overridden  # type: ignore[attr-defined]
    failures = []
    counts: Counter[str] = Counter()
    entries = json.loads((plans / "index.json").read_text())
    for entry in entries:
        slug = entry["slug"]
        theirs = normalized(json.loads((plans / f"{slug}.json").read_text()))
        for overrides in [entry["overrides"], *entry["identical_under"]]:
            found = outcome(entry, examples, theirs, overrides)
            expected = "different" if slug in DIFFERENT else "equal"
            counts[found] += 1
            if found != expected:
                failures.append(f"{slug} {overrides}: expected {expected}, found {found}")
        if entry["simulated"]:
            error = refusal(entry, examples)
            counts["accepted" if error is None else "refused"] += 1
            if (error is not None) != slug.startswith(WRONG):
                failures.append(f"{slug} with the checks: {error}")
            # Every finding names a line of the program.
            for finding in error.findings if error else ():
                if str(entry["source"]) not in str(finding):
                    failures.append(f"{slug}: a finding without a line of the program: {finding}")
    print(f"{len(entries)} plans:", ", ".join(f"{count} {what}" for what, count in sorted(counts.items())))
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
