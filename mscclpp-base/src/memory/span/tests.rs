use proptest::prelude::*;

use super::*;
use crate::memory::{Loan, Table};

fn line(bytes: &[u8]) -> Line {
    let mut all = [0; LINE];
    all[..bytes.len()].copy_from_slice(bytes);
    bytemuck::cast(all)
}

proptest! {
    #[test]
    fn spans_behave_like_slices(
        skip in 0_usize..9, len in 0_usize..200, from in 0_u64..220, range in 0_u64..220, at in 0_usize..220,
        n in 0_usize..=LINE, bytes in proptest::collection::vec(any::<u8>(), LINE),
    ) {
        let mut memory: Vec<u8> = (0..240).map(|i| i as u8 ^ 0x5a).collect();
        let mut model = memory.clone();
        let (lo, hi) = (skip + (from as usize).min(len), skip + (from.saturating_add(range) as usize).min(len));
        let expected = |model: &[u8]| {
            let start = (lo + at).min(hi);
            line(&model[start..(start + n).min(hi)])
        };
        let table = Table::default();
        let (before, after) = table.lend(
            |lender| lender.push(Loan::Write(&mut memory[skip..skip + len])),
            || {
                let held = table.hold();
                let memory = held.memory();
                let span = memory.slice(0).range(from, range);
                let before = span.load(at, n);
                span.store(at, n, line(&bytes));
                (before, span.load(at, n))
            },
        );
        prop_assert_eq!(before, expected(&model));
        for (i, &byte) in bytes[..n].iter().enumerate() {
            if lo + at + i < hi {
                model[lo + at + i] = byte;
            }
        }
        prop_assert_eq!(after, expected(&model));
        prop_assert_eq!(memory, model);
    }

    #[test]
    fn packets_are_read_up_to_the_first_stale_one(count in 0_usize..40, stale in 0_usize..40, at in 0_usize..8) {
        let mut memory = vec![0_u64; 48];
        let payload: Vec<u32> = (0..count as u32).map(|i| i * 7 + 1).collect();
        let mut back = vec![0; count];
        let table = Table::default();
        let found = table.lend(
            |lender| lender.push(Loan::Write(bytemuck::cast_slice_mut(&mut memory))),
            || {
                let held = table.hold();
                let memory = held.memory();
                let span = memory.slice(0);
                span.store_packets(at, 5, &payload);
                span.store_packets(at + stale, 4, &[9]);
                assert_eq!(span.flag(at + stale), 4);
                span.load_packets(at, 5, &mut back)
            },
        );
        prop_assert_eq!(found, count.min(stale));
        prop_assert_eq!(&back[..found], &payload[..found]);
    }
}

#[test]
fn shared_slices_are_not_written() {
    let memory = [7_u8; 100];
    let table = Table::default();
    table.lend(
        |lender| lender.push(Loan::Read(&memory)),
        || {
            let held = table.hold();
            let memory = held.memory();
            memory.slice(0).store(0, LINE, Line::ZERO);
            memory.slice(0).store_packets(0, 1, &[1]);
            assert_eq!(memory.slice(0).load(3, 4), line(&[7; 4]));
        },
    );
    assert_eq!(memory, [7; 100]);
    assert_eq!(table.hold().memory().slice(0).len(), 0, "taken back");
}

#[test]
fn neighbors_in_a_word_keep_their_bytes() {
    let mut memory = vec![0_u64; 4];
    let table = Table::default();
    table.lend(
        |lender| lender.push(Loan::Write(bytemuck::cast_slice_mut(&mut memory))),
        || {
            std::thread::scope(|scope| {
                for part in 0..4_u64 {
                    let table = &table;
                    scope.spawn(move || {
                        let held = table.hold();
                        let memory = held.memory();
                        let span = memory.slice(0).range(part * 3, 3);
                        for round in 0..if cfg!(miri) { 20 } else { 2000_u32 } {
                            let bytes = [part as u8, round as u8, (round >> 8) as u8];
                            span.store(0, 3, line(&bytes));
                            assert_eq!(span.load(0, 3), line(&bytes));
                        }
                    });
                }
            });
        },
    );
}
