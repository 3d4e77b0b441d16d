//! The types of the package, by mypy with `--strict`: of the package itself, a program in `tests/typed` and mistakes that must be found; and
//! its stubs, which are compared with the extension module. Where mypy is missing (`scripts/python-mypy.sh` installs it), the tests
//! are ignored, and the reason is printed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use libtest_mimic::{Failed, Trial};

use crate::environment::{Python, printed, script};

/// Returns the tests, on the newest version of PyTorch.
pub(crate) fn tests(python: &Result<Python, String>) -> Vec<Trial> {
    let mypy = python.clone().and_then(|python| {
        let folder = printed(script("python-mypy.sh").env("MSCCLPP_PYTHON_INSTALL", "0"))?;
        Ok(Mypy { python, folder })
    });
    if let Err(reason) = &mypy {
        println!("tests of types are ignored: {reason}");
    }
    let is_ignored = mypy.is_err();
    type Test = fn(&Mypy) -> Result<(), Failed>;
    let tests: [(&str, Test); 2] = [
        ("strict_types_find_the_mistakes_of_a_program_and_no_others", mistakes),
        ("stubs_are_those_of_the_extension_module", stubs),
    ];
    let trial = |(name, test): (&str, Test)| {
        let mypy = mypy.clone();
        Trial::test(name, move || test(&mypy?)).with_ignored_flag(is_ignored)
    };
    tests.map(trial).into()
}

/// A Python with mypy.
#[derive(Clone)]
struct Mypy {
    python: Python,
    folder: PathBuf,
}

/// Returns the path of a file or folder of this package.
fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

impl Mypy {
    /// Runs a module of mypy, and returns whether it succeeded and what it printed.
    fn run(&self, module: &str, arguments: &[PathBuf]) -> Result<(bool, String), Failed> {
        // The modules run at once.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mypy").join(module);
        let mut command = self.python.command_with(&self.folder);
        command.args(["-m", module]).args(arguments).env("MYPY_CACHE_DIR", cache).env("MYPYPATH", source("python"));
        let output = command.output()?;
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        Ok((output.status.success(), text))
    }
}

/// Errors are in the lines that state them, and nowhere else.
fn mistakes(mypy: &Mypy) -> Result<(), Failed> {
    let path = source("tests/typed/mistakes.py");
    let program = std::fs::read_to_string(&path)?;
    let stated = |(number, line): (usize, &str)| {
        let (_, code) = line.split_once("# mistake: ")?;
        Some(format!("mistakes.py:{number}: {code}"))
    };
    let expected: BTreeSet<String> = (1..).zip(program.lines()).filter_map(stated).collect();
    let files = [source("python/mscclpp_rs"), source("tests/typed/program.py"), path];
    let (_, text) = mypy.run("mypy", &[&["--strict".into()], &files[..]].concat())?;
    let error = |line: &str| {
        let (place, message) = line.split_once(": error: ")?;
        let place = place.rsplit('/').next()?;
        Some(format!("{place}: {}", message.rsplit_once('[')?.1.trim_end_matches(']')))
    };
    let found: BTreeSet<String> = text.lines().filter_map(error).collect();
    if !expected.is_empty() && found == expected {
        return Ok(());
    }
    Err(format!("expected the errors {expected:#?}, found {found:#?}:\n{text}").into())
}

fn stubs(mypy: &Mypy) -> Result<(), Failed> {
    let arguments = ["--allowlist".into(), source("tests/typed/allowlist.txt"), "mscclpp_rs._native".into()];
    match mypy.run("mypy.stubtest", &arguments)? {
        (true, _) => Ok(()),
        (false, text) => Err(text.into()),
    }
}
