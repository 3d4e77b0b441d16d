//! Tuning: the measurements, the file, and the selection that uses it.

use std::path::Path;

use crate::ranks::on_ranks;
use mscclpp_communicator::tune::{
    CandidateTime, MachineInfo, MeasureOptions, TableError, Tuner, TuningEntry, TuningTable, measure,
};
use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::types::ReduceOp;
use mscclpp_exec::DataType;
use mscclpp_select::{Backend, CALLS, DecidedBy, Registry, Request, SelectError};
use proptest::prelude::*;

fn timed(algorithm: &str, blocks: Option<u32>, time_us: f64) -> CandidateTime {
    CandidateTime { algorithm: algorithm.into(), blocks, threads: None, time_us }
}

fn entry(bytes: u64, algorithm: &str) -> TuningEntry {
    let request = Request::new(CollectiveKind::AllReduce, 4, DataType::F32, bytes);
    TuningEntry::new(&request, timed(algorithm, Some(2), 1.25), vec![timed("allreduce_all_pairs", None, 2.5)])
}

fn table(entries: Vec<TuningEntry>) -> TuningTable {
    let mut table = TuningTable::new(MachineInfo::current());
    table.entries = entries;
    table
}

fn all_reduce(bytes: u64) -> Request {
    Request::new(CollectiveKind::AllReduce, 4, DataType::F32, bytes)
}

#[test]
fn a_tuner_measures_every_candidate_and_all_ranks_get_one_table() {
    let tuner = Tuner {
        collectives: vec![CollectiveKind::AllReduce, CollectiveKind::AllGather],
        min_bytes: 1000,
        max_bytes: 4096,
        iterations: Some(3),
        ..Tuner::default()
    };
    assert_eq!(tuner.num_entries(), 2 * 2 * 3);
    let tables = on_ranks(3, |comm| {
        let mut told = 0;
        let table = tuner.run(comm, |_| told += 1).expect("it can be measured");
        assert_eq!(told, table.entries.len());
        // The registry uses its own rules again, and uses the table when it is set.
        let request = comm.request_of(CollectiveKind::AllReduce, DataType::F32, 1500);
        assert!(matches!(
            comm.registry().expect("a registry").select(&request).expect("one").decided_by,
            DecidedBy::Rule(_)
        ));
        comm.configure(|registry| registry.set_table(Some(table.clone()))).expect("equal registries");
        let tuned = comm.registry().expect("a registry").select(&request).expect("one");
        assert_eq!(tuned.decided_by, DecidedBy::Table(2048));
        assert_eq!(tuned.algorithm.name(), table.lookup(&request).expect("an entry").fastest.algorithm);
        let mut x = [1.0_f32; 375];
        comm.all_reduce_in_place(&mut x, ReduceOp::Sum).expect("all_reduce");
        assert_eq!(x, [3.0; 375]);
        table
    });
    assert!(tables.iter().all(|table| *table == tables[0]));
    let entries = &tables[0].entries;
    assert_eq!(entries.len(), tuner.num_entries());
    for entry in entries {
        let request =
            Request { in_place: entry.in_place, ..Request::new(entry.collective, 3, DataType::F32, entry.bytes) };
        let registry = Registry::builtin();
        let admitted =
            registry.iter().filter(|one| one.collective() == entry.collective && one.check_request(&request).is_ok());
        let candidates: usize = admitted.map(|one| one.block_counts(request.backend).len()).sum();
        assert_eq!(1 + entry.others.len(), candidates, "{entry:?}");
        assert!(entry.others.iter().all(|other| other.time_us >= entry.fastest.time_us));
    }
}

#[test]
fn measurement_detects_wrong_results() {
    on_ranks(2, |comm| {
        let measuring = MeasureOptions::for_bytes(1).iterations(4).warmup(1).check(1);
        for kind in [CollectiveKind::AllReduce, CollectiveKind::AllToAll, CollectiveKind::SendRecv] {
            for dtype in [DataType::BF16, DataType::I64] {
                let request = comm.request_of(kind, dtype, 4096);
                let measured = measure(comm, &request, measuring).expect("it runs");
                assert_eq!(measured.wrong, Some(0));
                assert!(measured.average <= measured.slowest && !measured.slowest.is_zero());
            }
        }
        let lazy = mscclpp_select::Algorithm::native("lazy", CollectiveKind::AllGather, |_| Ok(()));
        comm.configure(|registry| registry.add(lazy)).expect("equal registries").expect("a new name");
        let request = comm.request_of(CollectiveKind::AllGather, DataType::F32, 4096);
        let measured = measure(comm, &request, measuring).expect("it does nothing");
        // Zeros are correct by coincidence in a few places.
        assert!(measured.wrong.expect("it was compared") > 4 * 2 * 900, "{measured:?}");
        // Results that are not requested are not reported.
        let measured = measure(comm, &request, measuring.check(0)).expect("it does nothing");
        assert_eq!(measured.wrong, None);
    });
}

