//! Arguments of `mscclpp check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mscclpp_core::check;
use mscclpp_core::check::limits::DeviceProfile;
use mscclpp_core::diag::Code;
use mscclpp_validate::ExecutorForm;

use super::BuildArgs;

/// Arguments of `mscclpp check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mscclpp check plan.json
  mscclpp check allreduce_ring --ranks 8
  mscclpp check plans/ more/plan.json --allow race
  mscclpp check plan.json --fuzz 100            also run 100 adversarial schedules
  mscclpp check plan.json --executor all        also validate what executors run
  mscclpp check plan.json --trace trace.json    a trace of the run, for https://ui.perfetto.dev
  mscclpp check plan.json --html plan.html      a page that shows the run, and where it goes wrong
  mscclpp check plan.json --json | jq '.findings[].code'
  mscclpp plan export allreduce_ring --ranks 4 | mscclpp check -

For several plans, or all plan files (*.json, *.plan, *.mscclpp) of a directory, the command prints a table at the end.
Exit codes: 0 accepted, 1 findings, a failed schedule, or an executor that does not run the plan as proved, 2 a plan
cannot be read, 3 --fuzz or an executor cannot run a plan")]
pub(crate) struct CheckArgs {
    /// Names of algorithms (see `mscclpp plan list`), plan files, directories of plan files, or `-` for a plan on
    /// standard input
    #[arg(value_name = "NAME|PLAN|DIRECTORY", required = true)]
    pub(crate) plans: Vec<String>,
    #[command(flatten)]
    pub(crate) build: BuildArgs,
    /// Checks to run: full, basic (shapes and pairing) or off (parse only)
    #[arg(long, value_enum, default_value_t = Level::Full)]
    pub(crate) level: Level,
    #[command(flatten)]
    pub(crate) allow: AllowArgs,
    /// Treat warnings as findings, such as unknown keys of a plan file
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also check the limits of a device: a100, h100, h200, b200, or mscclpp for the MSCCL++ executor
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) device: Option<DeviceProfile>,
    /// Also run the plan under N adversarial schedules with weak memory
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) fuzz: Option<u32>,
    /// Also validate the operations that executors run for the plan, for every placement of its ranks and buffers that applies
    #[arg(long, value_enum, value_name = "EXECUTOR")]
    pub(crate) executor: Option<Executor>,
    /// Write a trace of the plan for Perfetto or chrome://tracing: the operations of each thread block and their waits
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a page that shows the plan's operations over time, what they wait for, what each chunk holds, and the findings
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Level {
    // Documented variants would make the whole help text the long one.
    Full,
    Basic,
    Off,
}

/// Executors whose form of a plan is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Executor {
    Processes,
    Devices,
    Kernel,
    All,
}

impl Executor {
    /// The forms in which they run a plan.
    pub(crate) fn forms(self) -> &'static [ExecutorForm] {
        match self {
            Self::Processes => &[ExecutorForm::Processes],
            Self::Devices => &[ExecutorForm::Devices],
            Self::Kernel => &[ExecutorForm::Kernel],
            Self::All => ExecutorForm::ALL,
        }
    }
}

/// The allowed diagnostics.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct AllowArgs {
    /// Allow findings of this kind, such as race; may be given several times
    #[arg(long, value_name = "SLUG", value_parser = allowed)]
    pub(crate) allow: Vec<Code>,
}

impl CheckArgs {
    /// The checks of each plan.
    pub(crate) fn checks(&self) -> check::Checks {
        let level = match self.level {
            Level::Full => check::Level::Full,
            Level::Basic => check::Level::Basic,
            Level::Off => check::Level::Off,
        };
        check::Checks { level, allow: self.allow.allow.clone() }
    }
}

/// Reads the name of a finding.
fn allowed(text: &str) -> Result<Code, check::AllowError> {
    check::parse_allow(text)
}

/// Reads the name of a device.
fn device(text: &str) -> Result<DeviceProfile, String> {
    DeviceProfile::find(text).ok_or_else(|| "expected one of a100, h100, h200, b200, mscclpp".to_owned())
}
