//! Profiler plugins: one that is compiled here records its calls, which are compared with the calls of the program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::clients::{Test, compile, ran, run, text};

const PLUGIN: &str = "NCCL_PROFILER_PLUGIN";

/// All events that are sent: of groups, calls, launches and what was enqueued.
const ALL: &str = "3847";

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("profiler_of_interface_7_records_all_calls", || calls(7)),
        ("profiler_of_interface_6_records_all_calls", || calls(6)),
        ("profiler_gets_the_events_that_it_asks_for_and_their_parents", masks),
        ("profiler_is_told_of_captured_calls", captured),
        ("profiler_of_several_communicators_and_threads_pairs_events", threads),
        ("profiler_without_optional_functions_works", bare),
        ("profiler_gets_no_events_of_forwarded_calls", forwarded),
        ("profiler_errors_are_warnings", errors),
        ("profilers_that_cannot_be_used_are_warnings", unusable),
        ("profiler_plugins_are_found_by_suffix", suffix),
        ("profiler_names_none_and_the_program_are_understood", without_library),
    ]
}

/// An event of the records.
#[derive(Debug)]
struct Event {
    context: String,
    parent: String,
    /// The type and what is specific to it.
    words: Vec<String>,
    thread: String,
    states: Vec<String>,
    is_stopped: bool,
}

impl Event {
    fn kind(&self) -> &str {
        &self.words[0]
    }

    /// Returns the word after another one.
    fn after(&self, word: &str) -> Option<&str> {
        let at = self.words.iter().position(|found| found == word)?;
        self.words.get(at + 1).map(String::as_str)
    }

    /// Returns a line without addresses.
    fn line(&self) -> String {
        let is_address = |word: &&String| word.starts_with("0x") || *word == "(nil)";
        let names = ["send", "recv", "buffer", "stream", "group"];
        let words = self.words.iter().filter(|word| !is_address(word) && !names.contains(&word.as_str()));
        words.map(String::as_str).collect::<Vec<_>>().join(" ")
    }
}

/// What a plugin recorded in a process. Reading it checks that contexts and events are used while they exist, that each event is
/// stopped once, and that parents are of the right type.
#[derive(Debug, Default)]
struct Record {
    /// Of each context, in order: communicator, name, nodes, ranks, rank.
    contexts: Vec<Vec<String>>,
    events: Vec<Event>,
    num_finalized: usize,
}