#[test]
fn sizes_are_rounded_up_to_powers_of_two_within_limits() {
    let sizes = [1 << 10, 1 << 11, 1 << 20, 1 << 28];
    let table = table(sizes.iter().map(|&bytes| entry(bytes, "allreduce_ring")).collect());
    let tuned = |bytes| table.lookup(&all_reduce(bytes)).map(|entry| entry.bytes);
    assert_eq!(tuned(0), Some(1 << 10));
    assert_eq!(tuned(1024), Some(1 << 10));
    assert_eq!(tuned(1025), Some(1 << 11));
    assert_eq!(tuned(5000), None);
    assert_eq!(tuned((1 << 20) - 3), Some(1 << 20));
    assert_eq!(tuned(u64::MAX), Some(1 << 28));
    // Another type or reduction of the same size matches; another topology does not.
    let other = Request { op: Some(ReduceOp::Max), dtype: DataType::F16, ..all_reduce(1024) };
    assert!(table.lookup(&other).is_some());
    for elsewhere in [
        Request { num_ranks: 8, ranks_per_node: 8, ..all_reduce(1024) },
        Request { ranks_per_node: 2, ..all_reduce(1024) },
        Request { in_place: true, ..all_reduce(1024) },
        Request { registered: true, ..all_reduce(1024) },
    ] {
        assert!(table.lookup(&elsewhere).is_none(), "{elsewhere}");
    }
}

#[test]
fn table_round_trips_through_its_file_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("table.toml");
    let written = table(vec![entry(1024, "allreduce_ring"), entry(2048, "allreduce_packets")]);
    table(Vec::new()).save(&path).expect("it can be written");
    written.save(&path).expect("it can be replaced");
    assert_eq!(TuningTable::load(&path).expect("it is right"), written);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    assert!(matches!(written.save(folder.path().join("no/such")), Err(TableError::Write { .. })));
    assert!(matches!(TuningTable::load(folder.path().join("none")), Err(TableError::Read { .. })));
}

#[test]
fn bad_files_are_named_with_the_place() {
    let good = table(vec![entry(1024, "allreduce_ring")]).text();
    let message = |from: &str, to: &str| {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        TuningTable::parse(Path::new("t.toml"), &bad).expect_err(to).to_string()
    };
    let error = message("collective = \"allreduce\"", "collective = \"allreduse\"");
    assert!(
        error.contains("expected a collective (one of allreduce,") && error.contains("found `allreduse`"),
        "{error}"
    );
    let line = 1 + good.lines().position(|line| line.starts_with("collective")).expect("a collective");
    assert!(error.starts_with(&format!("t.toml:{line}:14: ")), "{error}");
    assert!(message("dtype = \"f32\"", "dtype = 32").contains("expected a string"));
    assert!(message("op = \"sum\"", "op = \"xor\"").contains("sum, prod, min, max, avg"));
    assert!(message("bytes = 1024", "bites = 1024").contains("unknown field `bites`"));
    assert!(message("bytes = 1024", "bytes = -1").starts_with("t.toml:"));
    assert!(message("blocks = 2", "blocks = 50000000").ends_with("expected 1 to 1024 blocks, found 50000000"));
    assert!(message("blocks = 2", "blocks = 0").contains("expected 1 to 1024 blocks"));
    assert!(message("ranks = 4\n", "").contains("missing field `ranks`"));
    assert!(message("format = 1", "format = 2").starts_with("t.toml:2:1: expected format 1, found 2"));
    assert!(message("in_place = false", "in_place = ").starts_with("t.toml:"));
}

#[test]
fn table_of_another_machine_is_reported_with_both_values() {
    let mut elsewhere = MachineInfo::current();
    assert_eq!(elsewhere.differences(&MachineInfo::current()), []);
    elsewhere.processors = 1 << 40;
    elsewhere.version = "0.0.0".into();
    let differences = elsewhere.differences(&MachineInfo::current());
    let texts: Vec<_> = differences.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].starts_with("version of mscclpp: the table was measured with 0.0.0, found "), "{texts:?}");
    assert!(texts[1].starts_with("processors: the table was measured with 1099511627776, found "), "{texts:?}");
}

