//! Programs of the older, chunk-based API run, and produce the results of their collectives.

use mscclpp_core::lang::ChannelType::{Proxy, Sm};
use mscclpp_core::lang::{Buffer, Collective, MscclppProgram, PacketOptions, ProgramContext, Protocol};
use mscclpp_core::plan::Plan;
use mscclpp_exec::Message;
use mscclpp_exec::cpu::{Executor, Options, Schedule};

/// The expected result on every rank: element `i` of rank `r` from the inputs of all ranks.
type Expected = fn(inputs: &[Vec<i64>], rank: usize, i: usize) -> i64;

fn sum(inputs: &[Vec<i64>], _: usize, i: usize) -> i64 {
    inputs.iter().map(|input| input[i]).sum()
}

fn gathered(inputs: &[Vec<i64>], _: usize, i: usize) -> i64 {
    let part = inputs[0].len();
    inputs[i / part][i % part]
}

fn neighbours(inputs: &[Vec<i64>], rank: usize, i: usize) -> i64 {
    inputs[1 - rank][i]
}

fn others(ranks: usize, rank: usize) -> impl Iterator<Item = usize> {
    (0..ranks).filter(move |other| *other != rank)
}

/// Builds a program and runs it on several sizes, one odd and one smaller than the chunks, in several orders, twice each.
fn run(program: MscclppProgram, body: impl FnOnce(&ProgramContext<'_>), expected: Expected) {
    let plan = program.compile(body).unwrap_or_else(|error| panic!("{error}"));
    for seed in 0..4 {
        let schedule = if seed == 0 { Schedule::RoundRobin } else { Schedule::Seeded(seed) };
        let world = Executor::with_options(plan.num_ranks(), Options::default().schedule(schedule));
        for count in [1, 997, 4096] {
            check(&plan, &world, count * plan.num_ranks() as usize, expected);
        }
    }
}

fn check(plan: &Plan, world: &Executor, count: usize, expected: Expected) {
    let ranks = plan.num_ranks();
    let mut run = world.prepare(plan, Message::of::<i64>(count)).unwrap_or_else(|error| panic!("{error}"));
    let mut buffers = run.buffers().expect("memory");
    for launch in 0..2 {
        let mut inputs = Vec::new();
        for rank in 0..ranks {
            let input = buffers.input_as::<i64>(rank).expect("the type of the message");
            for (i, element) in input.iter_mut().enumerate() {
                *element = (i as i64 + 3 * launch) * (i64::from(rank) + 2);
            }
            inputs.push(input.to_vec());
        }
        run.launch_buffers(&mut buffers).unwrap_or_else(|error| panic!("{}: {error}", plan.name()));
        for rank in 0..ranks {
            let output = buffers.output_as::<i64>(rank).expect("the type of the message");
            for (i, found) in output.iter().enumerate() {
                let expected = expected(&inputs, rank as usize, i);
                assert_eq!(*found, expected, "{}: rank {rank}, element {i} of {count}", plan.name());
            }
        }
    }
}

/// All pairs put; a barrier separates the puts of all blocks from their signals.
#[test]
fn allgather_with_a_barrier() {
    let n = 3;
    for in_place in [false, true] {
        let program = MscclppProgram::new("barrier", Collective::all_gather(3, 1, in_place), 3, 2);
        let body = |p: &ProgramContext<'_>| {
            for r in 0..n {
                for peer in others(n, r) {
                    p.chunk(r, Buffer::Input, 0, 1).signal(peer, Buffer::Output, r, r, Sm);
                }
                for peer in others(n, r) {
                    p.chunk(r, Buffer::Output, peer, 1).wait(peer, Buffer::Input, 0, peer, Sm);
                }
            }
            for r in 0..n {
                let c = p.chunk(r, Buffer::Input, 0, 1);
                c.copy(r, Buffer::Output, r, r);
                for peer in others(n, r) {
                    c.put(peer, Buffer::Output, r, peer, Sm);
                }
                p.rank(r).barrier(0..n);
                for peer in others(n, r) {
                    c.signal(peer, Buffer::Output, r, 0, Sm);
                }
            }
            for r in 0..n {
                for peer in others(n, r) {
                    p.chunk(r, Buffer::Output, peer, 1).wait(peer, Buffer::Input, 0, 0, Sm);
                }
            }
        };
        run(program, body, gathered);
    }
}