impl Record {
    /// Reads the file of a process.
    fn read(path: &Path) -> Result<Self, String> {
        let lines = fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (mut record, mut ranks, mut handles) = (Self::default(), BTreeMap::new(), BTreeMap::new());
        for line in lines.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let invalid = |why: &str| format!("{why}: {line}");
            match words[2..] {
                [
                    "init",
                    "context",
                    context,
                    "communicator",
                    number,
                    "name",
                    name,
                    "nodes",
                    nodes,
                    "ranks",
                    ranks_of,
                    "rank",
                    rank,
                ] => {
                    let rank_number: i32 = rank.parse().map_err(|_| invalid("no rank"))?;
                    if ranks.insert(context.to_owned(), rank_number).is_some() {
                        return Err(invalid("the context exists already"));
                    }
                    record.contexts.push([number, name, nodes, ranks_of, rank].map(str::to_owned).to_vec());
                }
                ["start", handle, "context", context, "parent", parent, "rank", rank, ref rest @ ..] => {
                    let known = ranks.get(context).ok_or_else(|| invalid("the context does not exist"))?;
                    let rank: i32 = rank.parse().map_err(|_| invalid("no rank"))?;
                    if rank != *known {
                        return Err(invalid(&format!("expected rank {known}")));
                    }
                    let event = Event {
                        context: context.to_owned(),
                        parent: parent.to_owned(),
                        words: rest.iter().map(|word| (*word).to_owned()).collect(),
                        thread: words[1].to_owned(),
                        states: Vec::new(),
                        is_stopped: false,
                    };
                    record.check_parents(&event, &handles).map_err(|why| invalid(&why))?;
                    handles.insert(handle.to_owned(), record.events.len());
                    record.events.push(event);
                }
                ["stop", handle] => {
                    let event = handles.get(handle).map(|at| &mut record.events[*at]);
                    let event = event.ok_or_else(|| invalid("the event does not exist"))?;
                    if std::mem::replace(&mut event.is_stopped, true) {
                        return Err(invalid("the event is stopped already"));
                    }
                }
                ["record", handle, "state", state, "arguments", "0"] => {
                    let event = handles.get(handle).map(|at| &mut record.events[*at]);
                    let event = event.filter(|event| !event.is_stopped && event.kind() == "GroupApi");
                    event.ok_or_else(|| invalid("no open group"))?.states.push(state.to_owned());
                }
                ["finalize", "context", context] => {
                    ranks.remove(context).ok_or_else(|| invalid("the context does not exist"))?;
                    let is_open = |event: &Event| event.context == context && !event.is_stopped;
                    if record.events.iter().any(is_open) {
                        return Err(invalid("an event of the context is not stopped"));
                    }
                    record.num_finalized += 1;
                }
                _ => return Err(invalid("unknown")),
            }
        }
        match record.events.iter().find(|event| !event.is_stopped) {
            Some(event) => Err(format!("not stopped: {event:?}")),
            None => Ok(record),
        }
    }

    /// Checks the parents of a new event.
    fn check_parents(&self, event: &Event, handles: &BTreeMap<String, usize>) -> Result<(), String> {
        let find = |handle: &str| handles.get(handle).map(|at| &self.events[*at]);
        let expected = match event.kind() {
            "CollApi" | "P2pApi" | "KernelLaunch" => "GroupApi",
            "Coll" => "CollApi",
            "P2p" => "P2pApi",
            _ if event.parent == "(nil)" => return Ok(()),
            kind => return Err(format!("a parent of {kind}")),
        };
        let parent = find(&event.parent).filter(|parent| parent.kind() == expected);
        let parent = parent.ok_or_else(|| format!("expected a parent of type {expected}"))?;
        let Some(group) = event.after("group") else {
            return if parent.is_stopped { Err("the parent is stopped".into()) } else { Ok(()) };
        };
        let group = find(group).filter(|group| group.kind() == "Group" && group.context == event.context);
        if group.is_none_or(|group| group.is_stopped) {
            return Err("expected an open group".into());
        }
        let call =
            |event: &Event| (event.words[1].clone(), event.after("count").map(str::to_owned), event.context.clone());
        if call(parent) == call(event) { Ok(()) } else { Err(format!("another call than that of {parent:?}")) }
    }

    fn lines(&self) -> Vec<String> {
        self.events.iter().map(Event::line).collect()
    }

    /// Returns the number of events of a type.
    fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event.kind() == kind).count()
    }
}

/// A run of the client with a plugin: what each rank printed, and the records.
struct Job {
    texts: Vec<String>,
    records: Vec<Record>,
}

/// Runs a part of the client with a plugin, compiled with options.
fn job(options: &[&str], part: &str, ranks: usize, variables: &[(&str, &str)]) -> Result<Job, String> {
    let plugin = compile("plugin", &[&["-shared", "-fPIC"], options].concat())?;
    let job = run_with(&plugin.display().to_string(), part, ranks, variables);
    let _ = fs::remove_file(plugin);
    job
}

