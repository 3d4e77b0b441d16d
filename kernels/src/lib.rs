//! Device code of mscclpp, as constants: CUDA C++ headers and sources, and images that were built from them.
//!
//! The headers are the interpreter of plans and the functions that specialized kernels call. The images hold the interpreter for
//! every pair of a data type and an accumulator type, so that a program needs no CUDA toolkit: machine code for some kinds of devices,
//! and PTX from which the driver makes machine code for others.
#![no_std]
#![forbid(unsafe_code)]

/// What one toolkit has built.
#[derive(Debug)]
pub struct Images {
    /// The CUDA version of the toolkit, 1000 times major plus 10 times minor. Earlier drivers refuse the images.
    pub toolkit: u32,
    /// The compute capabilities for which there is machine code: major, minor. A device runs code for its major number and its own minor
    /// number or an earlier one. For all other devices from 8.0 on the driver compiles PTX.
    pub capabilities: &'static [(u32, u32)],
    /// Name of each pair of types (`bf16_f32`: bf16 elements, f32 accumulator), and the bytes of the fat binary, which are aligned to 16
    /// bytes.
    pub images: &'static [(&'static str, &'static [u8])],
}

impl Images {
    /// Returns the image of a name.
    pub fn find(&self, name: &str) -> Option<&'static [u8]> {
        self.images.iter().find(|(known, _)| *known == name).map(|(_, image)| *image)
    }

    /// Returns whether the images have machine code that a device runs.
    pub fn have_code_for(&self, (major, minor): (u32, u32)) -> bool {
        self.capabilities.iter().any(|known| known.0 == major && known.1 <= minor)
    }
}

/// Bytes at an address from which a driver may read whole words.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);

macro_rules! images {
    ($folder:literal: $($name:literal)*) => {
        &[$({
            static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!("../prebuilt/", $folder, $name, ".fatbin")));
            ($name, &IMAGE.0)
        }),*]
    };
}

/// All images: those of the latest toolkit first.
pub static IMAGES: [Images; 2] = [
    Images {
        toolkit: 13_000,
        capabilities: &[(9, 0)],
        images: images! { "":
            "i8" "u8" "i32" "u32" "i64" "u64" "f32" "f32_f64" "f64" "f16" "f16_f32" "f16_f64" "bf16" "bf16_f32" "bf16_f64"
            "f8e4m3" "f8e4m3_f32" "f8e4m3_f64" "f8e5m2" "f8e5m2_f32" "f8e5m2_f64"
            "f8e4m3b15" "f8e4m3b15_f32" "f8e4m3b15_f64"
        },
    },
    Images {
        toolkit: 12_020,
        capabilities: &[(8, 0), (9, 0)],
        images: images! { "12.2/":
            "i8" "u8" "i32" "u32" "i64" "u64" "f32" "f32_f64" "f64" "f16" "f16_f32" "bf16" "bf16_f32"
            "f8e4m3" "f8e5m2" "f8e4m3b15"
        },
    },
];

macro_rules! headers {
    ($($name:literal)*) => {
        /// The headers: file name and text.
        pub const HEADERS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../", $name)))),*];
    };
}

headers! {
    "abi.h" "channel.h" "clear.h" "copy.h" "counts.h" "dev.h" "divide.h" "executor.h" "instr_cache.h" "load_cache.h"
    "mscclpp_channels.h" "multicast.h" "number.h" "operand.h" "packet.h" "reduce.h" "row_norm.h" "spans.h" "specialized.h" "switch.h" "sync.h" "vector.h" "wait.h"
}

/// The source of the kernels of one pair of types, which the macros `MSCCLPP_T` and `MSCCLPP_A` name.
pub const EXECUTOR: &str = include_str!("../executor.cu");

/// The source of the kernel that records timelines, for the same macros. It is compiled at run time only.
pub const TIMELINE: &str = include_str!("../timeline/timeline.cu");

/// The source of the kernels that pack rows of tokens for experts, place them there and combine them. It is compiled at run time.
pub const EXPERTS: &str = include_str!("../experts/experts.cu");

/// The pairs of types: a line each with name, element type and accumulator type in C++.
pub const TYPES: &str = include_str!("../types");

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_header_is_listed() {
        let mut found: Vec<String> = std::fs::read_dir(env!("CARGO_MANIFEST_DIR"))
            .expect("the package's folder")
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name.ends_with(".h"))
            .collect();
        found.sort();
        let listed: Vec<&str> = HEADERS.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, listed);
    }

    #[test]
    fn every_pair_of_types_has_an_image() {
        let mut pairs: Vec<&str> = TYPES.lines().filter_map(|line| line.split(' ').next()).collect();
        pairs.sort_unstable();
        let [latest, older] = &IMAGES;
        for images in [latest, older] {
            let mut names: Vec<&str> = images.images.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            // Older drivers get fp8 that is combined in wider types, and halves that are combined in f64, from NVRTC.
            let is_large =
                |name: &str| name.starts_with("f8") && name.contains('_') || ["f16_f64", "bf16_f64"].contains(&name);
            let expected = pairs.iter().copied().filter(|name| images.toolkit == latest.toolkit || !is_large(name));
            assert_eq!(names, expected.collect::<Vec<_>>());
            for (name, image) in images.images {
                assert_eq!(image.as_ptr() as usize % 16, 0, "{name}");
            }
        }
    }

    #[test]
    fn kernels_without_timeline_read_no_stamps() {
        assert!(TIMELINE.contains("begin_stamp()") && TIMELINE.contains("#include \"executor.h\""));
        for (name, text) in HEADERS.iter().copied().chain([("executor.cu", EXECUTOR)]) {
            assert!(!text.to_lowercase().contains("stamp") && !text.contains("timeline"), "{name}");
        }
    }

    #[test]
    fn code_runs_on_devices_of_its_major_number() {
        let [latest, older] = &IMAGES;
        assert!(latest.have_code_for((9, 0)) && older.have_code_for((9, 0)));
        assert!(!latest.have_code_for((8, 6)) && older.have_code_for((8, 6)) && older.have_code_for((8, 9)));
        assert!(!latest.have_code_for((10, 0)) && !older.have_code_for((12, 0)));
    }
}