#[test]
fn allreduce_ring() {
    let n = 4;
    for instances in [1, 2] {
        let program = MscclppProgram::new("ring", Collective::all_reduce(4, 4, true), 4, instances);
        let body = |p: &ProgramContext<'_>| {
            for step in 0..n - 1 {
                for index in 0..n {
                    let rank = (index + step) % n;
                    let (next, prev, last) = ((rank + 1) % n, (rank + n - 1) % n, (index + n - 1) % n);
                    p.chunk(rank, Buffer::Input, index, 1).signal(next, Buffer::Input, index, 0, Sm);
                    let c = p.chunk(rank, Buffer::Input, last, 1);
                    c.wait(prev, Buffer::Input, last, 0, Sm);
                    c.reduce(p.chunk(prev, Buffer::Input, last, 1), 0, Sm);
                }
            }
            for step in 0..n - 1 {
                for index in 0..n {
                    let rank = (index + step + n - 1) % n;
                    let (next, prev, last) = ((rank + 1) % n, (rank + n - 1) % n, (index + n - 1) % n);
                    let c = p.chunk(rank, Buffer::Input, index, 1);
                    c.put(next, None, -1, 0, Sm);
                    c.signal(next, Buffer::Input, index, 0, Sm);
                    p.chunk(rank, Buffer::Input, last, 1).wait(prev, Buffer::Input, last, 0, Sm);
                }
            }
        };
        run(program, body, sum);
    }
}

/// All pairs, by reading: every block reduces one chunk of its rank's part, then reads the others' results.
#[test]
fn allreduce_by_get() {
    let n = 3;
    let program = MscclppProgram::new("get", Collective::all_reduce(3, 9, true), 3, 1);
    let body = |p: &ProgramContext<'_>| {
        for rank in 0..n {
            for tb in 0..n {
                for peer in others(n, rank) {
                    let index = peer * n + tb;
                    p.chunk(rank, Buffer::Input, index, 1).signal(peer, Buffer::Input, index, tb, Sm);
                }
                let index = rank * n + tb;
                let c = p.chunk(rank, Buffer::Input, index, 1);
                for peer in others(n, rank) {
                    c.wait(peer, Buffer::Input, index, tb, Sm);
                }
                for peer in others(n, rank) {
                    c.reduce(p.chunk(peer, Buffer::Input, index, 1), tb, Sm);
                }
                for peer in others(n, rank) {
                    c.signal(peer, Buffer::Input, index, tb, Sm);
                }
            }
        }
        for rank in 0..n {
            for tb in 0..n {
                for peer in others(n, rank) {
                    let index = peer * n + tb;
                    let c = p.chunk(rank, Buffer::Input, index, 1);
                    c.wait(peer, Buffer::Input, index, tb, Sm);
                    c.get(peer, Buffer::Input, index, tb, Sm);
                    c.signal(peer, Buffer::Input, index, tb, Sm);
                }
                for peer in others(n, rank) {
                    let index = rank * n + tb;
                    p.chunk(rank, Buffer::Input, index, 1).wait(peer, Buffer::Input, index, tb, Sm);
                }
            }
        }
    };
    run(program, body, sum);
}

#[test]
fn allreduce_with_packets() {
    let n = 3;
    let program = MscclppProgram::new("packets", Collective::all_reduce(3, 9, true), 3, 1)
        .protocol(Protocol::LL)
        .use_double_scratch_buffer(true);
    let body = |p: &ProgramContext<'_>| {
        for r in 0..n {
            for peer in others(n, r) {
                p.chunk(r, Buffer::Input, peer * n, n).put_packet(peer, Buffer::Scratch, r * n, peer, Sm);
            }
        }
        for r in 0..n {
            for index in 0..n {
                let c = p.chunk(r, Buffer::Input, r * n + index, 1);
                for peer in others(n, r) {
                    c.reduce_packet(p.chunk(r, Buffer::Scratch, peer * n + index, 1), index);
                }
                for peer in others(n, r) {
                    c.put_packet(peer, Buffer::Scratch, n * n + r * n + index, index, Sm);
                }
            }
        }
        for r in 0..n {
            for peer in others(n, r) {
                let c = p.chunk(r, Buffer::Scratch, n * n + peer * n, n);
                c.copy_packet(r, Buffer::Input, peer * n, peer);
            }
        }
    };
    run(program, body, sum);
}

