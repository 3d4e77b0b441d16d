//! Calls that are forwarded: a stand-in for the real NCCL, compiled here, records what it is called for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::plan::Format;
use mscclpp_exec::DataType;
use mscclpp_select::{Backend, Registry, Request};

use crate::clients::{SHORT_TIMEOUT, Test, compile, libraries, ran, run, text};

const LIBRARY: &str = "MSCCLPP_NCCL_LIB_PATH";
const FORCED: &str = "MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION";

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("forced_calls_reach_the_real_library_with_their_arguments", all),
        ("mixed_groups_keep_the_order_of_calls", mixed),
        ("calls_above_a_size_are_forwarded", sizes),
        ("communicators_have_one_of_the_real_library_each", communicators),
        ("failed_creation_on_one_rank_fails_all_ranks", failed_creation),
        ("errors_of_the_real_library_have_its_texts", errors),
        ("functions_that_the_real_library_lacks_are_errors", lacking),
        ("windows_and_signals_reach_the_real_library", windows),
        ("calls_without_an_algorithm_are_forwarded", named),
        ("libraries_that_cannot_be_used_are_errors_of_the_creation", unusable),
        ("ranks_with_different_rules_are_told_the_difference", different),
        ("versions_are_capped", versions),
        ("clients_that_forward_nothing_have_their_results", nothing_forwarded),
        ("plans_of_a_directory_serve_calls", plans),
        ("invalid_plans_are_warnings_or_errors", invalid_plans),
    ]
}

/// A run of the client with a stand-in.
struct Job {
    outputs: Vec<Output>,
    /// The calls of the stand-in, by rank.
    calls: Vec<Vec<String>>,
}

impl Job {
    /// Returns the output of a rank.
    fn text(&self, rank: usize) -> String {
        text(&self.outputs[rank])
    }

    /// Checks that all ranks print a text.
    fn expect(&self, expected: impl Fn(usize) -> String) -> Result<(), String> {
        for rank in 0..self.outputs.len() {
            let (expected, found) = (expected(rank), self.text(rank));
            if !found.contains(&expected) {
                return Err(format!("rank {rank}: expected `{expected}`, found:\n{found}"));
            }
        }
        Ok(())
    }
}

/// Compiles the stand-in.
fn standin(options: &[&str]) -> Result<PathBuf, String> {
    compile("standin", &[&["-shared", "-fPIC"], options].concat())
}

/// Runs the client `ranks` times with a library.
fn run_with(library: &Path, which: &str, ranks: usize, variables: &[(&str, &str)]) -> Result<Job, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let log = folder.path().join("calls").display().to_string();
    let library = library.display().to_string();
    let variables = [&[("STANDIN_LOG", &*log), (LIBRARY, &*library)], variables].concat();
    let outputs = run("forward", ranks, &[which], &variables)?;
    ran(&outputs)?;
    let lines = |rank| fs::read_to_string(format!("{log}.{rank}")).unwrap_or_default();
    let calls = (0..ranks).map(|rank| lines(rank).lines().map(str::to_owned).collect()).collect();
    Ok(Job { outputs, calls })
}

/// Runs the client with the stand-in.
fn job(which: &str, ranks: usize, variables: &[(&str, &str)]) -> Result<Job, String> {
    let library = standin(&[])?;
    let job = run_with(&library, which, ranks, variables);
    let _ = fs::remove_file(library);
    job
}

fn compare(found: &[String], expected: &[&str]) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {expected:#?}, found {found:#?}")) }
}

fn all() -> Result<(), String> {
    let job = job("all", 2, &[(FORCED, " All ")])?;
    job.expect(|rank| format!("ok rank {rank}"))?;
    for (rank, calls) in job.calls.iter().enumerate() {
        let other = 1 - rank;
        let (init, send, recv) = (
            format!("ncclCommInitRank rank {rank} of 2"),
            format!("ncclSend comm 1 count 3000 with {other}"),
            format!("ncclRecv comm 1 count 3000 with {other}"),
        );
        let calls = if rank == 0 {
            compare(&calls[..1], &["ncclGetUniqueId"])?;
            &calls[1..]
        } else {
            &calls[..]
        };
        compare(
            calls,
            &[
                &*init,
                "ncclAllReduce comm 1 count 3000 with 0",
                "ncclReduce comm 1 count 3000 with 1",
                "ncclReduceScatter comm 1 count 1500 with 3",
                "ncclBroadcast comm 1 count 3000 with 1",
                "ncclBroadcast comm 1 count 3000 with 0",
                "ncclAllGather comm 1 count 3000 with 0",
                "ncclAlltoAll comm 1 count 3000 with 0",
                "ncclGather comm 1 count 3000 with 0",
                "ncclScatter comm 1 count 3000 with 0",
                "ncclGroupStart",
                &*send,
                &*recv,
                "ncclGroupEnd",
                "ncclRedOpCreatePreMulSum comm 1 type 2 scalar 3",
                "ncclAllReduce comm 1 count 3000 with 77",
                "ncclRedOpDestroy comm 1 op 77",
                "ncclAllReduce comm 1 count 0 with 0",
                "ncclCommFinalize comm 1",
                "ncclCommDestroy comm 1",
            ],
        )?;
    }
    Ok(())
}

