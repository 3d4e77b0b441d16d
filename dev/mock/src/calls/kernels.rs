//! Modules, their functions, and launches.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::slice;

use mscclpp_dev::{KernelProperties, argument_bytes, compiled_kernel};
use mscclpp_exec::cuda::Handle;

use super::{ask, calls, valid};
use crate::code::{self, Code};
use crate::images::{code_of, name_of};
use crate::state::{self, called_here};
use crate::{captures, streams};

/// The first version with `cuFuncLoad`. Earlier drivers load functions when they are found.
const LOADS: u32 = 12_040;

/// The attribute of functions whose value is the maximum of a launch's shared memory.
const MAX_DYNAMIC_SHARED: c_int = 8;

/// Maximum bytes of a block's shared memory, as devices of compute capability 9.0 have.
const MAX_SHARED: c_uint = 227 << 10;

calls! {
    fn cuModuleLoadData(module: *mut usize, image: *const c_void) -> module {
        // SAFETY: an image.
        if let Some(compiled) = unsafe { code_of(image) } {
            let module = ask(|driver| driver.load("compiled", compiled))?.0;
            state::set_code(module, compiled)?;
            return Ok(module);
        }
        // SAFETY: an image.
        let name = unsafe { name_of(image) }.ok_or(code::INVALID_IMAGE)?;
        ask(|driver| driver.load(name, &[])).map(|module| module.0)
    }

    fn cuModuleUnload(module: usize) {
        state::unload(module)?;
        ask(|driver| driver.unload(Handle(module)))
    }

    fn cuModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) -> function {
        // SAFETY: a text.
        let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
        let function = ask(|driver| driver.function(Handle(module), &name))?.0;
        let properties = match state::code(module)? {
            Some(compiled) => compiled_kernel(&compiled, &name),
            None => argument_bytes(&name).map(|argument| KernelProperties { argument, has_all_threads: false }),
        };
        state::set_properties(module, function, properties.ok_or(code::INVALID_VALUE)?)?;
        if state::version() < LOADS {
            state::load(function)?;
        }
        Ok(function)
    }

    fn cuFuncLoad(function: usize) {
        called_here("cuFuncLoad")?;
        valid(state::version() >= LOADS)?;
        state::load(function)
    }

    fn cuFuncSetAttribute(function: usize, attribute: c_int, value: c_int) {
        state::properties(function)?;
        valid(attribute == MAX_DYNAMIC_SHARED && c_uint::try_from(value).is_ok_and(|bytes| bytes <= MAX_SHARED))
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, function: usize, threads: c_int, _shared: usize)
        -> blocks
    {
        let blocks = ask(|driver| driver.blocks_per_multiprocessor(Handle(function), threads as u32))?;
        Ok(blocks as c_int)
    }

    fn cuLaunchKernel(
        function: usize,
        blocks: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        shared: c_uint,
        stream: usize,
        arguments: *const *const u8,
        extra: *const c_void,
    ) {
        let properties = state::properties(function)?;
        // Others know of one dimension, and of no shared memory of the launch.
        let is_plain = [blocks_y, blocks_z, threads_y, threads_z] == [1; 4] && shared == 0;
        valid(extra.is_null() && (is_plain || properties.has_all_threads) && shared <= MAX_SHARED)?;
        let product = |all: [c_uint; 3]| all.into_iter().try_fold(1_u32, c_uint::checked_mul);
        let blocks = product([blocks, blocks_y, blocks_z]).ok_or(code::INVALID_VALUE)?;
        let threads = product([threads, threads_y, threads_z]).ok_or(code::INVALID_VALUE)?;
        valid(blocks > 0 && (1..=1024).contains(&threads))?;
        let stream = streams::resolve(stream)?;
        captures::count(stream)?;
        state::enqueue_on(stream)?;
        // SAFETY: kernels of this library take one argument of this number of bytes.
        let argument = unsafe { slice::from_raw_parts(*arguments, properties.argument) };
        // SAFETY: guaranteed by the caller.
        ask(|driver| unsafe { driver.launch(Handle(function), blocks, threads, Handle(stream), argument) })
    }
}
