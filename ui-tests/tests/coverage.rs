//! Every diagnostic has a case: a program that must not compile, or a test that triggers it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mscclpp_core::diag::Code;

/// Codes that cannot occur while a collective compiles, by the file with tests that trigger them; each with its test.
const ELSEWHERE: &[(&str, &[(Code, &str)])] = &[
    (
        "dev/tests/device/faults.rs",
        &[
            (Code::NotResident, "plan_beyond_device_limits_is_rejected"),
            (Code::NoDevice, "missing_device_is_rejected"),
            (Code::DriverFailed, "every_call_fails_once"),
        ],
    ),
    ("dev/tests/device/graphs.rs", &[(Code::Capturing, "uncapturable_call_in_capture_is_rejected")]),
    ("mscclpp-exec/tests/jit.rs", &[(Code::NotCompiled, "there_is_a_compiler_or_a_reason")]),
    ("dev/tests/device/devices.rs", &[(Code::NoPeerAccess, "devices_without_peer_access_are_rejected")]),
    (
        "mscclpp-core/tests/recording.rs",
        &[
            (Code::NoRanks, "bad_specifications_are_refused_without_recording"),
            (Code::ForeignHandle, "handles_of_another_program_are_refused"),
        ],
    ),
    (
        "mscclpp-core/tests/lang/mistakes.rs",
        &[
            (Code::WrongChannel, "mistakes_are_collected_with_their_places"),
            (Code::NonContiguousChunks, "mistakes_are_collected_with_their_places"),
        ],
    ),
    ("mscclpp-eval/src/driver.rs", &[(Code::Internal, "a_panic_of_ours_is_an_internal_error")]),
    (
        "mscclpp-check/src/shape/tests.rs",
        &[
            (Code::IndexOutOfRange, "indexes"),
            (Code::BadOperands, "reference_lists"),
            (Code::BadLoop, "loops"),
            (Code::BarrierMismatch, "barriers"),
            (Code::ChunkCountMismatch, "chunk_counts"),
        ],
    ),
    ("mscclpp-check/src/dataflow/tests.rs", &[(Code::AnalysisLimit, "hostile_plans_take_no_longer_than_others")]),
    ("mscclpp-check/src/loops/tests/mod.rs", &[(Code::Undecided, "loops_of_too_many_combinations_are_rejected")]),
    ("mscclpp-check/src/limits.rs", &[(Code::OverLimit, "exceeded_limits_are_reported_with_numbers")]),
    (
        "mscclpp-plan/src/json/tests.rs",
        &[
            (Code::NotJson, "every_mistake_has_its_code_and_path"),
            (Code::MissingKey, "every_mistake_has_its_code_and_path"),
            (Code::WrongType, "every_mistake_has_its_code_and_path"),
            (Code::UnknownName, "every_mistake_has_its_code_and_path"),
            (Code::UnknownKey, "every_mistake_has_its_code_and_path"),
            (Code::DuplicateKey, "every_mistake_has_its_code_and_path"),
            (Code::InconsistentValue, "every_mistake_has_its_code_and_path"),
            (Code::BadReference, "every_mistake_has_its_code_and_path"),
            (Code::NestedLoop, "every_mistake_has_its_code_and_path"),
        ],
    ),
    ("mscclpp-plan/src/image/tests.rs", &[(Code::BadImage, "a_damaged_section_names_its_rank")]),
    ("mscclpp-check/src/load.rs", &[(Code::NotPlanText, "bytes_that_are_no_plan_say_so")]),
    ("mscclpp-core/src/export/tests.rs", &[(Code::NotInReference, "what_the_reference_does_wrongly_is_refused")]),
    (
        "mscclpp-exec/tests/errors.rs",
        &[
            (Code::Stalled, "stalled_plan_is_an_error"),
            (Code::WrongNumberOfRanks, "plan_for_another_rank_count_is_an_error"),
            (Code::MalformedPlan, "invalid_index_in_plan_is_an_error"),
            (Code::MessageOutOfRange, "message_size_out_of_range_is_an_error"),
            (Code::IndivisibleCount, "unequal_parts_are_an_error"),
            (Code::MessageTooLarge, "message_beyond_address_space_is_an_error"),
            (Code::FixedReduction, "reduction_other_than_the_plans_is_an_error"),
            (Code::NoSuchReduction, "unsupported_accumulator_is_an_error"),
            (Code::WrongBuffers, "buffers_of_other_size_are_an_error"),
            (Code::InPlaceMismatch, "buffer_mode_mismatch_is_an_error"),
            (Code::ReadOnlyInput, "read_only_inputs_are_an_error"),
            (Code::OutOfResources, "scratch_above_limit_is_an_error"),
            (Code::ExecutorFault, "internal_error_is_reported_as_bug"),
        ],
    ),
    (
        "mscclpp-exec/tests/counts.rs",
        &[(Code::CountOverflow, "overflow_is_the_same_verdict_everywhere_and_moves_nothing")],
    ),
    (
        "mscclpp-exec/tests/process/failures.rs",
        &[(Code::LostRank, "lost_rank_is_reported"), (Code::CallMismatch, "different_calls_are_reported")],
    ),
    (
        "mscclpp-communicator/tests/communicator.rs",
        &[
            (Code::NoAlgorithm, "failed_selection_or_build_names_rank_and_call"),
            (Code::InvalidCall, "mismatched_lengths_are_reported_before_any_wait"),
            (Code::CallPanicked, "panic_of_a_started_call_is_an_error_and_later_calls_work"),
        ],
    ),
];

