//! Machine on which a table was measured.

use std::fmt;

use serde::{Deserialize, Serialize};

use mscclpp_base::system::processor;

/// Properties that determine measured times, as far as they are cheap to query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MachineInfo {
    /// Version of this library.
    pub version: String,
    /// Model of the processor.
    pub processor: String,
    /// Number of processors that the process may use.
    pub processors: u64,
    /// Architecture and operating system.
    pub platform: String,
    /// Number and names of the devices, if it was measured on devices: `8 × NVIDIA H100 80GB HBM3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<String>,
    /// The CUDA version that the devices' driver supports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
}

/// A property that differs from the table's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Name of the property: `processors`.
    pub what: &'static str,
    /// Value in the table.
    pub table: String,
    /// Value on this machine.
    pub here: String,
}

impl MachineInfo {
    /// Returns the properties of this machine.
    pub fn current() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            processor: processor().unwrap_or_else(|| "unknown".to_owned()),
            processors: std::thread::available_parallelism().map_or(1, |count| count.get() as u64),
            platform: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            devices: None,
            driver: None,
        }
    }

    /// Returns the properties in which this machine, that of a table, differs from the one on which the table is used. Devices
    /// are compared where both are known.
    pub fn differences(&self, here: &Self) -> Vec<Difference> {
        let pairs = [
            ("version of mscclpp", self.version.clone(), here.version.clone()),
            ("processor", self.processor.clone(), here.processor.clone()),
            ("processors", self.processors.to_string(), here.processors.to_string()),
            ("platform", self.platform.clone(), here.platform.clone()),
        ];
        let both = |table: &Option<String>, here: &Option<String>| table.clone().zip(here.clone());
        let of_devices = [
            ("devices", both(&self.devices, &here.devices)),
            ("driver of the devices", both(&self.driver, &here.driver)),
        ];
        let of_devices =
            of_devices.into_iter().filter_map(|(what, both)| both.map(|(table, here)| (what, table, here)));
        let differing = pairs.into_iter().chain(of_devices).filter(|(_, table, here)| table != here);
        differing.map(|(what, table, here)| Difference { what, table, here }).collect()
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, table, here } = self;
        write!(f, "{what}: the table was measured with {table}, found {here}")
    }
}