/// Runs a part of the client with a name of a plugin.
fn run_with(name: &str, part: &str, ranks: usize, variables: &[(&str, &str)]) -> Result<Job, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let log = folder.path().join("log").display().to_string();
    let own = [(PLUGIN, name), ("PLUGIN_LOG", &*log), ("NCCL_DEBUG", "INFO"), ("NCCL_PROFILE_EVENT_MASK", ALL)];
    let outputs = run("profiled", ranks, &[part], &[&own, variables].concat())?;
    ran(&outputs)?;
    let texts: Vec<_> = outputs.iter().map(text).collect();
    let mut records = Vec::new();
    for text in &texts {
        // Of one process, the file is the only one.
        let pid = text.lines().find_map(|line| line.split(" pid ").nth(1).filter(|_| line.starts_with("ok rank")));
        let files = fs::read_dir(folder.path()).map_err(|error| error.to_string())?;
        let mut files = files.filter_map(|file| Some(file.ok()?.path()));
        let file = files.find(|path| pid.is_none_or(|pid| path.extension().is_some_and(|end| end == pid)));
        records.push(file.map_or_else(|| Ok(Record::default()), |file| Record::read(&file))?);
    }
    Ok(Job { texts, records })
}

fn compare(found: &[String], expected: &[String]) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("expected {expected:#?}, found {found:#?}")) }
}

/// Returns the events of a call alone.
fn alone(call: &str, enqueued: &str) -> Vec<String> {
    ["GroupApi captured 0 depth 1", call, "KernelLaunch", "Group", enqueued].map(str::to_owned).to_vec()
}

/// Checks the events of a communicator of two ranks.
fn calls(version: u32) -> Result<(), String> {
    let job = job(&[&format!("-DVERSION={version}")], "calls", 2, &[])?;
    let tag = |tag: &str| if version == 7 { format!(" tag {tag}") } else { String::new() };
    let of_version = |tag_of: &str| match version {
        7 => format!(" variant '' symmetric 0 tag {tag_of}"),
        _ => String::new(),
    };
    for (rank, record) in job.records.iter().enumerate() {
        let other = 1 - rank;
        let collective = |name: &str, dtype: &str, root: usize, tag_of: &str, sequence: u32| {
            (
                format!("CollApi {name} count 3000 {dtype} root {root} captured 0{}", tag(tag_of)),
                format!(
                    "Coll {name} sequence {sequence} count 3000 root {root} {dtype} algo ALGO proto Unknown{}",
                    of_version(tag_of)
                ),
            )
        };
        let mut expected = Vec::new();
        for (name, dtype, root, tag_of, sequence) in [
            ("AllReduce", "ncclInt32", 0, "0", 0),
            ("AllReduce", "ncclFloat16", 0, "0", 1),
            ("AllReduce", "ncclInt32", 0, "7a65", 2),
            ("Broadcast", "ncclInt32", 1, "0", 0),
            ("AllGather", "ncclInt32", 0, "0", 0),
            ("Gather", "ncclInt32", 0, "0", 0),
        ] {
            let (call, enqueued) = collective(name, dtype, root, tag_of, sequence);
            expected.extend(alone(&call, &enqueued));
        }
        let (call, enqueued) = collective("AllReduce", "ncclInt32", 0, "0", 3);
        let transfer = |name: &str| format!("P2pApi {name} count 3000 ncclInt32 captured 0{}", tag("0"));
        let enqueued_transfer = |name: &str| format!("P2p {name} ncclInt32 count 3000 peer {other}{}", tag("0"));
        // Calls of all ranks precede transfers.
        expected.extend([
            "GroupApi captured 0 depth 2".to_owned(),
            transfer("Send"),
            transfer("Recv"),
            call.clone(),
            "KernelLaunch".to_owned(),
            "Group".to_owned(),
            enqueued,
            "KernelLaunch".to_owned(),
            "Group".to_owned(),
            enqueued_transfer("Send"),
            enqueued_transfer("Recv"),
        ]);
        // The group with an invalid call, and the one whose time is asked for.
        for _ in 0..2 {
            expected.extend(["GroupApi captured 0 depth 2".to_owned(), call.clone()]);
        }
        let found = record.lines().iter().map(|line| without_algorithm(line)).collect::<Vec<_>>();
        compare(&found, &expected).map_err(|error| format!("rank {rank}: {error}"))?;
        check_addresses(record, &job.texts[rank])?;
        let groups = record.events.iter().filter(|event| event.kind() == "GroupApi");
        for group in groups {
            if group.states != ["23", "24"] {
                return Err(format!("states of {group:?}"));
            }
        }
        // The communicator, and the one of reversed ranks that was split from it.
        let of = |at: usize, rank: usize, name: &str| -> Vec<String> {
            let number = record.contexts[at][0].clone();
            vec![number, name.into(), "1".into(), "2".into(), rank.to_string()]
        };
        if record.contexts != [of(0, rank, "training"), of(1, other, "training")] || record.num_finalized != 2 {
            return Err(format!("contexts {:?}, {} finalized", record.contexts, record.num_finalized));
        }
        // The message has arguments of all kinds.
        let message = format!("plugin inits of {rank}: 0.25 1.5 text 1 2 3 x 1099511627776");
        if cfg!(target_arch = "x86_64") && !job.texts[rank].contains(&message) {
            return Err(format!("expected `{message}` in\n{}", job.texts[rank]));
        }
    }
    // The same number on both ranks, another one for each communicator.
    let numbers: Vec<Vec<&String>> =
        job.records.iter().map(|record| record.contexts.iter().map(|context| &context[0]).collect()).collect();
    if numbers[0] != numbers[1] || numbers[0][0] == numbers[0][1] {
        return Err(format!("numbers of communicators: {numbers:?}"));
    }
    Ok(())
}

