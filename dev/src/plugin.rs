//! Kernels that are compiled while the simulator runs: a shared object for each source, by the compiler that built this
//! crate.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use libloading::Library;
use mscclpp_exec::cuda::jit::{Compiler, Image, JitError, Source};

use crate::KernelProperties;
use crate::launch::sim_step;
use crate::native::{self, SimHost, SimKernel};
use crate::trace::{Trace, TracedObject};

/// A shared object with kernels.
pub(crate) struct Plugin {
    library: Library,
}

impl Plugin {
    /// Returns whether an image is a plugin; prebuilt images for devices are not.
    pub(crate) fn is_plugin(image: &[u8]) -> bool {
        image.starts_with(b"\x7fELF")
    }

    /// Loads an image that [`PluginCompiler`] made.
    pub(crate) fn load(image: &[u8]) -> Result<Self, String> {
        let mut file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        file.write_all(image).map_err(|error| error.to_string())?;
        // Closed, because a file that is open for writing cannot be loaded on every system. The object stays loaded
        // when the file is removed.
        let path = file.into_temp_path();
        // SAFETY: it has no initializers except those of constants.
        let library = unsafe { Library::new(&*path) }.map_err(|error| error.to_string())?;
        // SAFETY: declared with these types in `sim/dev_sim.h`, and the functions live as long as the program.
        unsafe {
            let attach = library.get::<unsafe extern "C" fn(*const SimHost)>(b"sim_attach\0");
            attach.map_err(|error| error.to_string())?(&raw const native::sim_functions);
            // Only in objects that are traced.
            if let Ok(step) = library.get::<*mut Option<unsafe extern "C" fn(u64)>>(b"sim_step\0") {
                **step = Some(sim_step);
            }
        }
        Ok(Self { library })
    }

    /// Returns a kernel; null if there is none.
    pub(crate) fn kernel(&self, name: &str) -> *const SimKernel {
        let symbol = format!("sim_kernel_{name}\0");
        // SAFETY: declared with this type in `sim/dev_sim.h`; used only while the module is loaded.
        if let Ok(kernel) = unsafe { self.library.get::<*const SimKernel>(symbol.as_bytes()) } {
            return *kernel;
        }
        // The interpreter's kernels are in a table, as in this crate. SAFETY: as above; a kernel without a name ends
        // the table.
        unsafe {
            let Ok(table) = self.library.get::<*const SimKernel>(b"sim_table\0") else { return std::ptr::null() };
            let mut kernel = *table;
            while let Some(found) = (*kernel).name() {
                if found.to_bytes() == name.as_bytes() {
                    return kernel;
                }
                kernel = kernel.add(1);
            }
        }
        std::ptr::null()
    }

    /// Returns what launches of a kernel depend on; `None` if there is no such kernel.
    pub(crate) fn properties(&self, name: &str) -> Option<KernelProperties> {
        // SAFETY: null, or a constant of the library, which is loaded.
        let kernel = unsafe { self.kernel(name).as_ref() }?;
        Some(KernelProperties { argument: kernel.bytes, has_all_threads: kernel.has_all_threads })
    }
}

/// The C++ compiler that this crate was built with.
pub(crate) struct PluginCompiler {
    identity: String,
    bug: Option<&'static str>,
    trace: Option<&'static Trace>,
}

/// The simulator's part of the device code.
const SIMULATOR: &str = include_str!("../sim/dev_sim.h");
const HALVES: &str = include_str!("../sim/half.h");

/// What reports the basic blocks of a kernel that is traced, and the options of the compiler for it: lines are attributed exactly, and no
/// function is inlined.
const TRACER: &str = include_str!("../sim/trace.h");
const TRACED: [&str; 3] = ["-O0", "-g", "-fsanitize-coverage=trace-pc"];

/// Name of the table of the interpreter's kernels, which `executor.cu` has.
const TABLE: &str = "-DSIM_TABLE=__attribute__((visibility(\"default\"))) sim_table";

impl PluginCompiler {
    /// Creates a compiler. `bug`: the bug to inject into the device code's headers, if it is one of theirs. `trace`: to which kernels report
    /// the basic blocks that they enter.
    pub(crate) fn new(bug: Option<&'static str>, trace: Option<&'static Trace>) -> Result<Self, JitError> {
        let version = Command::new(env!("SIM_COMPILER")).arg("--version").output();
        let version = version.map_err(|error| call("--version", &error))?.stdout;
        let version = String::from_utf8_lossy(&version).lines().next().unwrap_or_default().to_owned();
        let bug = bug.filter(|bug| crate::specialized_bugs().chain(crate::access_bugs()).any(|known| known == *bug));
        let identity = format!(
            "{version} for the simulator, planted {bug:?}, traced: {}\n{SIMULATOR}{HALVES}{TABLE}",
            trace.is_some()
        );
        Ok(Self { identity, bug, trace })
    }
}

fn call(call: &'static str, error: &std::io::Error) -> JitError {
    JitError::Call { call, code: error.raw_os_error().unwrap_or(0), text: error.to_string() }
}

impl Compiler for PluginCompiler {
    fn identity(&self) -> &str {
        &self.identity
    }

    fn compile(&self, source: &Source) -> Result<Image, JitError> {
        let folder = tempfile::tempdir().map_err(|error| call("mkdtemp", &error))?;
        let write = |name: &str, text: &str| -> std::io::Result<()> {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap_or(Path::new(".")))?;
            fs::write(path, text)
        };
        let write = |name: &str, text: &str| write(name, text).map_err(|error| call("write", &error));
        // As with NVRTC, the first header of a name is the one that is used.
        for (name, text) in source.headers().collect::<Vec<_>>().into_iter().rev() {
            // `build.rs` has written modified copies of the headers there.
            let with_bug = self.bug.map(|bug| Path::new(env!("OUT_DIR")).join("bugs").join(bug).join(name));
            let text = with_bug.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_else(|| text.to_owned());
            write(name, &text)?;
        }
        write("sim/dev_sim.h", SIMULATOR)?;
        write("sim/half.h", HALVES)?;
        match self.trace {
            None => write(source.name(), source.text())?,
            Some(_) => {
                write("sim/trace.h", TRACER)?;
                write(source.name(), &format!("{}\n#include \"sim/trace.h\"\n", source.text()))?;
            }
        }
        let mut command = Command::new(env!("SIM_COMPILER"));
        command.current_dir(folder.path()).args(["-std=c++17", "-shared", "-fPIC", "-O1", "-w", "-ffp-contract=off"]);
        command.args(["-fvisibility=hidden", "-DDEV_SIM", "-DSIM_PLUGIN", "-I."]);
        command.arg(TABLE);
        command.args(self.trace.iter().flat_map(|_| TRACED));
        command.args(source.defines().iter().map(|(name, value)| format!("-D{name}={value}")));
        command.args(["-o", "plugin.so", "-x", "c++", source.name()]);
        let output = command.output().map_err(|error| call("the C++ compiler", &error))?;
        let log = String::from_utf8_lossy(&output.stderr).trim_end().to_owned();
        if !output.status.success() {
            let (name, target) = (source.name().to_owned(), "the simulator".to_owned());
            return Err(JitError::Source { name, target, log });
        }
        let code = fs::read(folder.path().join("plugin.so")).map_err(|error| call("read", &error))?;
        if let Some(trace) = self.trace {
            let (name, text) = (source.name().to_owned(), source.text().to_owned());
            trace.add(TracedObject { name, text, defines: source.defines().to_vec(), code: code.clone() });
        }
        Ok(Image { code, log })
    }
}
