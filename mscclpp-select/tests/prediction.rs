//! Selection by predicted times.

use mscclpp_core::collective::CollectiveKind::{self, AllGather, AllReduce, Broadcast};
use mscclpp_exec::DataType;
use mscclpp_select::tuning::{CandidateTime, MachineInfo, TuningEntry, TuningTable};
use mscclpp_select::{Backend, DecidedBy, Machine, Registry, Request};

const ISLANDS: &str = "8xa800-pcie-4+4";

fn on(name: &str) -> Registry {
    let mut registry = Registry::builtin();
    registry.set_machine(Some(Machine::builtin(name).expect("it is built in")));
    registry
}

fn request(kind: CollectiveKind, bytes: u64) -> Request {
    let request = Request::new(kind, 8, DataType::F32, bytes);
    Request { ranks_per_node: 4, backend: Backend::Cuda, max_blocks: 108, ..request }
}

#[test]
fn described_machine_is_served_by_predicted_times_and_another_one_by_rules() {
    let registry = on(ISLANDS);
    for kind in [AllReduce, AllGather, Broadcast] {
        let request = request(kind, 32 << 20);
        let decision = registry.select(&request).expect("an algorithm");
        assert!(matches!(decision.decided_by, DecidedBy::Prediction(1..)), "{request}: {}", decision.decided_by);
        assert_eq!(registry.plan(&request, &decision).expect("a plan").num_ranks(), 8);
        let text = registry.explain(&request).to_string();
        assert!(text.contains("predicted to be the fastest: ") && text.contains("mean error of 1.8 %"), "{text}");
    }
    let islands = request(AllReduce, 32 << 20);
    let by_rules = Registry::builtin().select(&islands).expect("an algorithm");
    assert_ne!(registry.select(&islands).expect("an algorithm").algorithm.name(), by_rules.algorithm.name());
    for (other, expected) in [
        (Request { num_ranks: 4, ..islands }, "it describes 8 ranks, found 4"),
        (Request { backend: Backend::Cpu, ..islands }, "it describes backend cuda, found cpu"),
    ] {
        let decided_by = registry.select(&other).expect("an algorithm").decided_by;
        assert!(matches!(decided_by, DecidedBy::Rule(_)), "{decided_by}");
        let text = registry.explain(&other).to_string();
        assert!(text.contains(&format!("machine `{ISLANDS}` is not used: {expected}")), "{text}");
    }
    assert!(matches!(registry.select(&request(AllReduce, 0)).expect("an algorithm").decided_by, DecidedBy::Rule(_)));
}

#[test]
fn recognized_machine_is_served_as_a_named_one() {
    let (named, usual) = (on(ISLANDS), Registry::builtin());
    for bytes in [1 << 10, 5 << 20] {
        let request = request(AllReduce, bytes);
        let recognized = Request { machine: Some(ISLANDS), ..request };
        let [expected, found] = [named.select(&request), usual.select(&recognized)].map(|one| one.expect("one"));
        assert_eq!(
            (found.algorithm.name(), found.config, found.decided_by),
            (expected.algorithm.name(), expected.config, expected.decided_by)
        );
        assert!(usual.explain(&recognized).to_string().contains("recognized by its devices"));
    }
}

#[test]
fn tuning_table_precedes_predictions() {
    let mut registry = on(ISLANDS);
    let measured =
        CandidateTime { algorithm: "allreduce_ring_ports".into(), blocks: Some(2), threads: None, time_us: 1.0 };
    let mut table = TuningTable::new(MachineInfo::current());
    table.entries.push(TuningEntry::new(&request(AllReduce, 1 << 20), measured, Vec::new()));
    registry.set_table(Some(table));
    let decided_by = |bytes| registry.select(&request(AllReduce, bytes)).expect("an algorithm").decided_by;
    assert_eq!(decided_by(1 << 20), DecidedBy::Table(1 << 20));
    assert!(matches!(decided_by(4 << 20), DecidedBy::Prediction(_)));
}

#[test]
fn sizes_of_a_class_have_one_prediction_and_registries_of_other_machines_differ() {
    let registry = on(ISLANDS);
    let decided_by = |bytes| registry.select(&request(AllGather, bytes)).expect("an algorithm").decided_by;
    assert_eq!(decided_by((1 << 20) - 4096), decided_by(1 << 20));
    assert_ne!(decided_by(1 << 20), decided_by((1 << 20) + 4096));
    assert_ne!(registry.fingerprint(), Registry::builtin().fingerprint());
    assert_ne!(registry.fingerprint(), on("8xa100").fingerprint());
    assert_eq!(registry.fingerprint(), registry.clone().fingerprint());
}
