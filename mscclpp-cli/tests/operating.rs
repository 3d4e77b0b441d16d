//! `docs/operating.md` shows real commands with their real output: every `console` block is run again in the job that the comment
//! before it names, and compared.
//!
//! `MSCCLPP_BLESS=1 cargo test -p mscclpp-cli --test integration operating::` writes the page anew. Processes, ports and times may differ.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::BINARY;
use crate::status::Job;

/// Runs the words of a `$ mscclpp …` line in the folder of a job.
fn output(words: &str, folder: &Path) -> String {
    let mut command = Command::new(BINARY);
    let words = words.strip_prefix("mscclpp ").expect("only mscclpp itself is run");
    command.args(words.split_whitespace()).current_dir(folder).env("XDG_RUNTIME_DIR", folder);
    let run = command.output().expect("the binary starts");
    let text = String::from_utf8(run.stdout).expect("UTF-8") + &String::from_utf8(run.stderr).expect("UTF-8");
    let mut text: String = text.lines().map(|line| with_usual_names(line) + "\n").collect();
    if run.status.code() != Some(0) {
        text += &format!("(exit code {})\n", run.status.code().expect("no signal"));
    }
    text
}

/// A line with the names of a usual host and program, in as many columns.
fn with_usual_names(line: &str) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let line = line.replace(&format!("on {host})"), "on node-a)");
    let line = line.replace(&format!("  {host}  "), &format!("  {:<1$}  ", "node-a", host.len()));
    line.replace("mscclpp-cli/tests/status.rs", "src/train.rs").trim_end().to_owned()
}

/// The page with the output of every command as it is now.
fn current(page: &str) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    let mut job = None;
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        if let Some(name) = line.strip_prefix("<!-- job: ") {
            job = name.strip_suffix(" -->");
        }
        if line != "```console" {
            continue;
        }
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        let commands = block.iter().filter_map(|line| line.strip_prefix("$ "));
        let run = |folder: &Path| -> String {
            commands.map(|command| format!("$ {command}\n{}", output(command, folder))).collect()
        };
        out += &match job.take().expect("each block names its job") {
            "straggler" => {
                let job = Job::start(3, "straggler");
                job.wait_until_late();
                let text = run(job.folder.path());
                job.end();
                text
            }
            other => panic!("no job is called {other}"),
        };
        out += "```\n";
    }
    out
}

/// The text without what changes from run to run: processes, ports, times, and the columns that depend on them.
fn steady(text: &str) -> String {
    let word = |word: &str| {
        let digits = word.trim_matches(|c: char| !c.is_ascii_digit());
        let number = if digits.contains('.') || digits.len() > 3 { digits } else { return word.to_owned() };
        let is_number = number.chars().all(|c| c.is_ascii_digit() || c == '.');
        if is_number { word.replace(number, "#") } else { word.split(['-', ':']).next().unwrap_or(word).to_owned() }
    };
    let line = |line: &str| {
        let words = line.split_whitespace();
        // A process has a short number too, which follows its host in tables.
        let before = std::iter::once("").chain(words.clone());
        let is_process = |before: &str| before.starts_with("node-") || before.ends_with("pid");
        let shown = before.zip(words).map(|(before, text)| match text.parse::<u32>() {
            Ok(_) if is_process(before) => "#".to_owned(),
            _ => word(text),
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_page_shows_what_the_commands_print_in_a_job() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/operating.md");
    let old = fs::read_to_string(&path).unwrap();
    let new = current(&old);
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        fs::write(&path, new).unwrap();
        return;
    }
    let (old, new) = (steady(&old), steady(&new));
    if let Some((old, new)) = old.lines().zip(new.lines()).find(|(old, new)| old != new) {
        panic!("docs/operating.md says\n  {old}\nbut it is\n  {new}\nMSCCLPP_BLESS=1 writes it anew");
    }
    assert_eq!(old.lines().count(), new.lines().count(), "MSCCLPP_BLESS=1 writes docs/operating.md anew");
}
