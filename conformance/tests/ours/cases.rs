//! The counterpart of each script of the reference: a specification and a function.

use mscclpp_algorithms as algorithms;
use mscclpp_core::collective::CollectiveKind::{self, AllGather, AllReduce, AllToAll, ReduceScatter, SendRecv, Test};
use mscclpp_core::dsl::Program;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::Protocol;
use serde_json::{Map, Number, Value};

use super::index::Entry;
use super::programs::{
    blocks, collectives, executor, groups, local, packets, relaxed, send_recv, switch, sync, transfers,
};

/// A script with its arguments.
pub(crate) struct Case {
    pub(crate) spec: AlgoSpec,
    pub(crate) call: Call,
}

/// A program with its arguments, in two forms: a function to call, and its source to evaluate.
pub(crate) struct Call {
    pub(crate) native: Box<dyn Fn(&Program)>,
    pub(crate) source: &'static str,
    pub(crate) function: &'static str,
    pub(crate) arguments: Vec<i128>,
}

/// A call of a function of [`programs`](super::programs).
macro_rules! fragment {
    ($module:ident::$function:ident($($argument:expr),*)) => {
        Call {
            native: Box::new(move |p| $module::$function(p $(, $argument)*)),
            source: include_str!(concat!("programs/", stringify!($module), ".rs")),
            function: stringify!($function),
            arguments: vec![$($argument as i128),*],
        }
    };
}

/// A call of an algorithm of the library.
macro_rules! library {
    ($function:ident($($argument:expr),*)) => {
        Call {
            native: Box::new(move |p| algorithms::$function(p $(, $argument)*)),
            source: algorithms::find(stringify!($function)).expect("it is registered").source(),
            function: stringify!($function),
            arguments: vec![$($argument as i128),*],
        }
    };
}

impl Case {
    fn new(name: &str, kind: CollectiveKind, ranks: u64, call: Call) -> Self {
        let ranks = u32::try_from(ranks).expect("a number of ranks");
        Self { spec: AlgoSpec::new(name, kind, ranks), call }
    }

    fn with(mut self, change: impl FnOnce(&mut AlgoSpec)) -> Self {
        change(&mut self.spec);
        self
    }

    fn in_place(self) -> Self {
        self.with(|spec| spec.collective.in_place = true)
    }

    fn per_node(self, ranks: u64) -> Self {
        self.with(|spec| spec.ranks_per_node = ranks as u32)
    }

    fn instances(self, instances: u64) -> Self {
        self.with(|spec| spec.instances = instances as u32)
    }

    /// Sets the packet protocol.
    fn packets(self) -> Self {
        self.with(|spec| spec.protocol = Protocol::LL)
    }

    fn double_scratch(self) -> Self {
        self.with(|spec| spec.double_scratch = true)
    }

    /// Sets the options that the reference's default algorithms share.
    fn shipped(self) -> Self {
        self.packets().double_scratch().with(|spec| {
            spec.auto_sync = false;
            spec.reuse_resources = true;
        })
    }

    /// Overrides constructor arguments.
    pub(crate) fn overridden(self, overrides: &Map<String, Value>) -> Self {
        let mut case = self;
        let count = |number: &Number| number.as_u64().expect("a count");
        for (key, value) in overrides {
            case = case.with(|spec| match (key.as_str(), value) {
                ("instances", Value::Number(number)) => spec.instances = count(number) as u32,
                ("instr_fusion", Value::Bool(fuse)) => spec.fuse = *fuse,
                ("auto_sync", Value::Bool(auto_sync)) => spec.auto_sync = *auto_sync,
                ("reuse_resources", Value::Bool(reuse)) => spec.reuse_resources = *reuse,
                ("use_double_scratch_buffer", Value::Bool(double)) => spec.double_scratch = *double,
                ("in_place", Value::Bool(in_place)) => spec.collective.in_place = *in_place,
                ("protocol", Value::String(name)) => {
                    spec.protocol = if name == "LL" { Protocol::LL } else { Protocol::Simple };
                }
                ("num_threads_per_block", Value::Number(number)) => spec.threads_per_block = count(number) as u32,
                ("buffer_alignment", Value::Number(number)) => spec.buffer_alignment = count(number) as u32,
                ("min_message_size", Value::Number(number)) => spec.min_message_size = count(number),
                ("max_message_size", Value::Number(number)) => spec.max_message_size = count(number),
                _ => panic!("override {key} = {value}"),
            });
        }
        case
    }
}

