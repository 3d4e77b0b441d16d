"""Topologies, as far as programs name them."""

from dataclasses import dataclass

__all__ = ["Topology", "fully_connected"]


@dataclass(frozen=True)
class Topology:
    """Ranks that all reach each other."""

    name: str
    num_ranks: int

    def num_nodes(self) -> int:
        return self.num_ranks


def fully_connected(num_nodes: int) -> Topology:
    """Returns the topology of ranks that all reach each other."""
    return Topology(f"FullyConnected(n={num_nodes})", num_nodes)
