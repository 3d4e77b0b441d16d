//! Comparison of calls that ranks make without waiting for each other, such as launches on CUDA devices.
//!
//! Every rank of a node numbers its calls from 1 and writes each to a ring in its shared memory: the call's text, and a hash
//! of all calls so far. A rank compares its own hash with that of a peer for the last call that both have made, so that
//! one comparison covers all earlier calls. A difference is located among the calls that are still in both rings.
//!
//! Ranks of other nodes do not read the ring. A rank [tells](CallRing::tell_other_nodes) them of its calls that launch nothing.
//!
//! Nothing limits how far a rank is ahead of another one. A rank that is more than [`RING`] calls ahead has overwritten
//! the calls that the other one would compare, but compares them itself, up to [`CHAINS`] calls back.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use mscclpp_bootstrap as bootstrap;
use mscclpp_bootstrap::{CAUSE_GRACE_PERIOD, odd_one_out};

use super::plan_memory::{Parts, PlanMemory};
use super::session::{CallHistory, Session, arrival_time, fnv};
use super::told_calls::{ToldCall, ToldCalls};
use mscclpp_base::error::Error;
use mscclpp_base::shm::SharedCacheLines;
use mscclpp_bootstrap::call_report::CallReport;

/// Number of calls that a rank's ring has.
const RING: u64 = 256;

/// Number of calls whose hashes a rank keeps in its own memory.
const CHAINS: u64 = 4096;

/// Lines of an entry: the hash, then the text.
const ENTRY_LINES: usize = 1 + TEXT_WORDS / 8;
const TEXT_WORDS: usize = 32;

/// Word of a rank's first line: whether it has stopped.
const STOPPED: usize = 1;

/// Lines of a rank: the number of its last call, then its ring.
const LINES: usize = 1 + RING as usize * ENTRY_LINES;

/// A kind of call as it is written to the ring.
pub struct CallText {
    id: u64,
    /// Hash of the words: entries of the ring that have them already are not written again.
    of_words: u64,
    words: [u64; TEXT_WORDS],
}

impl CallText {
    /// Creates the text of a kind of call. `text` distinguishes calls; `place` is only shown. Long texts are cut.
    pub fn new(text: &str, place: &str) -> Self {
        // The text, a line break, the place.
        let mut bytes = [0; 8 * TEXT_WORDS];
        let place = format!("\n{place}");
        let end = place.len().min(bytes.len() / 2);
        let begin = text.len().min(bytes.len() - end);
        bytes[..begin].copy_from_slice(&text.as_bytes()[..begin]);
        bytes[begin..begin + end].copy_from_slice(&place.as_bytes()[..end]);
        let mut words = [0; TEXT_WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
        }
        Self { id: fnv(text.as_bytes()), of_words: fnv(&bytes), words }
    }
}

/// Describes a call for messages: `allreduce of 4 KiB f32, sum (call 7) at src/main.rs:10:5`.
fn describe(words: &[u64; TEXT_WORDS], number: u64) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take_while(|&byte| byte != 0).collect();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (call, place) = text.split_once('\n').unwrap_or((&text, "an unknown place"));
    format!("{call} (call {number}) at {place}")
}

fn describe_or_number(words: Option<[u64; TEXT_WORDS]>, number: u64) -> String {
    words.map_or_else(|| format!("call {number}"), |words| describe(&words, number))
}

/// The rings of the ranks of a node.
pub struct CallRing {
    /// By local rank: the rank, and its lines.
    rings: Vec<(u32, SharedCacheLines)>,
    /// Keeps the memory of the rings from being used otherwise.
    _memory: Option<Arc<PlanMemory>>,
    own_local_rank: usize,
    /// The last calls of this rank, which it reports.
    history: Arc<CallHistory>,
    /// Number of this rank's last call.
    number: u64,
    /// Hashes of all calls up to each of this rank's last ones.
    chains: Vec<u64>,
    /// By entry of this rank's ring: the hash of the words that it has.
    texts: Vec<u64>,
    /// By local rank: the last call that is known to be the same.
    compared: Vec<u64>,
    /// Calls of ranks on other nodes.
    told: ToldCalls,
}

