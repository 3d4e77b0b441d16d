//! The device code's headers, as they were when this was built.

macro_rules! headers {
    ($($name:literal)*) => {
        /// Name and text.
        pub(super) const HEADERS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../kernels/", $name)))),*];
    };
}

headers! {
    "abi.h" "channel.h" "copy.h" "dev.h" "divide.h" "executor.h" "number.h" "packet.h" "place.h" "reduce.h" "specialised.h" "switch.h"
    "sync.h" "vector.h" "wait.h" "window.h"
}

/// The kernels of one data type and accumulator.
pub(super) const EXECUTOR: &str = include_str!("../../../../kernels/executor.cu");

#[cfg(test)]
mod tests {
    #[test]
    fn every_header_is_here() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels");
        let mut there: Vec<String> = std::fs::read_dir(folder)
            .expect("kernels/")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".h"))
            .collect();
        there.sort();
        let known: Vec<&str> = super::HEADERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(there, known, "the list in headers.rs");
    }
}