/// Returns the program of an entry, without its overrides; `None` for an unknown script.
pub(crate) fn case(entry: &Entry) -> Option<Case> {
    let script = entry.source.strip_suffix(".py")?;
    let path = ["python/mscclpp/language/tests/", "python/mscclpp/", "test/"]
        .iter()
        .find_map(|prefix| script.strip_prefix(prefix))
        .unwrap_or(script);
    let case = match path.strip_prefix("unit_tests/") {
        Some(fragment) => unit(fragment)?,
        None => algorithm(entry, path)?,
    };
    let or = |name: &str, default: u64| entry.number(name).unwrap_or(default);
    Some(case.with(|spec| {
        spec.threads_per_block = or("num_threads_per_block", spec.threads_per_block.into()) as u32;
        spec.min_message_size = or("min_message_size", spec.min_message_size);
        spec.max_message_size = or("max_message_size", spec.max_message_size);
    }))
}

fn algorithm(entry: &Entry, path: &str) -> Option<Case> {
    let name = path.rsplit('/').next()?;
    let number = |argument: &str| entry.number(argument);
    let ranks = number("num_gpus").unwrap_or(2);
    let per_node = number("gpus_per_node").unwrap_or(ranks);
    let kind = |kind| move |ranks, call| Case::new(name, kind, ranks, call);
    let (all_gather, all_reduce, all_to_all) = (kind(AllGather), kind(AllReduce), kind(AllToAll));
    let scatter = kind(ReduceScatter);
    Some(match path {
        "single_node/allgather" => all_gather(2, library!(allgather_pairwise())).in_place(),
        "single_node/allgather_nvls_zero_copy" => all_gather(ranks, fragment!(relaxed::allgather_nvls()))
            .in_place()
            .instances(number("instances").unwrap_or(8))
            .with(|spec| spec.threads_per_block = 256),
        "single_node/allgather_nvls_zero_copy_pkt" => all_gather(ranks, fragment!(blocks::allgather_switch_packets()))
            .in_place()
            .packets()
            .double_scratch()
            .instances(number("instances").unwrap_or(1))
            .with(|spec| {
                spec.auto_sync = false;
                spec.threads_per_block = 256;
                (spec.min_message_size, spec.max_message_size) = (1 << 10, 1 << 20);
            }),
        "single_node/allgather_pkt" => {
            all_gather(ranks, fragment!(blocks::allgather_packets())).in_place().packets().double_scratch()
        }
        "single_node/allgather_pkt_rppkt" => {
            all_gather(ranks, library!(allgather_packed_once())).in_place().packets().double_scratch()
        }
        "single_node/allgather_ring" => {
            all_gather(ranks, fragment!(relaxed::allgather_ring())).in_place().instances(32)
        }
        "single_node/allgather_tbg" => all_gather(2, fragment!(groups::allgather())).in_place(),
        "single_node/allreduce" => all_reduce(ranks, fragment!(collectives::allreduce_all_pairs()))
            .in_place()
            .with(|spec| spec.collective.chunk_factor = 8),
        "single_node/allreduce_nvls_zero_copy" => {
            all_reduce(ranks, fragment!(relaxed::allreduce_nvls(0))).in_place().instances(8)
        }
        "single_node/allreduce_pkt" => all_reduce(ranks, fragment!(collectives::allreduce_packets_by_chunk()))
            .in_place()
            .packets()
            .double_scratch()
            .with(|spec| {
                spec.auto_sync = false;
                spec.collective.chunk_factor = spec.num_ranks;
            }),
        "single_node/allreduce_naivy" => all_reduce(ranks, library!(allreduce_packets())).in_place().packets(),
        "single_node/allreduce_pipeline" => {
            all_reduce(2, library!(allreduce_switch_pipeline())).in_place().with(|spec| spec.reuse_resources = true)
        }
        "single_node/alltoall/alltoall" => all_to_all(ranks, library!(alltoall_in_place())).in_place().instances(2),
        "single_node/alltoall/alltoall_pipeline" => {
            all_to_all(ranks, fragment!(collectives::alltoall_pipeline())).in_place().instances(2)
        }
        "single_node/alltoall/alltoall_ring_peers" => {
            all_to_all(ranks, fragment!(collectives::alltoall_pairs())).in_place().instances(16)
        }
        "single_node/alltoall/alltoall_pkt" => {
            all_to_all(ranks, library!(alltoall_packets())).in_place().packets().double_scratch().instances(2)
        }
        "single_node/alltoall/alltoall_ring" => {
            all_to_all(ranks, fragment!(collectives::alltoall_rotated_in_place())).in_place().instances(16)
        }
        "single_node/alltoall/alltoall_ring_oop" => all_to_all(ranks, library!(alltoall_rotated())).instances(16),
        "multi_node/allgather" => {
            all_gather(2 * per_node, fragment!(collectives::allgather_two_nodes())).in_place().per_node(per_node)
        }
        "multi_node/allgather_pkt" => all_gather(2 * per_node, fragment!(collectives::allgather_two_nodes_packets()))
            .in_place()
            .per_node(per_node)
            .packets()
            .double_scratch(),
        "multi_node/reducescatter" => {
            scatter(2 * per_node, fragment!(collectives::reducescatter_two_nodes())).in_place().per_node(per_node)
        }
        "multi_node/allgather_tbg" => {
            // The script passes these two to its function in the wrong order.
            let (per_node, group) = (number("tbg_size")?, number("gpus_per_node")? as usize);
            Case::new(name, AllGather, ranks, library!(allgather_node_ring(group))).per_node(per_node)
        }
        "multi_node/reducescatter_pkt" => scatter(2 * per_node, library!(reducescatter_hierarchical_packets()))
            .in_place()
            .per_node(per_node)
            .packets()
            .double_scratch(),
        "multi_node/send_recv" => {
            let (nodes, mask) = (number("nnodes").unwrap_or(1), number("split_mask").unwrap_or(0) as usize);
            Case::new(name, SendRecv, nodes * per_node, fragment!(send_recv::send_recv(mask)))
                .per_node(per_node)
                .instances(number("instances").unwrap_or(4))
        }
        "default_algos/allgather_multi_nodes" => {
            all_gather(ranks, library!(allgather_hierarchical_packets())).per_node(per_node).shipped().with(|spec| {
                spec.collective.in_place = entry.flag("in_place");
                (spec.min_message_size, spec.max_message_size) = (1 << 10, 8 << 20);
            })
        }
        "default_algos/allreduce_multi_nodes" => {
            let group = number("tbg").unwrap_or(1) as usize;
            Case::new(name, AllReduce, ranks, library!(allreduce_hierarchical_packets(group)))
                .in_place()
                .per_node(per_node)
                .shipped()
        }
        "executor-tests/algos/reduce" => {
            all_reduce(2, fragment!(executor::reduce())).in_place().with(|spec| spec.collective.chunk_factor = 2)
        }
        "executor-tests/algos/reduce_tbg" => {
            all_reduce(2, fragment!(executor::reduce_group())).in_place().with(|spec| spec.collective.chunk_factor = 2)
        }
        "executor-tests/algos/reduce_pack" => {
            all_reduce(2, fragment!(executor::reduce_packets())).in_place().packets().double_scratch()
        }
        "executor-tests/algos/reduce_pack_tbg" => {
            all_reduce(2, fragment!(executor::reduce_packets_group())).in_place().packets().double_scratch()
        }
        "executor-tests/algos/transfer_pack" => {
            all_gather(2, fragment!(executor::transfer_packets())).in_place().packets().double_scratch()
        }
        "executor-tests/algos/transfer_pack_tbg" => {
            all_gather(2, fragment!(executor::transfer_packets_group())).in_place().packets().double_scratch()
        }
        "executor-tests/algos/reduce_nvls" => {
            Case::new(name, AllReduce, ranks, fragment!(relaxed::allreduce_nvls(0))).in_place()
        }
        "executor-tests/algos/reduce_nvls_pipeline" => {
            Case::new(name, AllReduce, ranks, fragment!(relaxed::allreduce_nvls(1 << 20))).in_place()
        }
        _ => return None,
    })
}

