//! What single calls record.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::lang::ChannelType::{Proxy, Sm};
use mscclpp_core::lang::{Buffer, Collective, DataFormat, MscclppProgram, PacketOptions};
use mscclpp_core::plan::raw::OpKind;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::trace::Trace;
use mscclpp_core::types::{BlockSync, BufferKind, Protocol};

use super::others;

fn kinds(trace: &Trace) -> Vec<OpKind> {
    trace.ops.iter().map(|recorded| recorded.op.kind).collect()
}

#[test]
fn a_proxy_makes_its_packets_in_own_scratch() {
    let trace = MscclppProgram::new("send_recv", Collective::send_recv(2, 1, false), 2, 1)
        .protocol(Protocol::LL)
        .record(|p| {
            for r in 0..2 {
                let temp = PacketOptions { temp_buffer: Some(Buffer::Scratch), temp_buffer_index: 0, ..Proxy.into() };
                p.chunk(r, Buffer::Input, 0, 1).put_packet(1 - r, Buffer::Scratch, 1, 0, temp);
                p.chunk(r, Buffer::Scratch, 1, 1).copy_packet(r, Buffer::Output, 0, 0);
            }
        })
        .expect("a right program");
    let one = [OpKind::CopyPackets, OpKind::PutPackets, OpKind::UnpackPackets];
    assert_eq!(kinds(&trace), [one, one].concat());
    assert_eq!(trace.ranks[0].scratch_chunks, 2);
}

#[test]
fn copy_packet_goes_both_ways_and_packets_are_forwarded() {
    let trace = MscclppProgram::new("both", Collective::all_gather(2, 1, false), 2, 1)
        .record(|p| {
            let made = p.chunk(0, Buffer::Input, 0, 1).copy_packet(0, Buffer::Scratch, -1, 0);
            let packets =
                |chan_type| PacketOptions { src_format: DataFormat::Packet, ..PacketOptions::from(chan_type) };
            assert_eq!((made.rank(), made.buffer(), made.index(), made.size()), (0, BufferKind::Scratch, 0, 1));
            let there = made.put_packet(1, Buffer::Scratch, -1, 0, packets(Sm));
            made.put_packet(1, Buffer::Scratch, -1, 0, packets(Proxy));
            there.copy_packet(1, Buffer::Output, 0, 0);
        })
        .expect("a right program");
    let expected = [OpKind::CopyPackets, OpKind::ReadPutPackets, OpKind::ReadPutPackets, OpKind::UnpackPackets];
    assert_eq!(kinds(&trace), expected);
    assert_eq!(trace.ranks[1].scratch_chunks, 2, "an index of -1 in scratch goes behind what was used");
}

#[test]
fn port_operations_share_a_channel_and_flush_waits_for_the_source() {
    let trace = MscclppProgram::new("send_recv", Collective::send_recv(2, 1, false), 2, 1)
        .record(|p| {
            for r in 0..2 {
                let c = p.chunk(r, Buffer::Input, 0, 1);
                c.put(1 - r, Buffer::Scratch, 0, 0, Proxy);
                c.signal(1 - r, Buffer::Scratch, 0, 0, Proxy);
                c.flush(1 - r, Buffer::Scratch, 0, 0, Proxy);
            }
            for r in 0..2 {
                let c = p.chunk(r, Buffer::Scratch, 0, 1);
                c.wait(1 - r, Buffer::Input, 0, 0, Proxy);
                c.copy(r, Buffer::Output, 0, 0);
                p.rank(r).barrier([0]);
            }
        })
        .expect("a right program");
    assert_eq!(trace.ranks[0].channels.len(), 1);
    assert!(trace.ops.iter().all(|recorded| recorded.op.ids.iter().all(|id| *id == 0)));
    let syncs: Vec<_> = trace.ops[..3].iter().map(|recorded| recorded.op.sync).collect();
    assert_eq!(syncs, [BlockSync::None, BlockSync::Before, BlockSync::After]);
}