#[test]
fn entries_that_cannot_be_used_are_errors_only_if_strict() {
    let mut registry = Registry::builtin();
    registry.set_table(Some(table(vec![entry(1024, "allreduce_switch"), entry(2048, "allreduce_best")])));
    assert!(matches!(registry.select(&all_reduce(1024)).expect("another one").decided_by, DecidedBy::Rule(_)));
    assert!(matches!(registry.select(&all_reduce(2048)).expect("another one").decided_by, DecidedBy::Rule(_)));
    registry.set_strict(true);
    let error = registry.select(&all_reduce(2048)).expect_err("it is strict");
    assert!(matches!(&error, SelectError::BadChoice { by: "tuning table", name, .. } if name == "allreduce_best"));
    assert!(error.to_string().ends_with("but the registry has no such allreduce algorithm"), "{error}");
    assert!(matches!(registry.select(&all_reduce(4096)), Err(SelectError::Undecided { .. })));
}

#[test]
fn tables_that_differ_between_ranks_are_named() {
    let errors = on_ranks(2, |comm| {
        let own = (comm.rank() == 1).then(|| table(vec![entry(1024, "allreduce_ring")]));
        comm.configure(|registry| registry.set_table(own)).expect_err("they differ").to_string()
    });
    for error in errors {
        assert!(error.starts_with("tuning table differs: rank 0") && error.contains("has `none`, rank 1"), "{error}");
        assert!(error.ends_with(" (1 entries)`"), "{error}");
    }
}

#[test]
fn registries_with_different_tables_have_different_fingerprints() {
    let fingerprint = |entries| {
        let mut registry = Registry::builtin();
        registry.set_table(Some(table(entries)));
        registry.fingerprint()
    };
    assert_ne!(fingerprint(vec![]), Registry::builtin().fingerprint());
    assert_ne!(fingerprint(vec![]), fingerprint(vec![entry(1024, "allreduce_ring")]));
    assert_eq!(fingerprint(vec![]), fingerprint(vec![]));
}

proptest! {
    #[test]
    fn any_text_is_a_table_or_an_error_with_a_place(text in "(.|\n){0,60}", at in any::<prop::sample::Index>(), junk: char) {
        let place = |result: Result<TuningTable, TableError>, text: &str| match result {
            Ok(_) => {}
            Err(TableError::Malformed { line, column, .. }) => {
                assert!(line >= 1 && column >= 1 && line <= text.matches('\n').count() + 1);
            }
            Err(other) => panic!("{other}"),
        };
        place(TuningTable::parse(Path::new("t"), &text), &text);
        let mut mutant: Vec<char> = table(vec![entry(1024, "allreduce_ring")]).text().chars().collect();
        let index = at.index(mutant.len());
        mutant[index] = junk;
        let mutant: String = mutant.into_iter().collect();
        place(TuningTable::parse(Path::new("t"), &mutant), &mutant);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 60 } else { 600 }, ..ProptestConfig::default() })]
    #[test]
    fn calls_of_all_kinds_types_and_sizes_are_right(
        ranks in 1..10_u32, seed: u64,
        calls in proptest::collection::vec((0..7_usize, 0..12_usize, 0..5_usize, 0..10_u32, any::<[bool; 2]>(), 0..4000_u64), 1..6),
    ) {
        // The next call follows immediately, on the state that the last one left.
        on_ranks(ranks, |comm| {
            for &(kind, dtype, op, root, [in_place, registered], count) in &calls {
                let (kind, dtype) = (CALLS[kind].1, DataType::ALL[dtype]);
                let parts = matches!(kind, CollectiveKind::AllGather | CollectiveKind::ReduceScatter | CollectiveKind::AllToAll);
                let count = if parts { count.next_multiple_of(u64::from(ranks)) } else { count + seed % 3 };
                let request = comm.request_of(kind, dtype, count * dtype.size() as u64);
                let rooted = matches!(kind, CollectiveKind::Broadcast | CollectiveKind::Reduce);
                let request = Request {
                    op: request.op.map(|_| ReduceOp::ALL[op]),
                    root: if rooted { root % ranks } else { 0 },
                    in_place,
                    registered,
                    ..request
                };
                let measuring = MeasureOptions::for_bytes(1).iterations(2).warmup(1).check(1);
                let measured = measure(comm, &request, measuring).unwrap_or_else(|error| panic!("{request}: {error}"));
                assert_eq!(measured.wrong, Some(0), "{request}");
            }
        });
    }
}