fn mixed() -> Result<(), String> {
    let job = job("mixed", 2, &[(FORCED, "broadcast")])?;
    job.expect(|rank| format!("ok rank {rank}"))?;
    // The client compares the data, which depends on the order with the calls that are not forwarded.
    compare(
        &job.calls[1][1..],
        &[
            "ncclGroupStart",
            "ncclBroadcast comm 1 count 3000 with 0",
            "ncclBroadcast comm 1 count 3000 with 1",
            "ncclGroupEnd",
            "ncclGroupStart",
            "ncclBroadcast comm 1 count 3000 with 0",
            "ncclGroupEnd",
            "ncclCommFinalize comm 1",
            "ncclCommDestroy comm 1",
        ],
    )
}

fn sizes() -> Result<(), String> {
    let variables = [(FORCED, "broadcast, AllReduce>8000, gossip"), ("NCCL_DEBUG", "INFO")];
    let job = job("sizes", 2, &variables)?;
    job.expect(|rank| format!("ok rank {rank}"))?;
    compare(&job.calls[1][1..2], &["ncclAllReduce comm 1 count 2001 with 0"])?;
    let known =
        "expected all, allreduce, allgather, reducescatter, broadcast, reduce, alltoall, gather, scatter, sendrecv";
    job.expect(|_| format!("WARN {FORCED}: `gossip` is no operation: {known}"))?;
    job.expect(|_| "INFO allreduce of up to 8192 bytes i32: forwarded to ".to_owned())?;
    job.expect(|_| format!("(NCCL 2.21.5); listed by {FORCED}"))?;
    job.expect(|_| "INFO allreduce of 8 KiB i32, sum, out of place, ".to_owned())?;
    // Ignored without a library, with one warning.
    let outputs = run("forward", 2, &["plans"], &[(FORCED, "all"), ("NCCL_DEBUG", "WARN")])?;
    ran(&outputs)?;
    let warning = format!("{FORCED}: it is ignored, because {LIBRARY} names no library");
    match outputs.iter().map(|output| text(output).matches(&warning).count()).collect::<Vec<_>>()[..] {
        [1, 1] => Ok(()),
        _ => Err(format!("expected one warning `{warning}`, found {}", text(&outputs[0]))),
    }
}

