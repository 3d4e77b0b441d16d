//! Compiles the kernels for the simulator, if there is a C++ compiler.

use std::path::Path;
use std::process::Command;

/// The kernels of every data type and accumulator: name, element, accumulator.
fn types() -> impl Iterator<Item = [&'static str; 3]> {
    let line = |line: &'static str| {
        let mut words = line.split(' ');
        std::array::from_fn(|_| words.next().expect("three words"))
    };
    include_str!("../kernels/types").lines().map(line)
}

/// Bugs that tests inject into the device code and must detect: name, file, original text, replacement.
const BUGS: &[(&str, &str, &str, &str)] = &[
    (
        "relaxed_signal",
        "channel.h",
        "else add_release_sys(counter, 1);\n  } else {\n    if (relaxed) add_relaxed_gpu(counter, 1);\n    else add_release_gpu(counter, 1);",
        "else add_relaxed_sys(counter, 1);\n  } else {\n    add_relaxed_gpu(counter, 1);",
    ),
    (
        "relaxed_signal_within_a_device",
        "channel.h",
        "else add_release_gpu(counter, 1);",
        "else add_relaxed_gpu(counter, 1);",
    ),
    ("no_block_sync", "executor.h", "case Opcode::kNop: return dev_sync();", "case Opcode::kNop: return;"),
    (
        "no_sync_after_barrier",
        "channel.h",
        "WaitKind::kBarrier, id.number);\n  }\n  dev_sync();",
        "WaitKind::kBarrier, id.number);\n  }",
    ),
    (
        "wait_for_one_less",
        "channel.h",
        "static_cast<int64_t>(seen - expected) >= 0",
        "static_cast<int64_t>(seen - expected) >= -1",
    ),
    ("wrong_tail", "copy.h", "rest != 0 && v == vectors", "rest > 12 && v == vectors"),
    ("wrong_tail_of_sums", "reduce.h", "for (; i < end; i +=", "for (; i + 12 < end; i +="),
    ("stale_flag", "load_cache.h", "return static_cast<uint32_t>(sequence % 0xffffffffull) + 1;", "return 1;"),
    ("same_sequence", "executor.h", "cache().block, cache().sequence + 1", "cache().block, cache().sequence"),
    (
        "uneven_slices",
        "operand.h",
        "begin = index * each + (index < more ? index : more);",
        "begin = index * each + index;",
    ),
    (
        "signal_before_data",
        "channel.h",
        "for (uint64_t done = 0; done < len && !cache().failed;) {",
        "if (instr.flags & kFlagThenSignal) {\n      push_trigger(launch, fifo, 0, 0, 0, id_at(launch, instr.first_id + i).counter);\n    }\n    for (uint64_t done = 0; done < len && !cache().failed;) {",
    ),
    (
        "counts_of_the_other_direction",
        "counts.h",
        "instr.count * area.ranks + instr.body",
        "instr.body * area.ranks + instr.count",
    ),
    ("parts_at_the_beginning", "counts.h", "rank * ranks + peer, sum);", "rank * ranks + peer, 0);"),
    ("limit_of_counts_not_compared", "counts.h", "exceeds |= count > most;", ""),
    (
        "counts_not_awaited",
        "counts.h",
        "await_counter(launch, area_of(launch, rank).row(sequence, peer), expected, WaitKind::kCounts, peer);",
        "",
    ),
    (
        "partial_sums_not_awaited",
        "row_norm.h",
        "RowPartials& own = row_partials();\n  dev_sync();",
        "RowPartials& own = row_partials();",
    ),
    (
        "residual_of_the_first_row",
        "row_norm.h",
        "return place.number * row_state().params.row;",
        "return 0 * place.number;",
    ),
];

/// Bugs of switch channels with multicast objects, in the same form.
const SWITCH_BUGS: &[(&str, &str, &str, &str)] = &[
    ("no_tail_on_switches", "switch.h", "if (i < end) reduce_unaligned", "if (i + 12 < end) reduce_unaligned"),
    ("every_other_vector_on_switches", "switch.h", "i += kUnroll * step)", "i += 2 * kUnroll * step)"),
    (
        "packets_of_the_last_launch_on_switches",
        "switch.h",
        "const uint32_t flag = cache().flag;",
        "const uint32_t flag = cache().flag - 1;",
    ),
];

