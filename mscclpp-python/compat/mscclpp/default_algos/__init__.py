"""The default algorithms for several nodes, as programs of a specification.

They are built-in algorithms of `mscclpp-rs`: the plans of all-reduce and all-gather equal those of the reference's
programs; that of reduce-scatter moves data in the same two steps in other slots.
"""

from mscclpp.default_algos.allgather_multi_nodes import allgather_multi_nodes
from mscclpp.default_algos.allreduce_multi_nodes import allreduce_multi_nodes
from mscclpp.default_algos.reducescatter_multi_nodes import reducescatter_multi_nodes

__all__ = ["allgather_multi_nodes", "allreduce_multi_nodes", "reducescatter_multi_nodes"]
