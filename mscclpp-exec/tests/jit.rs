//! Device code compiled at run time. The tests need NVRTC (found by the loader, or at the path in `MSCCLPP_NVRTC`);
//! without it they are ignored, and the reason is printed. They need no device.

use std::fs;
use std::time::Instant;

use libtest_mimic::{Arguments, Failed, Trial};
use mscclpp_algorithms as algorithms;
use mscclpp_core::diag::Code;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::jit::{Cache, Compiler, Image, JitError, Nvrtc, Source, compile};
use mscclpp_exec::cuda::{NotSpecialized, specialized_source};
use mscclpp_exec::{AccumType, DataType, Error, Message};

/// Compute capabilities of data-center devices: A100, H100 and H200, B200.
const DEVICES: [(u32, u32); 3] = [(8, 0), (9, 0), (10, 0)];

const ADD: &str = "#include \"number.h\"\nextern \"C\" __global__ void add(int* to) {\n  *to += STEP;\n}\n";

fn main() {
    let arguments = Arguments::from_args();
    let missing = Nvrtc::new(DEVICES[1]).err();
    match &missing {
        None => println!("nvrtc: found"),
        Some(reason) => println!("nvrtc: ignored: {reason}"),
    }
    type Test = (&'static str, fn() -> Result<(), Failed>);
    let tests: [Test; 9] = [
        ("the_example_compiles", the_example_compiles),
        ("specialized_plans_compile", specialized_plans_compile),
        ("specialized_switches_compile", specialized_switches_compile),
        ("the_interpreter_compiles", the_interpreter_compiles),
        ("messages_name_file_and_line", messages_name_file_and_line),
        ("what_was_compiled_is_kept", what_was_compiled_is_kept),
        ("damaged_files_are_compiled_again", damaged_files_are_compiled_again),
        ("headers_and_macros_are_seen", headers_and_macros_are_seen),
        ("options_that_nobody_knows_are_said", options_that_nobody_knows_are_said),
    ];
    let with =
        tests.map(|(name, test)| Trial::test(format!("nvrtc::{name}"), test).with_ignored_flag(missing.is_some()));
    let always = Trial::test("there_is_a_compiler_or_a_reason", there_is_a_compiler_or_a_reason);
    libtest_mimic::run(&arguments, with.into_iter().chain([always]).collect()).exit();
}

fn there_is_a_compiler_or_a_reason() -> Result<(), Failed> {
    let error = match Nvrtc::new(DEVICES[1]) {
        Ok(_) => Nvrtc::new((3, 0)).err().ok_or("a device of before CUDA 5 is none that NVRTC knows")?,
        Err(error) => error,
    };
    let text = error.to_string();
    assert!(text.contains("NVRTC") && text.contains("nstall") || text.contains("MSCCLPP_NVRTC"), "{text}");
    assert_eq!(Error::from(error).code(), Code::NotCompiled);
    Ok(())
}

/// Compiles without a cache.
fn image(compiler: &Nvrtc, source: &Source) -> Result<Image, JitError> {
    compile(compiler, &Cache::NONE, source)
}

fn the_interpreter_compiles() -> Result<(), Failed> {
    for device in DEVICES {
        let compiler = Nvrtc::new(device)?;
        for dtype in [DataType::F32, DataType::BF16, DataType::U8] {
            let source = Source::executor(dtype, AccumType::Native).ok_or("a type accumulates as itself")?;
            let image = image(&compiler, &source)?;
            assert_eq!(image.code[..4], *b"\x7fELF", "machine code");
            let used = image.log.lines().skip_while(|line| !line.contains("'mscclpp_execute'"));
            let used = used.map(str::trim).find(|line| line.contains("Used ")).ok_or("registers are told")?;
            println!("{} {dtype}: {used}", compiler.identity());
            let registers = used.split_whitespace().skip_while(|word| *word != "Used").nth(1).ok_or("a number")?;
            assert!(registers.parse::<u32>()? <= 64, "1024 threads need them");
        }
    }
    Ok(())
}

fn the_example_compiles() -> Result<(), Failed> {
    for device in DEVICES {
        let text = include_str!("../../examples/cuda/native_allreduce.cu");
        let found = image(&Nvrtc::new(device)?, &Source::new("native_allreduce.cu", text))?;
        assert!(found.log.contains("'native_allreduce'"), "{}", found.log);
    }
    Ok(())
}

/// Types and accumulators that need most of a kernel's registers, each for a different reason.
const TYPES: [(DataType, AccumType); 5] = [
    (DataType::F32, AccumType::Native),
    (DataType::BF16, AccumType::Native),
    (DataType::BF16, AccumType::F32),
    (DataType::U8, AccumType::Native),
    (DataType::F8E4M3, AccumType::Native),
];

/// Returns the registers of a thread: a multiprocessor has 65 536 for 1 024 threads, or for 512 that combine in a wider
/// type.
fn registers_of(accumulate: AccumType) -> u32 {
    if accumulate == AccumType::Native { 64 } else { 128 }
}

/// Compiles an algorithm of each kind in these types, and a sample of the others; all on all devices if `MSCCLPP_ALL` is
/// set. The sample is fixed, so that its result depends on the code alone.
fn specialized_plans_compile() -> Result<(), Failed> {
    const KINDS: [&str; 7] = [
        "allreduce_packets",
        "allreduce_one_shot_packets",
        "allreduce_all_pairs",
        "allreduce_ring",
        "allreduce_switch",
        "allreduce_switch_packets",
        "allgather_ring_ports",
    ];
    const SAMPLE: usize = 19;
    let all = std::env::var_os("MSCCLPP_ALL").is_some();
    for (number, algorithm) in algorithms::all().iter().enumerate() {
        let kind = KINDS.iter().position(|name| *name == algorithm.name());
        if !all && kind.is_none() && number % 12 != SAMPLE % 12 {
            continue;
        }
        let Some(&(ranks, node)) = [(8, 8), (8, 4)].iter().find(|&&(ranks, node)| algorithm.supports(ranks, node))
        else {
            continue;
        };
        let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(ranks, node), &algorithm.arguments([])?)?);
        for (at, (dtype, accumulate)) in TYPES.into_iter().enumerate() {
            if !all && kind.is_none() && at != SAMPLE % TYPES.len() {
                continue;
            }
            let message = Message::new(dtype, 8 << 10).accumulate(accumulate).any_size();
            let source = match specialized_source(&plan, message) {
                Err(NotSpecialized::TooLarge { .. }) => continue,
                source => source?.0,
            };
            for (turn, device) in DEVICES.into_iter().enumerate() {
                let is_sampled = (turn + at + number + SAMPLE).is_multiple_of(DEVICES.len());
                // Elements that are converted by calls come closest to the limit, on different devices.
                if all || is_sampled || kind.is_some() && dtype == DataType::F8E4M3 {
                    let name = format!("{} {dtype} in {accumulate}", algorithm.name());
                    fits(device, &name, &source, registers_of(accumulate))?;
                }
            }
        }
    }
    Ok(())
}