fn communicators() -> Result<(), String> {
    let job = job("communicators", 3, &[(FORCED, "allreduce")])?;
    // Rank 0 has no part in the first one, in which the order of ranks is reversed; the last rank none in the second one, and it
    // destroys the first one alone.
    let ends = ["ncclCommFinalize comm 1", "ncclCommDestroy comm 1"];
    let of_fewer = |number, rank| -> Vec<String> {
        vec![
            format!("ncclCommInitRank rank {rank} of 2"),
            format!("ncclAllReduce comm {number} count 3000 with 0"),
            format!("ncclCommFinalize comm {number}"),
            format!("ncclCommDestroy comm {number}"),
        ]
    };
    let of_half = |rank| -> Vec<String> {
        vec![
            format!("ncclCommInitRank rank {rank} of 2"),
            "ncclAllReduce comm 2 count 3000 with 0".to_owned(),
            "ncclCommAbort comm 2".to_owned(),
        ]
    };
    let id = || vec!["ncclGetUniqueId".to_owned()];
    let init = |rank| vec![format!("ncclCommInitRank rank {rank} of 3")];
    let ends = || ends.map(str::to_owned).to_vec();
    let expected = [
        [id(), init(0), id(), of_fewer(2, 0), ends()].concat(),
        [init(1), of_half(1), of_fewer(3, 1), ends()].concat(),
        [init(2), id(), of_half(0), ends()].concat(),
    ];
    for (found, expected) in job.calls.iter().zip(expected) {
        compare(found, &expected.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    Ok(())
}

fn failed_creation() -> Result<(), String> {
    let job = job("none", 3, &[("STANDIN_FAIL_RANK", "1")])?;
    // The rank itself has its own failure.
    job.expect(|rank| match rank {
        1 => "rank 1: ncclCommInitRank: 6: ncclCommInitRank: ncclCommInitRank of ".to_owned(),
        _ => format!("rank {rank}: ncclCommInitRank: 6: ncclCommInitRank: rank 1: ncclCommInitRank of "),
    })?;
    job.expect(|_| "returned 6: a stand-in's error: last words".to_owned())?;
    // The communicators of the other ranks are aborted.
    compare(&job.calls[2][1..], &["ncclCommAbort comm 1"])
}

fn errors() -> Result<(), String> {
    let job = job("failing", 2, &[(FORCED, "all"), ("STANDIN_FAIL", "ncclAllReduce")])?;
    job.expect(|rank| format!("rank {rank}: ncclAllReduce: 6: "))?;
    job.expect(|_| "ncclAllReduce of ".to_owned())?;
    job.expect(|_| "(NCCL 2.21.5) returned 6: a stand-in's error: last words of a communicator".to_owned())?;
    job.expect(|rank| format!("rank {rank}: asynchronous error 6"))?;
    compare(&job.calls[1][2..], &["ncclCommAbort comm 1"])?;
    let job = self::job("failing", 2, &[(FORCED, "broadcast"), ("STANDIN_FAIL", "asynchronously")])?;
    job.expect(|rank| format!("rank {rank}: asynchronous error 6"))
}

fn lacking() -> Result<(), String> {
    let library = standin(&["-DOLD"])?;
    let job = run_with(&library, "lacking", 2, &[(FORCED, "alltoall")])?;
    let _ = fs::remove_file(library);
    job.expect(|rank| format!("rank {rank}: ncclAlltoAll: 5: ncclAlltoAll: "))?;
    for name in ["ncclAlltoAll", "ncclSignal"] {
        job.expect(|_| format!("(NCCL 2.21.5) has no {name}: name a newer library with {LIBRARY}"))?;
    }
    job.expect(|rank| format!("ok rank {rank}"))
}

fn windows() -> Result<(), String> {
    let job = job("windows", 2, &[])?;
    job.expect(|rank| format!("rank {rank}: ncclWaitSignal: 4: ncclWaitSignal: nDesc: expected 1 to 65536, found 0"))?;
    compare(
        &job.calls[1][1..],
        &[
            "ncclCommWindowRegister comm 1 bytes 8192 flags 1",
            "ncclCommRegister comm 1 bytes 4096",
            "ncclGroupStart",
            "ncclPutSignal comm 1 count 5 peer 1 odd 1 offset 64 signal 2 context 3 flags 0",
            "ncclWaitSignal comm 1 descriptions 2 last 2 1 3 4",
            "ncclGroupEnd",
            "ncclSignal comm 1 peer 1 signal 0 context 0 flags 0",
            "ncclSetEncryption config",
            "ncclCommDeregister comm 1 ",
            "ncclCommWindowDeregister comm 1 odd 1",
            "ncclCommFinalize comm 1",
            "ncclCommDestroy comm 1",
        ],
    )
}

fn named() -> Result<(), String> {
    // Without switches, the algorithm that the call demands does not serve it.
    let job = job("named", 2, &[("NCCL_DEBUG", "INFO")])?;
    job.expect(|rank| format!("ok rank {rank}"))?;
    job.expect(|_| "; no algorithm serves it: ".to_owned())?;
    compare(&job.calls[1][1..2], &["ncclAllReduce comm 1 count 3000 with 0"])
}

fn unusable() -> Result<(), String> {
    let folder = libraries()?;
    let no_library = folder.join("libnccl-text");
    fs::write(&no_library, "no library").map_err(|error| error.to_string())?;
    for (path, reason) in [
        (folder.to_owned(), "expected a file, found a directory"),
        (folder.join("libmissing.so"), "No such file or directory"),
        (no_library, "file too short"),
        (folder.join("libcuda.so.1"), "it has no ncclGetVersion, so that it is no NCCL"),
        (folder.join("libnccl.so.2"), "this is mscclpp's library, which cannot forward to itself"),
    ] {
        let job = run_with(&path, "none", 2, &[])?;
        job.expect(|rank| {
            format!("rank {rank}: ncclCommInitRank: 2: ncclCommInitRank: {LIBRARY}={}: ", path.display())
        })?;
        job.expect(|_| reason.to_owned())?;
        job.expect(|_| "name the file of a libnccl.so.2, or unset the variable".to_owned())?;
        job.expect(|_| "version 23007".to_owned())?;
    }
    Ok(())
}

fn different() -> Result<(), String> {
    // A client sets the variable on one rank.
    let job = job("none", 2, &[("FORCED_ON_RANK_1", "allreduce")])?;
    job.expect(|rank| format!("rank {rank}: ncclCommInitRank: 5: ncclCommInitRank: "))?;
    job.expect(|_| FORCED.to_owned())
}

fn versions() -> Result<(), String> {
    for (of_library, stated, expected) in
        [("22105", None, "22105"), ("23203", Some(""), "23007"), ("23203", Some("2.29.1"), "22901")]
    {
        let variables: Vec<_> = [("STANDIN_VERSION", of_library), ("NCCL_DEBUG", "VERSION")]
            .into_iter()
            .chain(stated.map(|version| ("MSCCLPP_NCCL_VERSION", version)))
            .collect();
        job("version", 1, &variables)?.expect(|_| format!("version {expected}\n"))?;
        let lines = job("none", 1, &variables)?.text(0);
        let lines: Vec<_> = lines.lines().filter(|line| line.contains("NCCL version ")).collect();
        let dotted = if expected == "22105" {
            "2.21.5"
        } else if expected == "22901" {
            "2.29.1"
        } else {
            "2.30.7"
        };
        if lines.len() != 1 || !lines[0].contains(&format!("NCCL version {dotted} by mscclpp ")) {
            return Err(format!("expected one line with version {dotted}, found {lines:?}"));
        }
    }
    Ok(())
}

/// All ways to create communicators have one of the stand-in as well; its collectives would give other results.
fn nothing_forwarded() -> Result<(), String> {
    let (library, folder) = (standin(&[])?, tempfile::tempdir().map_err(|error| error.to_string())?);
    let (path, log) = (library.display().to_string(), folder.path().join("calls").display().to_string());
    for (client, ranks, arguments) in
        [("one_process", 1, &[][..]), ("collectives", 3, &[]), ("faults", 3, &["shrink"]), ("faults", 3, &["abort"])]
    {
        let of_standin = [(LIBRARY, &*path), ("STANDIN_LOG", &*log), ("STANDIN_VERSION", "23203")];
        let variables = [&of_standin[..], &SHORT_TIMEOUT].concat();
        ran(&run(client, ranks, arguments, &variables)?)?;
        let calls = fs::read_to_string(format!("{log}.0")).map_err(|error| error.to_string())?;
        let inits = calls.matches("ncclCommInitRank ").count();
        let ends = calls.matches("ncclCommDestroy ").count() + calls.matches("ncclCommAbort ").count();
        if inits == 0 || inits != ends || calls.contains("ncclAllReduce") {
            return Err(format!("{client} {arguments:?}: expected as many ends as {inits} creations, found:\n{calls}"));
        }
        fs::remove_file(format!("{log}.0")).map_err(|error| error.to_string())?;
    }
    let _ = fs::remove_file(library);
    Ok(())
}

/// Writes a plan of the built-in algorithm that serves the client's call, and a file that is no plan.
fn write_plans(folder: &Path) -> Result<(), String> {
    let request = Request::new(CollectiveKind::AllReduce, 2, DataType::I32, 8000);
    let request = Request { backend: Backend::Cuda, ..request };
    let registry = Registry::builtin();
    let decision = registry.select(&request).map_err(|error| error.to_string())?;
    let plan = registry.plan(&request, &decision).map_err(|error| error.to_string())?;
    fs::write(folder.join("mine.json"), plan.to_bytes(Format::Json)).map_err(|error| error.to_string())?;
    fs::write(folder.join("wrong.plan"), "no plan").map_err(|error| error.to_string())
}

fn plans() -> Result<(), String> {
    for (variable, below) in [("MSCCLPP_PLANS", ""), ("MSCCLPP_CACHE_DIR", "default")] {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let plans = folder.path().join(below);
        fs::create_dir_all(&plans).map_err(|error| error.to_string())?;
        write_plans(&plans)?;
        let path = folder.path().display().to_string();
        let outputs = run("forward", 2, &["plans"], &[(variable, &path), ("NCCL_DEBUG", "INFO")])?;
        ran(&outputs)?;
        for output in &outputs {
            let text = text(output);
            let decisions: Vec<_> =
                text.lines().filter(|line| line.contains("; a plan of the user serves it")).collect();
            if decisions.len() != 1 || !decisions[0].contains("(mine.json)`") {
                return Err(format!("{variable}: expected one decision for the plan, found:\n{text}"));
            }
            let warning = "WARN a plan is left out: ";
            if !text.lines().any(|line| line.contains(warning) && line.contains("wrong.plan")) {
                return Err(format!("{variable}: expected a warning of wrong.plan, found:\n{text}"));
            }
        }
    }
    Ok(())
}

fn invalid_plans() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    write_plans(folder.path())?;
    let path = folder.path().display().to_string();
    let outputs = run("forward", 2, &["plans"], &[("MSCCLPP_PLANS", &path), ("MSCCLPP_PLANS_STRICT", "1")])?;
    ran(&outputs)?;
    for (rank, output) in outputs.iter().enumerate() {
        let (found, expected) =
            (text(output), format!("rank {rank}: ncclCommInitRank: 5: ncclCommInitRank: MSCCLPP_PLANS_STRICT=1, "));
        if !found.contains(&expected) || !found.contains("wrong.plan") {
            return Err(format!("expected `{expected}` with wrong.plan, found:\n{found}"));
        }
    }
    Ok(())
}
