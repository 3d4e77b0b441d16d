//! The simulator as a driver.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use mscclpp_exec::cuda::jit::{Compiler, JitError};
use mscclpp_exec::cuda::{Allocation, Driver, Export, Handle, Mapped, Mapping, Properties};

use crate::alloc::{from_handle, to_handle};
use crate::launch::A_MEMBER_LEFT_OUT;
use crate::machine::{Code, Launch, Machine, Module, Queue, Recording, Result, Work, error};
use crate::multicast::{self, Multicast};
use crate::native;
use crate::options::Options;
use crate::plugin::{Plugin, PluginCompiler};

/// A simulated device.
pub(crate) struct Simulator {
    properties: Properties,
    machine: Arc<Machine>,
    compiler: OnceLock<std::result::Result<PluginCompiler, JitError>>,
}

impl Simulator {
    /// The devices of a new machine.
    pub(crate) fn all(options: Options, devices: u32) -> impl Iterator<Item = Self> {
        let machine = Arc::new(Machine::new(options, devices));
        (0..devices).map(move |ordinal| {
            let properties = Properties {
                ordinal,
                uuid: u128::to_ne_bytes(u128::from(machine.id) << 32 | u128::from(ordinal)),
                name: "simulated device".into(),
                capability: (9, 0),
                multiprocessors: 132,
                memory: 1 << 34,
                driver: 13_000,
                shareable: true,
                multicast: ordinal < options.multicast,
            };
            Self { properties, machine: Arc::clone(&machine), compiler: OnceLock::new() }
        })
    }

    fn called(&self, call: &'static str) -> Result<()> {
        self.machine.called(call)
    }

    /// Waits for all work of the device.
    fn finish_work(&self) -> Result<()> {
        self.machine.wait("cuCtxSynchronize", |queue, _| queue.device == self.properties.ordinal)
    }

    /// A number that no other device has, and that is not 0.
    fn number(&self) -> u64 {
        (self.machine.id << 8) | (u64::from(self.properties.ordinal) + 1)
    }

    fn add_multicast(&self, object: Multicast) -> Handle {
        let handle = self.machine.handle();
        self.machine.state().multicasts.insert(handle.0, Arc::new(object));
        handle
    }

    fn multicast(&self, call: &'static str, object: Handle) -> Result<Arc<Multicast>> {
        let object = self.machine.state().multicasts.get(&object.0).cloned();
        object.map_or_else(|| error(call, Code::InvalidValue, "no such multicast object"), Ok)
    }
}

// SAFETY: memory comes from the host's allocator, one piece for each call, aligned to 256 bytes, and zeroed where it is mapped.
unsafe impl Driver for Simulator {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn process(&self) -> u64 {
        self.machine.id
    }

    fn allocation(&self, address: u64) -> Result<Allocation> {
        self.called("cuMemGetAddressRange")?;
        self.called("cuPointerGetAttribute")?;
        let piece = self.machine.memory().piece(address);
        let found = piece.map(|(base, bytes, id)| Allocation { base, bytes, id });
        found.map_or_else(|| error("cuMemGetAddressRange", Code::InvalidValue, format!("{address:#x}")), Ok)
    }

    fn export(&self, base: u64) -> Result<Export> {
        const CALL: &str = "cuIpcGetMemHandle";
        self.called(CALL)?;
        let memory = self.machine.memory();
        let (Some((first, len, id)), Some(file)) = (memory.piece(base), memory.file(base)) else {
            return error(CALL, Code::InvalidValue, "no allocation of this process");
        };
        if first != base {
            return error(CALL, Code::InvalidValue, "not the first byte");
        }
        if self.machine.options.files || memory.is_shared(base) {
            let file = file.try_clone().or_else(|why| error(CALL, Code::Unknown, why.to_string()))?;
            return Ok(Export::File(file));
        }
        Ok(Export::Ipc(to_handle((std::process::id(), self.machine.id, id), file, len)))
    }