/// Reductions that may go through a switch use its instructions on devices with multicast objects; here the source is
/// requested explicitly.
fn specialized_switches_compile() -> Result<(), Failed> {
    let algorithm = algorithms::find("allreduce_switch").ok_or("no such algorithm")?;
    let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(8, 8), &algorithm.arguments([])?)?);
    for (dtype, accumulate) in TYPES {
        let message = Message::new(dtype, 8 << 10).accumulate(accumulate).any_size();
        let (source, _) = specialized_source(&plan, message)?;
        let (before, call) = source.text().split_once("  reduce_aligned<").ok_or("a reduction")?;
        let text = format!("{before}  reduce_by_switch_aligned<{}", call.replacen(">(", ">(launch, ", 1));
        let name = format!("by switch, {dtype} in {accumulate}");
        fits(DEVICES[1], &name, &Source::new("switch.cu", text), registers_of(accumulate))?;
    }
    Ok(())
}

/// Compiles a plan's kernel, which must not spill to the stack.
fn fits(device: (u32, u32), name: &str, source: &Source, most: u32) -> Result<(), Failed> {
    let (compiler, clock) = (Nvrtc::new(device)?, Instant::now());
    let image = image(&compiler, source).map_err(|error| format!("{name}: {error}"))?;
    let took = clock.elapsed().as_secs_f64();
    let used = image.log.lines().skip_while(|line| !line.contains("'mscclpp_specialized'"));
    let used = used.map(str::trim).find_map(|line| line.split_once("Used ")).ok_or("registers are told")?.1;
    println!("{} {name}: {} KiB in {took:.1} s: {used}", compiler.identity(), image.code.len() >> 10);
    let registers = used.split_whitespace().next().ok_or("a number of registers")?;
    assert!(registers.parse::<u32>()? <= most, "{name}: threads have {most} registers each");
    let mut frames = image.log.lines().filter(|line| line.contains("bytes stack frame")).peekable();
    assert!(frames.peek().is_some(), "stacks are told");
    for frame in frames {
        let nothing = frame.ends_with(" 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads");
        assert!(nothing, "{name}: {frame}");
    }
    Ok(())
}

