//! The function by which plugins print messages: `ncclDebugLogger_t`, which takes a format and its arguments as `printf` does.

use std::ffi::{CStr, c_char, c_int, c_ulong};

use log::LevelFilter;

use crate::debug;

/// The function, with its named parameters; the arguments of the format follow.
pub(super) type Logger =
    unsafe extern "C" fn(level: c_int, flags: c_ulong, file: *const c_char, line: c_int, format: *const c_char, ...);

/// Returns the level of a number of NCCL's; none for messages that are never printed.
fn level(number: c_int) -> Option<LevelFilter> {
    match number {
        1 | 3 | 4 => Some(LevelFilter::Info),
        2 => Some(LevelFilter::Warn),
        5 => Some(LevelFilter::Trace),
        _ => None,
    }
}

fn print(number: c_int, text: &str) {
    if let Some(level) = level(number) {
        debug::print(level, &format!("profiler plugin: {}", text.trim_end()));
    }
}

pub(super) use self::variadic::logger;

/// Stable Rust has no functions with variable arguments. This one stores the registers that may hold arguments where `vsnprintf`
/// of the C library reads them.
#[cfg(target_arch = "x86_64")]
mod variadic {
    use std::ffi::c_void;

    use super::{CStr, Logger, c_char, c_int, c_ulong, level, print};

    /// Maximum length of a message, with its final null byte.
    const MAX_BYTES: usize = 1024;

    /// A `va_list` of the System V ABI.
    #[repr(C)]
    struct Arguments {
        /// Offset of the next general register in `registers`, and that of the next vector register.
        next_general: u32,
        next_vector: u32,
        stack: *mut c_void,
        registers: *mut c_void,
    }

    unsafe extern "C" {
        fn vsnprintf(to: *mut c_char, size: usize, format: *const c_char, arguments: *mut Arguments) -> c_int;
    }

    /// Returns the function for plugins.
    pub(in super::super) fn logger() -> Logger {
        // SAFETY: both types are functions with the same named parameters, and `entry` reads variable ones as the System V ABI
        // passes them.
        unsafe { std::mem::transmute::<unsafe extern "C" fn(), Logger>(entry) }
    }

    /// Stores the six general and the eight vector registers of arguments below the return address, builds the `va_list`, and
    /// passes the named arguments, which are still in their registers, with it to [`print_list`].
    ///
    /// Layout: 24 bytes of `va_list` at the stack pointer, then from offset 32 the 176 bytes of the registers. With the return
    /// address, 216 + 8 bytes are a multiple of 16.
    #[unsafe(naked)]
    unsafe extern "C" fn entry() {
        std::arch::naked_asm!(
            "sub rsp, 216",
            "mov [rsp + 32], rdi",
            "mov [rsp + 40], rsi",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            // Five general registers hold named parameters.
            "mov dword ptr [rsp], 40",
            "mov dword ptr [rsp + 4], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 8], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 16], rax",
            "mov r9, rsp",
            "call {print_list}",
            "add rsp, 216",
            "ret",
            print_list = sym print_list,
        )
    }

    /// Prints a message.
    ///
    /// # Safety
    /// The format must be null or a text, and the list have the arguments that it names.
    unsafe extern "C" fn print_list(
        number: c_int,
        _flags: c_ulong,
        _file: *const c_char,
        _line: c_int,
        format: *const c_char,
        arguments: *mut Arguments,
    ) {
        if format.is_null() || level(number).is_none() {
            return;
        }
        let mut text = [0_u8; MAX_BYTES];
        // SAFETY: the function writes at most this number of bytes, the last of which is null; the rest is the plugin's duty.
        let length = unsafe { vsnprintf(text.as_mut_ptr().cast(), text.len(), format, arguments) };
        if length >= 0
            && let Ok(text) = CStr::from_bytes_until_nul(&text)
        {
            print(number, &text.to_string_lossy());
        }
    }
}

/// On other processors the format is printed without its arguments.
#[cfg(not(target_arch = "x86_64"))]
mod variadic {
    use super::{CStr, Logger, c_char, c_int, c_ulong, print};

    /// Returns the function for plugins.
    pub(in super::super) fn logger() -> Logger {
        type Named = unsafe extern "C" fn(c_int, c_ulong, *const c_char, c_int, *const c_char);
        // SAFETY: on AArch64 with Linux, the named arguments of a variadic call are passed as those of another one.
        unsafe { std::mem::transmute::<Named, Logger>(print_format) }
    }

    /// Prints the format of a message.
    ///
    /// # Safety
    /// The format must be null or a text.
    unsafe extern "C" fn print_format(
        number: c_int,
        _flags: c_ulong,
        _file: *const c_char,
        _line: c_int,
        format: *const c_char,
    ) {
        if !format.is_null() {
            // SAFETY: guaranteed by the caller.
            print(number, &unsafe { CStr::from_ptr(format) }.to_string_lossy());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_those_of_nccl() {
        assert_eq!(
            [0, 2, 3, 5, 9].map(level),
            [None, Some(LevelFilter::Warn), Some(LevelFilter::Info), Some(LevelFilter::Trace), None]
        );
    }
}
