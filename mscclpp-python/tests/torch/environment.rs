//! The Python environment of a version of PyTorch, with the package of this checkout.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use super::port::Port;
use super::preload::preloaded;
use super::ranks::Rank;

/// Jobs that torchrun starts. The ranks of the others start fast.
const BY_TORCHRUN: [&str; 2] = ["groups", "restarts"];

/// A Python that has a version of PyTorch.
#[derive(Clone)]
pub(crate) struct Python {
    program: PathBuf,
    /// Folder with the package.
    package: PathBuf,
}

/// Returns the command of a script.
pub(crate) fn script(name: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts").join(name))
}

fn job(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/jobs/{name}.py"))
}

/// Returns what a script printed.
pub(crate) fn printed(command: &mut Command) -> Result<PathBuf, String> {
    let Output { status, stdout, stderr } = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if status.success() { Ok(text(&stdout).into()) } else { Err(text(&stderr)) }
}

/// Makes the package, once for all tests.
fn package() -> Result<PathBuf, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let make = || {
        // The library of this package is built before its tests, into the same folder.
        let built = std::env::current_exe().map_err(|error| error.to_string())?;
        let library = built.with_file_name("libmscclpp_rs.so");
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mscclpp-python");
        printed(script("python-package.sh").arg(library).arg(folder))
    };
    FOLDER.get_or_init(make).clone()
}

impl Python {
    /// Returns the Python that has a version of PyTorch.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) fn find(version: &str) -> Result<Self, String> {
        let program = printed(script("python-env.sh").arg(version).env("MSCCLPP_PYTHON_INSTALL", "0"))?;
        Ok(Self { program, package: package()? })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.env("PYTHONPATH", &self.package).env("OMP_NUM_THREADS", "1").env("PYTHONDONTWRITEBYTECODE", "1");
        // Devices of this machine are not for these tests.
        command.env("CUDA_VISIBLE_DEVICES", "");
        command
    }

    /// Returns a command with the packages of a folder as well.
    pub(crate) fn command_with(&self, folder: &Path) -> Command {
        let mut command = self.command();
        let mut path = self.package.clone().into_os_string();
        path.push(":");
        path.push(folder);
        command.env("PYTHONPATH", path);
        command
    }

    /// Returns a command that runs a script, where the import of PyTorch takes no time.
    fn fast_command(&self) -> Result<Command, String> {
        let mut command = self.command();
        let package = self.package.to_string_lossy();
        command.args(preloaded(&[&self.program], &[("PYTHONPATH", &package), ("OMP_NUM_THREADS", "1")])?);
        Ok(command)
    }

    /// Runs a job on a backend and returns what its ranks printed.
    pub(crate) fn run(&self, name: &str, backend: &str, ranks: usize) -> Result<String, String> {
        let port = Port::new();
        if BY_TORCHRUN.contains(&name) {
            return self.torchrun(name, ranks, &port.number.to_string());
        }
        let start = |rank| self.rank(name, backend, None, (rank, ranks), port.number);
        let ranks = (0..ranks).map(start).collect::<Result<Vec<_>, _>>()?;
        ranks.into_iter().map(Rank::output).collect()
    }

    fn torchrun(&self, name: &str, ranks: usize, port: &str) -> Result<String, String> {
        let mut command = self.command();
        // A failure of any other job must not be hidden by a second run.
        let restarts = if name == "restarts" { "2" } else { "0" };
        command.args(["-m", "torch.distributed.run", "--nproc-per-node", &ranks.to_string()]);
        command.args(["--max-restarts", restarts, "--master-port", port, "--rdzv-id", port]).arg(job(name));
        Rank::start(&mut command)?.output()
    }

    /// Starts a rank of a job, without a launcher. `argument`: that of the job.
    pub(crate) fn rank(
        &self,
        name: &str,
        backend: &str,
        argument: Option<&str>,
        (rank, ranks): (usize, usize),
        port: u16,
    ) -> Result<Rank, String> {
        let mut command = self.fast_command()?;
        command.arg(job(name)).args(argument).env("BACKEND", backend);
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
        Rank::start(&mut command)
    }
}
