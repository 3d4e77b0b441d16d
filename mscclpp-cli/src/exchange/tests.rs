use std::collections::BTreeMap;

use mscclpp_algorithms as algorithms;
use mscclpp_predict::{Machine, predict};

use super::messages::Work;
use super::{Messages, chakra, goal};

const RANKS: u32 = 4;

fn messages(name: &str, bytes: u64) -> Messages {
    let algorithm = algorithms::find(name).unwrap_or_else(|| panic!("there is no {name}"));
    let arguments = algorithm.arguments([]).expect("its own");
    let mut spec = algorithm.spec(RANKS, RANKS);
    spec.instances = 2;
    let plan = algorithm.compile_tree(spec, &arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
    let machine = Machine::builtin("8xh100").expect("it is built in");
    let found = predict(&plan, &machine, bytes, None).unwrap_or_else(|error| panic!("{name}: {error}"));
    Messages::of(&found.execution, &found.timeline.spans, RANKS as usize)
}

/// Executes all tasks, and returns the bytes of data, without signals, that each rank has sent.
fn execute(name: &str, messages: &Messages) -> Vec<u64> {
    let mut sent = BTreeMap::new();
    let mut done: Vec<Vec<bool>> = messages.tasks.iter().map(|tasks| vec![false; tasks.len()]).collect();
    let mut bytes_of = vec![0; messages.tasks.len()];
    loop {
        let before = done.iter().flatten().filter(|done| **done).count();
        for (rank, tasks) in messages.tasks.iter().enumerate() {
            for (number, task) in tasks.iter().enumerate() {
                assert!(task.after.iter().all(|earlier| (*earlier as usize) < number), "{name}: {task:?}");
                if done[rank][number] || !task.after.iter().all(|earlier| done[rank][*earlier as usize]) {
                    continue;
                }
                done[rank][number] = match task.work {
                    Work::Send { to, bytes, tag } => {
                        assert_eq!(sent.insert((rank as u32, to, tag), bytes), None, "{name}: one tag per message");
                        bytes_of[rank] += if bytes == 8 { 0 } else { bytes };
                        true
                    }
                    Work::Receive { from, bytes, tag } => match sent.get(&(from, rank as u32, tag)) {
                        Some(found) => *found == bytes,
                        None => false,
                    },
                    Work::Local { .. } => true,
                };
            }
        }
        let now = done.iter().flatten().filter(|done| **done).count();
        if now == before {
            assert!(done.iter().flatten().all(|done| *done), "{name}: a task waits forever");
            return bytes_of;
        }
    }
}

#[test]
fn messages_of_all_kinds_of_operations_end_and_carry_the_data() {
    let bytes: u64 = 1 << 20;
    let part = bytes / u64::from(RANKS);
    // Stores, loads, packets with their flags, ports, and loads and stores in a switch, of which each reaches every rank.
    for (name, expected) in [
        ("allreduce_ring", 6 * part),
        ("allgather_pull", 3 * part),
        ("allgather_packets", 3 * 2 * part),
        ("allgather_ring_ports", 3 * part),
        ("allreduce_switch", 6 * part),
    ] {
        let found = execute(name, &messages(name, bytes));
        assert_eq!(found, [expected; RANKS as usize], "{name}");
    }
}

#[test]
fn schedule_has_a_line_for_each_task_and_dependency() {
    let messages = messages("allreduce_ring", 1 << 16);
    let text = goal::text(&messages);
    assert!(text.starts_with("num_ranks 4\n\nrank 0 {\nl0: "), "{text}");
    let tasks: usize = messages.tasks.iter().map(Vec::len).sum();
    let dependencies: usize = messages.tasks.iter().flatten().map(|task| task.after.len()).sum();
    let count = |word: &str| text.lines().filter(|line| line.split(' ').nth(1) == Some(word)).count();
    assert_eq!(count("send") + count("recv") + count("calc"), tasks);
    assert_eq!((count("requires"), count("send")), (dependencies, count("recv")));
    assert!(text.lines().any(|line| line.ends_with(" to 1 tag 0 cpu 0") && line.contains(": send 8b ")), "{text}");
}

#[test]
fn trace_has_its_version_and_a_node_for_each_task() {
    let messages = messages("allgather_pull", 1 << 16);
    for rank in 0..RANKS as usize {
        let file = chakra::file(&messages, rank);
        let (mut rest, mut parts) = (&file[..], Vec::new());
        while !rest.is_empty() {
            let (mut length, mut shift) = (0, 0);
            loop {
                let byte = rest[0];
                rest = &rest[1..];
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            let (part, after) = rest.split_at(length);
            parts.push(part);
            rest = after;
        }
        assert_eq!((parts[0], parts.len()), (&b"\x0a\x050.0.4"[..], messages.tasks[rank].len() + 1));
        // Number, then name, then kind.
        assert!(
            parts[1..].iter().enumerate().all(|(number, part)| part[0] == 0x08
                && part[1] == number as u8 & 0x7f | if number > 0x7f { 0x80 } else { 0 })
        );
        let has = |text: &[u8]| parts.iter().any(|part| part.windows(text.len()).any(|window| window == text));
        assert!(has(b"comm_size") && has(b"comm_tag") && has(b"get of thread block 1, task"), "{rank}");
    }
}
