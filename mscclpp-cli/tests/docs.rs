//! `docs/cli.md` shows real commands with their real output: every `console` block is run again and compared.
//!
//! `MSCCLPP_BLESS=1 cargo test --release -p mscclpp-cli --test integration docs::` writes the page anew. Times and bandwidths may
//! differ, and how much memory there is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::outside;
use crate::common::plans::{stalling, text};
use mscclpp_select::CALLS;

/// The page.
fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/cli.md")
}

/// Runs the words of a `$ mscclpp …` or `$ cargo mscclpp …` line in `directory`: standard output, then standard error, then an exit code but 0.
fn output(words: &str, directory: &Path) -> String {
    let run = match words.strip_prefix("cargo mscclpp ") {
        Some(words) => outside::command(directory).args(words.split_whitespace()).output(),
        None => {
            let words = words.split_whitespace().skip(1);
            Command::new(crate::common::BINARY).args(words).current_dir(directory).output()
        }
    };
    let run = run.expect("the binary starts");
    let mut text = String::from_utf8(run.stdout).expect("UTF-8") + &String::from_utf8(run.stderr).expect("UTF-8");
    if run.status.code() != Some(0) {
        text += &format!("(exit code {})\n", run.status.code().expect("no signal"));
    }
    text
}

/// All commands, as the help lists them.
fn commands() -> Vec<String> {
    let listed = |of: &[&str]| -> Vec<String> {
        let help = crate::common::mscclpp(of.iter().chain(&["--help"])).succeeds().stdout;
        let list = help.split("Commands:\n").nth(1).expect("a list").lines();
        let names = list.map_while(|line| line.strip_prefix("  ")?.split_whitespace().next());
        names.filter(|name| *name != "help").map(|name| [of, &[name]].concat().join(" ")).collect()
    };
    let all: Vec<_> = listed(&[]).into_iter().filter(|name| name != "plan").chain(listed(&["plan"])).collect();
    assert!(all.len() > 10, "{all:?}");
    all
}

/// The page with the output of every command in its `console` blocks as it is now.
fn current(page: &str, directory: &Path) -> String {
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out += line;
        out.push('\n');
        if line != "```console" {
            continue;
        }
        for line in lines.by_ref() {
            if line == "```" {
                out += "```\n";
                break;
            }
            // The old output is left out.
            if let Some(words) = line.strip_prefix("$ ") {
                let is_own = words.starts_with("mscclpp ") || words.starts_with("cargo mscclpp ");
                assert!(is_own, "only mscclpp itself is run: {words}");
                out += &format!("$ {words}\n{}", output(words, directory));
            }
        }
    }
    out
}

/// The text without what changes from run to run and from machine to machine: times, bandwidths, memory.
fn steady(text: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<_> = line.split_whitespace().collect();
        if let [size, count, _, _, _, time, algbw, busbw, _] = &mut words[..]
            && size.parse::<u64>().is_ok()
            && count.parse::<u64>().is_ok()
        {
            (*time, *algbw, *busbw) = ("#", "#", "#");
        }
        if let Some(average) = line.strip_prefix("# Avg bus bandwidth :").and(words.get_mut(5)) {
            *average = "#";
        }
        if line.starts_with("error: ") && line.ends_with(" is available") {
            let (number, unit) = (words.len() - 4, words.len() - 3);
            (words[number], words[unit]) = ("#", "#");
        }
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_page_shows_what_the_commands_print() {
    let path = page();
    let old = fs::read_to_string(&path).expect("docs/cli.md is there");
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("broken.json"), text(&stalling())).unwrap();
    outside::write(directory.path());
    let new = current(&old, directory.path());
    if std::env::var_os("MSCCLPP_BLESS").is_some() {
        fs::write(&path, new).unwrap();
        return;
    }
    let (old, new) = (steady(&old), steady(&new));
    if let Some((old, new)) = old.lines().zip(new.lines()).find(|(old, new)| old != new) {
        panic!("docs/cli.md says\n  {old}\nbut it is\n  {new}\nMSCCLPP_BLESS=1 writes it anew");
    }
    assert_eq!(old.lines().count(), new.lines().count(), "MSCCLPP_BLESS=1 writes docs/cli.md anew");
}

#[test]
fn the_page_names_every_command_and_exit_code() {
    let text = fs::read_to_string(page()).unwrap();
    let examples: Vec<&str> = text.split('`').filter(|span| span.starts_with("mscclpp ")).collect();
    for command in commands() {
        let name = format!("mscclpp {command}");
        let of_it =
            |words: &&&str| words.strip_prefix(&name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
        let mut examples = examples.iter().filter(of_it).peekable();
        assert!(examples.peek().is_some(), "no example of {command}");
        let help = crate::common::mscclpp(command.split(' ').chain(["--help"])).succeeds().stdout;
        let options = examples.flat_map(|words| words.split(" -- ").next()).flat_map(str::split_whitespace);
        for option in options.filter(|word| word.starts_with('-')) {
            assert!(help.contains(option), "`mscclpp {command}` has no option {option}");
        }
    }
    let help = Command::new(crate::common::BINARY).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let table = help.split("Exit codes:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    for line in table.lines() {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        assert!(text.contains(&format!("| {code} | {} |", meaning.trim())), "exit code {code} as `--help` tells it");
    }
}

#[test]
fn the_examples_in_the_help_texts_name_what_there_is() {
    let list = crate::common::mscclpp(["plan", "list", "--json"]).succeeds().json();
    let known: Vec<_> = list.as_array().unwrap().iter().map(|algorithm| algorithm["name"].as_str().unwrap()).collect();
    let mut seen = 0;
    for command in ["".to_owned(), "plan".to_owned()].into_iter().chain(commands()) {
        let help = crate::common::mscclpp(command.split_whitespace().chain(["--help"])).succeeds().stdout;
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("`{command}` has no examples"));
        for word in examples.lines().filter(|line| line.starts_with("  mscclpp")).flat_map(str::split_whitespace) {
            // Calls have names too.
            let is_call = CALLS.iter().any(|(name, _)| *name == word);
            if word.contains('_') && !is_call {
                assert!(known.contains(&word), "`{word}` in the help of `{command}`");
                seen += 1;
            }
        }
        assert!(!help.contains("allgather "), "`{command}` names a collective where an algorithm belongs");
    }
    assert!(seen > 10);
}
