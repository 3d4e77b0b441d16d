//! Plans with loops that are correct at every size.

use mscclpp_core::plan::raw::{BlockTable, ChannelTable, PlanTree, RemoteBuffer};
use mscclpp_core::types::{BufferKind, ChannelKind};

use super::{Random, number};
use crate::corpus::Named;
use crate::testing;

/// A correct plan, and the largest number of its credits or initial units.
pub(crate) fn random(random: &mut Random) -> (Named, u64) {
    let credits = match random.below(20) {
        0..8 => 1 + random.below(3),
        8..15 => 1 + random.below(12),
        15..18 => 1 + random.below(70),
        _ => 1 + random.below(300),
    };
    let shapes: &[fn(&mut Random, u64) -> PlanTree] = &[
        by_credits,
        pipeline,
        exchange,
        in_turns,
        spans,
        members,
        long,
        by_way_of_others,
        by_barriers,
        packets,
        by_ports,
        blocks_in_turn,
        packets_at_once,
        ahead,
    ];
    let first = usize::try_from(number("MSCCLPP_FIRST_SHAPE", 0)).map_or(0, |first| first.min(shapes.len() - 1));
    let shape = first + random.below((shapes.len() - first) as u64) as usize;
    let name = [
        "credits",
        "pipeline",
        "exchange",
        "in turns",
        "spans",
        "members",
        "long",
        "third rank",
        "barriers",
        "packets",
        "ports",
        "blocks in turn",
        "packets at once",
        "ahead",
    ][shape];
    (Named { name: format!("{name} {credits}"), plan: shapes[shape](random, credits) }, credits)
}

fn unit(random: &mut Random) -> u64 {
    [16, 48, 64, 64, 64, 128][random.below(6) as usize]
}

fn repeat(op: &str, times: u64) -> String {
    format!("{op}; ").repeat(times as usize)
}

/// A block that sends window by window when it has a credit, and one that receives and returns credits.
fn by_credits(random: &mut Random, credits: u64) -> PlanTree {
    let unit = unit(random);
    let relaxed = if random.below(2) == 0 { "rlx" } else { "" };
    let send =
        format!("loop {unit}x1 {{ wait.m#1; nop; put.m i0 > r0:0; nop; signal.m#0 }}; {}", repeat("wait.m#1", credits));
    let receive = format!(
        "{}loop {unit}x1 {{ wait.m#0; nop; copy s0 > o0; nop; signal.m#1 }}",
        repeat(&format!("{relaxed}signal.m#1"), credits)
    );
    match random.below(2) {
        0 => testing::plan(&[&[&send], &[&receive]]),
        _ => testing::plan(&[&[&send, &receive], &[&send, &receive]]),
    }
}

/// Blocks that forward windows, through a few stages of scratch, with units of semaphores.
fn pipeline(random: &mut Random, credits: u64) -> PlanTree {
    let unit = unit(random);
    let first = format!("loop {unit}x1 {{ sem_acquire#0; nop; copy i0 > s0; nop; sem_release#1 }}");
    let mut blocks = vec![first];
    let stages = random.below(2);
    if stages == 1 {
        blocks.push(format!("loop {unit}x1 {{ sem_acquire#1; nop; copy s0 > s1; nop; sem_release#2 }}"));
    }
    let (given, from) = (1 + stages, stages);
    blocks.push(format!("loop {unit}x1 {{ sem_acquire#{given}; nop; copy s{from} > o0; nop; sem_release#0 }}"));
    // Initial units, or units that are released and acquired.
    let given = if random.below(2) == 0 { 0 } else { random.below(credits) };
    if let Some(last) = blocks.last_mut() {
        *last = format!("{}{last}", repeat("sem_release#0", given));
    }
    blocks[0] = format!("{}; {}", blocks[0], repeat("sem_acquire#0", given));
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let mut plan = testing::plan(&[&blocks, &[]]);
    plan.ranks[0].semaphores[0] = (credits - given) as i64;
    plan
}

/// All windows are sent, then all are received.
fn exchange(random: &mut Random, _: u64) -> PlanTree {
    let unit = unit(random);
    let block = format!(
        "rlxsignal.m#3; rlxwait.m#3; nop; loop {unit}x1 {{ put.m i0 > r0:0; nop; signal.m#0 }}; \
         loop {unit}x1 {{ wait.m#0; nop; copy s0 > o0 }}; nop; rlxsignal.m#2; rlxwait.m#2"
    );
    testing::plan(&[&[&block], &[&block]])
}

