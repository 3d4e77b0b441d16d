"""`python -m mscclpp --install`: writes the plans of the default algorithms."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from mscclpp.default_algos import allreduce_multi_nodes
from mscclpp.language.collectives import AllReduce
from mscclpp.language.utils import AlgoSpec

# Nodes of 8 ranks, smallest and largest message in bytes, thread blocks per transfer.
_PLANS = [(2, 1 << 10, 64 << 10, 1), (2, 128 << 10, 2 << 20, 4), (4, 1 << 10, 64 << 10, 1), (4, 128 << 10, 2 << 20, 4)]


def folder() -> Path:
    """Returns the folder of the plans: `default` in `MSCCLPP_CACHE_DIR`, or else in `~/.cache/mscclpp`."""
    return Path(os.environ.get("MSCCLPP_CACHE_DIR", Path.home() / ".cache/mscclpp")) / "default"


def create_default_plans() -> list[Path]:
    """Writes the plans and returns their paths. Files of other names stay as they are."""
    folder().mkdir(parents=True, exist_ok=True)
    written = []
    for nodes, smallest, largest, group in _PLANS:
        size = {1 << 10: "1K", 64 << 10: "64K", 128 << 10: "128K", 2 << 20: "2M"}
        name = f"allreduce_{nodes}nodes_{size[smallest]}_{size[largest]}"
        spec = AlgoSpec(
            name=name,
            collective=AllReduce(8 * nodes, 1, True),
            nranks_per_node=8,
            world_size=8 * nodes,
            in_place=True,
            instances=1,
            protocol="LL",
            auto_sync=False,
            reuse_resources=True,
            use_double_scratch_buffer=True,
            min_message_size=smallest,
            max_message_size=largest,
            tags={"default": 1},
        )
        path = folder() / f"{name}.json"
        allreduce_multi_nodes(spec, thread_block_group_size=group).plan().save(path)
        written.append(path)
    return written


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mscclpp", description=__doc__)
    parser.add_argument("--install", action="store_true", help="write the plans of the default algorithms")
    if not parser.parse_args().install:
        parser.error("nothing to do: give --install")
    for path in create_default_plans():
        print(path)


if __name__ == "__main__":
    main()
