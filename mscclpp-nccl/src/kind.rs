//! Kinds of collective calls and transfers.

use std::ffi::c_int;

use mscclpp_core::collective::CollectiveKind;

/// An operation of NCCL, by which rules name calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Reduce,
    AllToAll,
    Gather,
    Scatter,
    SendRecv,
}

/// All operations, in the order of their numbers, with their names in the list.
pub(crate) const OPERATIONS: [(Operation, &str); 9] = [
    (Operation::AllReduce, "allreduce"),
    (Operation::AllGather, "allgather"),
    (Operation::ReduceScatter, "reducescatter"),
    (Operation::Broadcast, "broadcast"),
    (Operation::Reduce, "reduce"),
    (Operation::AllToAll, "alltoall"),
    (Operation::Gather, "gather"),
    (Operation::Scatter, "scatter"),
    (Operation::SendRecv, "sendrecv"),
];

/// Functions of NCCL by their numbers.
pub(crate) const FUNCTIONS: [&str; 10] = [
    "ncclAllReduce",
    "ncclReduce",
    "ncclReduceScatter",
    "ncclBroadcast",
    "ncclAllGather",
    "ncclAlltoAll",
    "ncclGather",
    "ncclScatter",
    "ncclSend",
    "ncclRecv",
];

impl Operation {
    pub(crate) const fn name(self) -> &'static str {
        OPERATIONS[self as usize].1
    }
}

/// What a call does. Roots and peers are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce(c_int),
    Reduce(c_int, c_int),
    ReduceScatter(c_int),
    Broadcast(c_int),
    AllGather,
    AllToAll,
    Gather(c_int),
    Scatter(c_int),
    Send(c_int),
    Recv(c_int),
}

impl Kind {
    /// Returns the numbers of parts of `count` elements that a rank reads and writes; 0 where its memory is ignored.
    pub(crate) fn parts(self, rank: c_int, ranks: u64) -> [u64; 2] {
        let root = |root: c_int, parts: u64| if root == rank { parts } else { 0 };
        match self {
            Self::AllReduce(_) => [1, 1],
            Self::Reduce(_, to) => [1, root(to, 1)],
            Self::ReduceScatter(_) => [ranks, 1],
            Self::Broadcast(from) => [root(from, 1), 1],
            Self::AllGather => [1, ranks],
            Self::AllToAll => [ranks, ranks],
            Self::Gather(to) => [1, root(to, ranks)],
            Self::Scatter(from) => [root(from, ranks), 1],
            Self::Send(_) => [1, 0],
            Self::Recv(_) => [0, 1],
        }
    }

    /// Returns the number of the function that makes such calls, its place in [`FUNCTIONS`]. Those of all ranks come first.
    pub(crate) fn number(self) -> usize {
        match self {
            Self::AllReduce(_) => 0,
            Self::Reduce(..) => 1,
            Self::ReduceScatter(_) => 2,
            Self::Broadcast(_) => 3,
            Self::AllGather => 4,
            Self::AllToAll => 5,
            Self::Gather(_) => 6,
            Self::Scatter(_) => 7,
            Self::Send(_) => 8,
            Self::Recv(_) => 9,
        }
    }

    /// Returns the function that makes such calls.
    pub(crate) fn function(self) -> &'static str {
        FUNCTIONS[self.number()]
    }

    /// Returns the root or the peer, and its name.
    pub(crate) fn rank(self) -> Option<(&'static str, c_int)> {
        match self {
            Self::Reduce(_, root) | Self::Broadcast(root) | Self::Gather(root) | Self::Scatter(root) => {
                Some(("root", root))
            }
            Self::Send(peer) | Self::Recv(peer) => Some(("peer", peer)),
            _ => None,
        }
    }

    pub(crate) fn operator(self) -> Option<c_int> {
        match self {
            Self::AllReduce(op) | Self::Reduce(op, _) | Self::ReduceScatter(op) => Some(op),
            _ => None,
        }
    }

    /// Returns the collective whose plan serves the call; none for what is made of transfers.
    pub(crate) fn collective(self) -> Option<CollectiveKind> {
        Some(match self {
            Self::AllReduce(_) => CollectiveKind::AllReduce,
            Self::Reduce(..) => CollectiveKind::Reduce,
            Self::ReduceScatter(_) => CollectiveKind::ReduceScatter,
            Self::Broadcast(_) => CollectiveKind::Broadcast,
            Self::AllGather => CollectiveKind::AllGather,
            Self::AllToAll => CollectiveKind::AllToAll,
            Self::Gather(_) | Self::Scatter(_) | Self::Send(_) | Self::Recv(_) => return None,
        })
    }

    /// Returns the operation by which rules name the call.
    pub(crate) fn operation(self) -> Operation {
        match self {
            Self::AllReduce(_) => Operation::AllReduce,
            Self::Reduce(..) => Operation::Reduce,
            Self::ReduceScatter(_) => Operation::ReduceScatter,
            Self::Broadcast(_) => Operation::Broadcast,
            Self::AllGather => Operation::AllGather,
            Self::AllToAll => Operation::AllToAll,
            Self::Gather(_) => Operation::Gather,
            Self::Scatter(_) => Operation::Scatter,
            Self::Send(_) | Self::Recv(_) => Operation::SendRecv,
        }
    }

    /// Returns whether the call moves data from one rank to another one.
    pub(crate) fn is_transfer(self) -> bool {
        matches!(self, Self::Send(_) | Self::Recv(_))
    }

    /// Returns the number of parts of `count` elements in the larger of a rank's input and output, the same on all ranks.
    pub(crate) fn max_parts(self, ranks: u64) -> u64 {
        match self {
            Self::AllReduce(_) | Self::Reduce(..) | Self::Broadcast(_) | Self::Send(_) | Self::Recv(_) => 1,
            Self::ReduceScatter(_) | Self::AllGather | Self::AllToAll | Self::Gather(_) | Self::Scatter(_) => ranks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_in_the_order_of_their_numbers() {
        for (at, (operation, name)) in OPERATIONS.into_iter().enumerate() {
            assert_eq!((operation as usize, operation.name()), (at, name));
        }
    }

    #[test]
    fn larger_side_is_that_of_the_rank_with_most_parts() {
        use Kind::*;
        for kind in [
            AllReduce(0),
            Reduce(0, 2),
            ReduceScatter(0),
            Broadcast(1),
            AllGather,
            AllToAll,
            Gather(0),
            Scatter(3),
            Send(1),
            Recv(1),
        ] {
            let largest = (0..4).flat_map(|rank| kind.parts(rank, 4)).max();
            assert_eq!(largest, Some(kind.max_parts(4)), "{kind:?}");
        }
    }
}
