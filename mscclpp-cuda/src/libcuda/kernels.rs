//! Kernels.

use std::ffi::{CString, c_void};

use cudarc::driver::{result, sys};

use super::functions::LOADING;
use super::{Cuda, named, stream};
use crate::driver::calls::Kernels;
use crate::driver::{Handle, Result};

impl Kernels for Cuda {
    fn load(&self, _name: &str, image: &[u8]) -> Result<Handle> {
        let _current = self.enter()?;
        // SAFETY: a fat binary or PTX that ends with a zero, made by the build of the kernels.
        let module = unsafe { result::module::load_data(image.as_ptr().cast()) };
        named("cuModuleLoadData", module).map(|module| Handle(module as usize))
    }

    fn function(&self, module: Handle, name: &str) -> Result<Handle> {
        let _current = self.enter()?;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: a module that is loaded.
        let function = unsafe { result::module::get_function(module.0 as sys::CUmodule, name) };
        let function = named("cuModuleGetFunction", function)?;
        // Otherwise the driver loads it at the first launch, which may be in a capture, and may wait for kernels that
        // wait for this one. Drivers that lack the call have loaded the function when it was found.
        if self.properties.driver >= LOADING.1 {
            // SAFETY: the function was just found, and a driver of this version has the call.
            named("cuFuncLoad", unsafe { sys::cuFuncLoad(function) }.result())?;
        }
        Ok(Handle(function as usize))
    }

    fn unload(&self, module: Handle) -> Result<()> {
        let _current = self.enter()?;
        // SAFETY: the owner passes the module to be unloaded.
        named("cuModuleUnload", unsafe { result::module::unload(module.0 as sys::CUmodule) })
    }

    fn blocks_per_multiprocessor(&self, function: Handle, threads: u32) -> Result<u32> {
        let _current = self.enter()?;
        let function = function.0 as sys::CUfunction;
        let mut blocks = 0;
        // SAFETY: a function of a module that is loaded.
        let asked =
            unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, function, threads as i32, 0) };
        named("cuOccupancyMaxActiveBlocksPerMultiprocessor", asked.result())?;
        Ok(blocks.max(0) as u32)
    }

    unsafe fn launch(&self, function: Handle, blocks: u32, threads: u32, on: Handle, argument: &[u8]) -> Result<()> {
        let _current = self.enter()?;
        let mut arguments = [argument.as_ptr().cast_mut().cast::<c_void>()];
        let function = function.0 as sys::CUfunction;
        // SAFETY: guaranteed by the caller. The driver copies the argument before it returns.
        let launched =
            unsafe { result::launch_kernel(function, (blocks, 1, 1), (threads, 1, 1), 0, stream(on), &mut arguments) };
        named("cuLaunchKernel", launched)
    }
}