impl Session {
    /// Allocates the rings of the ranks of the node. A collective call.
    ///
    /// # Errors
    /// As [`Executor::alloc`](super::Executor::alloc).
    pub fn share_call_ring(&mut self) -> Result<CallRing, Error> {
        self.has_device = true;
        let bytes = SharedCacheLines::bytes(LINES);
        let memory = self.allocate(bytes, Parts::All, "call ring", "a call ring", true)?;
        let ring = |(local_rank, &rank): (usize, &u32)| (rank, memory.lines(local_rank));
        let rings = self.locals.iter().enumerate().map(ring).collect();
        let others = (0..self.nodes.len() as u32).filter(|rank| !self.locals.contains(rank)).collect();
        Ok(CallRing {
            _memory: Some(Arc::clone(&memory)),
            told: ToldCalls::new(others),
            ..CallRing::new(rings, self.own_local_rank, Arc::clone(&self.history))
        })
    }
}

impl CallRing {
    fn new(rings: Vec<(u32, SharedCacheLines)>, own_local_rank: usize, history: Arc<CallHistory>) -> Self {
        let compared = vec![0; rings.len()];
        let (chains, texts) = (vec![0; CHAINS as usize], vec![0; RING as usize]);
        Self {
            rings,
            _memory: None,
            own_local_rank,
            history,
            number: 0,
            chains,
            texts,
            compared,
            told: ToldCalls::default(),
        }
    }

    /// Records that this rank makes a call.
    pub fn post(&mut self, call: &CallText) {
        let chain = (self.chain(self.number) ^ call.id).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
        self.number += 1;
        self.chains[(self.number % CHAINS) as usize] = chain;
        let own = &self.rings[self.own_local_rank].1;
        let written = &mut self.texts[(self.number % RING) as usize];
        if std::mem::replace(written, call.of_words) != call.of_words {
            for (at, &word) in call.words.iter().enumerate() {
                text_word(own, self.number, at).store(word, Relaxed);
            }
        }
        own.at(entry_line(self.number)).store(chain, Relaxed);
        own.at(0).store(self.number, Release);
        // Of two ranks that post at the same time at least one then sees the other one's call.
        fence(SeqCst);
        self.history.begin_on_devices(self.number);
    }

    /// Tells the ranks of other nodes of this rank's last call, which launches nothing, before they can notice a later one.
    ///
    /// # Errors
    /// Why the communicator has failed.
    #[cold]
    pub fn tell_other_nodes(&self, bootstrap: &bootstrap::Bootstrap) -> Result<(), bootstrap::Error> {
        let (rank, ring) = &self.rings[self.own_local_rank];
        let words = read_text(ring, self.number).map(Vec::from).unwrap_or_default();
        let call = ToldCall { rank: *rank, number: self.number, chain: self.chain(self.number), words };
        self.told.tell(bootstrap, &call)
    }

    /// Returns the number of this rank's last call.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the error of the ranks, of all nodes, for which this rank has waited for `timeout` in vain: they have not made one of its
    /// calls, or made the last one that much later than this rank. `reports`: those of all ranks, without those that did not answer.
    #[cold]
    #[doc(hidden)]
    pub fn find_late_ranks(
        &self,
        bootstrap: &bootstrap::Bootstrap,
        reports: &[Option<CallReport>],
        timeout: Duration,
    ) -> Option<bootstrap::Error> {
        let reports = || (0_u32..).zip(reports).filter_map(|(rank, report)| Some((rank, report.as_ref()?)));
        let ranks = |condition: &dyn Fn(&CallReport) -> bool| -> Vec<u32> {
            reports().filter(|(_, report)| condition(report)).map(|(rank, _)| rank).collect()
        };
        let (_, own) = reports().find(|(rank, _)| *rank == bootstrap.rank())?;
        let slowest = reports().map(|(_, report)| report.device_call).min()?.min(self.number);
        let (number, missing) = if slowest < self.number {
            (slowest + 1, ranks(&|report| report.device_call == slowest))
        } else {
            let is_late = |report: &CallReport| {
                report.since_device_call + timeout <= own.since_device_call + arrival_time(timeout)
            };
            (self.number, ranks(&|report| report.device_call == self.number && is_late(report)))
        };
        let waiting = ranks(&|report| report.device_call >= number);
        let waiting = waiting.into_iter().filter(|rank| !missing.contains(rank)).collect();
        (!missing.is_empty()).then(|| bootstrap::Error::CollectiveTimeout {
            call: self.describe(self.own_local_rank, number),
            missing: missing.into_iter().map(|rank| bootstrap.member(rank)).collect(),
            waiting,
            waited: timeout,
            last_call: (number > 1).then(|| self.describe(self.own_local_rank, number - 1)),
        })
    }