fn messages_name_file_and_line() -> Result<(), Failed> {
    let compiler = Nvrtc::new(DEVICES[1])?;
    let error = image(&compiler, &Source::new("mine.cu", ADD)).err().ok_or("STEP is not declared")?;
    assert!(matches!(&error, JitError::Source { name, .. } if name == "mine.cu"), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("mine.cu(3): error: identifier \"STEP\" is undefined"), "{text}");
    assert!(text.contains("NVRTC") && text.contains("sm_90"), "{text}");
    let error = image(&compiler, &Source::new("zero.cu", "a\0b")).err().ok_or("a zero byte is no text")?;
    assert!(matches!(error, JitError::Source { .. }), "{error:?}");
    Ok(())
}

fn headers_and_macros_are_seen() -> Result<(), Failed> {
    let compiler = Nvrtc::new(DEVICES[1])?;
    let source =
        Source::new("mine.cu", format!("#include \"step.h\"\n{ADD}")).header("step.h", "#define STEP (2 * HALF)");
    let one = image(&compiler, &source.clone().define("HALF", "1"))?;
    let two = image(&compiler, &source.define("HALF", "2"))?;
    assert_ne!(one.code, two.code);
    Ok(())
}

fn options_that_nobody_knows_are_said() -> Result<(), Failed> {
    let source = Source::new("mine.cu", ADD).define("STEP", "1").option("--no-such-option");
    let error = image(&Nvrtc::new(DEVICES[1])?, &source).err().ok_or("no such option")?;
    assert!(error.to_string().contains("no-such-option"), "{error}");
    Ok(())
}

/// A compiler that counts its compilations.
struct Counting(Nvrtc, std::sync::atomic::AtomicU32);

impl Counting {
    fn new() -> Result<Self, JitError> {
        Ok(Self(Nvrtc::new(DEVICES[1])?, 0.into()))
    }

    fn compiled(&self) -> u32 {
        self.1.load(std::sync::atomic::Ordering::Relaxed)
    }
}

impl Compiler for Counting {
    fn identity(&self) -> &str {
        self.0.identity()
    }

    fn compile(&self, source: &Source) -> Result<Image, JitError> {
        self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.0.compile(source)
    }
}

fn what_was_compiled_is_kept() -> Result<(), Failed> {
    let (folder, compiler) = (tempfile::tempdir()?, Counting::new()?);
    let cache = Cache::at(folder.path().join("new"));
    let source = Source::new("mine.cu", ADD);
    let first = compile(&compiler, &cache, &source.clone().define("STEP", "1"))?;
    let again = compile(&compiler, &cache, &source.clone().define("STEP", "1"))?;
    assert_eq!((&first, compiler.compiled()), (&again, 1), "kept, with what the compiler said");
    let other = compile(&compiler, &cache, &source.define("STEP", "2"))?;
    assert_eq!(compiler.compiled(), 2);
    assert_ne!(first.code, other.code);
    Ok(())
}

fn damaged_files_are_compiled_again() -> Result<(), Failed> {
    let (folder, compiler) = (tempfile::tempdir()?, Counting::new()?);
    let cache = Cache::at(folder.path());
    let source = Source::new("mine.cu", ADD).define("STEP", "1");
    let first = compile(&compiler, &cache, &source)?;
    let damages: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes.clear(),
        |bytes| *bytes.last_mut().expect("not empty") ^= 1,
        |bytes| bytes[60] ^= 1,
    ];
    for (number, damage) in (2..).zip(damages) {
        let path = fs::read_dir(folder.path())?.next().ok_or("one file")??.path();
        let mut bytes = fs::read(&path)?;
        damage(&mut bytes);
        fs::write(&path, bytes)?;
        assert!(compile(&compiler, &cache, &source)?.code == first.code, "another image");
        assert_eq!(compiler.compiled(), number);
        // Stored again.
        compile(&compiler, &cache, &source)?;
        assert_eq!(compiler.compiled(), number);
    }
    Ok(())
}
