//! Recorder of a rank's last calls, of which its dumps are made.

use std::path::PathBuf;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use mscclpp_core::origin::SourceLocation;
use mscclpp_core::plan::raw::OpKind;

use super::call_words::{WORDS, decode, encode};
use super::record::{CallRecord, Dump, FailureRecord, OpRecord, RankRecord, StateRecord, WaitRecord};
use mscclpp_base::error::{BlockedThreadBlock, Error, Stall, UnblockedBy, WaitsFor};
use mscclpp_base::kernel_tier::KernelTier;
use mscclpp_bootstrap::places;
use mscclpp_select::Request;

/// Number of calls that a dump contains.
const MAX_CALLS: usize = 64;
/// Maximum number of blocked thread blocks that a dump contains.
const MAX_WAITS: usize = 1024;

/// Recorder of a rank's last calls. One thread at a time makes calls; any thread takes dumps meanwhile.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Number of calls so far.
    calls: AtomicU64,
    /// The last calls: call n is in slot n modulo their number.
    last: [Slot; MAX_CALLS],
    /// Whether a dump was written: later failures follow from the first one.
    written: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    /// Number of the call, from 1; 0 while it is written.
    number: AtomicU64,
    words: [AtomicU64; WORDS],
    /// Kernel of the call's last launch of a plan: a position in `KernelTier::ALL`, from 1; 0 without a launch.
    kernel: AtomicU64,
}

impl Default for Recorder {
    fn default() -> Self {
        Self { calls: AtomicU64::new(0), last: [const { Slot::new() }; MAX_CALLS], written: AtomicBool::new(false) }
    }
}

impl Slot {
    const fn new() -> Self {
        let kernel = AtomicU64::new(0);
        Self { number: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS], kernel }
    }
}

impl Recorder {
    /// Records a call: a request or, with `None`, a barrier, and the number of its source location.
    #[inline]
    pub(crate) fn note(&self, request: Option<&Request>, place: u32) {
        let number = self.calls.load(Relaxed) + 1;
        let slot = self.slot(number);
        // A reader that sees a new word sees no old number after it.
        slot.number.store(0, Release);
        slot.words.iter().zip(encode(request, place)).for_each(|(slot, word)| slot.store(word, Release));
        slot.kernel.store(0, Release);
        slot.number.store(number, Release);
        self.calls.store(number, Release);
    }

    /// Records which kernel the last call launched on a device.
    #[cfg(feature = "cuda")]
    pub(crate) fn note_kernel(&self, kernel: KernelTier) {
        self.slot(self.calls.load(Relaxed)).kernel.store(1 + kernel as u64, Release);
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.last[(number % MAX_CALLS as u64) as usize]
    }

    /// Returns the name of the kernel that a call launched, if the rank has not replaced the call.
    fn kernel(&self, number: u64) -> Option<String> {
        let slot = self.slot(number);
        let kernel = KernelTier::ALL.get((slot.kernel.load(Acquire) as usize).checked_sub(1)?)?;
        (slot.number.load(Acquire) == number).then(|| kernel.to_string())
    }

    /// Writes a dump for the first failure, if the environment names a folder.
    #[cold]
    pub(crate) fn fail(&self, rank: &RankRecord, error: &Error, stall: Option<&Stall>) {
        let Some(folder) = folder() else { return };
        if self.written.swap(true, Relaxed) {
            return;
        }
        let root_cause = error.root_cause().map(|cause| cause.rank);
        let failure = FailureRecord { message: error.to_string(), root_cause };
        let waits = stall.into_iter().flat_map(|stall| &stall.blocked).take(MAX_WAITS).map(wait_record).collect();
        self.dump(rank, Some(failure), None, waits).write_to(&folder);
    }

    /// Returns a dump of a rank that runs.
    pub(crate) fn running(&self, rank: &RankRecord, state: StateRecord) -> Dump {
        self.dump(rank, None, Some(state), Vec::new())
    }