/// Windows are sent and received alternately, with credits.
fn in_turns(random: &mut Random, credits: u64) -> PlanTree {
    let unit = unit(random);
    let block = format!(
        "{}loop {unit}x1 {{ wait.m#1; nop; put.m i0 > r0:0; nop; signal.m#0; wait.m#0; nop; copy s0 > o0; nop; \
         signal.m#1 }}; {}",
        repeat("signal.m#1", credits),
        repeat("wait.m#1", credits)
    );
    testing::plan(&[&[&block], &[&block]])
}

/// Loops of equally many windows over one chunk and over several.
fn spans(random: &mut Random, credits: u64) -> PlanTree {
    let chunks = 2 + random.below(3);
    let unit = 16 * (1 + random.below(4));
    let wide = unit * chunks;
    let behind = random.below(2) == 0;
    let send =
        format!("loop {unit}x1 {{ wait.m#1; nop; put.m i0 > r0:0; nop; signal.m#0 }}; {}", repeat("wait.m#1", credits));
    let more = if behind { String::new() } else { format!("copy i1+{chunks} > o1+{chunks}; nop; ") };
    let receive = format!(
        "{}loop {wide}x{chunks} {{ wait.m#0; nop; {more}signal.m#1 }}; nop; copy s0 > o0; nop",
        repeat("signal.m#1", credits)
    );
    testing::plan(&[&[&send], &[&receive]])
}

/// Two or three members of a group receive a slice each.
fn members(random: &mut Random, credits: u64) -> PlanTree {
    let unit = unit(random);
    let count = 2 + random.below(2);
    let ids = |base: u64| (0..count).map(|id| (base + id).to_string()).collect::<Vec<_>>().join(",");
    // The windows are those of the slices.
    let slices: Vec<_> = (0..count).map(|member| format!("copy/{member}:{count} i0 > s0")).collect();
    let send = format!("loop {unit}x1 {{ sem_acquire#0; nop; {}; nop; sem_release#{} }}", slices.join("; "), ids(1));
    let mut blocks = vec![send];
    for member in 0..count {
        let back = if member == 0 { "nop; sem_release#0" } else { "nop" };
        blocks.push(format!(
            "loop {unit}x1 {{ sem_acquire#{}; nop; copy/{member}:{count} s0 > o0; {back} }}",
            1 + member
        ));
    }
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let mut plan = testing::plan(&[&blocks, &[]]);
    plan.ranks[0].semaphores[0] = credits as i64;
    plan
}

/// Members of a group copy slices back and forth, alternately, in a long program.
fn long(random: &mut Random, _: u64) -> PlanTree {
    let count = 2 + random.below(3);
    let rounds = 10 + random.below(15);
    let mut blocks = vec![String::new(); count as usize];
    for round in 0..rounds {
        let (index, size, turn) = (random.below(4), 1 + random.below(4), random.below(count));
        let (from, to) = match round {
            0 => ('i', 's'),
            _ if round % 2 == 0 => ('o', 's'),
            _ => ('s', 'o'),
        };
        let (index, size) = if round == 0 { (0, 8) } else { (index, size) };
        for (member, text) in (0..).zip(&mut blocks) {
            let slice = (member + turn) % count;
            *text += &format!("copy/{slice}:{count} {from}{index}+{size} > {to}{index}+{size}; barrier#0={count}; ");
        }
        if round == 0 {
            for (member, text) in (0..).zip(&mut blocks) {
                *text += &format!("copy/{member}:{count} s0+8 > o0+8; barrier#0={count}; ");
            }
        }
    }
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    testing::plan(&[&blocks, &[]])
}

