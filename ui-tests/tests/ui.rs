//! Programs that must not compile, with their messages: `fail/FOLDER/NAME.rs` and `NAME.stderr`.
//!
//! The compiler is called with the facade that was built for this test, so that nothing is built twice.
//! `MSCCLPP_BLESS=1 cargo test --workspace --test repository ui::` rewrites the messages; review each of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use std::{env, fs, thread};

#[test]
#[cfg_attr(not(compiler_of_messages), ignore = "the messages are those of rustc 1.95, which is not the compiler here")]
fn programs_that_must_not_compile() {
    let mut programs: Vec<PathBuf> =
        entries(&folder().join("fail")).iter().flat_map(|folder| entries(folder)).collect();
    programs.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    assert!(!programs.is_empty());
    let facade = facade();
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let check_all = || {
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(failure) = check(program, &facade) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(check_all);
        }
    });
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
#[ignore = "builds the facade once more, in a crate of its own"]
fn messages_reach_a_crate_of_its_own() {
    trybuild::TestCases::new().compile_fail("fail/evaluate/*.rs");
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

/// Returns the library of the facade that this test depends on, which is in the same folder, as are its dependencies. Of those with
/// other features, the newest one has the current sources.
fn facade() -> PathBuf {
    let is_facade = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libmscclpp-") && name.ends_with(".rlib")
    };
    let program = env::current_exe().expect("the path of this program");
    let libraries = entries(program.parent().expect("its folder")).into_iter().filter(is_facade);
    let built = |path: &PathBuf| fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    libraries.max_by_key(built).expect("the facade, which this test depends on")
}

/// Compiles a program and compares the messages with those expected.
fn check(program: &Path, facade: &Path) -> Result<(), String> {
    let name = program.strip_prefix(folder()).unwrap_or(program).display();
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ui");
    let mut compiler = Command::new(env!("COMPILER_OF_MESSAGES"));
    compiler.args(["--edition=2024", "--emit=metadata", "--color=never", "--diagnostic-width=140", "-Adead_code"]);
    compiler.arg("--extern").arg(format!("mscclpp={}", facade.display()));
    compiler.arg(format!("-Ldependency={}", facade.with_file_name("").display()));
    // Cargo compiles the crates in this folder, relative to which their files are found.
    compiler.current_dir(folder().join("..")).arg("--out-dir").arg(output).arg(program);
    let run = compiler.output().map_err(|error| error.to_string())?;
    if run.status.success() {
        return Err(format!("{name} compiles"));
    }
    let found = normalized(&String::from_utf8_lossy(&run.stderr));
    let messages = program.with_extension("stderr");
    if env::var_os("MSCCLPP_BLESS").is_some() {
        return fs::write(messages, found).map_err(|error| error.to_string());
    }
    let expected = fs::read_to_string(messages).unwrap_or_default();
    if found == expected {
        return Ok(());
    }
    Err(format!("{name}: expected\n\n{expected}\nfound, which MSCCLPP_BLESS=1 makes the expected messages:\n\n{found}"))
}

/// Returns messages without what depends on the folder of the repository, and on the lines of its crates.
fn normalized(messages: &str) -> String {
    let (here, root) = (folder().display(), folder().parent().unwrap_or(folder()).display());
    let messages = messages
        .replace(&format!("--> {here}/"), "--> ")
        .replace(&format!("{here}/"), "$DIR/")
        .replace(&format!("--> {root}/"), "--> $WORKSPACE/")
        .replace("--> mscclpp", "--> $WORKSPACE/mscclpp");
    let is_compared = |message: &&str| {
        let start = ["error: aborting due to", "Some errors have detailed explanations", "For more information about"];
        !message.is_empty() && !start.iter().any(|start| message.starts_with(start))
    };
    let messages: Vec<String> = messages.split("\n\n").map(str::trim_end).filter(is_compared).map(message).collect();
    messages.join("\n\n") + "\n"
}

/// Returns a message without numbers of lines of other files than the program.
fn message(message: &str) -> String {
    let mut lines = Vec::new();
    let mut is_elsewhere = false;
    for line in message.lines() {
        let trimmed = line.trim_start();
        let code = trimmed.trim_start_matches(|digit: char| digit.is_ascii_digit());
        is_elsewhere &= code.len() < trimmed.len() || trimmed.starts_with(['|', '.']);
        let others = trimmed.strip_prefix("and ").and_then(|rest| rest.strip_suffix(" others"));
        if trimmed.starts_with("--> ") || trimmed.starts_with("::: ") {
            is_elsewhere = trimmed[4..].starts_with("$WORKSPACE/");
            let end = if is_elsewhere { line.find(".rs:").map_or(line.len(), |at| at + 3) } else { line.len() };
            lines.push(line[..end].to_owned());
        } else if is_elsewhere && code.len() < trimmed.len() {
            lines.push(" ".repeat(line.len() - code.len()) + code);
        } else if others.is_some_and(|others| others.bytes().all(|byte| byte.is_ascii_digit())) {
            lines.push(line.replace(others.unwrap_or_default(), "$N"));
        } else {
            lines.push(line.to_owned());
        }
    }
    // The margin is as wide as the longest of all these numbers.
    let is_place = |line: &String| line.trim_start().starts_with("--> ") && margin(line) < Some(10);
    let first = lines.iter().position(is_place).unwrap_or(lines.len());
    let excess = lines[first..].iter().filter_map(|line| margin(line)).min().unwrap_or(0);
    for line in &mut lines[first..] {
        if (margin(line).is_some() || line.starts_with(&" ".repeat(11)))
            && let Some(at) = line.find(' ')
        {
            line.replace_range(at..at + excess, "");
        }
    }
    lines.iter().map(|line| line.trim_end()).collect::<Vec<_>>().join("\n")
}

/// Returns how many spaces the margin of a line has beside a number and one space; `None` for lines without a margin.
fn margin(line: &str) -> Option<usize> {
    let rest = line.trim_start_matches(' ');
    let text = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
    let has_number = text.len() < rest.len() || line.starts_with("...");
    let text = text.trim_start_matches("...");
    let code = text.trim_start_matches(' ');
    let spaces = line.len() - rest.len() + text.len() - code.len();
    let starts: &[&str] = if has_number { &["|", "~ ", "+ ", "- "] } else { &["|", "--> ", "::: ", "= "] };
    starts.iter().any(|start| code.starts_with(start)).then(|| spaces.saturating_sub(1))
}
