//! Copies, puts, gets and reductions of plain data.

use mscclpp_core::plan::raw::OpKind::*;
use mscclpp_core::types::ReduceOp;

use super::other;
use crate::common::{With, at, check, i, o, op, s, tree};

#[test]
fn copy_and_nop() {
    let plan = tree(1, [3, 3, 0], |_| {
        vec![vec![op(Copy, &[i(1, 2)], &[o(0, 2)]), op(Nop, &[], &[]), op(Copy, &[i(0, 1)], &[o(2, 1)])]]
    });
    check(&plan, |rank, chunk, e, input| Some(input(rank, [1, 2, 0][chunk as usize], e)));
}

#[test]
fn group_splits_every_operand() {
    let plan = tree(1, [3, 3, 0], |_| (0..4).map(|k| vec![op(Copy, &[i(0, 3)], &[o(0, 3)]).part(k, 4)]).collect());
    check(&plan, |rank, chunk, e, input| Some(input(rank, chunk, e)));
}

#[test]
fn puts_from_several_buffers_in_one_operation() {
    let plan = tree(2, [2, 2, 1], |rank| {
        let peer = other(rank);
        vec![vec![
            op(Copy, &[i(1, 1)], &[s(0, 1)]),
            op(Nop, &[], &[]),
            op(Put, &[i(0, 1), s(0, 1)], &[at(rank, peer, o(1, 1)), at(rank, peer, o(0, 1))]).memory(),
        ]]
    });
    check(&plan, |rank, chunk, e, input| Some(input(other(rank), 1 - chunk, e)));
}

#[test]
fn get_distinguishes_source_and_destination() {
    let plan = tree(2, [3, 3, 0], |rank| {
        let peer = other(rank);
        vec![vec![
            op(Get, &[at(rank, peer, i(2, 1)), at(rank, peer, i(0, 1))], &[o(0, 1), o(1, 1)]).memory().ids(&[0, 0]),
        ]]
    });
    check(&plan, |rank, chunk, e, input| {
        [Some(2), Some(0), None][chunk as usize].map(|from| input(other(rank), from, e))
    });
}

#[test]
fn reductions_of_local_and_remote_data() {
    for reduce in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
        let plan = tree(3, [3, 4, 0], |rank| {
            let (next, last) = ((rank + 1) % 3, (rank + 2) % 3);
            vec![vec![
                op(Reduce, &[i(0, 1), i(1, 1), i(2, 1)], &[o(0, 1)]).by(reduce),
                op(ReduceSend, &[i(2, 1), i(0, 1)], &[o(1, 1), at(rank, next, o(2, 1))]).memory().by(reduce),
                op(ReadReduce, &[i(1, 1), at(rank, next, i(1, 1)), at(rank, last, i(1, 1))], &[o(3, 1)])
                    .memory()
                    .by(reduce),
            ]]
        });
        let combine = |a: i32, b: i32| match reduce {
            ReduceOp::Prod => a.wrapping_mul(b),
            ReduceOp::Min => a.min(b),
            ReduceOp::Max => a.max(b),
            _ => a + b,
        };
        check(&plan, |rank, chunk, e, input| {
            Some(match chunk {
                0 => combine(combine(input(rank, 0, e), input(rank, 1, e)), input(rank, 2, e)),
                1 => combine(input(rank, 2, e), input(rank, 0, e)),
                2 => combine(input((rank + 2) % 3, 2, e), input((rank + 2) % 3, 0, e)),
                _ => combine(combine(input(0, 1, e), input(1, 1, e)), input(2, 1, e)),
            })
        });
    }
}

#[test]
fn reductions_that_read_and_send() {
    let plan = tree(2, [2, 2, 0], |rank| {
        let peer = other(rank);
        let mine = o(rank, 1);
        vec![vec![
            op(ReadReduceSend, &[i(rank, 1), at(rank, peer, i(rank, 1))], &[mine, at(rank, peer, mine)]).memory(),
        ]]
    });
    check(&plan, |_, chunk, e, input| Some(input(0, chunk, e) + input(1, chunk, e)));
}

#[test]
fn custom_plan_copies_as_specified() {
    let plan = tree(1, [2, 4, 0], |_| vec![vec![op(Copy, &[i(0, 2)], &[o(2, 2)])]]);
    check(&plan, |rank, chunk, e, input| (chunk >= 2).then(|| input(rank, chunk - 2, e)));
}
