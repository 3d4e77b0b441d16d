//! The kernels that were compiled ahead of time are those of the plans that the default rules select for short messages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use mscclpp_core::collective::CollectiveKind;
use mscclpp_exec::DataType;
use mscclpp_exec::cuda::ahead_of_time::key;
use mscclpp_exec::cuda::jit::Source;
use mscclpp_exec::cuda::sources_of_ranks;
use mscclpp_images::ARCHIVE;
use mscclpp_select::{Backend, Registry, Request};
use sha2::{Digest, Sha256};

/// Bytes of messages, of each default rule and of each form of a source: one thread block or several.
const SIZES: [u64; 4] = [1 << 10, 1 << 13, 1 << 16, 1 << 18];

/// The algorithms whose kernels pay for their bytes, since messages are short.
const ALGORITHMS: [&str; 4] =
    ["allreduce_one_shot_packets", "allreduce_switch_packets", "allreduce_packets", "allgather_packets"];

const KINDS: [CollectiveKind; 2] = [CollectiveKind::AllReduce, CollectiveKind::AllGather];

const TYPES: [DataType; 3] = [DataType::F32, DataType::F16, DataType::BF16];

/// Returns the requests whose kernels are compiled ahead of time.
fn requests() -> Vec<Request> {
    let mut requests = Vec::new();
    for (ranks, multicast) in [(2, false), (4, false), (8, false), (2, true), (4, true), (8, true)] {
        for (kind, bytes) in KINDS.into_iter().flat_map(|kind| SIZES.map(|bytes| (kind, bytes))) {
            for (dtype, in_place) in TYPES.into_iter().flat_map(|dtype| [(dtype, false), (dtype, true)]) {
                let new = Request::new(kind, ranks, dtype, bytes);
                requests.push(Request { backend: Backend::Cuda, multicast, registered: true, in_place, ..new });
            }
        }
    }
    requests
}

/// A source, and what it is for.
struct Kernel {
    source: Source,
    plans: BTreeSet<(String, u32)>,
    types: BTreeSet<&'static str>,
    /// Whether only devices with multicast objects run it.
    multicast: bool,
    /// The key of the source that is compiled: another one if that has all functions of this one and further ones.
    compiled: String,
}

/// Returns the functions of a source.
fn functions(source: &Source) -> &str {
    source.text().split_once("\n}  // namespace").map_or("", |(functions, _)| functions)
}

/// Returns the sources by their keys.
fn kernels() -> BTreeMap<String, Kernel> {
    let (registry, mut kernels) = (Registry::builtin(), BTreeMap::<String, Kernel>::new());
    for request in requests() {
        let decision = registry.select(&request).unwrap_or_else(|error| panic!("{request}: {error}"));
        let plan = registry.plan(&request, &decision).unwrap_or_else(|error| panic!("{request}: {error}"));
        if !ALGORITHMS.contains(&plan.name()) {
            continue;
        }
        let of_ranks = sources_of_ranks(&plan, request.message(), true, request.multicast);
        for source in of_ranks.unwrap_or_else(|reason| panic!("{request}: {reason}")) {
            let (key, plans, types) = (key(&source), BTreeSet::new(), BTreeSet::new());
            let new = || Kernel { source, plans, types, multicast: true, compiled: key.clone() };
            let kernel = kernels.entry(key.clone()).or_insert_with(new);
            kernel.plans.insert((plan.name().to_owned(), request.num_ranks));
            kernel.types.insert(request.dtype.name());
            kernel.multicast &= request.multicast;
        }
    }
    let longest = |of: &Kernel| {
        let begins = kernels.iter().filter(|(_, kernel)| functions(&kernel.source).starts_with(functions(&of.source)));
        begins.max_by_key(|(_, kernel)| kernel.source.text().len()).map(|(key, _)| key.clone())
    };
    let compiled: Vec<_> = kernels.values().map(longest).collect();
    for (kernel, compiled) in kernels.values_mut().zip(compiled) {
        kernel.compiled = compiled.unwrap_or_default();
    }
    kernels
}

/// Compiles a source for the devices of the archive.
fn compiled(folder: &Path, key: &str, kernel: &Kernel) -> Vec<u8> {
    let (text, image) = (folder.join(format!("{key}.cu")), folder.join(format!("{key}.fatbin")));
    std::fs::write(&text, kernel.source.text()).expect("a file");
    let mut nvcc = Command::new(std::env::var_os("NVCC").unwrap_or_else(|| "nvcc".into()));
    nvcc.args(["-std=c++17", "-fmad=false", "-fatbin", "--compress-mode=size"]);
    let has_it = |capability: &&(u32, u32)| !kernel.multicast || capability.0 >= 9;
    for (major, minor) in ARCHIVE.capabilities.iter().filter(has_it) {
        nvcc.arg("-gencode").arg(format!("arch=compute_{major}{minor},code=sm_{major}{minor}"));
    }
    nvcc.arg("-I").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels")).arg("-o").arg(&image).arg(&text);
    assert!(nvcc.status().expect("nvcc is on the PATH, or in NVCC").success(), "{nvcc:?}");
    std::fs::read(image).expect("an image")
}