/// Bugs of launch barriers, in the same form. In these barriers the first thread block of a device waits for the other
/// devices: at the beginning after it has signaled, at the end as its last operation.
const BARRIER_BUGS: &[(&str, &str, &str, &str)] = &[
    (
        "no_wait_at_the_beginning",
        "executor.h",
        "case Opcode::kWait: await_signal(launch, id); break;",
        "case Opcode::kWait:\n        if (pc() == cache().own.first + 1) break;\n        \
         await_signal(launch, id);\n        break;",
    ),
    (
        "no_wait_at_the_end",
        "executor.h",
        "case Opcode::kWait: await_signal(launch, id); break;",
        "case Opcode::kWait:\n        if (pc() + 1 == cache().own.end) break;\n        await_signal(launch, id);\n        break;",
    ),
];

/// A bug of the simulated switch itself.
const OMITTED_MEMBER: &str = "a_member_left_out";

/// Bugs of specialized kernels, in the same form, which are compiled when a test requests them.
const SPECIALIZED_BUGS: &[(&str, &str, &str, &str)] = &[
    ("short_copies", "specialized.h", "+ bytes.at, bytes.len, 0);", "+ bytes.at, bytes.len - bytes.len / 2, 0);"),
    ("a_vector_too_few", "specialized.h", "for (; at < end; at += step) {", "for (; at + 16 < end; at += step) {"),
    ("packets_not_awaited", "copy.h", "if (missing == kCount) return true;", "return true;"),
    ("a_packet_too_few_awaited", "copy.h", "seen)) missing = n;", "seen) && n != 0) missing = n;"),
    (
        "a_source_not_looked_at",
        "specialized.h",
        "poll_packets(payload, mask,",
        "poll_packets(payload, mask & (mask - 1),",
    ),
    ("flags_of_the_first_launch", "load_cache.h", "c.flag = flag_of(sequence);", "c.flag = 1;"),
];

