//! Kernels.

use std::ffi::CString;

use mscclpp_exec::cuda::calls::Kernels;
use mscclpp_exec::cuda::jit::Source;
use mscclpp_exec::cuda::{Driver, Handle};

use super::{Simulator, released};
use crate::host::{Code, Launch, Module, Result, Work, error};
use crate::launch::OMITTED_MEMBER;
use crate::native;
use crate::plugin::Plugin;

/// First bytes of a fat binary.
const FAT_BINARY: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();

impl Kernels for Simulator {
    fn load(&self, name: &str, image: &[u8]) -> Result<Handle> {
        self.called("cuModuleLoadData")?;
        let module = match Plugin::is_plugin(image) {
            true => match Plugin::load(image) {
                Ok(plugin) => Module::Loaded(plugin),
                Err(text) => return error("cuModuleLoadData", Code::InvalidValue, text),
            },
            false if self.machine.options.old => {
                return error("cuModuleLoadData", Code::NoBinary, "made by a later toolkit");
            }
            false => {
                let bug = self.machine.options.bug.filter(|bug| is_in_kernels(bug));
                let name = bug.map_or(name.to_owned(), |bug| format!("{name}_with_{bug}"));
                Module::Built(CString::new(name).unwrap_or_default())
            }
        };
        let handle = self.machine.handle();
        self.machine.state().modules.insert(handle.0, module);
        Ok(handle)
    }

    fn load_ahead_of_time(&self, source: &Source, image: &[u8]) -> Result<Handle> {
        const CALL: &str = "cuModuleLoadData";
        if !self.machine.options.ahead_of_time {
            return error(CALL, Code::NoBinary, "machine code");
        }
        // Its machine code is for devices: what it was compiled from is compiled here instead.
        assert!(image.starts_with(&FAT_BINARY), "no fat binary");
        let compiled = self.compiler().and_then(|compiler| compiler.compile(source));
        match compiled {
            Ok(compiled) => self.load(source.name(), &compiled.code),
            Err(failure) => error(CALL, Code::InvalidValue, failure.to_string()),
        }
    }

    fn function(&self, module: Handle, name: &str) -> Result<Handle> {
        self.called("cuModuleGetFunction")?;
        let handle = self.machine.handle();
        let mut state = self.machine.state();
        let kernel = match state.modules.get(&module.0) {
            None => std::ptr::null(),
            Some(Module::Loaded(plugin)) => plugin.kernel(name),
            Some(Module::Built(module)) => {
                let name = CString::new(name).unwrap_or_default();
                match self.machine.options.threaded {
                    Some(threaded) => threaded.find(module, &name).cast(),
                    // SAFETY: two texts that end with a zero.
                    None => unsafe { native::sim_find(module.as_ptr(), name.as_ptr()) },
                }
            }
        };
        if kernel.is_null() {
            return error("cuModuleGetFunction", Code::NotFound, name);
        }
        state.functions.insert(handle.0, kernel as usize);
        Ok(handle)
    }

    fn unload(&self, module: Handle) -> Result<()> {
        self.called("cuModuleUnload")?;
        released("cuModuleUnload", self.machine.state().modules.remove(&module.0))
    }

    fn blocks_per_multiprocessor(&self, _: Handle, threads: u32) -> Result<u32> {
        self.called("cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(1024 / threads.clamp(1, 1024))
    }

    unsafe fn launch(
        &self,
        function: Handle,
        blocks: u32,
        threads: u32,
        stream: Handle,
        argument: &[u8],
    ) -> Result<()> {
        self.called("cuLaunchKernel")?;
        let words = argument.chunks(8).map(|word| {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(bytes)
        });
        let launch = Launch { function, blocks, threads, argument: words.collect() };
        self.machine.put("cuLaunchKernel", stream, Work::Launch(launch))
    }
}

/// Returns whether there are kernels with a bug.
fn is_in_kernels(bug: &str) -> bool {
    crate::bugs()
        .chain(crate::switch_bugs())
        .chain(crate::barrier_bugs())
        .any(|known| known == bug && bug != OMITTED_MEMBER)
}
