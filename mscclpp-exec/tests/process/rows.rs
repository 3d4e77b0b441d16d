//! Plans that normalize rows, between ranks: results have the bits of the contract, whatever memory the buffers are in.

use mscclpp_exec::__half::bf16;
use mscclpp_exec::error::RowsError;
use mscclpp_exec::{E4m3, Error, Message, RowNorm};

use super::group::each;
use crate::rows::{Case, Found, plans};

#[test]
fn rows_between_processes_have_the_bits_of_the_contract() {
    for (ranks, rows, hidden) in [(2, 5, 24), (3, 0, 8), (3, 7, 520), (4, 2, 1032)] {
        let case = Case::<bf16>::random(ranks as usize, rows, hidden, 3);
        let expected = case.expected();
        for plan in
            ["allreduce_norm_one_shot", "allreduce_norm_two_shot"].into_iter().flat_map(|name| plans(name, ranks))
        {
            each(ranks, |executor| {
                let rank = executor.rank() as usize;
                let mut prepared = executor.prepare(&plan, Message::rows::<bf16>(rows, hidden)).expect("a plan");
                for launch in 0..4 {
                    let Found { mut normed, mut sums, mut quantized, mut scales } = case.nothing(rows);
                    let norm = RowNorm::new(case.eps).bias(case.bias).gamma(&case.gamma).residual(&case.residual);
                    let norm = norm.residual_out(&mut sums).quantized_by_row(&mut quantized, &mut scales);
                    if launch % 2 == 0 {
                        prepared.launch_rows(&case.inputs[rank], &mut normed, norm).expect("a launch");
                    } else {
                        let mut input = executor.alloc::<bf16>(case.inputs[rank].len()).expect("memory");
                        input.copy_from_slice(&case.inputs[rank]);
                        prepared.launch_rows(&input, &mut normed, norm).expect("a launch");
                    }
                    assert_eq!(Found { normed, sums, quantized, scales }, expected, "rank {rank} of {ranks}");
                }
            });
        }
    }
}

#[test]
fn wrong_operands_are_reported_before_other_ranks_are_awaited() {
    let plan = plans("allreduce_norm_two_shot", 2).remove(0);
    each(2, |executor| {
        let mut prepared = executor.prepare(&plan, Message::rows::<bf16>(2, 8)).expect("a plan");
        let (input, mut output, gamma) = ([bf16::ZERO; 16], [bf16::ZERO; 16], [bf16::ONE; 9]);
        if executor.rank() == 1 {
            let error = prepared.launch_rows(&input, &mut output, RowNorm::new(0.0).gamma(&gamma));
            let (rank, operand, expected, found) = (1, "gamma", 8, 9);
            assert_eq!(error, Err(Error::Rows(RowsError::Operand { rank, operand, expected, found })));
            let mut quantized = [E4m3(0); 15];
            let error = prepared.launch_rows(&input, &mut output, RowNorm::new(0.0).quantized(&mut quantized, 1.0));
            assert!(matches!(error, Err(Error::Rows(RowsError::Operand { rank: 1, .. }))), "{error:?}");
            let error = prepared.launch(&input, &mut output);
            assert!(matches!(error, Err(Error::Rows(RowsError::Mode { rows: true, .. }))), "{error:?}");
        }
        prepared
            .launch_rows(&input, &mut output, RowNorm::new(0.0).gamma(&gamma[..8]))
            .expect("the communicator is usable");
    });
}
