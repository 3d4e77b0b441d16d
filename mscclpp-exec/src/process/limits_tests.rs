//! Segments in processes that have reached a limit of the system. Limits hold for a whole process, so each test runs in
//! one of its own.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::process::Command;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{LocalListener, Mesh, Segment};
use mscclpp_base::error::Error;
use mscclpp_base::system::SystemLimit;
use mscclpp_bootstrap::{ActiveTimeout, Bootstrap};

/// Runs an ignored test of this file in another process, which must succeed.
fn in_own_process(test: &str) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    let test = format!("{}::{test}", module_path!().split_once("::").expect("a crate's module").1);
    let ended = command.args([&test, "--exact", "--ignored", "--nocapture"]).output().expect("it can be started");
    let text = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
    assert!(ended.status.success() && text.contains("1 passed"), "{}: {text}", ended.status);
}

fn limit(resource: Resource, value: u64) {
    setrlimit(resource, Rlimit { current: Some(value), ..getrlimit(resource) }).expect("less is always possible");
}

/// Opens all descriptors that this process may have.
fn take_all_descriptors() -> Vec<File> {
    limit(Resource::Nofile, 100);
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// Checks which limit an error names, and returns what it allows.
fn assert_names(error: &Error, expected: SystemLimit, name: &str) -> u64 {
    let Error::LimitExceeded { limit, .. } = error else { panic!("{error}") };
    assert_eq!(limit.limit, expected);
    assert!(limit.required > limit.allowed, "{error}");
    let text = error.diagnostic().to_string();
    assert!(text.contains(&format!("{name} allows {}", limit.allowed)) && text.contains("raise it"), "{text}");
    limit.allowed
}

#[test]
fn file_size_limit_is_an_error_and_no_signal() {
    in_own_process("in_a_process_with_small_files");
}

#[test]
#[ignore = "a process of another test"]
fn in_a_process_with_small_files() {
    limit(Resource::Fsize, 8192);
    Segment::new(8192, "a test").expect("it is small enough");
    let error = Segment::new(8193, "a test").err().expect("too long");
    assert_eq!(assert_names(&error, SystemLimit::FileSize, "RLIMIT_FSIZE"), 8192);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    mscclpp_base::file::write_atomic(&path, &[1; 8192]).expect("it is small enough");
    let error = mscclpp_base::file::write_atomic(&path, &[2; 8193]).expect_err("too long");
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    assert!(error.to_string().contains("RLIMIT_FSIZE allows 8192 bytes of a file, 8193 are required"), "{error}");
    assert_eq!(fs::read(&path).expect("it is there"), [1; 8192]);
    assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 1);
}

/// Allocates the buffers of a rank of the executor in one process, and returns the error.
fn allocate_buffers(bytes: u64) -> Error {
    let algorithm = mscclpp_algorithms::find("allreduce_ring").expect("it is in the library");
    let plan = algorithm.plan(algorithm.spec(2, 2), &[]).expect("it has a plan");
    let message = mscclpp_base::Message::of::<f32>(bytes as usize / 4).any_size();
    let prepared = crate::cpu::Executor::new(2).prepare(&plan, message);
    prepared.and_then(|prepared| prepared.buffers().map(drop)).expect_err("too long")
}

#[test]
fn address_space_limits_are_named() {
    in_own_process("in_a_process_with_few_addresses");
}

#[test]
#[ignore = "a process of another test"]
fn in_a_process_with_few_addresses() {
    const BYTES: u64 = 200 << 20;
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let used = status.lines().find_map(|line| line.strip_prefix("VmSize:")?.trim().strip_suffix(" kB")?.parse().ok());
    let used = 1024 * used.unwrap_or(0_u64);
    limit(Resource::As, used + BYTES / 2);
    let error = Segment::new(BYTES, "a test").err().expect("too long");
    assert_eq!(assert_names(&error, SystemLimit::AddressSpace, "RLIMIT_AS"), used + BYTES / 2);
    let error = allocate_buffers(BYTES);
    assert_names(&error, SystemLimit::AddressSpace, "RLIMIT_AS");
    setrlimit(Resource::As, Rlimit { current: getrlimit(Resource::As).maximum, ..getrlimit(Resource::As) })
        .expect("the maximum is possible");
    limit(Resource::Data, 100 << 20);
    Segment::new(BYTES, "a test").expect("shared memory does not count");
    let error = allocate_buffers(BYTES);
    assert_eq!(assert_names(&error, SystemLimit::PrivateMemory, "RLIMIT_DATA"), 100 << 20);
}

