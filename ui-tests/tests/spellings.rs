//! Every name of this project in `docs/spellings.md` exists.

use std::collections::BTreeSet;
use std::path::Path;

use mscclpp::prelude::*;
use mscclpp::runtime::PacketType;
use mscclpp::runtime::cpu::PreparedPlan;
use mscclpp::runtime::cuda::channels::{ChannelOptions, Channels, DeviceMemoryChannel};
use mscclpp::runtime::{cpu, cuda, select, tune};
use mscclpp::{OnStream, algorithms, bootstrap};
use mscclpp_core::compile;
use mscclpp_core::dsl::registry;

/// Names with an expression that compiles only if they exist.
macro_rules! names {
    ($($name:literal => $there:expr;)*) => {{
        $(_ = $there;)*
        [$($name),*]
    }};
}

/// Names of the form `Type.field`.
macro_rules! fields {
    ($($text:literal: $ty:ty { $($field:ident),* $(,)? })*) => {
        [$($({
            _ = |value: &$ty| _ = &value.$field;
            concat!($text, ".", stringify!($field))
        }),*),*]
    };
}

/// Returns names that are no methods of the registry and none of its constants.
fn names() -> BTreeSet<&'static str> {
    let names = names! {
        "Program::new" => Program::new;
        "cuda::Device::is_nvls_supported" => cuda::Device::is_nvls_supported;
        "cuda::PreparedPlan::switch_paths" => cuda::PreparedPlan::switch_paths;
        "cuda::Executor::alloc" => cuda::Executor::alloc;
        "cuda::Executor::connect" => cuda::Executor::connect;
        "OnStream::channels" => OnStream::channels::<f32>;
        "OnStream::alloc" => OnStream::alloc::<f32>;
        "cuda::channels::DeviceMemoryChannel" => |channel: DeviceMemoryChannel| channel;
        "cuda::channels::Channels::remote" => Channels::<f32>::remote;
        "cuda::channels::Channels::memory" => Channels::<f32>::memory;
        "cuda::channels::Channels::port" => Channels::<f32>::port;
        "cuda::channels::Channels::switch" => Channels::<f32>::switch;
        "cuda::channels::Channels::barrier" => Channels::<f32>::barrier;
        "cuda::channels::ChannelOptions::num_port" => ChannelOptions::num_port;
        "cuda::channels::ChannelOptions::multicast" => ChannelOptions::multicast;
        "cuda::dlpack::export" => cuda::dlpack::export;
        "cuda::native::ContextKey" => |key: cuda::native::ContextKey| key;
        "cuda::native::ContextKey::per_allocation" => cuda::native::ContextKey::per_allocation;
        "cuda::native::NativeAlgorithm::context_key" => { fn _there<T: cuda::native::NativeAlgorithm>() { _ = T::context_key; } };
        "tune::TuningTable::load" => |path: &Path| tune::TuningTable::load(path);
        "cuda::native::NativeAlgorithm" => { fn _there<T: cuda::native::NativeAlgorithm>() {} };
        "Program::pipeline" => |p: &Program| p.pipeline(16, 1, || ());
        "Protocol::Simple" => Protocol::Simple;
        "Protocol::LL" => Protocol::LL;
        "Replication::Interleaved" => Replication::Interleaved;
        "Replication::None" => Replication::None;
        "CollectiveKind::AllReduce" => CollectiveKind::AllReduce;
        "CollectiveKind::AllGather" => CollectiveKind::AllGather;
        "CollectiveKind::Broadcast" => CollectiveKind::Broadcast;
        "CollectiveKind::Test" => CollectiveKind::Test { input: 1, output: 1 };
        "CollectiveKind::Custom" => CollectiveKind::Custom { input: 1, output: 1 };
        "AlgoSpec" => |spec: AlgoSpec| spec;
        "Plan" => |_: &Plan| ();
        "Plan::to_json" => Plan::to_json;
        "SavePlan::save" => |plan: &Plan| plan.save("plan.json");
        "Plan::tags" => |plan: &Plan| _ = plan.tags().count();
        "compile" => |spec: AlgoSpec| compile(spec, |_| ());
        "DataType" => DataType::ALL;
        "Message::of" => Message::of::<f32>;
        "Message::op" => Message::op;
        "Message::packet" => Message::packet;
        "PacketType::LL16" => PacketType::LL16;
        "PacketType::LL8" => PacketType::LL8;
        "cpu::Executor::new" => cpu::Executor::new;
        "cpu::Executor::prepare" => cpu::Executor::prepare;
        "cpu::PreparedPlan::launch" => |run: &mut PreparedPlan| run.launch(&[[0_i32]], &mut [[0_i32]]);
        "algorithms::all" => algorithms::all;
        "algorithms::find" => algorithms::find;
        "algorithms::REFERENCE_NAMES" => algorithms::REFERENCE_NAMES;
        "algorithms::BuiltinAlgorithm::kind" => algorithms::BuiltinAlgorithm::kind;
        "algorithms::BuiltinAlgorithm::name" => algorithms::BuiltinAlgorithm::name;
        "Communicator::all_reduce" => Communicator::all_reduce::<f32>;
        "Communicator::alloc" => Communicator::alloc::<f32>;
        "Communicator::configure" => |comm: &Communicator| _ = comm.configure(|_| ());
        "Communicator::connect" => Communicator::connect;
        "Communicator::from_env" => Communicator::from_env;
        "Communicator::rank" => Communicator::rank;
        "Communicator::num_ranks" => Communicator::num_ranks;
        "bootstrap::Address" => |text: &str| text.parse::<bootstrap::Address>();
        "Communicator::ranks_per_node" => Communicator::ranks_per_node;
        "select::Algorithm::native" => |f: fn(select::Call<'_>) -> _| select::Algorithm::native("", CollectiveKind::AllReduce, f);
        "select::Algorithm::kernels" => {
            fn _there<T: cuda::native::NativeAlgorithm>(t: T) -> select::Algorithm {
                select::Algorithm::kernels("", CollectiveKind::AllReduce, t)
            }
        };
        "select::Algorithm::plan" => select::Algorithm::plan;
        "select::Registry::add" => select::Registry::add;
        "select::Registry::explain" => select::Registry::explain;
        "select::Registry::select" => select::Registry::select;
        "select::Registry::set_selector" => |r: &mut select::Registry| r.set_selector(|_, _| None);
        "select::Registry::builtin" => select::Registry::builtin;
        "select::Request" => select::Request::new;
        "tune::TuningTable::lookup" => tune::TuningTable::lookup;
        "tune::Tuner::run" => |t: &tune::Tuner, comm: &Communicator| _ = t.run(comm, |_| ());
    };
    let fields = fields! {
        "AlgoSpec": AlgoSpec {
            name, collective, num_ranks, ranks_per_node, instances, protocol, fuse, auto_sync, replication, reuse_resources,
            threads_per_block, double_scratch, buffer_alignment, min_message_size, max_message_size, tags,
        }
        "select::Request": select::Request { collective }
        "Collective": Collective { chunk_factor, in_place }
    };
    names.into_iter().chain(fields).collect()
}