/// Returns a line with `ALGO` for the name of an algorithm, which must be one.
fn without_algorithm(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    if let Some(at) = words.iter().position(|word| *word == "algo") {
        let function = words[1].to_ascii_lowercase();
        let is_named = words[at + 1].starts_with(&function) || (function == "gather" && words[at + 1] == "transfers");
        words[at + 1] = if is_named { "ALGO" } else { "another algorithm" };
    }
    words.join(" ")
}

/// Checks that events have the addresses that the client printed.
fn check_addresses(record: &Record, text: &str) -> Result<(), String> {
    let line = text.lines().find(|line| line.starts_with("send ")).ok_or("no addresses")?;
    let words: Vec<&str> = line.split(' ').collect();
    let [send, recv, stream] = [words[1], words[3], words[5]];
    for event in &record.events {
        let is_right = match event.kind() {
            "CollApi" | "P2pApi" | "KernelLaunch" => event.after("stream") == Some(stream),
            "Coll" => {
                // The call of the group is in place.
                let recv = if event.after("sequence") == Some("3") { send } else { recv };
                event.after("send") == Some(send) && event.after("recv") == Some(recv)
            }
            "P2p" => event.after("buffer") == Some(if event.words[1] == "Send" { send } else { recv }),
            _ => true,
        };
        if !is_right {
            return Err(format!("expected addresses {line}, found {event:?}"));
        }
    }
    Ok(())
}

fn masks() -> Result<(), String> {
    let all = ["GroupApi", "CollApi", "P2pApi", "KernelLaunch", "Group", "Coll", "P2p"];
    for (mask, kinds) in [
        ("0", &[][..]),
        ("256", &["GroupApi"]),
        ("512", &["GroupApi", "CollApi"]),
        ("1024", &["GroupApi", "P2pApi"]),
        ("2048", &["GroupApi", "KernelLaunch"]),
        ("1", &["GroupApi", "Group"]),
        ("2", &["GroupApi", "CollApi", "Group", "Coll"]),
        ("4", &["GroupApi", "P2pApi", "Group", "P2p"]),
        // Steps of proxies: the events above them.
        ("16", &["GroupApi", "CollApi", "P2pApi", "Group", "Coll", "P2p"]),
        // Those of the proxy itself have none above them.
        ("32", &[]),
    ] {
        let job = job(&[], "calls", 2, &[("NCCL_PROFILE_EVENT_MASK", mask)])?;
        let found: Vec<_> = all.into_iter().filter(|kind| job.records[0].count(kind) > 0).collect();
        if found != kinds {
            return Err(format!("mask {mask}: expected {kinds:?}, found {found:?}"));
        }
        if job.records.iter().any(|record| record.num_finalized != 2) {
            return Err(format!("mask {mask}: contexts are not ended"));
        }
    }
    Ok(())
}