/// Signals for different buffers must not be taken for each other.
#[test]
fn channels_differ_by_thread_block_kind_and_buffers() {
    let trace = MscclppProgram::new("many", Collective::all_gather(2, 1, false), 2, 1)
        .record(|p| {
            let c = p.chunk(0, Buffer::Input, 0, 1);
            c.signal(1, Buffer::Output, 0, 0, Sm);
            c.signal(1, Buffer::Scratch, 0, 0, Sm);
            c.signal(1, Buffer::Output, 0, 1, Sm);
            c.signal(1, Buffer::Output, 0, 0, Proxy);
            // The other end names them in another order.
            p.chunk(1, Buffer::Output, 0, 1).wait(0, Buffer::Input, 0, 1, Sm);
            p.chunk(1, Buffer::Scratch, 0, 1).wait(0, Buffer::Input, 0, 0, Sm);
            p.chunk(1, Buffer::Output, 0, 1).wait(0, Buffer::Input, 0, 0, Proxy);
            p.chunk(1, Buffer::Output, 0, 1).wait(0, Buffer::Input, 0, 0, Sm);
        })
        .expect("a right program");
    let ids: Vec<_> = trace.ops.iter().map(|recorded| (recorded.op.channel, recorded.op.ids[0])).collect();
    let (signals, waits) = ids.split_at(4);
    assert_eq!(signals[2..], [waits[0], waits[2]]);
    assert_eq!([signals[1], signals[0]], [waits[1], waits[3]]);
    assert_eq!(signals.iter().map(|(_, id)| *id).collect::<Vec<_>>(), [0, 1, 2, 0]);
}

#[test]
fn the_switch_is_made_once_for_a_place_and_its_ranks() {
    let n = 3;
    let trace = MscclppProgram::new("nvls", Collective::all_reduce(3, 3, true), 3, 1)
        .record(|p| {
            for r in 0..n {
                let c = p.chunk(r, Buffer::Input, r, 1);
                let others: Vec<_> = others(n, r).collect();
                let chunks: Vec<_> = others.iter().map(|&peer| p.chunk(peer, Buffer::Input, r, 1)).collect();
                c.group_load_reduce(&chunks, 0).group_store(&others, 0);
            }
        })
        .expect("a right program");
    assert_eq!(kinds(&trace), [[OpKind::SwitchReduce, OpKind::SwitchBroadcast]; 3].concat());
    assert!(trace.ranks.iter().all(|rank| rank.channels.len() == 1));
}

#[test]
fn in_place_names_are_one_memory_and_copies_onto_themselves_vanish() {
    let record = |collective| {
        MscclppProgram::new("t", collective, 2, 1).record(|p| {
            let input = p.chunk(1, Buffer::Input, 0, 1);
            assert_eq!(input.index(), 1);
            assert_eq!(input.copy(1, Buffer::Output, 1, 0), input);
        })
    };
    assert_eq!(record(Collective::all_gather(2, 1, true)).map(|trace| trace.ops.len()), Ok(0));
    let trace = MscclppProgram::new("t", Collective::reduce_scatter(2, 2, true), 2, 1)
        .record(|p| assert_eq!(p.chunk(1, Buffer::Output, 1, 1), p.chunk(1, Buffer::Input, 3, 1)));
    assert!(trace.is_ok());
    let trace = MscclppProgram::new("t", Collective::all_reduce(2, 2, true), 2, 1)
        .record(|p| assert_eq!(p.chunk(1, Buffer::Output, 1, 1), p.chunk(1, Buffer::Input, 1, 1)));
    assert!(trace.is_ok());
}

#[test]
fn chunk_counts_that_are_no_multiple_of_the_ranks_are_cut_finer() {
    let trace = MscclppProgram::new("t", Collective::all_reduce(4, 2, false), 4, 1)
        .record(|p| _ = p.chunk(3, Buffer::Input, 1, 1).copy(3, Buffer::Scratch, -1, 0).copy(3, Buffer::Output, 1, 0))
        .expect("a right program");
    let spans: Vec<_> =
        trace.ops.iter().map(|recorded| (recorded.op.srcs[0].index, recorded.op.srcs[0].size)).collect();
    assert_eq!(spans, [(2, 2), (0, 2)]);
    assert_eq!((trace.ranks[3].input_chunks, trace.ranks[3].scratch_chunks), (4, 2));
}

#[test]
fn fusion_and_the_other_settings_reach_the_specification() {
    let trace = MscclppProgram::new("t", Collective::broadcast(4, 1, false, 2), 4, 3)
        .instr_fusion(false)
        .num_threads_per_block(512)
        .num_ranks_per_node(2)
        .min_message_size(16)
        .max_message_size(1 << 20)
        .record(|p| assert_eq!(p.num_ranks(), 4))
        .expect("a right program");
    let spec = AlgoSpec {
        fuse: false,
        threads_per_block: 512,
        ranks_per_node: 2,
        min_message_size: 16,
        max_message_size: 1 << 20,
        instances: 3,
        collective: trace.spec.collective,
        ..AlgoSpec::new("t", CollectiveKind::Broadcast, 4)
    };
    assert_eq!(trace.spec, spec);
    assert_eq!(trace.spec.collective.root, 2);
}
