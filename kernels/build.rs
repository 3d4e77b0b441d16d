//! Compiles the kernels for the simulator, if there is a C++ compiler.

use std::path::Path;
use std::process::Command;

/// The kernels of every data type and accumulator, as in `build.sh`.
const TYPES: &[(&str, &str, &str)] = &[
    ("i8", "int8_t", "int8_t"),
    ("u8", "uint8_t", "uint8_t"),
    ("i32", "int32_t", "int32_t"),
    ("u32", "uint32_t", "uint32_t"),
    ("i64", "int64_t", "int64_t"),
    ("u64", "uint64_t", "uint64_t"),
    ("f32", "float", "float"),
    ("f32_f64", "float", "double"),
    ("f64", "double", "double"),
    ("f16", "F16", "F16"),
    ("f16_f32", "F16", "float"),
    ("f16_f64", "F16", "double"),
    ("bf16", "BF16", "BF16"),
    ("bf16_f32", "BF16", "float"),
    ("bf16_f64", "BF16", "double"),
    ("f8e4m3", "E4M3", "E4M3"),
    ("f8e4m3_f32", "E4M3", "float"),
    ("f8e4m3_f64", "E4M3", "double"),
    ("f8e5m2", "E5M2", "E5M2"),
    ("f8e5m2_f32", "E5M2", "float"),
    ("f8e5m2_f64", "E5M2", "double"),
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(simulator)");
    for file in std::fs::read_dir(".").expect("this folder").chain(std::fs::read_dir("sim").expect("the simulator")) {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| ["h", "cu", "cc"].iter().any(|known| extension == *known)) {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    let compiler = cc::Build::new().cpp(true).get_compiler();
    if Command::new(compiler.path()).arg("--version").output().is_err() {
        println!("cargo::warning=no C++ compiler ({}): the simulator's tests are ignored", compiler.path().display());
        return;
    }
    println!("cargo::rustc-cfg=simulator");
    // One object for each type, from copies of the source, since objects are named after their sources.
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let mut build = cc::Build::new();
    for (name, element, accumulator) in TYPES {
        let path = Path::new(&out).join(format!("{name}.cc"));
        let text = format!(
            "#define MSCCLPP_T {element}\n#define MSCCLPP_A {accumulator}\n#define MSCCLPP_NAME \"{name}\"\n\
             #define SIM_TABLE sim_kernels_{name}\n#include \"executor.cu\"\n"
        );
        std::fs::write(&path, text).expect("OUT_DIR can be written");
        build.file(path);
    }
    let table: String = TYPES
        .iter()
        .map(|(name, ..)| format!("extern \"C\" const SimKernel sim_kernels_{name}[];\n"))
        .chain(["extern \"C\" const SimModule sim_modules[] = {\n".to_owned()])
        .chain(TYPES.iter().map(|(name, ..)| format!("  {{\"{name}\", sim_kernels_{name}}},\n")))
        .chain(["  {nullptr, nullptr},\n};\n".to_owned()])
        .collect();
    let modules = Path::new(&out).join("modules.cc");
    std::fs::write(&modules, format!("#include \"dev.h\"\n{table}")).expect("OUT_DIR can be written");
    build
        .cpp(true)
        .std("c++17")
        .define("DEV_SIM", None)
        .include(&here)
        .include(Path::new(&here).join("sim"))
        .file(modules)
        .file("sim/memory.cc")
        // A debug build's own level would make every run several times slower.
        .opt_level(2)
        .flag("-ffp-contract=off")
        .flag_if_supported("-Wno-unknown-pragmas")
        .compile("mscclpp_sim");
}