/// Returns the case of a fragment, whose plan has a separate name.
fn unit(fragment: &str) -> Option<Case> {
    let test = |name, ranks, (input, output), call| Case::new(name, Test { input, output }, ranks, call);
    Some(match fragment {
        "barrier_test" => test("barrier_test", 1, (0, 0), fragment!(sync::barrier())),
        "copy_packet_test" => test("copy_packets_test", 1, (1, 1), fragment!(packets::copy())).packets(),
        "copy_test" => test("copy_test", 1, (1, 1), fragment!(local::copy())),
        "flush/flush_fuse_test" => test("flush_test", 2, (0, 0), fragment!(sync::flush_twice())),
        "flush/flush_test" => test("flush_test", 2, (0, 0), fragment!(sync::flush())),
        "get/get_fuse_test" => test("get_test", 2, (2, 0), fragment!(transfers::get(2))),
        "get/get_test" => test("get_test", 2, (2, 0), fragment!(transfers::get(1))),
        "pipeline_test" => test("barrier_test", 1, (1, 1), fragment!(local::pipeline())),
        "put/put_fuse_test" => test("put_test", 2, (2, 0), fragment!(transfers::put_twice())),
        "put/put_test" => test("put_test", 2, (2, 0), fragment!(transfers::put())),
        "put/put_with_signal_and_flush_test" => {
            test("put_with_signal_and_flush_test", 2, (2, 0), fragment!(transfers::put_with_signal_and_flush()))
        }
        "put/put_with_signal_test" => test("put_with_signal_test", 2, (2, 0), fragment!(transfers::put_with_signal())),
        "put/put_with_signal_fuse_test" => {
            test("put_with_signal_test", 2, (4, 0), fragment!(transfers::put_with_signal_twice()))
        }
        "put_packet_test" => test("put_packets_test", 2, (1, 0), fragment!(packets::put())).packets(),
        "read_put_packet_test" => test("read_put_packets_test", 2, (0, 0), fragment!(packets::read_put())).packets(),
        "read_reduce/read_reduce_fuse_test" => {
            test("read_reduce_test", 2, (2, 2), fragment!(transfers::read_reduce_twice()))
        }
        "read_reduce/read_reduce_test" => test("read_reduce_test", 2, (2, 2), fragment!(transfers::read_reduce())),
        "read_reduce_send_test" => test("read_reduce_send_test", 2, (2, 2), fragment!(transfers::read_reduce_send())),
        "reduce/reduce_fuse_test" => test("reduce_test", 1, (3, 2), fragment!(local::reduce_twice())),
        "reduce/reduce_test" => test("reduce_test", 1, (2, 1), fragment!(local::reduce())),
        "reduce_copy_packet_test" => {
            test("reduce_copy_packets_test", 1, (1, 0), fragment!(packets::reduce_copy())).packets()
        }
        "reduce_copy_send_packet_test" => {
            test("reduce_copy_send_packets_test", 2, (1, 0), fragment!(packets::reduce_copy_send())).packets()
        }
        "reduce_packet/reduce_packets_fuse_test" => {
            test("reduce_packets_test", 1, (0, 0), fragment!(packets::reduce_twice())).packets()
        }
        "reduce_packet/reduce_packets_test" => {
            test("reduce_packets_test", 1, (0, 0), fragment!(packets::reduce())).packets()
        }
        "reduce_send_packet_test" => {
            test("reduce_send_packets_test", 2, (0, 0), fragment!(packets::reduce_send())).packets()
        }
        "reduce_send_test" => test("reduce_send_test", 2, (2, 2), fragment!(transfers::reduce_send())),
        "semaphore" => test("semaphore_test", 1, (0, 0), fragment!(sync::semaphore())),
        "signal_wait/relaxed_signal_wait_fuse_test" => {
            test("relaxed_signal_wait_test", 2, (0, 0), fragment!(sync::signals_waits_relaxed()))
        }
        "signal_wait/relaxed_signal_wait_test" => {
            test("relaxed_signal_wait_test", 2, (0, 0), fragment!(sync::signal_wait_relaxed()))
        }
        "signal_wait/signal_wait_fuse_test" => test("signal_wait_test", 2, (0, 0), fragment!(sync::signals_waits())),
        "signal_wait/signal_wait_test" => test("signal_wait_test", 2, (0, 0), fragment!(sync::signal_wait())),
        "switch_broadcast_test" => test("group_store_test", 3, (1, 1), fragment!(switch::broadcast())),
        "switch_reduce_test" => test("switch_reduce_test", 3, (1, 1), fragment!(switch::reduce())),
        "tbg/tbg_copy_test" => test("copy_test", 1, (1, 1), fragment!(groups::copy())),
        "tbg/tbg_reduce_fuse_test" => test("reduce_test", 1, (3, 2), fragment!(groups::reduce_twice())),
        "tbg/tbg_reduce_send_test" => test("reduce_send_test", 2, (2, 2), fragment!(groups::reduce_send())),
        "tbg/tbg_reduce_test" => test("reduce_test", 1, (2, 1), fragment!(groups::reduce())),
        "unpack_packet_test" => test("unpack_packets_test", 1, (1, 1), fragment!(packets::unpack())).packets(),
        _ => return None,
    })
}
