//! This rank's last calls, in memory of this process: what other ranks may ask for at any time.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::super::calls::RING;
use mscclpp_base::system::coarse_time;
use mscclpp_bootstrap::call_report::{CallReport, ReportedCall};
use mscclpp_bootstrap::{place, places};

/// Id and text of a barrier.
pub(super) const BARRIER: (u64, &str) = (fnv(b"barrier"), "barrier");

/// Number of kinds of calls whose texts are kept, besides the barrier's.
const MAX_TEXTS: usize = 512;

/// The last calls of this rank. The rank's thread writes them, and any thread may [report](Self::report) them.
#[derive(Default)]
pub struct CallHistory {
    calls: [Call; RING as usize],
    /// Number of the program's calls, without those that are parts of another one.
    program_calls: AtomicU64,
    /// The last call that has returned.
    returned: AtomicU64,
    /// When the last call started and when the last one returned, in coarse time.
    started_at: AtomicU64,
    returned_at: AtomicU64,
    /// The call in which this rank has waited for peers for long; 0 while it does not. Since when, and how long it has waited
    /// in earlier waits, in milliseconds.
    waiting: AtomicU64,
    waiting_since: AtomicU64,
    waited: AtomicU64,
    /// The last call on devices, and when it was made, in coarse time.
    device_call: AtomicU64,
    device_call_at: AtomicU64,
    /// Bytes of memory that this rank shares with its peers.
    memory: AtomicU64,
    names: Mutex<Names>,
}

#[derive(Default)]
struct Call {
    number: AtomicU64,
    program_number: AtomicU64,
    id: AtomicU64,
    /// Number of its source location; of none if it is unknown.
    place: AtomicU32,
}

#[derive(Default)]
struct Names {
    /// The last kinds of calls.
    texts: VecDeque<Text>,
}

/// The text of a kind of call.
struct Text {
    id: u64,
    name: String,
    /// The text, if it does not end with the name.
    text: Option<String>,
    /// Whether the name is that of a call of the program of which the last such call was a part.
    is_of_part: bool,
}

impl CallHistory {
    /// Records a text and returns its id, which is the same on all ranks: `text` distinguishes calls, messages show `name`, of several
    /// names the last one that is not the text; `is_of_part`: until the next call, which may be no part.
    pub(in super::super) fn id_of(&self, text: &str, name: &str, is_of_part: bool) -> u64 {
        let id = fnv(text.as_bytes());
        let mut names = self.names();
        let entry = || {
            let text = (!text.ends_with(name)).then(|| text.to_owned());
            Text { id, name: name.to_owned(), text, is_of_part }
        };
        match names.texts.iter_mut().find(|known| known.id == id) {
            Some(known) if known.name != name && (name != text || known.is_of_part) => *known = entry(),
            Some(_) => {}
            None => {
                if names.texts.len() >= MAX_TEXTS {
                    names.texts.pop_front();
                }
                names.texts.push_back(entry());
            }
        }
        id
    }

    /// Records that this rank starts a call.
    #[inline]
    pub(super) fn begin(&self, number: u64, id: u64, place: Option<u32>) {
        let call = &self.calls[(number % RING) as usize];
        // A reader that sees the new id or place sees no old number with it.
        call.number.store(0, Release);
        call.id.store(id, Release);
        let program_number = self.next_program_number();
        call.program_number.store(program_number, Release);
        if !place::is_part() {
            self.program_calls.store(program_number, Relaxed);
        }
        call.place.store(place.unwrap_or(u32::MAX), Release);
        call.number.store(number, Release);
        self.started_at.store(coarse_time(), Relaxed);
    }

    /// Returns the number of the program's next call, or of the current one if that consists of parts.
    #[inline]
    pub fn next_program_number(&self) -> u64 {
        self.program_calls.load(Relaxed) + 1
    }

    /// Returns the number of the program's call that one of the last calls is, or is a part of.
    pub(super) fn program_number(&self, number: u64) -> u64 {
        self.calls[(number % RING) as usize].program_number.load(Relaxed)
    }

    /// Counts a call of the program, all of whose parts have ended.
    pub fn count_program_call(&self) {
        self.program_calls.fetch_add(1, Relaxed);
    }

    /// Records that this rank makes a call on devices.
    #[cfg(feature = "cuda")]
    pub(in super::super) fn begin_on_devices(&self, number: u64) {
        self.device_call_at.store(coarse_time(), Relaxed);
        self.device_call.store(number, Release);
    }

    /// Returns the id of one of the last calls.
    #[inline]
    pub(super) fn id(&self, number: u64) -> u64 {
        self.calls[(number % RING) as usize].id.load(Relaxed)
    }

    /// Records that a call returns, in which this rank waits no more.
    #[inline]
    pub(super) fn end(&self, number: u64) {
        if self.waiting.load(Relaxed) == number {
            self.wait_in(0);
        }
        self.returned_at.store(coarse_time(), Relaxed);
        self.returned.store(number, Release);
    }