/// Returns programs that must not compile and their messages, by area and name.
fn cases() -> BTreeMap<(String, String), PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fail");
    let mut cases = BTreeMap::new();
    for area in fs::read_dir(root).expect("the folder of programs").map(|entry| entry.expect("an area").path()) {
        for file in fs::read_dir(&area).expect("an area").map(|entry| entry.expect("a program").path()) {
            if file.extension().is_some_and(|extension| extension == "rs") {
                let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
                cases.insert((name(&area), name(&file)), file.with_extension("stderr"));
            }
        }
    }
    cases
}

fn area(number: &str) -> Option<&'static str> {
    match &number[..3] {
        "M00" => Some("record"),
        "M01" => Some("evaluate"),
        "M02" => Some("check"),
        _ => None,
    }
}

/// Returns the tests in [`ELSEWHERE`] of a code: file and function.
fn elsewhere(code: Code) -> Vec<(&'static str, &'static str)> {
    let tests = ELSEWHERE.iter().flat_map(|(file, tests)| tests.iter().map(move |(code, test)| (*code, *file, *test)));
    tests.filter(|(other, ..)| *other == code).map(|(_, file, test)| (file, test)).collect()
}

#[test]
fn every_code_has_a_case() {
    let cases = cases();
    let mut missing = Vec::new();
    for (code, entry) in Code::all() {
        let told = format!("[{} {}]", entry.number, entry.slug);
        let program = area(entry.number).map(|area| (area.to_owned(), entry.slug.to_owned()));
        let elsewhere = elsewhere(code);
        match program.and_then(|program| cases.get(&program)) {
            Some(stderr) => {
                let said = fs::read_to_string(stderr).unwrap_or_default();
                assert!(said.contains(&told), "{} does not say {told}", stderr.display());
                assert!(elsewhere.is_empty(), "{told} has a program and needs no other test");
            }
            None if elsewhere.is_empty() => missing.push(told),
            None => elsewhere.iter().for_each(|(file, test)| names(code, file, test)),
        }
    }
    assert!(missing.is_empty(), "no program in ui-tests/fail and no entry in ELSEWHERE: {missing:#?}");
}

/// Asserts that a file of this repository contains a test that names a code.
fn names(code: Code, file: &str, test: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert!(text.contains(&format!("fn {test}(")), "{file} has no test `{test}`");
    let (name, entry) = (format!("{code:?}"), code.entry());
    let named = [&name, entry.number, entry.slug].iter().any(|name| text.contains(*name));
    assert!(named, "{file} does not name {name}");
}

#[test]
fn every_program_has_a_message_of_ours() {
    let cases = cases();
    assert!(cases.len() >= 60, "{} programs that must not compile", cases.len());
    for ((area, name), stderr) in &cases {
        let said = fs::read_to_string(stderr).unwrap_or_else(|error| panic!("{}: {error}", stderr.display()));
        assert!(said.contains("error"), "{area}/{name} says nothing");
        let coded = said.lines().any(|line| line.contains("rule: ") && line.contains("[M0"));
        assert!(coded || area == "types", "{area}/{name} names no rule: {said}");
    }
}
