//! Device code of mscclpp, as constants: CUDA C++ headers and sources, and images that were built from them.
//!
//! The headers are the interpreter of plans and the functions that specialized kernels call. The images hold the interpreter for
//! every pair of a data type and an accumulator type, so that a program needs no CUDA toolkit: machine code for one kind of device,
//! and PTX from which the driver makes machine code for others.
#![no_std]
#![forbid(unsafe_code)]

/// The compute capability for which the images hold machine code: major, minor.
pub const CAPABILITY: (u32, u32) = (9, 0);

/// The CUDA version of the toolkit that built the images, 1000 times major plus 10 times minor. Drivers of earlier versions may refuse
/// them.
pub const TOOLKIT: u32 = 13_000;

/// Bytes at an address from which a driver may read whole words.
#[repr(align(16))]
struct Aligned<T: ?Sized>(T);

macro_rules! images {
    ($($name:literal)*) => {
        /// The images: name of the pair of types (`bf16_f32`: bf16 elements, f32 accumulator), and the bytes of the fat binary, which
        /// are aligned to 16 bytes.
        pub static IMAGES: &[(&str, &[u8])] = &[$({
            static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!("../prebuilt/", $name, ".fatbin")));
            ($name, &IMAGE.0)
        }),*];
    };
}

images! {
    "i8" "u8" "i32" "u32" "i64" "u64" "f32" "f32_f64" "f64" "f16" "f16_f32" "f16_f64" "bf16" "bf16_f32" "bf16_f64"
    "f8e4m3" "f8e4m3_f32" "f8e4m3_f64" "f8e5m2" "f8e5m2_f32" "f8e5m2_f64"
    "f8e4m3b15" "f8e4m3b15_f32" "f8e4m3b15_f64"
}

macro_rules! headers {
    ($($name:literal)*) => {
        /// The headers: file name and text.
        pub const HEADERS: &[(&str, &str)] = &[$(($name, include_str!(concat!("../", $name)))),*];
    };
}

headers! {
    "abi.h" "channel.h" "copy.h" "dev.h" "divide.h" "executor.h" "instr_cache.h" "load_cache.h" "mscclpp_channels.h" "multicast.h" "number.h"
    "operand.h" "packet.h" "reduce.h" "spans.h" "specialized.h" "switch.h" "sync.h" "vector.h" "wait.h"
}

/// The source of the kernels of one pair of types, which the macros `MSCCLPP_T` and `MSCCLPP_A` name.
pub const EXECUTOR: &str = include_str!("../executor.cu");

/// The pairs of types: a line each with name, element type and accumulator type in C++.
pub const TYPES: &str = include_str!("../types");

/// Returns the image of a name.
pub fn image(name: &str) -> Option<&'static [u8]> {
    IMAGES.iter().find(|(known, _)| *known == name).map(|(_, image)| *image)
}

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
        let mut images: Vec<&str> = IMAGES.iter().map(|(name, _)| *name).collect();
        pairs.sort_unstable();
        images.sort_unstable();
        assert_eq!(pairs, images);
        for (name, image) in IMAGES {
            assert_eq!(image.as_ptr() as usize % 16, 0, "{name}");
        }
    }
}