fn captured() -> Result<(), String> {
    let job = job(&[], "captured", 2, &[])?;
    for record in &job.records {
        let of = |kind: &str| -> Vec<String> {
            let events = record.events.iter().filter(|event| event.kind() == kind);
            events.filter_map(|event| event.after("captured").map(str::to_owned)).collect()
        };
        if of("GroupApi") != ["0", "1"] || of("CollApi") != ["0", "1"] {
            return Err(format!("expected a call, then a captured one: {:#?}", record.lines()));
        }
    }
    Ok(())
}

fn threads() -> Result<(), String> {
    // Kernels of one thread wait for those of others.
    let job = job(&[], "threads", 1, &[("MSCCLPP_MOCK_OTHERS", "1")])?;
    let record = &job.records[0];
    // Four ranks, two communicators: 20 rounds of two calls, half of them in groups, and a group of all ranks.
    let expected = [("CollApi", 164), ("Coll", 164), ("KernelLaunch", 164), ("Group", 164), ("GroupApi", 40 + 80 + 1)];
    for (kind, count) in expected {
        if record.count(kind) != count {
            return Err(format!("expected {count} {kind}, found {}", record.count(kind)));
        }
    }
    let contexts: BTreeSet<&str> = record.contexts.iter().map(|context| context[0].as_str()).collect();
    let ranks: BTreeMap<&str, BTreeSet<&str>> = contexts
        .iter()
        .map(|number| {
            let of = record.contexts.iter().filter(|context| context[0] == *number);
            (*number, of.map(|context| context[4].as_str()).collect())
        })
        .collect();
    if ranks.len() != 2 || ranks.values().any(|ranks| ranks.len() != 4) || record.num_finalized != 8 {
        return Err(format!("contexts {:?}, {} finalized", record.contexts, record.num_finalized));
    }
    // Sequences of each rank and communicator have no gaps.
    let mut sequences: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for event in record.events.iter().filter(|event| event.kind() == "Coll") {
        let sequence = event.after("sequence").and_then(|sequence| sequence.parse().ok()).ok_or("no sequence")?;
        sequences.entry(&event.context).or_default().push(sequence);
    }
    let is_counted = |sequence: &Vec<usize>| sequence.iter().copied().eq(0..sequence.len()) && sequence.len() >= 20;
    if sequences.len() != 8 || !sequences.values().all(is_counted) {
        return Err(format!("sequences {sequences:?}"));
    }
    let threads: BTreeSet<&str> = record.events.iter().map(|event| event.thread.as_str()).collect();
    if threads.len() < 5 { Err(format!("expected several threads, found {threads:?}")) } else { Ok(()) }
}

fn bare() -> Result<(), String> {
    let job = job(&["-DBARE"], "calls", 2, &[])?;
    for record in &job.records {
        let is_recorded = record.count("Coll") == 7 && record.count("P2p") == 2 && record.num_finalized == 0;
        let has_states = record.events.iter().any(|event| !event.states.is_empty());
        if !is_recorded || has_states {
            return Err(format!("{:#?}", record.lines()));
        }
    }
    if job.texts[0].contains("without a name") { Ok(()) } else { Err(format!("no name:\n{}", job.texts[0])) }
}

/// The stand-in for the real NCCL does not load plugins, so that no events of the calls that it makes are recorded.
fn forwarded() -> Result<(), String> {
    let library = compile("standin", &["-shared", "-fPIC"])?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (path, log) = (library.display().to_string(), folder.path().join("calls").display().to_string());
    let variables = [
        ("MSCCLPP_NCCL_LIB_PATH", &*path),
        ("MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION", "allreduce"),
        ("STANDIN_LOG", &*log),
    ];
    let job = job(&[], "calls", 2, &variables);
    let _ = fs::remove_file(library);
    for record in job?.records {
        let of_reductions =
            record.events.iter().filter(|event| event.words.get(1).is_some_and(|name| name == "AllReduce"));
        let found = [of_reductions.count(), record.count("Coll"), record.count("P2p"), record.count("GroupApi")];
        // A broadcast, an all-gather and a gather alone, and the group of two transfers.
        if found != [0, 3, 2, 4] {
            return Err(format!("found {found:?}: {:#?}", record.lines()));
        }
    }
    Ok(())
}

