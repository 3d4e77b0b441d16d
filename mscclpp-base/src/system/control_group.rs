//! Memory of the control groups that this process is in, of both versions.
//!
//! Every ancestor of the process's group may have a limit of its own, and all of them hold. In a container the groups
//! above the one that is mounted cannot be read; their limits are unknown here.

use std::fs;
use std::path::{Path, PathBuf};

use super::available::AvailableMemory;

/// A control group with a limit of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Its folder: `/sys/fs/cgroup/system.slice/job.service`.
    pub folder: PathBuf,
    /// Its limit, in bytes.
    pub limit: u64,
}

/// Files of a version of control groups, and the key of cached files in `memory.stat`. Cached files count as used, and
/// are evicted when memory is needed.
struct Files {
    limit: &'static str,
    usage: &'static str,
    cached: &'static str,
}

const VERSION_1: Files =
    Files { limit: "memory.limit_in_bytes", usage: "memory.usage_in_bytes", cached: "total_inactive_file " };
const VERSION_2: Files = Files { limit: "memory.max", usage: "memory.current", cached: "inactive_file " };

/// Returns what the groups of this process leave it, those without a limit excepted. `root`: the root of the file
/// system.
pub(super) fn available(root: &Path) -> Vec<AvailableMemory> {
    let read = |path: &str| String::from_utf8_lossy(&fs::read(root.join(path)).unwrap_or_default()).into_owned();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mounts: Vec<Mount> = mounts.lines().filter_map(mount).collect();
    groups.lines().flat_map(|line| of_hierarchy(root, line, &mounts)).flatten().collect()
}

/// Returns what the groups of a hierarchy leave, the process's own first. `line`: a line of `/proc/self/cgroup`.
fn of_hierarchy(root: &Path, line: &str, mounts: &[Mount]) -> Option<Vec<AvailableMemory>> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, path) = rest.split_once(':')?;
    let (files, kind) = match controllers {
        "" => (VERSION_2, "cgroup2"),
        all if all.split(',').any(|one| one == "memory") => (VERSION_1, "cgroup"),
        _ => return None,
    };
    let is_memory = |mount: &&Mount| mount.kind == kind && (kind == "cgroup2" || mount.has_memory);
    let mounts: Vec<&Mount> = mounts.iter().filter(is_memory).collect();
    // The mounted folder is above the process's group, or that group is outside of what the container sees.
    let below =
        |mount: &&Mount| Some((mount.point.clone(), Path::new(path).strip_prefix(&mount.root).ok()?.to_owned()));
    let outside = || mounts.first().map(|mount| (mount.point.clone(), PathBuf::new()));
    let (point, below) = mounts.iter().find_map(below).or_else(outside)?;
    // Without a slash at the end.
    let folder: PathBuf = point.join(below).components().collect();
    let groups = folder.ancestors().take_while(|folder| folder.starts_with(&point));
    Some(groups.filter_map(|group| of_group(root, group, &files)).collect())
}

/// Returns what a group leaves; `None` without a limit.
fn of_group(root: &Path, folder: &Path, files: &Files) -> Option<AvailableMemory> {
    let within = root.join(folder.strip_prefix("/").ok()?);
    let read = |name: &str| fs::read_to_string(within.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, usage) = (number(files.limit)?, number(files.usage)?);
    let stat = read("memory.stat").unwrap_or_default();
    let cached = stat.lines().find_map(|line| line.strip_prefix(files.cached)?.trim().parse().ok()).unwrap_or(0);
    let bytes = limit.saturating_sub(usage.saturating_sub(cached));
    Some(AvailableMemory { bytes, group: Some(ControlGroup { folder: folder.to_owned(), limit }) })
}

/// A mounted file system.
struct Mount<'a> {
    kind: &'a str,
    /// The folder of the file system that is mounted, and where.
    root: PathBuf,
    point: PathBuf,
    /// Whether its options name the memory controller.
    has_memory: bool,
}

