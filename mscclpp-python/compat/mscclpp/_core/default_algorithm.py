"""The reference's default algorithms: what serves them here, and the calls that they refuse."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DEFAULT_ALGORITHMS", "DefaultAlgorithm"]

_WARP = 32


@dataclass(frozen=True)
class DefaultAlgorithm:
    """The limits of an algorithm, which are those of its counterpart; 0 is no limit."""

    name: str
    max_blocks: int = 0
    max_threads: int = 0
    # Whether threads come in whole warps, and whether there is a warp for each peer.
    needs_warps: bool = False
    warp_per_peer: bool = False
    block_per_peer: bool = False
    # Whether a message must fit into the caller's scratch.
    fits_scratch: bool = False
    # Kinds of thread blocks that share the blocks of a launch.
    roles: int = 1

    def refusal(self, peers: int, size: int, scratch_bytes: int, blocks: int, threads: int) -> str:
        """Returns why a call of `size` bytes with a number of blocks and threads, 0 for the usual one, is refused; empty if it is not."""
        if self.fits_scratch and size > scratch_bytes:
            return f"expected at most {scratch_bytes} bytes, those of the scratch buffer, found {size}"
        # The reference uses its own numbers unless both are given.
        if not blocks or not threads:
            blocks = threads = 0
        if self.max_blocks and blocks > self.max_blocks:
            return f"expected at most {self.max_blocks} thread blocks, found {blocks}"
        if self.max_threads and threads > self.max_threads:
            return f"expected at most {self.max_threads} threads per block, found {threads}"
        if self.needs_warps and threads % _WARP:
            return f"expected threads per block that are a multiple of {_WARP}, found {threads}"
        if self.warp_per_peer and threads and threads // _WARP < peers:
            return f"expected at least {peers} warps per block, one for each peer, found {threads} threads"
        if self.block_per_peer and blocks and blocks < peers:
            return f"expected at least {peers} thread blocks, one for each peer, found {blocks}"
        return ""

    def blocks(self, blocks: int) -> int:
        """Returns the blocks of each role for those of a launch; 0 for the usual number."""
        return max(1, blocks // self.roles) if blocks else 0


DEFAULT_ALGORITHMS = [
    DefaultAlgorithm("default_allreduce_nvls_packet", max_blocks=16),
    DefaultAlgorithm("default_allreduce_packet", max_blocks=112, block_per_peer=True),
    DefaultAlgorithm("default_allreduce_allpair_packet", max_blocks=64, needs_warps=True, warp_per_peer=True),
    DefaultAlgorithm("default_allreduce_nvls_zero_copy", max_blocks=32),
    DefaultAlgorithm("default_allreduce_nvls_warp_pipeline"),
    DefaultAlgorithm("default_allreduce_nvls_block_pipeline", roles=3),
    DefaultAlgorithm("default_allreduce_fullmesh", max_blocks=64),
    DefaultAlgorithm("default_allreduce_rsag", max_blocks=64, fits_scratch=True),
    DefaultAlgorithm("default_allreduce_rsag_pipeline", roles=3),
    DefaultAlgorithm("default_allreduce_rsag_zero_copy", max_blocks=128),
    DefaultAlgorithm("default_allgather_fullmesh", max_blocks=56, max_threads=1024, needs_warps=True),
    DefaultAlgorithm("default_allgather_fullmesh2", max_blocks=35),
]