fn exists(name: &str, names: &BTreeSet<&str>) -> bool {
    let listed = name
        .split_once("::")
        .is_some_and(|(ty, member)| registry::method(ty, member).is_some() || registry::constant(ty, member).is_some());
    // Tests of the commands are in their crate; imports and signatures are for the reader.
    let elsewhere = ["mscclpp ", "use ", "fn ", "#["].iter().any(|start| name.starts_with(start));
    listed || names.contains(name) || elsewhere
}

/// Expands `A::{b, c}` to `A::b` and `A::c`.
fn expand(name: &str) -> Vec<String> {
    match name.split_once('{').and_then(|(start, rest)| Some((start, rest.strip_suffix('}')?))) {
        Some((start, ends)) => ends.split(", ").map(|end| format!("{start}{end}")).collect(),
        None => vec![name.to_owned()],
    }
}

#[test]
fn every_name_on_our_side_exists() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/spellings.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let names = names();
    let mut used = BTreeSet::new();
    let mut rows = 0;
    for line in page.lines().filter(|line| line.starts_with("| `") || line.starts_with("| the ")) {
        let cells: Vec<_> = line.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 3, "three cells: {line}");
        rows += 1;
        let ours: Vec<_> = cells[1].split('`').skip(1).step_by(2).flat_map(expand).collect();
        let in_words = ["a preloaded library", "left out"];
        assert!(!ours.is_empty() || in_words.contains(&cells[1].trim()), "no name and no reason: {line}");
        for name in ours {
            assert!(exists(&name, &names), "`{name}` does not exist: {line}");
            used.insert(name);
        }
    }
    assert!(rows > 70, "only {rows} rows were read");
    let unused: Vec<_> = names.iter().filter(|name| !used.contains(**name) && !page.contains(*name)).collect();
    assert!(unused.is_empty(), "the page no longer uses {unused:?}");
}

/// Checks that every method of the API has a spelling, so that a reader of the Python DSL can find it.
#[test]
fn every_operation_has_a_spelling() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/spellings.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let spelled: BTreeSet<_> = page.split('`').skip(1).step_by(2).flat_map(expand).collect();
    let of_operations = ["MemoryChannel", "PortChannel", "SwitchAt", "Semaphore"];
    for ty in registry::TYPES.iter().filter(|ty| of_operations.contains(&ty.name)) {
        for method in ty.methods() {
            let name = format!("{}::{}", ty.name, method.name);
            assert!(spelled.contains(&name), "`{name}` is in no table");
        }
    }
}
