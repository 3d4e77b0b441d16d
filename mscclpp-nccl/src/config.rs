//! Structs of NCCL's that grow with its versions: each begins with its size, a magic number and the version of the header with
//! which the caller was compiled. Fields beyond the size have their default.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{MAGIC, UNDEFINED};
use crate::entry::{Failure, Result, check_pointer};

/// Bytes of the fields with which each of the structs begins: size, magic number, version.
const HEADER_BYTES: usize = 16;

/// Bytes of the largest struct that is read.
const MAX_BYTES: usize = 256;

/// A struct of a caller's, as far as it has bytes.
struct Fields {
    bytes: [u8; MAX_BYTES],
    len: usize,
}

impl Fields {
    /// Copies a struct that begins with its size and a magic number.
    ///
    /// # Safety
    /// The pointer must be valid for reads of the size that the struct states.
    unsafe fn read(what: &str, at: *const c_void, magic: u32) -> Result<Self> {
        check_pointer(what, at.cast::<usize>())?;
        // SAFETY: guaranteed by the caller.
        let size = unsafe { at.cast::<usize>().read() };
        if !(HEADER_BYTES..=1 << 16).contains(&size) {
            return Err(Failure::argument(format!(
                "{what}: expected a size of {HEADER_BYTES} bytes or more, found {size}"
            )));
        }
        let mut fields = Self { bytes: [0; MAX_BYTES], len: size.min(MAX_BYTES) };
        // SAFETY: guaranteed by the caller; both have this number of bytes.
        unsafe { at.cast::<u8>().copy_to_nonoverlapping(fields.bytes.as_mut_ptr(), fields.len) };
        let found = fields.int(8).unwrap_or(0) as u32;
        if found != magic {
            let text =
                format!("{what}: expected the magic number {magic:#x}, found {found:#x}; use NCCL's initializer");
            return Err(Failure::argument(text));
        }
        Ok(fields)
    }

    fn bytes<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes[..self.len].get(at..at + N)?.try_into().ok()
    }

    /// Returns an integer; none if the struct is shorter, or the caller leaves it to the library.
    fn int(&self, at: usize) -> Option<c_int> {
        self.bytes(at).map(c_int::from_ne_bytes).filter(|value| *value != UNDEFINED)
    }

    /// Returns a text; none if the struct is shorter, or the pointer is null.
    ///
    /// # Safety
    /// The pointer must be null or a text that ends with a null byte.
    unsafe fn text(&self, at: usize) -> Option<String> {
        let pointer = self.bytes(at).map(usize::from_ne_bytes).filter(|pointer| *pointer != 0)?;
        // SAFETY: guaranteed by the caller.
        Some(unsafe { CStr::from_ptr(pointer as *const c_char) }.to_string_lossy().into_owned())
    }
}

/// What a caller states of a communicator: `ncclConfig_t`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// Whether calls that create the communicator return before it is complete.
    pub(crate) is_nonblocking: bool,
    /// Maximum number of thread blocks.
    pub(crate) max_blocks: Option<u32>,
    /// Name in messages.
    pub(crate) name: Option<String>,
}

impl Config {
    /// Reads a configuration; the default for a null pointer.
    ///
    /// # Errors
    /// An invalid argument for another struct, and for values that NCCL rejects.
    ///
    /// # Safety
    /// The pointer must be null or a configuration as long as it states, with valid texts.
    pub(crate) unsafe fn read(at: *const c_void) -> Result<Self> {
        if at.is_null() {
            return Ok(Self::default());
        }
        // SAFETY: guaranteed by the caller.
        let fields = unsafe { Fields::read("config", at, MAGIC) }?;
        let is_flag = |name: &str, at| match fields.int(at) {
            None => Ok(None),
            Some(flag @ 0..=1) => Ok(Some(flag == 1)),
            Some(found) => Err(Failure::argument(format!("config.{name}: expected 0 or 1, found {found}"))),
        };
        let positive = |name: &str, at| match fields.int(at) {
            None => Ok(None),
            Some(count @ 1..) => Ok(Some(count as u32)),
            Some(found) => Err(Failure::argument(format!("config.{name}: expected a positive number, found {found}"))),
        };
        let blocking = is_flag("blocking", 16)?;
        let cluster = fields.int(20).unwrap_or(0);
        if !(0..=8).contains(&cluster) {
            return Err(Failure::argument(format!("config.cgaClusterSize: expected 0 to 8, found {cluster}")));
        }
        let (min, max_blocks) = (positive("minCTAs", 24)?, positive("maxCTAs", 28)?);
        if let (Some(min), Some(max)) = (min, max_blocks)
            && min > max
        {
            return Err(Failure::argument(format!("config.minCTAs is {min}, more than config.maxCTAs, {max}")));
        }
        is_flag("splitShare", 40)?;
        is_flag("shrinkShare", 64)?;
        // SAFETY: guaranteed by the caller.
        let name = unsafe { fields.text(48) };
        Ok(Self { is_nonblocking: blocking == Some(false), max_blocks, name })
    }
}

