//! Calls without elements are calls like any other: ranks compare them, and later calls stay in step.

use mscclpp_communicator::{Communicator, Group};
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::Error;
use mscclpp_exec::error::ErrorKind;

use crate::ranks::on_ranks;

const CALLS: [&str; 10] = [
    "all_reduce",
    "all_reduce_in_place",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "send_recv",
    "transfer",
    "transfer in a group",
];

/// Number of elements, of a rank or of each part, of a call with elements.
const LEN: usize = 5;

/// Makes a call of two ranks, whose result is checked if there are elements.
fn make(comm: &Communicator, call: &str, len: usize, value: u32) -> Result<(), Error> {
    let (rank, values) = (comm.rank(), |len: usize| vec![value + comm.rank(); len]);
    let (mut one, mut two, sum) = (vec![0; len], vec![0; 2 * len], 2 * value + 1);
    let both = [vec![value; len], vec![value + 1; len]].concat();
    match call {
        "all_reduce" => comm.all_reduce(&values(len), &mut one, ReduceOp::Sum)?,
        "all_reduce_in_place" => {
            one = values(len);
            comm.all_reduce_in_place(&mut one, ReduceOp::Sum)?;
        }
        "all_gather" => comm.all_gather(&values(len), &mut two)?,
        "reduce_scatter" => comm.reduce_scatter(&values(2 * len), &mut one, ReduceOp::Sum)?,
        "all_to_all" => comm.all_to_all(&values(2 * len), &mut two)?,
        "broadcast" => comm.broadcast(&values(len), &mut one, 1)?,
        "reduce" => comm.reduce(&values(len), &mut one, ReduceOp::Sum, 1)?,
        "send_recv" => comm.send_recv(&values(len), &mut one)?,
        "transfer" if rank == 0 => comm.send(&values(len), 1)?,
        "transfer" => comm.recv(&mut one, 0)?,
        _ => {
            let (sent, mut group) = (values(len), Group::new());
            if rank == 0 {
                group.send(comm, &sent, 1);
            } else {
                group.recv(comm, &mut one, 0);
            }
            group.run()?;
        }
    }
    let is_right = match call {
        "all_reduce" | "all_reduce_in_place" | "reduce_scatter" => one == vec![sum; len],
        "all_gather" | "all_to_all" => two == both,
        "broadcast" => one == vec![value + 1; len],
        "reduce" => rank == 0 || one == vec![sum; len],
        "send_recv" => one == vec![value + 1 - rank; len],
        _ => rank == 0 || one == vec![value; len],
    };
    assert!(is_right, "{call} of {len}: {one:?}, {two:?}");
    Ok(())
}

/// The first call has `lens[rank]` elements, the second one as many on both ranks.
#[test]
fn calls_of_other_lengths_are_reported_also_where_one_is_empty() {
    for call in CALLS {
        for lens in [0, 1, LEN].into_iter().flat_map(|first| [0, 1, LEN].map(|second| [first, second])) {
            let results = on_ranks(2, |comm| {
                let first = make(comm, call, lens[comm.rank() as usize], 7);
                first.and_then(|()| make(comm, call, LEN, 1000)).and_then(|()| make(comm, call, LEN, 3000))
            });
            for (rank, result) in results.iter().enumerate() {
                match result {
                    Ok(()) => assert!(lens[0] == lens[1], "{call} of {lens:?}: rank {rank} reports nothing"),
                    Err(error) => {
                        let is_expected = lens[0] != lens[1] && error.kind() == ErrorKind::Mismatch;
                        assert!(is_expected, "{call} of {lens:?}, rank {rank}: {error}");
                    }
                }
            }
        }
    }
}
