//! Plans from Python: scripts in `tests/python` and `examples`, on the extension module as it is built here. Where Python, PyTorch
//! or what a script compares with is missing, its tests are ignored, and the reason is printed.

mod jobs;
mod package;
mod scripts;

// Python processes that start fast.
#[path = "../common/preload.rs"]
mod preload;
// How many tests run at a time.
#[path = "../../../mscclpp-exec/tests/common/arguments.rs"]
mod arguments;
// Ports that are otherwise unused.
#[path = "../../../mscclpp-exec/tests/common/port.rs"]
mod port;

fn main() {
    let arguments = arguments::arguments();
    libtest_mimic::run(&arguments, scripts::tests(arguments.list)).exit();
}