#[test]
fn limit_of_mappings_is_named() {
    in_own_process("in_a_process_with_many_mappings");
}

#[test]
#[ignore = "a process of another test"]
fn in_a_process_with_many_mappings() {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").expect("it is there");
    let allowed: u64 = text.trim().parse().expect("a number");
    // Some systems allow more mappings than fit into the memory of a test.
    if allowed > 1 << 18 {
        return println!("not reached: vm.max_map_count={allowed}");
    }
    let mut segments = Vec::with_capacity(allowed as usize);
    let error = loop {
        match Segment::new(1, "a test") {
            Ok((segment, _)) => segments.push(segment),
            Err(error) => break error,
        }
    };
    // To print, threads need mappings of their own.
    segments.truncate(segments.len() / 2);
    assert_eq!(assert_names(&error, SystemLimit::Mappings, "vm.max_map_count"), allowed);
}

#[test]
fn limit_of_descriptors_is_named() {
    in_own_process("in_a_process_without_descriptors");
}

#[test]
#[ignore = "a process of another test"]
fn in_a_process_without_descriptors() {
    let taken = take_all_descriptors();
    let error = Segment::new(1, "a test").err().expect("no descriptor");
    drop(taken);
    assert_eq!(assert_names(&error, SystemLimit::Descriptors, "RLIMIT_NOFILE"), 100);
}

/// Connects two ranks, of which `own` can open no descriptor.
fn connect_without_descriptors(own: usize) -> Error {
    let listeners = [LocalListener::open(), LocalListener::open()].map(|listener| listener.expect("a listener"));
    let keys = [listeners[0].key(), listeners[1].key()];
    // As in different processes.
    listeners.iter().for_each(LocalListener::unregister);
    let [zero, one] = listeners;
    let (first, second) = if own == 0 { (one, zero) } else { (zero, one) };
    let name = |local_rank: usize| format!("rank {} (pid 7 on host a)", 10 + local_rank);
    let timeout = || ActiveTimeout::new(std::time::Duration::from_secs(60));
    // Only rank 1 connects, and the system completes that without rank 0.
    let other =
        (own == 0).then(|| first.connect(1, &keys, name, &mut timeout(), || Ok(())).expect("there are descriptors"));
    let taken = take_all_descriptors();
    let error = second.connect(own, &keys, name, &mut timeout(), || Ok(())).map(drop).expect_err("no descriptor");
    drop((taken, other.as_ref().map(Mesh::num_ranks)));
    error
}

#[test]
fn rank_without_descriptors_names_the_rank_and_the_limit() {
    in_own_process("in_a_rank_without_descriptors");
}

#[test]
#[ignore = "a process of another test"]
fn in_a_rank_without_descriptors() {
    for (own, what) in [(0, "accept the connection of rank 11"), (1, "connect to rank 10")] {
        let error = connect_without_descriptors(own);
        assert_names(&error, SystemLimit::Descriptors, "RLIMIT_NOFILE");
        assert!(error.to_string().starts_with(&format!("cannot {what} (pid 7 on host a): ")), "{error}");
    }
    // The others do not wait for a rank that cannot connect.
    let [zero, one]: [Bootstrap; 2] = Bootstrap::local(2).expect("a group").try_into().expect("two");
    let taken = take_all_descriptors();
    let error = crate::process::Executor::new(std::sync::Arc::new(zero)).map(drop).expect_err("no descriptor");
    assert_names(&error, SystemLimit::Descriptors, "RLIMIT_NOFILE");
    drop(taken);
    let error = crate::process::Executor::new(std::sync::Arc::new(one)).map(drop).expect_err("rank 0 has failed");
    let text = error.to_string();
    assert!(text.starts_with("rank 0 (") && text.contains("RLIMIT_NOFILE allows 100"), "{text}");
    assert_eq!(error.kind(), mscclpp_base::error::ErrorKind::OutOfResources);
}