    fn import(&self, export: Export, bytes: u64) -> Result<Mapping> {
        const CALL: &str = "cuIpcOpenMemHandle";
        self.called(CALL)?;
        let (key, file, bytes, is_file) = match export {
            Export::Ipc(handle) => match from_handle(&handle) {
                Some((key, _, _)) if key.1 == self.machine.id => {
                    return error(CALL, Code::InvalidContext, "a handle of this process");
                }
                // A handle says how long its memory is.
                Some((key, file, bytes)) => (key, file, bytes, false),
                None => return error(CALL, Code::InvalidValue, "no such handle"),
            },
            Export::File(file) => ((0, 0, self.machine.handle().0 as u64), file, bytes, true),
        };
        let address = self.machine.memory().import(key, file.as_fd(), bytes, self.properties.ordinal);
        let import = address.map(|address| Mapping { address, bytes, is_file });
        import.map_or_else(|| error(CALL, Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn alloc_shared(&self, bytes: u64, peers: &[u32]) -> Result<Mapping> {
        const CALL: &str = "cuMemCreate";
        self.called(CALL)?;
        let Properties { ordinal, memory, .. } = self.properties;
        let bytes = bytes.max(1).checked_next_multiple_of(1 << 16).unwrap_or(bytes);
        let address = if bytes > memory { None } else { self.machine.memory().alloc_shared(bytes, ordinal, peers) };
        let mapping = address.map(|address| Mapping { address, bytes, is_file: true });
        mapping.map_or_else(|| error(CALL, Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn multicast_unit(&self, _: u32, _: u64) -> Result<u64> {
        self.called("cuMulticastGetGranularity")?;
        Ok(multicast::UNIT)
    }

    fn create_multicast(&self, devices: u32, bytes: u64) -> Result<Handle> {
        const CALL: &str = "cuMulticastCreate";
        self.called(CALL)?;
        if !self.properties.multicast || !bytes.is_multiple_of(multicast::UNIT) || bytes == 0 {
            return error(CALL, Code::InvalidValue, format!("{bytes} bytes"));
        }
        let object = Multicast::new(devices.into(), bytes);
        object.map_or_else(|| error(CALL, Code::OutOfMemory, "no file"), |object| Ok(self.add_multicast(object)))
    }

    fn export_multicast(&self, object: Handle) -> Result<OwnedFd> {
        const CALL: &str = "cuMemExportToShareableHandle";
        self.called(CALL)?;
        let file = self.multicast(CALL, object)?.file().try_clone();
        file.or_else(|why| error(CALL, Code::Unknown, why.to_string()))
    }

    fn import_multicast(&self, file: OwnedFd) -> Result<Handle> {
        const CALL: &str = "cuMemImportFromShareableHandle";
        self.called(CALL)?;
        let object = Multicast::open(file);
        object.map_or_else(|| error(CALL, Code::InvalidValue, "no object"), |object| Ok(self.add_multicast(object)))
    }

    fn join_multicast(&self, object: Handle) -> Result<()> {
        const CALL: &str = "cuMulticastAddDevice";
        self.called(CALL)?;
        let added = self.properties.multicast && self.multicast(CALL, object)?.add(self.number());
        if added { Ok(()) } else { error(CALL, Code::InvalidValue, "no room for this device") }
    }

    fn bind_multicast(&self, object: Handle, base: u64, bytes: u64) -> Result<()> {
        const CALL: &str = "cuMulticastBindMem";
        self.called(CALL)?;
        let object = self.multicast(CALL, object)?;
        let memory = self.machine.memory();
        let (Some((first, len, id)), Some(file)) = (memory.piece(base), memory.file(base)) else {
            return error(CALL, Code::InvalidValue, "no memory of this process");
        };
        if first != base || bytes > len || bytes > object.bytes() || !bytes.is_multiple_of(multicast::UNIT) {
            return error(CALL, Code::InvalidValue, format!("{bytes} bytes of {len}"));
        }
        if !memory.is_shared(base) {
            return error(CALL, Code::InvalidValue, "not made to be shared");
        }
        let handle = to_handle((std::process::id(), self.machine.id, id), file, len);
        if object.bind(self.number(), &handle) {
            Ok(())
        } else {
            error(CALL, Code::InvalidValue, "not all devices were added, or there is some memory already")
        }
    }

    fn unbind_multicast(&self, object: Handle, _: u64) -> Result<()> {
        const CALL: &str = "cuMulticastUnbind";
        self.called(CALL)?;
        let unbound = self.multicast(CALL, object)?.unbind(self.number());
        if unbound { Ok(()) } else { error(CALL, Code::InvalidValue, "nothing bound") }
    }

    fn map_multicast(&self, object: Handle, bytes: u64, peers: &[u32]) -> Result<u64> {
        const CALL: &str = "cuMemMap";
        self.called(CALL)?;
        let object = self.multicast(CALL, object)?;
        if bytes != object.bytes() {
            return error(CALL, Code::InvalidValue, format!("{bytes} bytes of {}", object.bytes()));
        }
        let devices = [self.properties.ordinal].iter().chain(peers).copied().collect();
        let address = self.machine.memory().map_multicast(object, self.machine.id, devices);
        address.map_or_else(|| error(CALL, Code::InvalidValue, "not all members have bound memory"), Ok)
    }

    fn unmap_multicast(&self, address: u64, _: u64) -> Result<()> {
        const CALL: &str = "cuMemUnmap";
        let done = self.finish_work();
        self.called(CALL)?;
        if !self.machine.memory().unmap_multicast(address) {
            return error(CALL, Code::InvalidValue, "not mapped");
        }
        done
    }

    fn release_multicast(&self, object: Handle) -> Result<()> {
        const CALL: &str = "cuMemRelease";
        self.called(CALL)?;
        let released = self.machine.state().multicasts.remove(&object.0);
        if released.is_some() { Ok(()) } else { error(CALL, Code::InvalidValue, "no such object") }
    }

    fn close(&self, import: Mapping) -> Result<()> {
        const CALL: &str = "cuIpcCloseMemHandle";
        let done = self.finish_work();
        self.called(CALL)?;
        let mut memory = self.machine.memory();
        if !memory.is_mapped(import.address) || !memory.free(import.address) {
            return error(CALL, Code::InvalidValue, "not mapped");
        }
        done
    }

    fn can_access(&self, _: u32) -> Result<bool> {
        self.called("cuDeviceCanAccessPeer")?;
        Ok(!self.machine.options.apart)
    }

    fn enable_access(&self, peer: u32) -> Result<()> {
        self.called("cuCtxEnablePeerAccess")?;
        self.machine.state().access.insert((self.properties.ordinal, peer));
        Ok(())
    }

    fn wait_idle(&self) -> Result<()> {
        self.called("cuCtxSynchronize")?;
        self.finish_work()
    }

    fn alloc(&self, bytes: u64) -> Result<u64> {
        self.called("cuMemAlloc")?;
        let Properties { ordinal, memory, .. } = self.properties;
        let address = if bytes > memory {
            None
        } else {
            self.machine.memory().alloc(bytes, Some(ordinal), self.machine.options.others)
        };
        address.map_or_else(|| error("cuMemAlloc", Code::OutOfMemory, format!("{bytes} bytes")), Ok)
    }

    fn free(&self, address: u64) -> Result<()> {
        // As the driver does, after all work.
        let done = self.finish_work();
        self.called("cuMemFree")?;
        let mut memory = self.machine.memory();
        if memory.is_mapped(address) || !memory.free(address) {
            return error("cuMemFree", Code::InvalidValue, "not allocated");
        }
        done
    }

    fn alloc_mapped(&self, bytes: u64) -> Result<Mapped> {
        self.called("cuMemHostAlloc")?;
        let address = self.machine.memory().alloc(bytes, None, false);
        address.map_or_else(
            || error("cuMemHostAlloc", Code::OutOfMemory, format!("{bytes} bytes")),
            |address| Ok(Mapped { host: address as usize, device: address }),
        )
    }

    fn free_mapped(&self, mapped: Mapped) -> Result<()> {
        let done = self.finish_work();
        self.called("cuMemFreeHost")?;
        if !self.machine.memory().free(mapped.device) {
            return error("cuMemFreeHost", Code::InvalidValue, "not allocated");
        }
        done
    }

    fn zero(&self, address: u64, bytes: u64) -> Result<()> {
        self.called("cuMemsetD8")?;
        self.machine.check("cuMemsetD8", address, bytes)?;
        let _held = self.machine.memory();
        // SAFETY: allocated, as just checked.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        Ok(())
    }

    fn upload(&self, to: u64, from: &[u8]) -> Result<()> {
        self.called("cuMemcpyHtoD")?;
        self.machine.check("cuMemcpyHtoD", to, from.len() as u64)?;
        let _held = self.machine.memory();
        // SAFETY: allocated, as just checked, and apart from a slice that the caller holds.
        unsafe { (to as *mut u8).copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    fn download(&self, to: &mut [u8], from: u64) -> Result<()> {
        self.called("cuMemcpyDtoH")?;
        self.machine.check("cuMemcpyDtoH", from, to.len() as u64)?;
        let _held = self.machine.memory();
        // SAFETY: as in `upload`.
        unsafe { to.as_mut_ptr().copy_from_nonoverlapping(from as *const u8, to.len()) };
        Ok(())
    }

    fn copy(&self, to: u64, from: u64, bytes: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuMemcpyAsync";
        self.called(CALL)?;
        self.machine.check(CALL, to, bytes)?;
        self.machine.check(CALL, from, bytes)?;
        self.machine.put(CALL, stream, Work::Copy { to, from, bytes })
    }

    fn zero_on(&self, to: u64, bytes: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuMemsetD8Async";
        self.called(CALL)?;
        self.machine.check(CALL, to, bytes)?;
        self.machine.put(CALL, stream, Work::Zero { to, bytes })
    }

    fn load(&self, name: &str, image: &[u8]) -> Result<Handle> {
        self.called("cuModuleLoadData")?;
        let module = match Plugin::is_one(image) {
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
        gone("cuModuleUnload", self.machine.state().modules.remove(&module.0))
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
        if let Some(Queue { recording: Some(recording), .. }) = self.machine.state().streams.get_mut(&stream.0) {
            recording.launches.push(launch);
            return Ok(());
        }
        self.machine.put("cuLaunchKernel", stream, Work::Launch(launch))
    }

    fn create_stream(&self) -> Result<Handle> {
        self.called("cuStreamCreate")?;
        let handle = self.machine.handle();
        let queue = Queue { device: self.properties.ordinal, ..Queue::default() };
        self.machine.state().streams.insert(handle.0, queue);
        Ok(handle)
    }

    fn destroy_stream(&self, stream: Handle) -> Result<()> {
        // What was put on it is still done.
        let done = self.machine.wait("cuStreamDestroy", |_, handle| handle == stream.0);
        self.called("cuStreamDestroy")?;
        gone("cuStreamDestroy", self.machine.state().streams.remove(&stream.0))?;
        done
    }

    fn synchronize(&self, stream: Handle) -> Result<()> {
        self.called("cuStreamSynchronize")?;
        self.machine.spoil("cuStreamSynchronize", |handle, _| handle == stream.0)?;
        self.machine.wait("cuStreamSynchronize", |_, handle| handle == stream.0)
    }

    fn is_capturing(&self, stream: Handle) -> Result<bool> {
        self.called("cuStreamIsCapturing")?;
        Ok(self.machine.state().streams.get(&stream.0).is_some_and(|queue| queue.recording.is_some()))
    }

    fn begin_capture(&self, stream: Handle) -> Result<()> {
        self.called("cuStreamBeginCapture")?;
        if let Some(queue) = self.machine.state().streams.get_mut(&stream.0) {
            queue.recording = Some(Recording::begin());
        }
        Ok(())
    }

    fn end_capture(&self, stream: Handle) -> Result<Handle> {
        let recorded = self.machine.state().streams.get_mut(&stream.0).and_then(|queue| queue.recording.take());
        self.called("cuStreamEndCapture")?;
        let launches = recorded.map_or_else(|| Ok(Vec::new()), Recording::end)?;
        let handle = self.machine.handle();
        self.machine.state().graphs.insert(handle.0, launches);
        Ok(handle)
    }

    fn launch_graph(&self, graph: Handle, stream: Handle) -> Result<()> {
        self.called("cuGraphLaunch")?;
        let Some(launches) = self.machine.state().graphs.get(&graph.0).cloned() else {
            return error("cuGraphLaunch", Code::InvalidValue, "no such graph");
        };
        launches.into_iter().try_for_each(|launch| self.machine.put("cuGraphLaunch", stream, Work::Launch(launch)))
    }

    fn destroy_graph(&self, graph: Handle) -> Result<()> {
        self.called("cuGraphExecDestroy")?;
        gone("cuGraphExecDestroy", self.machine.state().graphs.remove(&graph.0))
    }

    fn create_event(&self) -> Result<Handle> {
        self.called("cuEventCreate")?;
        let handle = self.machine.handle();
        self.machine.state().events.insert(handle.0, Default::default());
        Ok(handle)
    }

    fn record(&self, event: Handle, stream: Handle) -> Result<()> {
        self.called("cuEventRecord")?;
        self.machine.state().check_event("cuEventRecord", event)?;
        self.machine.record(event, stream)
    }

    fn wait_event(&self, stream: Handle, event: Handle) -> Result<()> {
        self.called("cuStreamWaitEvent")?;
        self.machine.state().check_event("cuStreamWaitEvent", event)?;
        self.machine.wait_event(stream, event)
    }

    fn write_value(&self, to: u64, value: u64, stream: Handle) -> Result<()> {
        const CALL: &str = "cuStreamWriteValue64";
        self.called(CALL)?;
        self.machine.check(CALL, to, 8)?;
        self.machine.put(CALL, stream, Work::Store { to, value })
    }

    fn is_done(&self, event: Handle) -> Result<bool> {
        self.called("cuEventQuery")?;
        self.machine.state().check_event("cuEventQuery", event)?;
        Ok(self.machine.is_done(event))
    }

    fn elapsed_us(&self, _: Handle, _: Handle) -> Result<f64> {
        self.called("cuEventElapsedTime")?;
        Ok(0.0)
    }

    fn destroy_event(&self, event: Handle) -> Result<()> {
        self.called("cuEventDestroy")?;
        self.machine.destroy_event(event)
    }

    fn compiler(&self) -> std::result::Result<&dyn Compiler, JitError> {
        let new = || PluginCompiler::new(self.machine.options.bug);
        let compiler = self.compiler.get_or_init(new).as_ref();
        compiler.map(|compiler| compiler as &dyn Compiler).map_err(Clone::clone)
    }

    fn enter_helper_thread(&self) -> Result<()> {
        self.machine.state().helped = true;
        self.called("cuThreadExchangeStreamCaptureMode")
    }
}

/// Refuses to give back what is not there.
fn gone<T>(call: &'static str, found: Option<T>) -> Result<()> {
    match found {
        Some(_) => Ok(()),
        None => error(call, Code::InvalidHandle, "no such handle"),
    }
}

/// Whether there are kernels with a bug.
fn is_in_kernels(bug: &str) -> bool {
    crate::bugs().chain(crate::switch_bugs()).any(|known| known == bug && bug != A_MEMBER_LEFT_OUT)
}
