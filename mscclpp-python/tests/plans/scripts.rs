//! The scripts, and what each of them needs.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Failed, Trial};

use crate::jobs;
use crate::package::{folder, sources};

/// Scripts of unit tests in `tests/python`, with their minimum number of tests.
const UNIT_TESTS: [(&str, usize); 7] =
    [("language", 48), ("early", 8), ("plans", 33), ("compat", 23), ("launch", 7), ("native", 24), ("tensors", 4)];

/// Versions of PyTorch.
pub(crate) const VERSIONS: [&str; 2] = ["2.15.0", "2.11.0"];

/// Returns the tests. With `is_list` nothing is built.
pub(crate) fn tests(is_list: bool) -> Vec<Trial> {
    let package = if is_list { Err("the tests are only listed".into()) } else { python().and_then(|()| folder()) };
    if let Err(reason) = &package {
        println!("tests of plans from Python are ignored: {reason}");
    }
    let mut trials = Vec::new();
    for (script, tests) in UNIT_TESTS {
        let package = package.clone();
        let name = format!("python_{script}_behaves_as_documented");
        let path = sources().join(format!("tests/python/{script}.py"));
        let test = move || run_tests("python3".as_ref(), &package?, &path, tests);
        trials.push(Trial::test(name, test));
    }
    for version in VERSIONS {
        trials.push(with_pytorch(&package, version, "plans", 33));
    }
    // With the wheel of NVRTC, which comes with PyTorch.
    trials.push(with_pytorch(&package, VERSIONS[0], "compat", 23));
    trials.push(programs_of_documents(&package));
    trials.push(reference_programs(&package));
    trials.push(reference_table(&package));
    trials.extend(jobs::tests(&package));
    trials.push(Trial::test("both_distributions_have_one_version", versions_are_equal));
    trials.push(Trial::test("every_example_is_run", jobs::examples_are_run));
    let is_ignored = package.is_err();
    trials.into_iter().map(|trial| if is_ignored { trial.with_ignored_flag(true) } else { trial }).collect()
}

/// Compares the versions in the metadata of `mscclpp-compat` with that of this package.
fn versions_are_equal() -> Result<(), Failed> {
    let version = env!("CARGO_PKG_VERSION");
    let text = std::fs::read_to_string(sources().join("compat/pyproject.toml"))?;
    for expected in [format!("version = \"{version}\""), format!("dependencies = [\"mscclpp-rs=={version}\"]")] {
        if !text.lines().any(|line| line == expected) {
            return Err(format!("compat/pyproject.toml: expected the line {expected}").into());
        }
    }
    Ok(())
}

/// Returns whether there is a Python that the packages support, or the reason why not.
fn python() -> Result<(), String> {
    let script = "import sys; sys.exit(sys.version_info < (3, 11))";
    match Command::new("python3").args(["-c", script]).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("python3 is older than 3.11".into()),
        Err(error) => Err(format!("python3: {error}")),
    }
}

/// Runs a script and returns what it prints.
fn run(python: &Path, package: &Path, script: &Path, arguments: &[PathBuf]) -> Result<String, Failed> {
    let output = Command::new(python)
        .arg(script)
        .args(arguments)
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(text.into()) }
}

/// Runs a script of unit tests.
fn run_tests(python: &Path, package: &Path, script: &Path, expected: usize) -> Result<(), Failed> {
    let text = run(python, package, script, &[])?;
    let found = text.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()?.parse::<usize>().ok());
    match found {
        Some(found) if found >= expected => Ok(()),
        _ => Err(format!("expected at least {expected} tests, found {found:?}:\n{text}").into()),
    }
}

/// Returns the path of the Python that has a version of PyTorch.
///
/// # Errors
/// The reason why there is none.
pub(crate) fn python_of(version: &str) -> Result<PathBuf, String> {
    installed("python-env.sh", version)
}

/// Returns what a script has installed under a name.
///
/// # Errors
/// The reason why it is missing.
pub(crate) fn installed(script: &str, name: &str) -> Result<PathBuf, String> {
    let script = sources().join("../scripts").join(script);
    let output = Command::new(script).arg(name).env("MSCCLPP_PYTHON_INSTALL", "0").output();
    let output = output.map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().into()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
    }
}

/// Runs a script of unit tests with PyTorch and numpy.
fn with_pytorch(
    package: &Result<PathBuf, String>,
    version: &'static str,
    script: &'static str,
    expected: usize,
) -> Trial {
    let python = python_of(version);
    if let Err(reason) = &python {
        println!("tests of {script} with PyTorch {version} are ignored: {reason}");
    }
    let (is_ignored, package) = (python.is_err(), package.clone());
    let path = sources().join(format!("tests/python/{script}.py"));
    let test = move || run_tests(&python?, &package?, &path, expected);
    Trial::test(format!("python_{script}_behaves_as_documented_with_pytorch_{version}"), test)
        .with_ignored_flag(is_ignored)
}

/// Records and runs the programs of the reference system's documents.
fn programs_of_documents(package: &Result<PathBuf, String>) -> Trial {
    let documents = jobs::documents();
    if let Err(reason) = &documents {
        println!("tests of the documents are ignored: {reason}");
    }
    let (is_ignored, package) = (documents.is_err(), package.clone());
    let path = sources().join("tests/documents/programs.py");
    let test = move || run_tests("python3".as_ref(), &package?, &path, 11);
    Trial::test("python_programs_of_documents_are_recorded", test).with_ignored_flag(is_ignored)
}

/// Runs the reference's own programs as they stand.
fn reference_table(package: &Result<PathBuf, String>) -> Trial {
    // As cargo runs tests in the folder of their package, other than the workspace.
    let examples = std::env::var_os("MSCCLPP_EXAMPLES").map(|path| sources().join("..").join(path));
    if examples.is_none() {
        println!(
            "the run of the reference's programs is ignored: MSCCLPP_EXAMPLES does not name a checkout of microsoft/mscclpp"
        );
    }
    let (is_ignored, package) = (examples.is_none(), package.clone());
    let test = move || {
        let examples = examples.ok_or("no checkout")?;
        let script = sources().join("tests/python/reference_table.py");
        println!("{}", run("python3".as_ref(), &package?, &script, &[examples])?);
        Ok(())
    };
    Trial::test("programs_of_the_reference_run_as_they_stand", test).with_ignored_flag(is_ignored)
}

/// Compares the plans of the reference's own programs with those of the reference.
fn reference_programs(package: &Result<PathBuf, String>) -> Trial {
    let path = |variable: &str| {
        let path = PathBuf::from(std::env::var_os(variable)?);
        // As cargo runs tests in the folder of their package, other than the workspace.
        Some(sources().join("..").join(path))
    };
    let paths = path("MSCCLPP_EXAMPLES").zip(path("MSCCLPP_CONFORMANCE"));
    if paths.is_none() {
        println!(
            "the comparison with the reference's programs is ignored: MSCCLPP_EXAMPLES does not name a checkout of \
             microsoft/mscclpp, or MSCCLPP_CONFORMANCE does not name a folder of its plans"
        );
    }
    let is_ignored = paths.is_none();
    let package = package.clone();
    let test = move || {
        let (examples, plans) = paths.ok_or("nothing to compare with")?;
        let text = run(
            "python3".as_ref(),
            &package?,
            &sources().join("tests/python/reference_programs.py"),
            &[examples, plans],
        )?;
        println!("{text}");
        Ok(())
    };
    Trial::test("programs_of_the_reference_give_its_plans", test).with_ignored_flag(is_ignored)
}