    /// Returns the duration of the last call in milliseconds, which a tick of the coarse clock may be added to or missing
    /// from.
    #[inline]
    pub fn last_duration(&self) -> u64 {
        self.returned_at.load(Relaxed).saturating_sub(self.started_at.load(Relaxed))
    }

    /// Records that this rank waits for others in a call, or with 0 that it waits no more.
    pub(in super::super) fn wait_in(&self, number: u64) {
        match (self.waiting.load(Relaxed), number) {
            (0, 0) => return,
            (0, _) => self.waiting_since.store(coarse_time(), Relaxed),
            (_, 0) => {
                let waited = coarse_time().saturating_sub(self.waiting_since.load(Relaxed));
                self.waited.store(self.waited.load(Relaxed) + waited, Relaxed);
            }
            _ => {}
        }
        self.waiting.store(number, Release);
    }

    /// Returns how long this rank has waited for others, in milliseconds, without waits that are too short to park.
    pub fn waited(&self) -> u64 {
        let current = match self.waiting.load(Acquire) {
            0 => 0,
            _ => coarse_time().saturating_sub(self.waiting_since.load(Relaxed)),
        };
        self.waited.load(Relaxed) + current
    }

    /// Records how much memory this rank shares with its peers, in bytes.
    pub(in super::super) fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Relaxed);
    }

    /// Returns how much memory this rank shares with its peers, in bytes.
    pub fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
    }

    /// Returns the last calls. The caller adds the ranks of the communicator.
    pub fn report(&self) -> CallReport {
        let (returned, waiting) = (self.returned.load(Acquire), self.waiting.load(Acquire));
        let mut calls: Vec<_> = self.calls.iter().filter_map(|call| self.reported(call)).collect();
        calls.sort_by_key(|call| call.number);
        let number = calls.last().map_or(0, |call| call.number);
        let device_call = self.device_call.load(Acquire);
        let now = coarse_time();
        let since = |at: &AtomicU64| Duration::from_millis(now.saturating_sub(at.load(Relaxed)));
        CallReport {
            members: Vec::new(),
            number,
            returned,
            waiting,
            since: since(if returned < number { &self.started_at } else { &self.returned_at }),
            entered: since(&self.started_at),
            waited: if waiting == 0 { Duration::ZERO } else { since(&self.waiting_since) },
            calls,
            device_call,
            since_device_call: since(&self.device_call_at),
        }
    }

    fn reported(&self, call: &Call) -> Option<ReportedCall> {
        let read = || {
            let Call { number, program_number, id, place } = call;
            (number.load(Acquire), program_number.load(Acquire), id.load(Acquire), place.load(Acquire))
        };
        let (number, program_number, id, place) = read();
        if number == 0 || read() != (number, program_number, id, place) {
            return None;
        }
        let names = self.names();
        let texts = names.texts.iter().map(|text| (text.id, text.name.as_str(), text.text.as_deref()));
        let mut texts = texts.chain([(BARRIER.0, BARRIER.1, None)]);
        let (_, name, text) = texts.find(|(known, ..)| *known == id).unwrap_or((id, "a call", None));
        let text = text.unwrap_or(name);
        let at = places::place(place).map(|place| place.to_string());
        Some(ReportedCall { number, program_number, id, text: text.to_owned(), name: name.to_owned(), at })
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the id of a text, which is the same on all machines (FNV-1a).
pub(in super::super) const fn fnv(bytes: &[u8]) -> u64 {
    let (mut hash, mut at) = (0xcbf2_9ce4_8422_2325, 0);
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use mscclpp_bootstrap::places::{CallPlace, PlaceNumbers};

    #[test]
    fn report_has_the_last_calls_with_their_places() {
        let history = CallHistory::default();
        let (id, place) = (history.id_of("launch of x", "x", false), Location::caller());
        let index = PlaceNumbers::default().of(CallPlace::Location(place));
        for number in 1..=RING + 3 {
            history.begin(number, id, Some(index));
            history.wait_in(number);
            history.end(number - 1);
        }
        let report = history.report();
        assert_eq!((report.number, report.returned, report.waiting), (RING + 3, RING + 2, RING + 3));
        assert_eq!(report.calls.len() as u64, RING);
        let call = report.call(RING).expect("one of the last");
        assert_eq!((call.id, call.to_string()), (id, format!("x (call {RING}) at {place}")));
        assert_eq!(report.call(1), None);
        history.end(report.number);
        assert_eq!((history.report().returned, history.report().waiting), (report.number, 0));
    }

    #[test]
    fn name_of_a_composed_call_is_that_of_its_parts_only() {
        let history = CallHistory::default();
        let name_after = |text, name, is_of_part| {
            let number = history.report().number + 1;
            history.begin(number, history.id_of(text, name, is_of_part), None);
            history.report().call(number).expect("the last one").name.clone()
        };
        assert_eq!(name_after("alloc of u8", "all_to_all_v of f32", true), "all_to_all_v of f32");
        assert_eq!(name_after("alloc of u8", "alloc of u8", false), "alloc of u8");
        // A name that the caller gave stays.
        assert_eq!(name_after("prepare of x", "x", false), "x");
        assert_eq!(name_after("prepare of x", "prepare of x", false), "x");
    }
}