/// What a caller states of one call: `ncclCollConfig_t`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallConfig {
    /// Name of the algorithm.
    pub(crate) algorithm: Option<String>,
    /// Whether an algorithm that cannot serve the call is an error; otherwise another one serves it.
    pub(crate) is_forced: bool,
    /// Number of thread blocks.
    pub(crate) max_blocks: Option<u32>,
    /// Value for profiler plugins, 0 for none.
    pub(crate) tag: u64,
    /// Event that is recorded after the call.
    pub(crate) event: Option<usize>,
}

impl CallConfig {
    /// Reads the configuration of a call; the default for a null pointer.
    ///
    /// # Errors
    /// An invalid argument for another struct.
    ///
    /// # Safety
    /// As for [`Config::read`].
    pub(crate) unsafe fn read(at: *const c_void) -> Result<Self> {
        if at.is_null() {
            return Ok(Self::default());
        }
        // SAFETY: guaranteed by the caller.
        let fields = unsafe { Fields::read("config", at, MAGIC) }?;
        // SAFETY: guaranteed by the caller.
        let algorithm = unsafe { fields.text(40) }.filter(|name| !name.is_empty());
        let tag = fields.bytes(56).map_or(0, u64::from_ne_bytes);
        let event = fields.bytes(64).map(usize::from_ne_bytes).filter(|event| *event != 0);
        let max_blocks = fields.int(28).filter(|blocks| *blocks > 0).map(|blocks| blocks as u32);
        Ok(Self { algorithm, is_forced: fields.int(48) != Some(0), max_blocks, tag, event })
    }
}

/// Writes fields of a struct of the caller's, as far as it has bytes for them.
pub(crate) struct Answer {
    at: *mut u8,
    len: usize,
}

impl Answer {
    /// Opens a struct that begins with its size and a magic number.
    ///
    /// # Errors
    /// An invalid argument for another struct.
    ///
    /// # Safety
    /// The pointer must be null or valid for reads and writes of the size that the struct states, as long as the result is
    /// used.
    pub(crate) unsafe fn open(what: &str, at: *mut c_void, magic: u32) -> Result<Self> {
        // SAFETY: guaranteed by the caller.
        let fields = unsafe { Fields::read(what, at, magic) }?;
        Ok(Self { at: at.cast(), len: fields.len })
    }

    /// Writes a field at its offset.
    pub(crate) fn set(&mut self, at: usize, value: &[u8]) {
        if at + value.len() <= self.len {
            // SAFETY: the struct has these bytes, and `open` requires that they may be written.
            unsafe { value.as_ptr().copy_to_nonoverlapping(self.at.add(at), value.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration of some size, with all fields left to the library.
    fn config(size: usize) -> Vec<u64> {
        let mut bytes = vec![0_u8; size.next_multiple_of(8).max(16)];
        bytes[..8].copy_from_slice(&size.to_ne_bytes());
        bytes[8..12].copy_from_slice(&MAGIC.to_ne_bytes());
        for at in (16..size.saturating_sub(3)).step_by(4) {
            if !(32..40).contains(&at) && !(48..56).contains(&at) {
                bytes[at..at + 4].copy_from_slice(&UNDEFINED.to_ne_bytes());
            }
        }
        bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
    }

    fn set(config: &mut [u64], at: usize, value: c_int) {
        let shift = (at % 8) * 8;
        config[at / 8] = config[at / 8] & !(0xffff_ffff << shift) | u64::from(value as u32) << shift;
    }

    fn read(config: &[u64]) -> Result<Config> {
        // SAFETY: the vector is as long as the struct states.
        unsafe { Config::read(config.as_ptr().cast()) }
    }

    #[test]
    fn configurations_of_all_sizes_are_read() {
        for size in [48, 72, 80, 88, 96, 120, 240] {
            let mut config = config(size);
            assert_eq!(read(&config).expect("defaults"), Config::default());
            set(&mut config, 16, 0);
            set(&mut config, 28, 7);
            let name = c"a name";
            if size >= 56 {
                config[6] = name.as_ptr() as u64;
            }
            let expected =
                Config { is_nonblocking: true, max_blocks: Some(7), name: (size >= 56).then(|| "a name".to_owned()) };
            assert_eq!(read(&config).expect("valid"), expected);
        }
    }

    #[test]
    fn invalid_configurations_are_arguments_with_the_field() {
        let with = |at, value| {
            let mut config = config(96);
            set(&mut config, at, value);
            read(&config).expect_err("invalid").text
        };
        assert!(with(8, 5).contains("magic number 0xcafebeef, found 0x5"));
        assert!(with(16, 2).contains("config.blocking: expected 0 or 1, found 2"));
        assert!(with(24, 0).contains("config.minCTAs"));
        assert!(with(28, -1).contains("config.maxCTAs"));
        assert!(with(20, 9).contains("config.cgaClusterSize"));
        let mut short = config(96);
        short[0] = 8;
        assert!(read(&short).expect_err("too short").text.contains("found 8"));
        // SAFETY: an address that is not aligned is not read.
        let unaligned = unsafe { Config::read(config(96).as_ptr().cast::<u8>().add(1).cast()) };
        assert!(unaligned.expect_err("unaligned").text.contains("multiple of 8 bytes"));
    }
}