    fn dump(
        &self,
        rank: &RankRecord,
        failure: Option<FailureRecord>,
        state: Option<StateRecord>,
        waits: Vec<WaitRecord>,
    ) -> Dump {
        let calls = self.last_calls().into_iter().map(|(number, (request, at))| {
            let request = request.map_or_else(|| "barrier".to_owned(), |request| request.to_string());
            let at = places::place(at).map_or_else(String::new, |at| at.to_string());
            CallRecord { number, request, at, kernel: self.kernel(number) }
        });
        Dump { rank: rank.clone(), calls: calls.collect(), failure, state, waits }
    }

    /// Returns the last calls and their numbers, from 1, without those that the rank replaces meanwhile.
    fn last_calls(&self) -> Vec<(u64, (Option<Request>, u32))> {
        let last = self.calls.load(Acquire);
        let numbers = last.saturating_sub(MAX_CALLS as u64) + 1..=last;
        let call = |number: u64| {
            let slot = self.slot(number);
            let words = slot.words.each_ref().map(|word| word.load(Acquire));
            let is_current = slot.number.load(Acquire) == number;
            decode(words).filter(|_| is_current).map(|call| (number, call))
        };
        numbers.filter_map(call).collect()
    }
}

/// Returns the folder that the environment names for dumps.
pub(crate) fn folder() -> Option<PathBuf> {
    std::env::var_os(super::FOLDER_VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

fn wait_record(blocked: &BlockedThreadBlock) -> WaitRecord {
    let BlockedThreadBlock { rank, block, op, kind, location: place, waits_for, unblocked_by: released, .. } = blocked;
    WaitRecord {
        op: op_record(*rank, *block, *op, *kind, place.as_ref()),
        waits_for: WaitsFor::to_string(waits_for),
        released_by: match released {
            UnblockedBy::Operation { rank, block, op, kind, location: place } => {
                Some(op_record(*rank, *block, *op, *kind, place.as_ref()))
            }
            UnblockedBy::PeerStart | UnblockedBy::Nothing => None,
        },
    }
}

fn op_record(rank: u32, block: u32, op: u32, kind: OpKind, place: Option<&SourceLocation>) -> OpRecord {
    OpRecord { rank, block, op, operation: kind.name().to_owned(), at: place.map(SourceLocation::to_string) }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use mscclpp_bootstrap::Bootstrap;
    use mscclpp_core::collective::CollectiveKind;

    use super::*;
    use crate::flight_recorder::analyze;
    use mscclpp_base::dtype::DataType;
    use mscclpp_bootstrap::places::{CallPlace, PlaceNumbers};

    #[test]
    fn files_that_others_have_planted_are_not_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let group = Bootstrap::local(1).expect("a group").remove(0);
        let name = |number| format!("mscclpp-rank-0-of-1-{}-{number}.jsonl", std::process::id());
        // The number of the next dump is not known: other tests of this process write some as well.
        let planted: Vec<PathBuf> = (1..=14).map(|number| folder.path().join(name(number))).collect();
        planted.iter().for_each(|path| std::fs::write(path, "precious").expect("a file"));
        let recorder = Recorder::default();
        recorder.note(None, PlaceNumbers::default().of(CallPlace::of(Location::caller())));
        let failure = FailureRecord { message: "gone".into(), root_cause: None };
        recorder.dump(&RankRecord::of(&group), Some(failure), None, Vec::new()).write_to(folder.path());
        assert!(planted.iter().all(|path| std::fs::read(path).is_ok_and(|found| found == b"precious")));
        let files = std::fs::read_dir(folder.path()).expect("a folder").map(|file| file.expect("a file").path());
        let written: Vec<_> = files.filter(|path| !planted.contains(path)).collect();
        assert_eq!(written.len(), 1);
        assert_eq!(Dump::load(&written[0]).expect("it was written").failure.expect("a failure").message, "gone");
    }

    #[test]
    fn folder_that_does_not_exist_is_created() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("job/dumps");
        let group = Bootstrap::local(1).expect("a group").remove(0);
        let failure = FailureRecord { message: "gone".into(), root_cause: None };
        Recorder::default().dump(&RankRecord::of(&group), Some(failure), None, Vec::new()).write_to(&folder);
        assert_eq!(std::fs::read_dir(folder).expect("it was created").count(), 1);
    }

    #[test]
    fn dumps_of_several_communicators_have_separate_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let pairs: Vec<Bootstrap> = std::thread::scope(|scope| {
            let split = |whole: Bootstrap| move || whole.split(Some(whole.rank() / 2), 0).expect("all ranks call it");
            let whole = Bootstrap::local(4).expect("a group");
            let threads: Vec<_> = whole.into_iter().map(|whole| scope.spawn(split(whole))).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic").expect("a colour")).collect()
        });
        let recorder = Recorder::default();
        recorder.note(None, PlaceNumbers::default().of(CallPlace::of(Location::caller())));
        let alone = Bootstrap::local(1).expect("a group").remove(0);
        let write = |group: &Bootstrap, message: &str| {
            let failure = FailureRecord { message: message.into(), root_cause: None };
            recorder.dump(&RankRecord::of(group), Some(failure), None, Vec::new()).write_to(folder.path());
        };
        pairs.iter().chain([&alone]).for_each(|group| write(group, "gone"));
        // A communicator that was recreated.
        write(&alone, "gone again");
        let files = std::fs::read_dir(folder.path()).expect("it is there").map(|file| file.expect("a file").path());
        let mut files: Vec<_> = files.collect();
        assert_eq!(files.len(), 6);
        let number = |file: &PathBuf| file.file_stem()?.to_str()?.rsplit('-').next()?.parse::<u32>().ok();
        files.sort_by_key(number);
        let dumps: Vec<_> = files.iter().map(|file| Dump::load(file).expect("it was written")).collect();
        let found = analyze(&dumps);
        let ranks: Vec<_> = found.iter().map(|one| one.group.as_ref().map(|group| group.ranks.clone())).collect();
        assert_eq!(ranks, [Some(vec![0, 1]), Some(vec![2, 3]), None]);
        for one in &found {
            assert_eq!((one.missing_dumps.as_slice(), one.divergence.as_ref()), (&[][..], None), "{one}");
        }
        assert!(found[1].to_string().contains(", ranks 2, 3 of the job; dumps of rank 0, 1\n"), "{}", found[1]);
        assert_eq!(found[2].failures[&0], "gone again");
    }

    #[test]
    fn last_calls_are_those_that_were_made_last() {
        let (recorder, mut all) = (Recorder::default(), Vec::new());
        for number in 1..=3 * MAX_CALLS as u64 {
            let request = Request::new(CollectiveKind::AllReduce, 2, DataType::F32, number);
            let call = ((number % 3 > 0).then_some(request), number as u32 % 5);
            recorder.note(call.0.as_ref(), call.1);
            all.push((number, call));
            assert_eq!(recorder.last_calls(), &all[all.len().saturating_sub(MAX_CALLS)..]);
        }
    }

    #[test]
    #[cfg(feature = "cuda")]
    fn dumps_name_the_kernel_of_a_call() {
        let recorder = Recorder::default();
        let group = Bootstrap::local(1).expect("a group").remove(0);
        for kernel in KernelTier::ALL {
            recorder.note(None, 0);
            recorder.note_kernel(kernel);
        }
        recorder.note(None, 0);
        let dump = recorder.dump(&RankRecord::of(&group), None, None, Vec::new());
        let kernels: Vec<_> = dump.calls.iter().map(|call| call.kernel.as_deref()).collect();
        assert_eq!(kernels, [Some("interpreter"), Some("just-in-time"), Some("ahead-of-time"), None]);
    }

    #[test]
    fn calls_that_are_read_during_others_are_whole() {
        let recorder = Recorder::default();
        let request = |place: u32| Request {
            root: place,
            num_ranks: place,
            ranks_per_node: place,
            ..Request::new(CollectiveKind::Reduce, 2, DataType::F32, place.into())
        };
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..200_000).for_each(|place| recorder.note(Some(&request(place)), place)));
            while !writer.is_finished() {
                for (number, (found, place)) in recorder.last_calls() {
                    assert_eq!((found, number), (Some(request(place)), u64::from(place) + 1));
                }
            }
        });
    }
}
