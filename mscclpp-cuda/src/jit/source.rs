//! Source of device code that is compiled at run time.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};

use mscclpp_base::dtype::DataType;
use mscclpp_base::numeric::AccumType;
use mscclpp_kernels::{EXECUTOR, HEADERS};

/// Hash of the device code's headers, which every source includes.
static HEADERS_HASH: LazyLock<String> = LazyLock::new(|| {
    let mut digest = Sha256::new();
    for part in HEADERS.iter().flat_map(|(name, text)| [name, text]) {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    hex(&digest.finalize())
});

/// One translation unit of CUDA C++: a text with macros, options and headers. The headers of the device code are always
/// available: `#include "reduce.h"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    name: String,
    text: String,
    headers: Vec<(String, String)>,
    defines: Vec<(String, String)>,
    options: Vec<String>,
}

impl Source {
    /// Creates a source from a text and the name that messages use for it.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (headers, defines, options) = Default::default();
        Self { name: name.into(), text: text.into(), headers, defines, options }
    }

    /// Returns the interpreter's kernels of a type and accumulator; `None` if [`AccumType::supports`] rejects the pair.
    #[doc(hidden)]
    pub fn executor(dtype: DataType, accumulate: AccumType) -> Option<Self> {
        Self::typed("executor.cu", EXECUTOR, dtype, accumulate)
    }

    /// Creates a source whose kernels are those of a type and accumulator; `None` if [`AccumType::supports`] rejects the pair.
    #[doc(hidden)]
    pub fn typed(name: &str, text: &str, dtype: DataType, accumulate: AccumType) -> Option<Self> {
        let [element, accumulator] = type_names(dtype, accumulate)?;
        Some(Self::new(name, text).define("MSCCLPP_T", element).define("MSCCLPP_A", accumulator))
    }

    /// Adds a header of the caller's, included by its name.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, text: impl Into<String>) -> Self {
        self.headers.push((name.into(), text.into()));
        self
    }

    /// Defines a macro.
    #[must_use]
    pub fn define(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.defines.push((name.into(), value.into()));
        self
    }

    /// Adds an option for NVRTC, after the default ones (`--std=c++17 --fmad=false` and the device's architecture).
    /// Other compilers ignore it.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Returns the name in messages.
    #[doc(hidden)]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the text.
    #[doc(hidden)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns all headers: the device code's, then the caller's.
    #[doc(hidden)]
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        HEADERS.iter().copied().chain(own)
    }

    /// Returns the names and values of the macros.
    #[doc(hidden)]
    pub fn defines(&self) -> &[(String, String)] {
        &self.defines
    }

    /// Returns the options for NVRTC.
    #[doc(hidden)]
    pub fn options(&self) -> &[String] {
        &self.options
    }

    /// Returns a key that differs from that of every other source for a compiler: 64 hexadecimal digits.
    pub(crate) fn key(&self, compiler: &str) -> String {
        let mut digest = Sha256::new();
        let mut add = |part: &str| {
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        };
        add(compiler);
        add(&self.name);
        add(&self.text);
        add(&HEADERS_HASH);
        for (name, text) in &self.headers {
            add(name);
            add(text);
        }
        // Separates the lists, so that a header cannot be confused with a macro, or a macro with an option.
        add("defines");
        for (name, value) in &self.defines {
            add(name);
            add(value);
        }
        add("options");
        self.options.iter().for_each(|option| add(option));
        hex(&digest.finalize())
    }
}

/// Converts bytes to hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the names in device code of a type and its accumulator type; `None` if the pair is not supported.
pub fn type_names(dtype: DataType, accumulate: AccumType) -> Option<[&'static str; 2]> {
    if !accumulate.supports(dtype) {
        return None;
    }
    let element = match dtype {
        DataType::I8 => "int8_t",
        DataType::U8 => "uint8_t",
        DataType::I32 => "int32_t",
        DataType::U32 => "uint32_t",
        DataType::I64 => "int64_t",
        DataType::U64 => "uint64_t",
        DataType::F16 => "F16",
        DataType::BF16 => "BF16",
        DataType::F32 => "float",
        DataType::F64 => "double",
        DataType::F8E4M3 => "E4M3",
        DataType::F8E5M2 => "E5M2",
        DataType::F8E4M3B15 => "E4M3B15",
    };
    let accumulator = match accumulate {
        AccumType::Native => element,
        AccumType::F32 => "float",
        AccumType::F64 => "double",
    };
    Some([element, accumulator])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_depends_on_every_part_of_source() {
        let plain = || Source::new("a.cu", "text");
        let all = [
            plain(),
            Source::new("b.cu", "text"),
            Source::new("a.cu", "texts"),
            plain().define("a", "b"),
            plain().define("ab", ""),
            plain().header("a", "b"),
            plain().option("a").option("b"),
            plain().option("ab"),
        ];
        for (number, source) in all.iter().enumerate() {
            assert_eq!(source.key("one"), source.clone().key("one"));
            assert_ne!(source.key("one"), source.key("another"));
            for other in &all[..number] {
                assert_ne!(source.key("one"), other.key("one"), "{source:?} {other:?}");
            }
        }
    }
}