    /// Compares the calls that this rank and its peers have made so far, and those of which ranks of other nodes have told.
    ///
    /// # Errors
    /// [`Mismatch`](bootstrap::Error::Mismatch) with the first different call;
    /// [`RankLeft`](bootstrap::Error::RankLeft) if a peer stopped without having made a call of this rank, or why the communicator has
    /// failed, which may be why it stopped.
    pub fn compare(&mut self, bootstrap: &bootstrap::Bootstrap) -> Result<(), bootstrap::Error> {
        for local_rank in (0..self.rings.len()).filter(|&local_rank| local_rank != self.own_local_rank) {
            let ring = &self.rings[local_rank].1;
            // Read before the number, which does not change afterwards.
            let has_stopped = ring.line(0)[STOPPED].load(Acquire) != 0;
            let reached = ring.at(0).load(Acquire);
            if has_stopped && reached < self.number {
                // The cause arrives later than what the peer has written to memory.
                let cause = bootstrap.failure_within(CAUSE_GRACE_PERIOD);
                return Err(cause.unwrap_or_else(|| self.left(bootstrap, local_rank, self.own_local_rank, reached + 1)));
            }
            let last = reached.min(self.number);
            if last <= self.compared[local_rank] || self.number - last >= CHAINS {
                continue;
            }
            match read_chain(ring, last) {
                Some(chain) if chain == self.chain(last) => self.compared[local_rank] = last,
                Some(_) => return Err(self.mismatch(bootstrap, local_rank, last)),
                None => {}
            }
        }
        self.told.receive(bootstrap)?;
        if self.told.calls.is_empty() { Ok(()) } else { self.compare_told(bootstrap) }
    }

    /// Compares the calls of ranks on other nodes that this rank has made, too.
    #[cold]
    fn compare_told(&mut self, bootstrap: &bootstrap::Bootstrap) -> Result<(), bootstrap::Error> {
        let is_reached = |call: &ToldCall| call.number <= self.number;
        let differs = |call: &&ToldCall| {
            is_reached(call) && self.number - call.number < CHAINS && call.chain != self.chain(call.number)
        };
        if let Some(call) = self.told.calls.iter().find(differs) {
            return Err(self.difference(bootstrap, call.rank, call.number));
        }
        let number = self.number;
        self.told.calls.retain(|call| call.number > number);
        Ok(())
    }

    /// Records that no launch of this rank is pending, and that it makes no further call.
    pub fn stop(&self) {
        self.rings[self.own_local_rank].1.line(0)[STOPPED].store(1, Release);
        // As in `post`: a peer that makes a call later sees it, or this rank sees the peer's call.
        fence(SeqCst);
    }

    /// Returns whether no peer may access this rank's memory any more, after [`stop`](Self::stop): each has stopped or is in
    /// `lost`, or, unless a launch was aborted, has made no call that this rank has not made.
    pub fn is_quiet(&self, lost: &[u32], was_aborted: bool) -> bool {
        let is_quiet = |(rank, ring): &(u32, SharedCacheLines)| {
            let is_even = !was_aborted && ring.at(0).load(Acquire) <= self.number;
            is_even || ring.line(0)[STOPPED].load(Acquire) != 0 || lost.contains(rank)
        };
        self.rings.iter().all(is_quiet)
    }

