//! Sets the library's name to the one that programs request, and gives its functions the version of that name, which programs
//! request as well.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // Only GNU's linker has the option for versions.
        for argument in ["-fuse-ld=bfd", "-Wl,-soname,libcudart.so.13", "-Wl,--default-symver"] {
            println!("cargo::rustc-cdylib-link-arg={argument}");
        }
    }
}