#[test]
fn send_and_receive_over_a_proxy() {
    let program = MscclppProgram::new("send_recv", Collective::send_recv(2, 1, false), 2, 1);
    let body = |p: &ProgramContext<'_>| {
        for r in 0..2 {
            p.chunk(r, Buffer::Input, 0, 1).signal(1 - r, Buffer::Scratch, 1, 0, Proxy);
            p.chunk(r, Buffer::Scratch, 1, 1).wait(1 - r, Buffer::Input, 0, 0, Proxy);
        }
        for r in 0..2 {
            let c = p.chunk(r, Buffer::Input, 0, 1);
            c.put(1 - r, Buffer::Scratch, 1, 0, Proxy);
            c.signal(1 - r, Buffer::Scratch, 1, 0, Proxy);
            c.flush(1 - r, Buffer::Scratch, 1, 0, Proxy);
        }
        for r in 0..2 {
            let c = p.chunk(r, Buffer::Scratch, 1, 1);
            c.wait(1 - r, Buffer::Input, 0, 0, Proxy);
            c.copy(r, Buffer::Output, 0, 0);
        }
    };
    run(program, body, neighbours);
}

#[test]
fn send_and_receive_packets_over_a_proxy() {
    let program = MscclppProgram::new("send_recv_packets", Collective::send_recv(2, 1, false), 2, 1)
        .protocol(Protocol::LL)
        .use_double_scratch_buffer(true);
    let body = |p: &ProgramContext<'_>| {
        for r in 0..2 {
            let options = PacketOptions { temp_buffer: Some(Buffer::Scratch), temp_buffer_index: 0, ..Proxy.into() };
            p.chunk(r, Buffer::Input, 0, 1).put_packet(1 - r, Buffer::Scratch, 1, 0, options);
        }
        for r in 0..2 {
            p.chunk(r, Buffer::Scratch, 1, 1).copy_packet(r, Buffer::Output, 0, 0);
        }
    };
    run(program, body, neighbours);
}

#[test]
fn allreduce_through_the_switch() {
    let n = 4;
    let program = MscclppProgram::new("nvls", Collective::all_reduce(4, 4, true), 4, 1);
    let body = |p: &ProgramContext<'_>| {
        for r in 0..n {
            let c = p.chunk(r, Buffer::Input, r, 1);
            let others: Vec<_> = others(n, r).collect();
            // A signal for `index` reports to the rank that reduces the chunk that the chunk is ready.
            for &peer in &others {
                p.chunk(r, Buffer::Input, peer, 1).signal(peer, Buffer::Input, peer, 0, Sm);
            }
            others.iter().for_each(|&peer| c.wait(peer, Buffer::Input, r, 0, Sm));
            let chunks: Vec<_> = others.iter().map(|&peer| p.chunk(peer, Buffer::Input, r, 1)).collect();
            c.group_load_reduce(&chunks, 0).group_store(&others, 0);
            others.iter().for_each(|&peer| c.signal(peer, Buffer::Input, r, 0, Sm));
            for &peer in &others {
                p.chunk(r, Buffer::Input, peer, 1).wait(peer, Buffer::Input, peer, 0, Sm);
            }
        }
    };
    run(program, body, sum);
}

/// Two chunks over three ranks: each chunk is split into three, because the all-reduce of the present API needs a
/// multiple of three.
#[test]
fn allreduce_of_fewer_chunks_than_ranks() {
    let n = 3;
    let program = MscclppProgram::new("two_chunks", Collective::all_reduce(3, 2, false), 3, 1);
    let body = |p: &ProgramContext<'_>| {
        for r in 0..n {
            for peer in others(n, r) {
                p.chunk(r, Buffer::Input, 0, 1).signal(peer, Buffer::Scratch, 2 * r, 0, Sm);
            }
            for peer in others(n, r) {
                p.chunk(r, Buffer::Scratch, 2 * peer, 1).wait(peer, Buffer::Input, 0, 0, Sm);
            }
        }
        for r in 0..n {
            let both = p.chunk(r, Buffer::Input, 0, 2);
            both.copy(r, Buffer::Output, 0, 0);
            for (index, c) in both.split(2).into_iter().enumerate() {
                for peer in others(n, r) {
                    let there = c.put(peer, Buffer::Scratch, 2 * r + index, 0, Sm);
                    c.signal(peer, Buffer::Scratch, there.index(), 0, Sm);
                }
            }
        }
        for r in 0..n {
            for peer in others(n, r) {
                let [first, second] = [0, 1].map(|index| {
                    let c = p.chunk(r, Buffer::Scratch, 2 * peer + index, 1);
                    c.wait(peer, Buffer::Input, index, 0, Sm);
                    c
                });
                p.chunk(r, Buffer::Output, 0, 2).reduce(first.group(second), 0, Sm);
            }
        }
    };
    run(program, body, sum);
}
