//! Every kind of operation in isolation, under many schedules and with sizes that divide evenly and that do not.

mod packets;
mod plain;
mod ports;
mod switch;
mod sync;
mod windows;

use crate::common::{Case, schedules, world};
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::raw::PlanTree;
use mscclpp_exec::{Message, PacketType};

/// Returns the peer of one of two ranks.
fn other(rank: u32) -> u32 {
    1 - rank
}

/// Checks that both packet types have the same results; they differ only in how much is waited for at once.
fn check_packets(plan: &PlanTree, expected: impl Fn(u32, usize) -> i32) {
    for packet in [PacketType::LL16, PacketType::LL8] {
        for schedule in schedules() {
            let world = world(plan.ranks.len() as u32, schedule);
            for count in [8, 700, 701] {
                let message = Message::of::<i32>(count).packet(packet);
                let mut case = Case::new(&world, &Plan::new(plan), message).expect("a plan");
                for _ in 0..3 {
                    let outputs = case.launch().unwrap_or_else(|error| panic!("{schedule:?} {packet:?}: {error}"));
                    for (rank, output) in outputs.iter().enumerate() {
                        for (index, &found) in output.iter().enumerate() {
                            assert_eq!(found, expected(rank as u32, index), "{packet:?} {count} {rank} {index}");
                        }
                    }
                }
            }
        }
    }
}
