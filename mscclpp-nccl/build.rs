//! Sets the library's name to that of NCCL: the loader returns a library that is loaded already under that name, so that a
//! preloaded one serves programs and extensions that load NCCL by its name.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl.so.2");
    }
}
