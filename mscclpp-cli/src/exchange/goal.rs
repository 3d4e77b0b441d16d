//! GOAL, the text format of schedules of LogGOPSim and ATLAHS.

use std::fmt::Write;

use super::messages::{Messages, Work};

/// Most processors of a rank that the format has.
const MAX_PROCESSORS: u32 = 256;

/// Returns a schedule. Thread blocks are processors, and local work is in nanoseconds.
pub(crate) fn text(messages: &Messages) -> String {
    let mut text = format!("num_ranks {}\n", messages.tasks.len());
    for (rank, tasks) in messages.tasks.iter().enumerate() {
        _ = writeln!(text, "\nrank {rank} {{");
        for (number, task) in tasks.iter().enumerate() {
            let cpu = task.block % MAX_PROCESSORS;
            _ = match task.work {
                Work::Send { to, bytes, tag } => writeln!(text, "l{number}: send {bytes}b to {to} tag {tag} cpu {cpu}"),
                Work::Receive { from, bytes, tag } => {
                    writeln!(text, "l{number}: recv {bytes}b from {from} tag {tag} cpu {cpu}")
                }
                Work::Local { nanoseconds, .. } => writeln!(text, "l{number}: calc {nanoseconds} cpu {cpu}"),
            };
            for earlier in &task.after {
                _ = writeln!(text, "l{number} requires l{earlier}");
            }
        }
        text += "}\n";
    }
    text
}