/// Rank 0 puts into rank 1 through a port; signals about it also reach rank 1 through rank 2.
fn by_way_of_others(random: &mut Random, credits: u64) -> PlanTree {
    let unit = unit(random);
    let put = match random.below(3) {
        0 => "put.p#0 i0 > r0:0; signal.p#0; flush.p#0",
        1 => "pws.p#0 i0 > r0:0",
        _ => "pwsf.p#0 i0 > r0:0",
    };
    // Channels of rank 0: 0 and 1 to rank 1, 2 and 3 to rank 2; of ranks 1 and 2: 0 and 1 to rank 0, 2 and 3 to each
    // other.
    let first = format!("loop {unit}x1 {{ wait.m#1; nop; {put}; nop; signal.m#2 }}; {}", repeat("wait.m#1", credits));
    let second = format!(
        "{}loop {unit}x1 {{ wait.m#2; wait.p#0; nop; copy s0 > o0; nop; signal.m#1 }}",
        repeat("signal.m#1", credits)
    );
    let third = format!("loop {unit}x1 {{ wait.m#0; nop; signal.m#2 }}");
    let mut plan = testing::plan(&[&[&first], &[&second], &[&third]]);
    for (rank, tables) in (0..).zip(&mut plan.ranks) {
        let peers: Vec<u32> = (0..3).filter(|&peer| peer != rank).collect();
        let ends: Vec<u32> = peers.iter().flat_map(|&peer| [peer; 2]).collect();
        tables.channels = vec![ChannelTable::Memory(ends.clone()), ChannelTable::Port(ends)];
        tables.remote_buffers = peers
            .iter()
            .flat_map(|&rank| {
                [BufferKind::Scratch, BufferKind::Input, BufferKind::Output].map(|buffer| RemoteBuffer {
                    rank,
                    buffer,
                    memory: true,
                    port: true,
                })
            })
            .collect();
        for block in &mut tables.blocks {
            let four: BlockTable = (0..4).collect();
            block.channels =
                [ChannelKind::Memory, ChannelKind::Port].map(|kind| (kind, four.clone())).into_iter().collect();
            block.remote_buffers = [ChannelKind::Memory, ChannelKind::Port]
                .map(|kind| (kind, (0..6).collect::<BlockTable>()))
                .into_iter()
                .collect();
        }
    }
    plan
}

/// Two blocks of a rank execute a barrier in every iteration.
fn by_barriers(random: &mut Random, _: u64) -> PlanTree {
    let unit = unit(random);
    let fill = format!("loop {unit}x1 {{ copy i0 > s0; barrier#0=2; copy i1 > o1 }}; barrier#1=2");
    let empty = format!("loop {unit}x1 {{ barrier#0=2; copy s0 > o0 }}; barrier#1=2; copy s0 > o2");
    testing::plan(&[&[&fill, &empty], &[]])
}

/// Windows of packets, in both directions.
fn packets(random: &mut Random, _: u64) -> PlanTree {
    let unit = unit(random);
    let one = format!(
        "rlxsignal.m#3; rlxwait.m#3; nop; loop {unit}x1 {{ ppkt.m i0 > r0:0; nop; upkt s0 > o0 }}; nop; rlxsignal.m#2; \
         rlxwait.m#2"
    );
    let rows = format!(
        "rlxsignal.m#3; rlxwait.m#3; nop; loop {unit}x1 {{ ppkt.m i0 > r0:0 }}; loop {unit}x1 {{ upkt s0 > o0 }}; nop; \
         rlxsignal.m#2; rlxwait.m#2"
    );
    let block = if random.below(2) == 0 { one } else { rows };
    testing::plan(&[&[&block], &[&block]])
}

/// Windows through ports, with credits by memory channels.
fn by_ports(random: &mut Random, credits: u64) -> PlanTree {
    let unit = unit(random);
    let put = ["put.p#0 i0 > r0:0; signal.p#0", "pws.p#0 i0 > r0:0", "pwsf.p#0 i0 > r0:0"][random.below(3) as usize];
    let send = format!("loop {unit}x1 {{ wait.m#1; nop; {put} }}; flush.p#0; {}", repeat("wait.m#1", credits));
    let receive =
        format!("{}loop {unit}x1 {{ wait.p#0; nop; copy s0 > o0; nop; signal.m#1 }}", repeat("signal.m#1", credits));
    match random.below(2) {
        0 => testing::plan(&[&[&send], &[&receive]]),
        _ => testing::plan(&[&[&send, &receive], &[&send, &receive]]),
    }
}

