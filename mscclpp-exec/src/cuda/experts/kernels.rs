//! The kernels, which are compiled at run time.

use mscclpp_base::dtype::DataType;
use mscclpp_base::error::Error;
use mscclpp_cuda::device::{Device, Function};
use mscclpp_cuda::jit::Source;
use mscclpp_kernels::EXPERTS;

/// The kernels for rows whose elements are combined.
pub(super) struct Typed {
    pub(super) quantize: Function,
    pub(super) combine: Function,
}

/// All kernels.
pub(super) struct Kernels {
    pub(super) count: Function,
    pub(super) plan: Function,
    pub(super) pack: Function,
    pub(super) place: Function,
    pub(super) unpack: Function,
    pub(super) give_back: Function,
    pub(super) typed: Typed,
}

impl Kernels {
    /// Loads the kernels, which the first use on a machine compiles.
    pub(super) fn load(device: &Device, dtype: DataType) -> Result<Self, Error> {
        let source = Source::new("experts.cu", EXPERTS);
        let suffix = match dtype {
            DataType::F32 | DataType::F16 | DataType::BF16 => dtype.name(),
            found => return Err(Error::ElementType { expected: DataType::BF16, found }),
        };
        let module = device.module(&source)?;
        let function = |name: &str| module.function(name);
        Ok(Self {
            count: function("mscclpp_count_choices")?,
            plan: function("mscclpp_plan_sends")?,
            pack: function("mscclpp_pack_rows")?,
            place: function("mscclpp_place_rows")?,
            unpack: function("mscclpp_unpack_rows")?,
            give_back: function("mscclpp_return_rows")?,
            typed: Typed {
                quantize: function(&format!("mscclpp_quantize_rows_{suffix}"))?,
                combine: function(&format!("mscclpp_combine_rows_{suffix}"))?,
            },
        })
    }
}
