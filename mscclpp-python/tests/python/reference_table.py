"""Runs the programs of a checkout of microsoft/mscclpp as they stand, and prints a table of what runs.

Usage: reference_table.py EXAMPLES, the checkout.

Programs of the language's tests print their plans; those that the checks reject print them with `MSCCLPP_UNCHECKED_JSON=1`. Functions of
the default algorithms return programs. A program that neither runs nor is rejected by the checks is a failure, unless `BROKEN` has why.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from mscclpp.language.collectives import AllGather, AllReduce, Collective, ReduceScatter
from mscclpp.language.utils import AlgoSpec
from mscclpp_rs import PlanError

TESTS = "python/mscclpp/language/tests"
DEFAULT = "python/mscclpp/default_algos"
# Values of arguments without a default.
VALUES = {"name": "program", "num_gpus": "4", "gpus_per_node": "4", "tbg_size": "2"}
# Why programs do not run with the reference's package either.
BROKEN = {
    "single_node/allgather_ring.py": "it uses MSCCLPPProgram, which is not defined",
    "single_node/alltoall/alltoall_pkt.py": "it calls put_packet, which channels do not have",
}


def arguments(text: str) -> list[str]:
    """Returns the arguments that a program needs."""
    found = re.findall(r'add_argument\("--(\w+)"((?:[^()]|\([^()]*\))*)\)', text)
    return [one for name, rest in found if "default=" not in rest and name in VALUES for one in (f"--{name}", VALUES[name])]


def run(path: Path, unchecked: bool) -> str:
    """Returns what happens to a program: `runs`, the rules that reject it, or its last line."""
    environment = os.environ | {"MSCCLPP_UNCHECKED_JSON": str(int(unchecked))}
    command = [sys.executable, str(path), *arguments(path.read_text(encoding="utf-8"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        rules = sorted(set(re.findall(r"\[(M\d{4}) ", done.stderr)))
        has_plan = "MSCCLPP_UNCHECKED_JSON=1" in done.stderr
        return f"rejected: {', '.join(rules)}" if has_plan else (done.stderr.strip().splitlines() or ["no output"])[-1]
    json.loads(done.stdout)
    return "runs"


def specification(collective: Collective) -> AlgoSpec:
    """Returns the specification for two nodes of two ranks, as the reference's own calls have it."""
    options = {"auto_sync": isinstance(collective, ReduceScatter), "use_double_scratch_buffer": True}
    return AlgoSpec("default", collective, 2, 4, collective.inplace, 1, "LL", **options)


def default_algorithm(path: Path) -> tuple[str, str]:
    """Returns what happens to the function of a default algorithm, with the checks and without."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function: Any = getattr(module, path.stem)
    calls = {
        "allgather_multi_nodes": (AllGather(4, 1, True),),
        "allreduce_multi_nodes": (AllReduce(4, 1, True), 1),
        "reducescatter_multi_nodes": (ReduceScatter(4, 1, True),),
    }
    collective, *others = calls[path.stem]
    try:
        function(specification(collective), *others).plan()
    except PlanError as error:
        json.loads(function(specification(collective), *others).to_json(check=False))
        return f"rejected: {', '.join(sorted({finding.code for finding in error.findings}))}", "runs"
    return "runs", "runs"


def main() -> None:
    examples = Path(sys.argv[1])
    rows, failures = [], []
    for path in sorted((examples / TESTS).rglob("*.py")):
        name = str(path.relative_to(examples / TESTS))
        checked = run(path, False)
        unchecked = checked if checked == "runs" else run(path, True)
        rows.append((name, checked, unchecked))
        if unchecked != "runs" and name not in BROKEN:
            failures.append(f"{name}: {unchecked}")
        if unchecked == "runs" and name in BROKEN:
            failures.append(f"{name}: expected that it does not run: {BROKEN[name]}")
    for path in sorted((examples / DEFAULT).glob("*_multi_nodes.py")):
        rows.append((f"default_algos/{path.name}", *default_algorithm(path)))
    print("| program | as it stands | with MSCCLPP_UNCHECKED_JSON=1 |\n|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    count = sum(row[1] == "runs" for row in rows)
    print(f"{len(rows)} programs: {count} run, {sum(row[1] != 'runs' and row[2] == 'runs' for row in rows)} more with the variable")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