/// Reads a line of `/proc/self/mountinfo`.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (mounted, system) = line.split_once(" - ")?;
    let mut mounted = mounted.split(' ').skip(3);
    let (root, point) = (unescaped(mounted.next()?), unescaped(mounted.next()?));
    let mut system = system.split(' ');
    let (kind, options) = (system.next()?, system.nth(1)?);
    Some(Mount { kind, root, point, has_memory: options.split(',').any(|one| one == "memory") })
}

/// Replaces the octal numbers with which the system writes blanks and backslashes in paths.
fn unescaped(text: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (code, character)| text.replace(code, character)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    /// Writes files into a new root of a file system.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a file's folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        root
    }

    fn found(files: &[(&str, &str)]) -> Vec<(u64, String, u64)> {
        let of = |found: AvailableMemory| {
            let group = found.group.expect("a group");
            (found.bytes, group.folder.to_string_lossy().into_owned(), group.limit)
        };
        available(tree(files).path()).into_iter().map(of).collect()
    }

    #[test]
    fn limits_of_all_ancestors_count_with_their_usage() {
        let found = found(&[
            ("proc/self/cgroup", "0::/jobs/one\n"),
            ("proc/self/mountinfo", TWO),
            ("sys/fs/cgroup/jobs/one/memory.max", "max\n"),
            ("sys/fs/cgroup/jobs/one/memory.current", "5\n"),
            ("sys/fs/cgroup/jobs/memory.max", "1000\n"),
            ("sys/fs/cgroup/jobs/memory.current", "950\n"),
            ("sys/fs/cgroup/jobs/memory.stat", "anon 20\nactive_file 20\ninactive_file 500\n"),
            // Of another group.
            ("sys/fs/cgroup/memory.max", "10\n"),
            ("sys/fs/cgroup/memory.current", "30\n"),
        ]);
        let folder = |path: &str| format!("/sys/fs/cgroup{path}");
        assert_eq!(found, [(550, folder("/jobs"), 1000), (0, folder(""), 10)]);
    }

    #[test]
    fn version_1_reads_the_memory_hierarchy() {
        let mounts = "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      32 23 0:28 /docker/7 /sys/fs/cgroup/the\\040memory rw - cgroup cgroup rw,memory\n";
        let found = found(&[
            ("proc/self/cgroup", "5:cpu:/docker/7\n4:memory:/docker/7/job\n0::/docker/7\n"),
            ("proc/self/mountinfo", mounts),
            ("sys/fs/cgroup/cpu/memory.limit_in_bytes", "1\n"),
            ("sys/fs/cgroup/the memory/job/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/the memory/job/memory.usage_in_bytes", "12\n"),
            ("sys/fs/cgroup/the memory/memory.limit_in_bytes", "100\n"),
            ("sys/fs/cgroup/the memory/memory.usage_in_bytes", "60\n"),
            ("sys/fs/cgroup/the memory/memory.stat", "inactive_file 1\ntotal_inactive_file 30\n"),
        ]);
        let bytes: Vec<u64> = found.iter().map(|(bytes, ..)| *bytes).collect();
        assert_eq!(bytes, [9_223_372_036_854_771_700, 70]);
    }

    #[test]
    fn group_outside_of_the_mount_is_that_of_the_mount() {
        let found = found(&[
            ("proc/self/cgroup", "0::/../other\n"),
            ("proc/self/mountinfo", &TWO.replace(" / /sys", " /mine /sys")),
            ("sys/fs/cgroup/memory.max", "100\n"),
            ("sys/fs/cgroup/memory.current", "30\n"),
        ]);
        assert_eq!(found, [(70, "/sys/fs/cgroup".to_owned(), 100)]);
    }

    #[test]
    fn missing_and_malformed_files_report_nothing() {
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[("proc/self/cgroup", "0::/\n\n:\n"), ("proc/self/mountinfo", "x\n - \n")]), []);
        let files = [("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", TWO)];
        assert_eq!(found(&files), []);
        let limit = [("sys/fs/cgroup/memory.max", "-1\n"), ("sys/fs/cgroup/memory.current", "1\n")];
        assert_eq!(found(&[files, limit].concat()), []);
    }
}