    /// Returns the error of a peer that has made a call which this rank will not make, after [`stop`](Self::stop). The peer finds it in
    /// [`compare`](Self::compare), unless it waits for other ranks in the call.
    pub fn missed(&self, bootstrap: &bootstrap::Bootstrap) -> Option<bootstrap::Error> {
        let is_ahead = |(_, ring): &(u32, SharedCacheLines)| {
            ring.line(0)[STOPPED].load(Acquire) == 0 && ring.at(0).load(Acquire) > self.number
        };
        let ahead = self.rings.iter().position(is_ahead)?;
        Some(self.left(bootstrap, self.own_local_rank, ahead, self.number + 1))
    }

    /// Returns the error of a rank that will not make a call of another one.
    #[cold]
    fn left(&self, bootstrap: &bootstrap::Bootstrap, left: usize, waits: usize, number: u64) -> bootstrap::Error {
        let (rank, waiting) = (self.rings[left].0, self.rings[waits].0);
        let decides = bootstrap.members().get(rank as usize) == Some(&0);
        let (who, waiting) = (Box::new(bootstrap.member(rank)), (!decides).then_some(waiting));
        bootstrap::Error::RankLeft { who, waiting, call: self.describe(waits, number) }
    }

    /// Describes the first call, up to `last`, in which a peer differs from this rank.
    #[cold]
    fn mismatch(&self, bootstrap: &bootstrap::Bootstrap, local_rank: usize, last: u64) -> bootstrap::Error {
        let ring = &self.rings[local_rank].1;
        let differs = |number: u64| read_chain(ring, number).is_some_and(|chain| chain != self.chain(number));
        let oldest = self.compared[local_rank].max(self.number.saturating_sub(CHAINS - 1)) + 1;
        let number = (oldest..=last).find(|&number| differs(number)).unwrap_or(last);
        self.difference(bootstrap, self.rings[local_rank].0, number)
    }

    /// Describes a call in which a rank differs from this one.
    fn difference(&self, bootstrap: &bootstrap::Bootstrap, peer: u32, number: u64) -> bootstrap::Error {
        let told = || self.told.calls.iter().filter(|call| call.number == number);
        let chain = |(at, (rank, ring)): (usize, &(u32, SharedCacheLines))| {
            let chain = read_chain(ring, number).or((at == self.own_local_rank).then(|| self.chain(number)));
            chain.map(|chain| (*rank, chain))
        };
        let chains = self.rings.iter().enumerate().filter_map(chain);
        let chains: Vec<(u32, u64)> = chains.chain(told().map(|call| (call.rank, call.chain))).collect();
        let pair = (self.rings[self.own_local_rank].0, peer);
        let (first, second) = odd_one_out(&chains).unwrap_or(pair);
        let text = |rank: u32| {
            let words = match self.rings.iter().find(|(other, _)| *other == rank) {
                Some((_, ring)) => read_text(ring, number),
                None => told().find(|call| call.rank == rank).and_then(|call| call.words.as_slice().try_into().ok()),
            };
            describe_or_number(words, number)
        };
        bootstrap::Error::Mismatch {
            first: Box::new(bootstrap.member(first)),
            first_call: text(first),
            second: Box::new(bootstrap.member(second)),
            second_call: text(second),
        }
    }

    /// Describes a call of a rank, if it is still in the ring.
    fn describe(&self, local_rank: usize, number: u64) -> String {
        describe_or_number(read_text(&self.rings[local_rank].1, number), number)
    }

    /// Returns the hash of this rank's calls up to one of the last [`CHAINS`].
    fn chain(&self, number: u64) -> u64 {
        self.chains[(number % CHAINS) as usize]
    }
}

/// Returns the line at which the entry of a call begins.
fn entry_line(number: u64) -> usize {
    1 + (number % RING) as usize * ENTRY_LINES
}

fn text_word(ring: &SharedCacheLines, number: u64, at: usize) -> &AtomicU64 {
    &ring.line(entry_line(number) + 1 + at / 8)[at % 8]
}

/// Reads the hash of a rank's calls up to one; `None` if the rank has not made it or has overwritten it.
fn read_chain(ring: &SharedCacheLines, number: u64) -> Option<u64> {
    read(ring, number, || ring.at(entry_line(number)).load(Relaxed))
}

/// Reads the text of a call; `None` as for [`read_chain`].
fn read_text(ring: &SharedCacheLines, number: u64) -> Option<[u64; TEXT_WORDS]> {
    read(ring, number, || std::array::from_fn(|at| text_word(ring, number, at).load(Relaxed)))
}