/// Compiles the sources that have no image, several at once, and returns the images of those that are compiled.
fn images(kernels: &BTreeMap<String, Kernel>) -> BTreeMap<&str, Vec<u8>> {
    let work = tempfile::tempdir().expect("a folder");
    let compiles = kernels.iter().filter(|(key, kernel)| **key == kernel.compiled);
    let (left, images) = (Mutex::new(compiles), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((key, kernel)) = left.lock().expect("no thread has failed").next() else { return };
                    let image = match ARCHIVE.find(key) {
                        Some(image) => image.code.to_vec(),
                        None => compiled(work.path(), key, kernel),
                    };
                    images.lock().expect("no thread has failed").insert(key.as_str(), image);
                }
            });
        }
    });
    images.into_inner().expect("no thread has failed")
}

/// Returns the bytes of an archive.
fn archive(kernels: &BTreeMap<String, Kernel>, images: &BTreeMap<&str, Vec<u8>>) -> Vec<u8> {
    let first = (8 + kernels.len() * (64 + 32 + 8 + 8)).next_multiple_of(16);
    let (mut data, mut places) = (Vec::new(), BTreeMap::new());
    for (key, image) in images {
        places.insert(*key, first + data.len());
        data.extend(image);
        data.resize(data.len().next_multiple_of(16), 0);
    }
    let mut rows = (kernels.len() as u64).to_le_bytes().to_vec();
    for (key, Kernel { compiled, .. }) in kernels {
        let image = &images[compiled.as_str()];
        rows.extend(key.as_bytes());
        rows.extend(Sha256::digest(image));
        rows.extend((places[compiled.as_str()] as u64).to_le_bytes());
        rows.extend((image.len() as u64).to_le_bytes());
    }
    rows.resize(first, 0);
    [rows, data].concat()
}

/// Returns the list of images, and their bytes.
fn table(kernels: &BTreeMap<String, Kernel>, sizes: &BTreeMap<String, usize>) -> (String, usize) {
    let mut lines: BTreeMap<(String, String), Vec<usize>> = BTreeMap::new();
    for (key, Kernel { plans, types, .. }) in kernels.iter().filter(|(key, kernel)| **key == kernel.compiled) {
        let plans: Vec<_> = plans.iter().map(|(plan, ranks)| format!("{plan} on {ranks}")).collect();
        let types = if types.len() == TYPES.len() {
            "any".to_owned()
        } else {
            Vec::from_iter(types.iter().copied()).join(", ")
        };
        lines.entry((plans.join(", "), types)).or_default().push(sizes[key]);
    }
    let mut page = String::from(
        "; Specialized kernels that are compiled ahead of time: plans that have them with the number of ranks, type, images (of ranks and of\n\
         ; buffers in and out of place), bytes of all of these.\n\n",
    );
    let (mut images, mut bytes) = (0, 0);
    for ((plans, types), sizes) in lines {
        let sum: usize = sizes.iter().sum();
        (images, bytes) = (images + sizes.len(), bytes + sum);
        page += &format!("{plans:<45}{types:<6}{:>3}{sum:>9}\n", sizes.len());
    }
    (format!("{page}\nall {images}, {bytes} bytes\n"), bytes)
}

/// With `MSCCLPP_BLESS=1`, and nvcc 13.0.88 on the PATH or in `NVCC`, compiles those that are missing.
#[test]
fn kernels_of_default_plans_are_compiled_ahead_of_time() {
    let kernels = kernels();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../images");
    let mut sizes: BTreeMap<String, usize> =
        ARCHIVE.keys().filter_map(|key| Some((key.to_owned(), ARCHIVE.find(key)?.code.len()))).collect();
    let is_blessed = std::env::var_os("MSCCLPP_BLESS").is_some();
    if is_blessed {
        let images = images(&kernels);
        std::fs::write(folder.join("kernels.bin"), archive(&kernels, &images)).expect("it can be written");
        let size = |(key, kernel): (&String, &Kernel)| (key.clone(), images[kernel.compiled.as_str()].len());
        sizes = kernels.iter().map(size).collect();
    }
    assert!(sizes.keys().eq(kernels.keys()), "images/ is older than the sources of kernels: run images/build.sh");
    let (page, bytes) = table(&kernels, &sizes);
    let path = folder.join("kernels.txt");
    if is_blessed {
        std::fs::write(&path, &page).expect("it can be written");
    }
    assert_eq!(page, std::fs::read_to_string(&path).unwrap_or_default(), "run images/build.sh");
    assert!(bytes <= 2 << 20, "{bytes} bytes of kernels");
}