/// Two blocks of a rank that use one channel alternately, one of them in a loop.
fn blocks_in_turn(random: &mut Random, _: u64) -> PlanTree {
    let unit = unit(random);
    let behind = match random.below(3) {
        0 => ["", "copy o0 > s0"],
        1 => ["; barrier#1=2; copy o0 > s0", "barrier#1=2"],
        _ => ["; barrier#1=2; put.m i1 > r2:1; nop; signal.m#0; wait.m#0; nop; copy o0+2 > s0+2", "barrier#1=2"],
    };
    let first = match random.below(3) {
        0 => "rlxsignal.m#0; wait.m#0; barrier#0=2".to_owned(),
        1 => "rlxsignal.m#0; rlxwait.m#0; barrier#0=2".to_owned(),
        _ => format!("loop {}x1 {{ rlxsignal.m#0; wait.m#0 }}; rlxsignal.m#0; wait.m#0; barrier#0=2", 2 * unit),
    } + behind[0];
    let window = match random.below(3) {
        0 => "put.m i0 > r2:0; nop; signal.m#0; wait.m#0; nop",
        1 => "wait.m#0; nop",
        _ => "put.m i0 > r2:0; nop; signal.m#0; wait.m#0; nop; copy i3 > o3",
    };
    let second = match window {
        "wait.m#0; nop" => {
            format!("barrier#0=2; loop {unit}x1 {{ put.m i0 > r2:0; nop; signal.m#0 }}; loop {unit}x1 {{ {window} }}")
        }
        window => format!("barrier#0=2; loop {unit}x1 {{ {window} }}"),
    };
    let second = format!("{second}; {}", behind[1]);
    testing::plan(&[&[&first, &second], &[&first, &second]])
}

/// Packets that are written at once and read window by window, or the reverse, with double scratch.
fn packets_at_once(random: &mut Random, _: u64) -> PlanTree {
    let unit = unit(random);
    let tail = "nop; put.m i4 > r2:4 }; nop; signal.m#1; wait.m#1";
    let behind = format!("nop; loop {unit}x1 {{ put.m i4 > r2:4 }}; nop; signal.m#1; wait.m#1");
    let block = match random.below(4) {
        0 => format!("ppkt.m i0 > r0:0; loop {unit}x1 {{ upkt s0 > o0; {tail}"),
        1 => format!("ppkt.m i0+3 > r0:0+3; loop {}x2 {{ upkt s1+2 > o1+2 }}; upkt s0 > o0; {behind}", 2 * unit),
        2 => format!("loop {unit}x1 {{ ppkt.m i0 > r0:0 }}; upkt s0 > o0; {behind}"),
        _ => format!("ppkt.m i0 > r0:0; loop {unit}x1 {{ repkt i1 s0 > o0; {tail}"),
    };
    let mut plan = testing::plan(&[&[&block], &[&block]]);
    plan.double_scratch = true;
    plan
}

/// An iteration needs a wait of the previous one, or of before the loop.
fn ahead(random: &mut Random, _: u64) -> PlanTree {
    let unit = unit(random);
    match random.below(4) {
        0 => {
            let fill = format!("loop {unit}x1 {{ copy i0 > s0; nop; sem_release#0 }}; sem_release#0");
            let empty = format!("sem_acquire#0; nop; loop {unit}x1 {{ copy s0 > o0; sem_acquire#0; nop }}");
            testing::plan(&[&[&fill, &empty], &[]])
        }
        1 => {
            let fill = format!("loop {unit}x1 {{ copy i0 > s0; barrier#0=2 }}; barrier#0=2");
            let empty = format!("barrier#0=2; loop {unit}x1 {{ copy s0 > o0; barrier#0=2 }}; copy s0 > o1");
            testing::plan(&[&[&fill, &empty], &[]])
        }
        2 => {
            let three = format!("loop {unit}x1 {{ copy i0 > s0; barrier#0=3 }}; barrier#0=3; barrier#0=3");
            let two = format!("barrier#0=3; loop {unit}x1 {{ copy s0 > o0; barrier#0=3 }}; barrier#0=3");
            let one = format!("barrier#0=3; barrier#0=3; loop {unit}x1 {{ copy o0 > s1; barrier#0=3 }}");
            testing::plan(&[&[&three, &two, &one], &[]])
        }
        _ => {
            let send = format!("rlxwait.m#1; nop; loop {unit}x1 {{ put.m i0 > r0:0; nop; signal.m#0 }}; signal.m#0");
            let receive = format!("rlxsignal.m#1; wait.m#0; loop {unit}x1 {{ nop; copy s0 > o0; wait.m#0 }}; nop");
            testing::plan(&[&[&send], &[&receive]])
        }
    }
}