fn read<T>(ring: &SharedCacheLines, number: u64, of_entry: impl FnOnce() -> T) -> Option<T> {
    if number == 0 || ring.at(0).load(Acquire) < number {
        return None;
    }
    let found = of_entry();
    fence(Acquire);
    // The rank may be writing the entry after its last one.
    (ring.at(0).load(Relaxed) + 1 < number + RING).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use mscclpp_base::shm::Segment;
    use mscclpp_bootstrap::{Bootstrap, Error as Cause};

    fn rings(count: u32) -> (Vec<CallRing>, Vec<Bootstrap>) {
        let lines = |rank| {
            let (segment, _file) = Segment::new(SharedCacheLines::bytes(LINES), "a test").expect("a little memory");
            (rank, SharedCacheLines::new(Arc::new(segment), 0..SharedCacheLines::bytes(LINES)))
        };
        let all: Vec<_> = (0..count).map(lines).collect();
        let ring = |own| CallRing::new(all.clone(), own as usize, Arc::default());
        ((0..count).map(ring).collect(), Bootstrap::local(count).expect("ranks"))
    }

    fn text(text: &str) -> CallText {
        CallText::new(text, &Location::caller().to_string())
    }

    #[test]
    fn equal_calls_are_no_mismatch_however_far_a_rank_is_ahead() {
        let (mut rings, ranks) = rings(2);
        for number in 0..3 * RING {
            rings[0].post(&text(&format!("call {}", number % 7)));
        }
        assert_eq!(rings[0].compare(&ranks[0]), Ok(()));
        for number in 0..3 * RING {
            rings[1].post(&text(&format!("call {}", number % 7)));
            assert_eq!(rings[1].compare(&ranks[1]), Ok(()));
        }
        assert_eq!(rings[0].compare(&ranks[0]), Ok(()));
        assert_eq!(rings[0].compared[1], 3 * RING);
    }

    #[test]
    fn first_different_call_is_named_with_its_place() {
        let (mut rings, ranks) = rings(3);
        for (rank, ring) in rings.iter_mut().enumerate() {
            for number in 0..40 {
                ring.post(&text(if (rank, number) == (1, 17) { "a gather" } else { "a reduction" }));
            }
        }
        let found = rings[2].compare(&ranks[2]).expect_err("rank 1 differs");
        let Cause::Mismatch { first, first_call, second, second_call } = &found else { panic!("{found}") };
        assert_eq!((first.rank, second.rank), (0, 1));
        assert!(first_call.starts_with("a reduction (call 18) at ") && first_call.contains("call_ring.rs"), "{found}");
        assert!(second_call.starts_with("a gather (call 18) at "), "{found}");
        assert_eq!(rings[0].compare(&ranks[0]), Err(found));
    }

    #[test]
    fn rank_that_has_not_made_a_call_or_made_it_after_the_timeout_is_late() {
        let (mut rings, ranks) = rings(3);
        ["a reduction", "a gather"].into_iter().for_each(|call| rings[0].post(&text(call)));
        let report = |device_call, since| {
            let since_device_call = Duration::from_millis(since);
            Some(CallReport { device_call, since_device_call, ..CallReport::default() })
        };
        let find =
            |reports: [Option<CallReport>; 3]| rings[0].find_late_ranks(&ranks[0], &reports, Duration::from_secs(7));
        let found = find([report(2, 7100), report(1, 9000), report(2, 100)]).expect("rank 1 is late").to_string();
        let parts = [
            "a gather (call 2) at ",
            "within 7.0 s; ranks 0 and 2 waited for it; the last call before is a reduction (call 1) at ",
        ];
        assert!(found.starts_with("rank 1 (") && parts.iter().all(|part| found.contains(part)), "{found}");
        assert_eq!(find([report(2, 7100), report(2, 1000), report(3, 50)]), None);
        let late = find([report(2, 7100), report(2, 7050), report(2, 50)]).expect("rank 2 was late");
        assert_eq!(late.root_cause().map(|cause| cause.rank), Some(2), "{late}");
    }

    #[test]
    fn entries_that_are_used_again_have_the_text_of_their_last_call() {
        let (mut rings, ranks) = rings(2);
        let places = [text("call 0"), text("call 1"), text("call 2")];
        for ring in &mut rings {
            // The number of entries is no multiple of 3, so that each has another text in the next round.
            (0..3 * RING).for_each(|number| ring.post(&places[(number % 3) as usize]));
        }
        rings[0].post(&places[0]);
        rings[1].post(&places[2]);
        let found = rings[0].compare(&ranks[0]).expect_err("rank 1 differs").to_string();
        let number = 3 * RING + 1;
        assert!(found.contains(&format!("call 0 (call {number}) at ")), "{found}");
        assert!(found.contains(&format!("call 2 (call {number}) at ")), "{found}");
    }

    #[test]
    fn stopped_rank_is_quiet_when_no_peer_is_ahead_or_all_have_stopped() {
        let (mut rings, ranks) = rings(2);
        rings.iter_mut().for_each(|ring| ring.post(&text("a reduction")));
        rings[1].stop();
        assert_eq!((rings[1].is_quiet(&[], false), rings[1].is_quiet(&[], true)), (true, false));
        assert_eq!(rings[0].compare(&ranks[0]), Ok(()), "rank 1 has made the call");
        rings[0].post(&text("a gather"));
        assert_eq!((rings[1].is_quiet(&[], false), rings[1].is_quiet(&[0], true)), (false, true));
        let left = rings[0].compare(&ranks[0]).expect_err("rank 1 has stopped");
        assert!(
            matches!(&left, Cause::RankLeft { who, call, .. } if who.rank == 1 && call.contains("a gather (call 2)"))
        );
        rings[0].stop();
        assert!(rings[1].is_quiet(&[], true));
    }

    #[test]
    fn rank_that_has_stopped_because_of_a_failure_has_not_left() {
        let (mut rings, ranks) = rings(2);
        ranks[1].abort("its disk is full");
        rings[1].stop();
        rings[0].post(&text("a reduction"));
        let cause = rings[0].compare(&ranks[0]).expect_err("rank 1 has stopped");
        assert!(matches!(&cause, Cause::Aborted { who, .. } if who.rank == 1), "{cause}");
    }

    #[test]
    fn call_of_which_a_rank_of_another_node_tells_is_compared_when_this_rank_makes_it() {
        let ranks = Bootstrap::local(2).expect("ranks");
        let mut rings: Vec<CallRing> = (0..2)
            .map(|own| {
                let mut ring = rings(1).0.remove(0);
                ring.rings[0].0 = own;
                CallRing { told: ToldCalls::new(vec![1 - own]), ..ring }
            })
            .collect();
        for (own, other) in [("nothing", "nothing"), ("nothing", "a reduction")] {
            rings[0].post(&text(own));
            std::thread::scope(|scope| {
                let told = scope.spawn(|| rings[0].tell_other_nodes(&ranks[0]));
                assert_eq!(told.join().expect("no panic"), Ok(()));
            });
            assert_eq!(rings[1].compare(&ranks[1]), Ok(()), "it has not made the call");
            rings[1].post(&text(other));
            let compared = rings[1].compare(&ranks[1]);
            assert_eq!(compared.is_ok(), own == other);
            let Err(found) = compared else { continue };
            let Cause::Mismatch { first, first_call, second, second_call } = &found else { panic!("{found}") };
            assert_eq!((first.rank, second.rank), (0, 1));
            assert!(
                first_call.starts_with("nothing (call 2) at ") && second_call.starts_with("a reduction (call 2) at ")
            );
        }
    }

    #[test]
    fn rank_that_is_ahead_compares_calls_that_it_has_overwritten() {
        let (mut rings, ranks) = rings(2);
        (0..2 * RING).for_each(|_| rings[0].post(&text("a reduction")));
        rings[1].post(&text("a gather"));
        assert_eq!(rings[1].compare(&ranks[1]), Ok(()), "the entry was overwritten");
        let found = rings[0].compare(&ranks[0]).expect_err("rank 1 differs").to_string();
        assert!(found.contains("a gather (call 1) at ") && found.contains("calls call 1,"), "{found}");
    }
}