/// Bugs of specialized kernels that are visible in the kernels' accesses, but not necessarily in results.
const ACCESS_BUGS: &[(&str, &str, &str, &str)] = &[
    (
        "reads_of_other_threads",
        "specialized.h",
        "+ bytes.at, bytes.len, 0);",
        "+ bytes.at, bytes.len, 0);\n    if (bytes.len >= 16) load16(cache().heads[first + i] + bytes.at);",
    ),
    (
        "stores_of_other_threads",
        "specialized.h",
        "+ bytes.at, bytes.len, 0);",
        "+ bytes.at, bytes.len, 0);\n    if (bytes.len >= 16) {\n      store16(cache().heads[first + kPairs + i] + bytes.at, \
         load16(cache().heads[first + i] + bytes.at));\n    }",
    ),
    (
        "sources_read_again",
        "specialized.h",
        "data[i][v] = load16(from[i] + v * step);",
        "load16(cache().heads[first]), data[i][v] = load16(from[i] + v * step);",
    ),
    ("relaxed_signals", "channel.h", "else add_release_gpu(counter, 1);", "else add_relaxed_gpu(counter, 1);"),
    (
        "waits_left_out",
        "executor.h",
        "case Opcode::kWait: await_signal(launch, id); break;",
        "case Opcode::kWait: break;",
    ),
    (
        "blocks_unsynced_after_barriers",
        "channel.h",
        "WaitKind::kBarrier, id.number);\n  }\n  dev_sync();",
        "WaitKind::kBarrier, id.number);\n  }",
    ),
];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(simulator)");
    let sources = std::fs::canonicalize("../kernels").expect("the device code");
    for file in std::fs::read_dir(&sources).expect("a folder").chain(std::fs::read_dir("sim").expect("the simulator")) {
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
    println!("cargo::rustc-env=SIM_COMPILER={}", compiler.path().display());
    // One object for each type, from copies of the source, since objects are named after their sources.
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    println!("cargo::rustc-env=SIM_SOURCES={}", sources.display());
    let compiler = |level: u32| {
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").warnings(false).define("DEV_SIM", None).include(&sources).include(".");
        build.opt_level(level).flag("-ffp-contract=off").flag_if_supported("-Wno-unknown-pragmas");
        build
    };
    // Kernels spend most of their time in the simulator, and each further level takes half as long again to compile all of them.
    let mut kernels = compiler(1);
    let mut names = Vec::new();
    let mut module = |name: String, element: &str, accumulator: &str, source: &Path| {
        let path = Path::new(&out).join(format!("{name}.cc"));
        // Each in a separate namespace: they have functions of the same names.
        let text = format!(
            "#include <cstddef>\n#include <cstdint>\n#define MSCCLPP_T {element}\n#define MSCCLPP_A {accumulator}\n\
             #define SIM_TABLE sim_kernels_{name}\nnamespace sim_{name} {{\n#include \"{}\"\n}}\n",
            source.join("executor.cu").display()
        );
        std::fs::write(&path, text).expect("OUT_DIR can be written");
        kernels.file(path);
        names.push(name);
    };
    for [name, element, accumulator] in types() {
        module(name.to_owned(), element, accumulator, &sources);
    }
    for (name, file, from, to) in BUGS.iter().chain(SWITCH_BUGS).chain(BARRIER_BUGS) {
        let folder = Path::new(&out).join("bugs").join(name);
        copy_with_bug(&sources, &folder, file, from, to);
        module(format!("f32_with_{name}"), "float", "float", &folder);
    }
    for (name, file, from, to) in SPECIALIZED_BUGS.iter().chain(ACCESS_BUGS) {
        copy_with_bug(&sources, &Path::new(&out).join("bugs").join(name), file, from, to);
    }
    let specialized: Vec<&str> = SPECIALIZED_BUGS.iter().map(|(name, ..)| *name).collect();
    println!("cargo::rustc-env=SIM_SPECIALIZED_BUGS={}", specialized.join(","));
    let accesses: Vec<&str> = ACCESS_BUGS.iter().map(|(name, ..)| *name).collect();
    println!("cargo::rustc-env=SIM_ACCESS_BUGS={}", accesses.join(","));
    let barriers: Vec<&str> = BARRIER_BUGS.iter().map(|(name, ..)| *name).collect();
    println!("cargo::rustc-env=SIM_BARRIER_BUGS={}", barriers.join(","));
    let switches = SWITCH_BUGS.iter().map(|(name, ..)| *name).chain([OMITTED_MEMBER]);
    println!("cargo::rustc-env=SIM_SWITCH_BUGS={}", switches.collect::<Vec<_>>().join(","));
    println!("cargo::rustc-env=SIM_BUGS={}", BUGS.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(","));
    let table: String = names
        .iter()
        .map(|name| format!("extern \"C\" const SimKernel sim_kernels_{name}[];\n"))
        .chain(["extern \"C\" const SimModule sim_modules[] = {\n".to_owned()])
        .chain(names.iter().map(|name| format!("  {{\"{name}\", sim_kernels_{name}}},\n")))
        .chain(["  {nullptr, nullptr},\n};\n".to_owned()])
        .collect();
    let modules = Path::new(&out).join("modules.cc");
    std::fs::write(&modules, format!("#include \"dev.h\"\n{table}")).expect("OUT_DIR can be written");
    kernels.file(modules).compile("mscclpp_sim_kernels");
    compiler(2).file("sim/memory.cc").compile("mscclpp_sim");
}

/// Copies the device code with one replacement.
fn copy_with_bug(sources: &Path, folder: &Path, file: &str, from: &str, to: &str) {
    std::fs::create_dir_all(folder.join("sim")).expect("OUT_DIR can be written");
    for name in std::fs::read_dir(sources).expect("the device code").map(|entry| entry.expect("a file").path()) {
        let Some(name) = name.file_name().and_then(|name| name.to_str()) else { continue };
        if !name.ends_with(".h") && !name.ends_with(".cu") {
            continue;
        }
        let mut text = std::fs::read_to_string(sources.join(name)).expect("it can be read");
        if name == file {
            assert!(
                text.matches(from).count() == 1,
                "{file} has {} places `{from}`, expected one",
                text.matches(from).count()
            );
            text = text.replace(from, to);
        }
        std::fs::write(folder.join(name), text).expect("OUT_DIR can be written");
    }
    for header in ["sim/dev_sim.h", "sim/dev_threads.h", "sim/half.h"] {
        std::fs::copy(header, folder.join(header)).expect("OUT_DIR can be written");
    }
}