/// As the benchmark of MSCCL++ writes it.
const TUNED: &str = r#"{
  "version": 1,
  "profiles": [
    {
      "sku": "NVIDIA H100 80GB HBM3",
      "collectives": {
        "allgather": {"configs": [{"message_size": 1024, "algorithm": "default_allgather_fullmesh2"}]}
      }
    },
    {
      "sku": "H100",
      "scale": 4,
      "collectives": {
        "allreduce": [
          {"message_size": 65536, "algorithm": "default_allreduce_fullmesh", "nblocks": 0, "nthreads": 0, "time_us": 9.5},
          {"message_size": 4096, "algorithm": "default_allreduce_packet", "nblocks": 8, "nthreads": 512},
          {"message_size": 1048576, "algorithm": "allreduce_ring", "symmetric_memory": true}
        ],
        "alltoallw": []
      }
    }
  ]
}
"#;

#[test]
fn tuned_configs_of_the_reference_decide_for_devices() {
    let parsed = TuningTable::parse(Path::new("t.json"), TUNED).expect("a table");
    assert_eq!(parsed.machine.devices.as_deref(), Some("H100"));
    assert_eq!(parsed.text(), TUNED);
    let mut registry = Registry::builtin();
    registry.set_table(Some(parsed));
    let decided = |request: Request| {
        let decision = registry.select(&request).expect("an algorithm");
        let by_table = matches!(decision.decided_by, DecidedBy::Table(_));
        by_table.then(|| (decision.algorithm.name().to_owned(), decision.config.blocks, decision.config.threads))
    };
    let of = |collective, ranks, bytes| Request {
        backend: Backend::Cuda,
        registered: true,
        ..Request::new(collective, ranks, DataType::F32, bytes)
    };
    let all_reduce = |bytes| of(CollectiveKind::AllReduce, 4, bytes);
    let packets = Some(("allreduce_packets".to_owned(), Some(8), Some(512)));
    let full_mesh = Some(("allreduce_rank_order".to_owned(), None, None));
    // Below the first size, at it, below the next one, at it.
    for (bytes, expected) in
        [(64, &packets), (4096, &packets), (65532, &packets), (65536, &full_mesh), (1 << 19, &full_mesh)]
    {
        assert_eq!(decided(all_reduce(bytes)), *expected, "{bytes}");
    }
    let ring = Some(("allreduce_ring".to_owned(), None, None));
    assert_eq!(decided(all_reduce(1 << 30)), ring, "above the last size");
    assert_eq!(decided(Request { registered: false, ..all_reduce(1 << 20) }), None, "symmetric memory only");
    assert_eq!(decided(of(CollectiveKind::AllReduce, 8, 4096)), None, "another number of ranks");
    assert_eq!(decided(Request { backend: Backend::Cpu, ..all_reduce(4096) }), None, "the CPU");
    // Sizes are those of a rank's input.
    assert_eq!(
        decided(of(CollectiveKind::AllGather, 8, 8 * 1024)).map(|found| found.0),
        Some("allgather_all_pairs".into())
    );
}

#[test]
fn bad_tuned_configs_are_named_with_the_place() {
    let message = |from: &str, to: &str| {
        let bad = TUNED.replacen(from, to, 1);
        assert_ne!(bad, TUNED, "{from}");
        TuningTable::parse(Path::new("t.json"), &bad).expect_err(to).to_string()
    };
    let line = |part: &str| 1 + TUNED.lines().position(|line| line.contains(part)).expect("a line");
    for (from, to, part, at) in [
        ("\"version\": 1", "\"version\": 2", "expected version 1, found 2", line("version")),
        ("\"sku\": \"H100\"", "\"sku\": \"A100\"", "expected profiles of one kind of device, found A100, H100", 1),
        ("\"scale\": 4", "\"scale\": 0", "expected a positive number of ranks, found 0", line("scale")),
        ("65536,", "-65536,", "invalid value", line("65536")),
        ("\"nblocks\": 8", "\"nblocks\": 1025", "expected at most 1024 blocks, found 1025", line("nblocks\": 8")),
        ("\"nthreads\": 512", "\"nthreads\": 500", "found 500", line("nthreads\": 512")),
        ("\"algorithm\": \"allreduce_ring\", ", "", "missing field `algorithm`", line("allreduce_ring")),
        ("\"symmetric_memory\": true", "\"symmetric_memory\": 1", "expected a boolean", line("symmetric")),
        ("\"alltoallw\": []", "\"alltoallw\": 7", "expected a list of configurations", line("alltoallw")),
        ("\"profiles\"", "\"profile\"", "missing field `profiles`", TUNED.lines().count()),
    ] {
        let found = message(from, to);
        assert!(found.contains(part), "{found}");
        assert!(found.starts_with(&format!("t.json:{at}:")), "{found}, expected line {at}");
    }
    for end in 0..TUNED.len() - 2 {
        let cut = TUNED.get(..end).expect("plain text");
        assert!(TuningTable::parse(Path::new("t.json"), cut).is_err(), "{cut}");
    }
}
