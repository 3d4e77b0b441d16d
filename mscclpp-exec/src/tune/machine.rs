//! What a table was measured on.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What measured times depend on, as far as it can be told cheaply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineInfo {
    /// Version of this library.
    pub version: String,
    /// Model of the processor.
    pub processor: String,
    /// Processors that the process may use.
    pub processors: u64,
    /// Architecture and operating system.
    pub platform: String,
}

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What: `processors`.
    pub what: &'static str,
    /// In the table.
    pub table: String,
    /// Here.
    pub here: String,
}

impl MachineInfo {
    /// This machine.
    pub fn current() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processor: processor().unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }

    /// In what this machine, that of a table, differs from another one, where the table is used.
    pub fn differences(&self, here: &Self) -> Vec<Difference> {
        let pairs = [
            ("version of mscclpp", self.version.clone(), here.version.clone()),
            ("processor", self.processor.clone(), here.processor.clone()),
            ("processors", self.processors.to_string(), here.processors.to_string()),
            ("platform", self.platform.clone(), here.platform.clone()),
        ];
        let differing = pairs.into_iter().filter(|(_, table, here)| table != here);
        differing.map(|(what, table, here)| Difference { what, table, here }).collect()
    }
}

/// The processor's name, as Linux tells it.
fn processor() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name") || line.starts_with("Model"))?;
    let (_, name) = line.split_once(':')?;
    Some(name.trim().to_owned())
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, table, here } = self;
        write!(f, "{what}: the table was measured with {table}, found {here}")
    }
}
