//! Prebuilt images by data type and accumulator.

use mscclpp_base::dtype::DataType;
use mscclpp_base::numeric::AccumType;

use mscclpp_kernels::{IMAGES, Images};

/// Returns the images with kernels of a name that a driver of a version accepts, in the order in which they are tried on a device: those
/// with machine code for it before those that the driver compiles, and of these the ones of the latest toolkit first.
pub(super) fn accepted(name: &str, driver: u32, capability: (u32, u32)) -> Vec<&'static Images> {
    let mut images: Vec<_> =
        IMAGES.iter().filter(|images| images.toolkit <= driver && images.find(name).is_some()).collect();
    images.sort_by_key(|images| !images.have_code_for(capability));
    images
}

/// Returns the name of the kernels of a type and accumulator; `None` if [`AccumType::supports`] rejects the pair.
pub(super) fn name(dtype: DataType, accumulate: AccumType) -> Option<&'static str> {
    macro_rules! images {
        ($($dtype:ident $accumulate:ident = $file:literal,)*) => {
            match (dtype, accumulate) {
                $((DataType::$dtype, AccumType::$accumulate) => Some($file),)*
                _ => None,
            }
        };
    }
    images! {
        I8 Native = "i8", U8 Native = "u8", I32 Native = "i32", U32 Native = "u32", I64 Native = "i64", U64 Native = "u64",
        F64 Native = "f64", F64 F64 = "f64",
        F32 Native = "f32", F32 F32 = "f32", F32 F64 = "f32_f64",
        F16 Native = "f16", F16 F32 = "f16_f32", F16 F64 = "f16_f64",
        BF16 Native = "bf16", BF16 F32 = "bf16_f32", BF16 F64 = "bf16_f64",
        F8E4M3 Native = "f8e4m3", F8E4M3 F32 = "f8e4m3_f32", F8E4M3 F64 = "f8e4m3_f64",
        F8E5M2 Native = "f8e5m2", F8E5M2 F32 = "f8e5m2_f32", F8E5M2 F64 = "f8e5m2_f64",
        F8E4M3B15 Native = "f8e4m3b15", F8E4M3B15 F32 = "f8e4m3b15_f32", F8E4M3B15 F64 = "f8e4m3b15_f64",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_code_comes_before_later_toolkits() {
        let order = |name, driver, capability| -> Vec<u32> {
            accepted(name, driver, capability).iter().map(|images| images.toolkit).collect()
        };
        assert_eq!(order("f32", 13_000, (9, 0)), [13_000, 12_020]);
        assert_eq!(order("f32", 13_020, (8, 6)), [12_020, 13_000]);
        assert_eq!(order("f32", 13_000, (10, 0)), [13_000, 12_020]);
        assert_eq!(order("f32", 12_090, (9, 0)), [12_020]);
        assert!(order("f32", 12_010, (9, 0)).is_empty());
        assert_eq!(order("f8e4m3_f32", 13_000, (8, 0)), [13_000]);
        assert!(order("f8e4m3_f32", 12_020, (8, 0)).is_empty());
    }
}
