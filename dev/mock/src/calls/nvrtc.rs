//! NVRTC: sources are compiled for the simulator, by its C++ compiler. Programs find these functions where they search for
//! `libnvrtc.so`, if that names this library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use mscclpp_dev::{Options, simulator};
use mscclpp_exec::cuda::jit::{JitError, Source};

use crate::images::{SIMULATED, simulated};

/// A program, and what it was compiled to.
struct Program {
    source: Source,
    /// With the zero that ends it.
    log: Vec<u8>,
    image: Vec<u8>,
}

const SUCCESS: c_int = 0;
const INVALID_INPUT: c_int = 3;
const COMPILATION: c_int = 6;

/// The architecture of the devices.
const ARCHITECTURE: c_int = 90;

/// # Safety
/// A text, or null.
unsafe fn text(at: *const c_char) -> String {
    match at.is_null() {
        true => String::new(),
        // SAFETY: guaranteed by the caller.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
    }
}

/// # Safety
/// An array of that number of texts.
unsafe fn texts(at: *const *const c_char, count: c_int) -> Vec<String> {
    // SAFETY: guaranteed by the caller.
    (0..usize::try_from(count).unwrap_or(0)).map(|number| unsafe { text(*at.add(number)) }).collect()
}

/// Returns version 0.0, which no compiler of the toolkit has: caches keep its images apart from theirs.
#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcVersion(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: valid for writes.
    unsafe { (major.write(0), minor.write(0)) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetErrorString(code: c_int) -> *const c_char {
    let text = match code {
        SUCCESS => c"NVRTC_SUCCESS",
        INVALID_INPUT => c"NVRTC_ERROR_INVALID_INPUT",
        COMPILATION => c"NVRTC_ERROR_COMPILATION",
        _ => c"NVRTC_ERROR unknown",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetNumSupportedArchs(count: *mut c_int) -> c_int {
    // SAFETY: valid for writes.
    unsafe { count.write(1) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcGetSupportedArchs(architectures: *mut c_int) -> c_int {
    // SAFETY: valid for one number.
    unsafe { architectures.write(ARCHITECTURE) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCreateProgram(
    program: *mut *mut c_void,
    source: *const c_char,
    name: *const c_char,
    count: c_int,
    headers: *const *const c_char,
    names: *const *const c_char,
) -> c_int {
    // SAFETY: texts, and as many headers as names.
    let (main, headers, names) = unsafe { ((text(name), text(source)), texts(headers, count), texts(names, count)) };
    let source = Source::new(main.0, main.1);
    let source = names.into_iter().zip(headers).fold(source, |source, (name, text)| source.header(name, text));
    let created = Box::new(Program { source, log: vec![0], image: Vec::new() });
    // SAFETY: valid for writes.
    unsafe { program.write(Box::into_raw(created).cast()) };
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcDestroyProgram(program: *mut *mut c_void) -> c_int {
    // SAFETY: a program that was created here, destroyed once.
    drop(unsafe { Box::from_raw((*program).cast::<Program>()) });
    SUCCESS
}

#[unsafe(no_mangle)]
unsafe extern "C" fn nvrtcCompileProgram(program: *mut c_void, count: c_int, options: *const *const c_char) -> c_int {
    // SAFETY: a program that was created here, and that many texts.
    let (program, options) = unsafe { (&mut *program.cast::<Program>(), texts(options, count)) };
    let defines = options.iter().filter_map(|option| option.strip_prefix("--define-macro="));
    let source = defines.fold(program.source.clone(), |source, define| {
        let (name, value) = define.split_once('=').unwrap_or((define, "1"));
        source.define(name, value)
    });
    let device = match simulator(Options::default()) {
        Ok(device) => device,
        Err(reason) => {
            program.log = CString::new(reason).unwrap_or_default().into_bytes_with_nul();
            return INVALID_INPUT;
        }
    };
    let (log, code) = match device.compiler().and_then(|compiler| compiler.compile(&source)) {
        Ok(image) => {
            program.image = simulated(&image.code);
            (image.log, SUCCESS)
        }
        Err(JitError::Source { log, .. }) => (log, COMPILATION),
        Err(error) => (error.to_string(), INVALID_INPUT),
    };
    program.log = CString::new(log).unwrap_or_default().into_bytes_with_nul();
    code
}

/// Defines the functions that return a text or an image: its size, and its bytes.
macro_rules! outputs {
    ($($size:ident, $get:ident: $field:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $size(program: *mut c_void, size: *mut usize) -> c_int {
            // SAFETY: a program that was created here, and a number that is valid for writes.
            unsafe { size.write((*program.cast::<Program>()).$field.len()) };
            SUCCESS
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $get(program: *mut c_void, to: *mut c_char) -> c_int {
            // SAFETY: a program that was created here, and as many bytes as the function above returned.
            unsafe {
                let bytes = &(*program.cast::<Program>()).$field;
                to.cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            }
            SUCCESS
        }
    )*};
}

outputs! {
    nvrtcGetProgramLogSize, nvrtcGetProgramLog: log;
    nvrtcGetCUBINSize, nvrtcGetCUBIN: image;
    nvrtcGetPTXSize, nvrtcGetPTX: image;
}

const _: () = assert!(SIMULATED.len() == 8, "the length of the code follows at a multiple of 8");