fn errors() -> Result<(), String> {
    // The functions report errors, each of which is printed once, and the calls are made.
    let failing = job(&["-DFAILS"], "calls", 2, &[])?;
    for function in ["startEvent", "stopEvent", "recordEventState", "finalize"] {
        let found = failing.texts[0].matches(&format!("{function} returned 3")).count();
        if found != 1 {
            return Err(format!("{function}: expected 1 message, found {found}:\n{}", failing.texts[0]));
        }
    }
    // One that does not begin gets no events.
    let silent = job(&[], "calls", 2, &[("PLUGIN_INIT_FAILS", "1")])?;
    let is_reported =
        silent.texts[0].matches("init returned 2; calls of this communicator are not profiled").count() == 2;
    match (is_reported, silent.records[0].events.is_empty()) {
        (true, true) => Ok(()),
        _ => Err(format!("{}\n{:#?}", silent.texts[0], silent.records[0])),
    }
}

fn unusable() -> Result<(), String> {
    let warned = |job: Job, expected: &str| {
        let is_right = job.records.iter().all(|record| record.events.is_empty() && record.contexts.is_empty());
        let text = &job.texts[0];
        let found =
            text.lines().filter(|line| line.contains("calls are not profiled") && line.contains(expected)).count();
        if is_right && found == 1 && text.contains("WARN") {
            Ok(())
        } else {
            Err(format!("expected `{expected}` in\n{text}"))
        }
    };
    warned(run_with("/nonexistent/plugin.so", "calls", 2, &[])?, "/nonexistent/plugin.so: cannot open")?;
    warned(run_with("missing", "calls", 2, &[])?, "libnccl-profiler-missing.so: cannot open")?;
    warned(run_with("libcuda.so.1", "calls", 2, &[])?, "libcuda.so.1: cannot open").or_else(|_| {
        warned(
            run_with("libcuda.so.1", "calls", 2, &[])?,
            "is no profiler plugin, expected ncclProfiler_v7 or ncclProfiler_v6",
        )
    })?;
    warned(
        job(&["-DVERSION=5"], "calls", 2, &[])?,
        "has ncclProfiler_v5, expected ncclProfiler_v7 or ncclProfiler_v6",
    )?;
    warned(job(&["-DBROKEN"], "calls", 2, &[])?, "has no startEvent")
}

/// The folder of the clients is one in which the loader searches.
fn suffix() -> Result<(), String> {
    let plugin = compile("plugin", &["-shared", "-fPIC"])?;
    let name = format!("libnccl-profiler-test-{}.so", std::process::id());
    let found = plugin.with_file_name(&name);
    fs::rename(&plugin, &found).map_err(|error| error.to_string())?;
    let suffix = name.trim_start_matches("libnccl-profiler-").trim_end_matches(".so");
    let job = run_with(suffix, "calls", 2, &[]);
    let _ = fs::remove_file(found);
    let job = job?;
    match job.records[0].count("Coll") {
        7 => Ok(()),
        count => Err(format!("expected 7 calls, found {count}:\n{}", job.texts[0])),
    }
}

fn without_library() -> Result<(), String> {
    for (name, expected) in [("None", None), ("", None), ("STATIC_PLUGIN", Some("the program is no profiler plugin"))] {
        let job = run_with(name, "calls", 2, &[])?;
        let is_silent = !job.texts[0].contains("not profiled");
        let is_right = expected.map_or(is_silent, |expected| job.texts[0].contains(expected));
        if !is_right || !job.records[0].contexts.is_empty() {
            return Err(format!("`{name}`: {}", job.texts[0]));
        }
    }
    Ok(())
}
