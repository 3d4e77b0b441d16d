//! What the calls of a rank have in common: its peers on the node, and which call comes next.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::buffer::Shared;
use super::calls::{AHEAD, Calls, Handed, RING};
use super::options::Options;
use super::plan::Prepared;
use super::seats::Seats;
use super::wire::{Trouble, Wires};
use crate::bootstrap::Bootstrap;
use crate::error::{Cause, Error};
use crate::memory::{Loan, Views};
use crate::numeric::{LINE, Line};
use crate::shm::{Cells, Door, Mesh, Segment, Sent};

/// A rank's side of its group. One call at a time has it.
pub(crate) struct Session {
    pub(super) bootstrap: Arc<Bootstrap>,
    pub(super) options: Options,
    /// By rank: its node.
    pub(super) nodes: Vec<u32>,
    /// Connections to ranks on other nodes.
    pub(super) wires: Wires,
    /// Ranks of this node, ascending, and the own place among them.
    pub(super) locals: Vec<u32>,
    pub(super) me: usize,
    pub(super) calls: Calls,
    mesh: Mesh,
    /// The last call.
    pub(super) number: u64,
    /// What the last calls were, by number.
    history: [(u64, u64); RING as usize],
    /// By place: up to which call it is known that the peer called the same.
    compared: Box<[u64]>,
    /// Texts of the last kinds of calls by id, for messages.
    texts: VecDeque<(u64, Arc<str>)>,
    /// Launches so far: their packets' flags.
    pub(super) launches: u64,
    /// Why the group cannot go on.
    pub(crate) broken: Option<String>,
    /// Plans that were prepared.
    pub(super) plans: Vec<Prepared>,
    /// Allocations that are alive, by number.
    pub(super) regions: Vec<Weak<Shared>>,
    pub(super) allocations: u64,
    /// Where slices are copied to that are not shared themselves: inputs, outputs.
    pub(super) staging: [Option<Arc<Shared>>; 2],
    /// Where short slices are copied to instead: room for both slots of each of the last [`RING`] calls. Nobody is ahead of
    /// a peer by so many calls, so that a launch need not wait until all have read its copies.
    pub(super) ring: Option<Arc<Shared>>,
    /// Own scratch for packets that executables or plans still have, to be cleared when flags start again.
    pub(super) packets: Vec<Weak<Segment>>,
    /// More ranks than processors to run them: to spin keeps peers from running.
    pub(super) crowded: bool,
}

/// Kinds of calls whose texts are kept.
const TEXTS: usize = 512;

/// Rounds that a rank spins before it lets others have its processor, about a hundred microseconds.
pub(super) const SPINS: u32 = 2000;

/// Rounds that it then spends so before it sleeps.
pub(super) const YIELDS: u32 = 1000;

/// Passes a little time in a spin: at first none, as a peer on its way is here within a few looks.
#[inline]
pub(super) fn spin(rounds: u32) {
    if rounds > 64 {
        std::hint::spin_loop();
    }
}

/// How long a rank sleeps at most before it looks whether its peers are alive.
pub(super) const NAP: Duration = Duration::from_millis(2);

/// How long after a peer gave up its reason may take to arrive here.
const HEARSAY: Duration = Duration::from_millis(200);

impl Session {
    /// Connects the ranks of a node.
    pub(crate) fn new(bootstrap: Arc<Bootstrap>, options: Options) -> Result<Self, Error> {
        let rank = bootstrap.rank();
        let nodes = (0..bootstrap.num_ranks()).map(|peer| bootstrap.node_of(peer)).collect::<Result<Vec<_>, _>>()?;
        let node = nodes[rank as usize];
        let locals: Vec<u32> = (0..).zip(&nodes).filter(|(_, on)| **on == node).map(|(peer, _)| peer).collect();
        let me = locals.iter().position(|&peer| peer == rank).unwrap_or(0);
        let door = Door::open()?;
        let seats = Seats::mine();
        let all = bootstrap.all_gather(&[door.key().as_slice(), seats.bytes()].concat())?;
        let key = |peer: &u32| -> Result<([u8; 32], Seats), Error> {
            let key = all.get(*peer as usize).and_then(|sent| sent.split_first_chunk());
            let key = key.map(|(key, seats)| (*key, Seats::from_bytes(seats)));
            key.ok_or_else(|| Error::Lost { peer: *peer, why: "it sent no local address".into() })
        };
        let (keys, all_seats): (Vec<_>, Vec<_>) = locals.iter().map(key).collect::<Result<_, _>>()?;
        let deadline = Instant::now() + options.deadline;
        let mesh = door.connect(me, &keys, deadline).map_err(|error| name(error, &locals, &bootstrap))?;
        let bytes = Calls::bytes(locals.len());
        // The first rank of the node brings the segment.
        let segment = if me == 0 {
            let (segment, file) = Segment::new(bytes, "calls")?;
            segment.reserve(&file, "calls")?;
            for place in 1..locals.len() {
                mesh.send(place, &[], &[file.as_fd()]).map_err(|error| name(error, &locals, &bootstrap))?;
            }
            segment
        } else {
            let late = || {
                bootstrap.check_alive()?;
                let why = "it did not share its segment of calls in time".into();
                if Instant::now() > deadline { Err(Error::Lost { peer: 0, why }) } else { Ok(()) }
            };
            let sent = mesh.receive(0, late).map_err(|error| name(error, &locals, &bootstrap))?;
            let file = sent.files.into_iter().next();
            Segment::open(file.ok_or_else(|| lost_descriptor(locals[0]))?, bytes)?
        };
        Ok(Self {
            calls: Calls::new(Cells::new(Arc::new(segment)), me, locals.len()),
            crowded: seats.are_short(&all_seats),
            compared: vec![0; locals.len()].into(),
            bootstrap,
            options,
            nodes,
            wires: Wires::default(),
            locals,
            me,
            mesh,
            number: 0,
            history: [(0, 0); RING as usize],
            texts: VecDeque::new(),
            launches: 0,
            broken: None,
            plans: Vec::new(),
            regions: Vec::new(),
            allocations: 0,
            staging: [None, None],
            ring: None,
            packets: Vec::new(),
        })
    }

    /// This rank.
    pub(super) fn rank(&self) -> u32 {
        self.bootstrap.rank()
    }

    /// Places of the other ranks of the node.
    pub(super) fn peers(&self) -> impl Iterator<Item = usize> + use<> {
        let me = self.me;
        (0..self.locals.len()).filter(move |&place| place != me)
    }

    /// Remembers a text and returns the id that it has on all ranks.
    pub(super) fn id_of(&mut self, text: &str) -> u64 {
        let id = fnv(text.as_bytes());
        if self.texts.iter().all(|(known, _)| *known != id) {
            if self.texts.len() >= TEXTS {
                self.texts.pop_front();
            }
            self.texts.push_back((id, text.into()));
        }
        id
    }

    fn text_of(&self, id: u64) -> Option<String> {
        self.texts.iter().find(|(known, _)| *known == id).map(|(_, text)| text.to_string())
    }

    /// Begins a call without buffers.
    ///
    /// # Errors
    /// As [`enter`](Self::enter).
    fn begin(&mut self, id: u64) -> Result<(), Error> {
        let number = self.enter()?;
        self.announce(number, id, &Handed::default());
        Ok(())
    }

    /// The number of the next call; waits if this rank is too far ahead. What this rank handed in [`RING`] calls before, and
    /// all peers have finished, it may use again.
    ///
    /// # Errors
    /// [`Error::Broken`], [`Error::Mismatch`] for one of the last calls, [`Error::Lost`] if a peer is gone.
    #[inline]
    pub(super) fn enter(&mut self) -> Result<u64, Error> {
        if let Some(why) = &self.broken {
            return Err(Error::Broken { why: why.clone() });
        }
        let number = self.number + 1;
        if number > AHEAD {
            let least = number - AHEAD;
            for place in self.peers() {
                if self.compared[place] < least {
                    self.wait_for(|session| {
                        session.compare(place)?;
                        Ok(session.compared[place] >= least)
                    })?;
                }
            }
        }
        Ok(number)
    }

    /// Says what this rank calls in the call that it has entered.
    #[inline]
    pub(super) fn announce(&mut self, number: u64, id: u64, handed: &Handed) {
        self.number = number;
        self.history[(number % RING) as usize] = (number, id);
        self.calls.begin(number, id, handed);
    }

    /// Compares the calls that a peer has begun with the own ones.
    ///
    /// # Errors
    /// [`Error::Mismatch`].
    #[inline]
    pub(super) fn compare(&mut self, place: usize) -> Result<(), Error> {
        while self.compared[place] < self.number {
            let number = self.compared[place] + 1;
            let Some((other, _)) = self.calls.begun(place, number) else {
                break;
            };
            let own = self.history[(number % RING) as usize].1;
            if own != other {
                return Err(self.mismatch(place, number, own, other));
            }
            self.compared[place] = number;
        }
        Ok(())
    }

    /// Whether a peer is known to have begun the call at hand, the same one.
    #[inline]
    pub(super) fn is_compared(&self, place: usize) -> bool {
        self.compared[place] == self.number
    }

    #[cold]
    fn mismatch(&mut self, place: usize, number: u64, own: u64, other: u64) -> Error {
        // What is not known here the peer may have written down.
        let text = Some(self.calls.text(place)).filter(|text| fnv(text.as_bytes()) == other);
        self.differ(self.locals[place], number, own, other, text)
    }

    /// Ends the group because a peer calls something else; `text` is what it calls, if it has said so.
    fn differ(&mut self, peer: u32, number: u64, own: u64, other: u64, text: Option<String>) -> Error {
        let unknown = |id: u64| format!("something that it prepared alone (call id {id:x})");
        let call = self.text_of(own).unwrap_or_else(|| unknown(own));
        let other = self.text_of(other).or(text).unwrap_or_else(|| unknown(other));
        let error = Error::Mismatch { number, rank: self.rank(), call, peer, other };
        self.give_up(&error);
        error
    }

    /// Ends the group because of what a rank of another node sent.
    #[cold]
    pub(super) fn in_trouble(&mut self, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Lost(error) => {
                self.give_up(&error);
                error
            }
            Trouble::Differs { peer, own, other } => {
                let error = self.differ(peer, self.number, own, other, None);
                // Ranks that send to this node and wait for nobody there hear of it too.
                self.bootstrap.abort(&error.to_string());
                error
            }
        }
    }

    /// Says that the group cannot go on.
    #[cold]
    pub(crate) fn give_up(&mut self, error: &Error) {
        self.broken.get_or_insert_with(|| error.to_string());
        self.calls.give_up(self.number);
    }

    /// Why nobody needs to be waited for any longer, if so.
    #[cold]
    pub(super) fn find_cause(&self) -> Option<Cause> {
        if let Some(cause) = self.find_first_cause() {
            return Some(cause);
        }
        let place = self.calls.find_given_up()?;
        // A peer may give up because of what is about to be seen here too: who died or stopped is to be named, not who
        // heard of it first.
        let until = Instant::now() + HEARSAY;
        while Instant::now() < until {
            std::thread::sleep(HEARSAY / 100);
            if let Some(cause) = self.find_first_cause() {
                return Some(cause);
            }
        }
        Some(Cause::GaveUp { peer: self.locals[place] })
    }

    /// A cause that is not a consequence of another one.
    #[cold]
    fn find_first_cause(&self) -> Option<Cause> {
        // Who has finished this call may leave, and who has given up has a reason.
        let needed = |place| !self.calls.has_left_after(place, self.number) && !self.calls.has_given_up(place);
        if let Some(place) = self.mesh.find_lost(needed) {
            return Some(Cause::Gone { peer: self.locals[place] });
        }
        self.bootstrap.check_alive().err().map(|error| Cause::Group(Box::new(error)))
    }

    /// Waits outside of a launch until something is so; fails when a peer is gone or nothing is so until the deadline.
    #[cold]
    fn wait_for(&mut self, mut is_so: impl FnMut(&mut Self) -> Result<bool, Error>) -> Result<(), Error> {
        let mut since: Option<Instant> = None;
        let mut rounds = 0_u32;
        while !is_so(self)? {
            rounds += 1;
            if rounds < SPINS && !self.crowded {
                spin(rounds);
                continue;
            }
            if rounds < SPINS + YIELDS {
                std::thread::yield_now();
                continue;
            }
            self.check_peers(*since.get_or_insert_with(Instant::now))?;
            let drowsy = self.calls.lie_down();
            if is_so(self)? {
                self.calls.get_up();
                break;
            }
            self.calls.sleep(drowsy, NAP);
        }
        Ok(())
    }

    /// Fails if a wait that began at `since` is of no use.
    fn check_peers(&mut self, since: Instant) -> Result<(), Error> {
        // A peer that gave up because of this very call says so by its call.
        for place in self.peers() {
            self.compare(place)?;
        }
        let why = |what| format!("{what}, while rank {} waited for it", self.rank());
        let error = match self.find_cause() {
            Some(Cause::Group(error)) => Error::Group(error),
            Some(Cause::Gone { peer }) => Error::Lost { peer, why: why("its connection was closed") },
            Some(Cause::GaveUp { peer }) => Error::Lost { peer, why: why("it has given up") },
            _ if since.elapsed() < self.options.deadline => return Ok(()),
            _ => {
                let absent = self.peers().find(|&place| !self.is_compared(place));
                let peer = self.locals[absent.unwrap_or(self.me)];
                let call = self.text_of(self.history[(self.number % RING) as usize].1).unwrap_or_default();
                let why = format!("it did not make call {} ({call}) within {:?}", self.number, self.options.deadline);
                Error::Lost { peer, why }
            }
        };
        self.give_up(&error);
        Err(error)
    }

    /// Waits for the ranks of other nodes.
    pub(super) fn settle_nodes(&self) -> Result<(), Error> {
        match self.bootstrap.num_nodes() {
            1 => Ok(()),
            _ => Ok(self.bootstrap.barrier()?),
        }
    }

    /// The flag of the next launch: 1, 2, …, and after the largest again 1, for which all make their packets stale.
    pub(super) fn next_flag(&mut self) -> Result<u32, Error> {
        let flag = (self.launches % u64::from(u32::MAX)) as u32 + 1;
        if flag == 1 && self.launches > 0 {
            self.clear_packets()?;
        }
        self.launches += 1;
        Ok(flag)
    }

    #[cold]
    fn clear_packets(&mut self) -> Result<(), Error> {
        const TEXT: &str = "clearing of packets";
        // First nobody uses packets any more, then nobody has any.
        self.agree(TEXT)?;
        for packets in self.packets.iter().filter_map(Weak::upgrade) {
            let len = packets.len() as u64;
            let mut views = Views::new(1);
            views.set(0, &packets, 0..len);
            let span = views.memory().slice(0);
            for at in (0..len as usize).step_by(LINE) {
                span.store(at, LINE.min(len as usize - at), Line::ZERO);
            }
        }
        self.agree(TEXT)
    }

    /// The number of the allocation in which peers can use a slice, and where; looks into `last` first and leaves there what
    /// it found.
    #[inline]
    pub(super) fn region(&self, last: &mut Weak<Shared>, loan: &Loan<'_>) -> Option<(u64, u64)> {
        let find = |region: &Weak<Shared>| {
            let region = region.upgrade()?;
            Some((region.number, region.find(loan)?))
        };
        find(last).or_else(|| {
            let (region, found) = self.regions.iter().find_map(|region| Some((region, find(region)?)))?;
            *last = Weak::clone(region);
            Some(found)
        })
    }

    /// The memory of the rank at a place in an allocation that is alive.
    #[cold]
    pub(super) fn region_of(&self, place: usize, number: u64) -> Option<Arc<Segment>> {
        let mut regions = self.regions.iter().filter_map(Weak::upgrade);
        regions.find(|region| region.number == number).and_then(|region| region.at(place).cloned())
    }

    /// Room for copies of a slot, by its number.
    #[inline]
    pub(super) fn copies_in(&self, number: u64, slot: usize) -> Option<&Arc<Shared>> {
        [&self.ring, &self.staging[slot]].into_iter().flatten().find(|shared| shared.number == number)
    }

    pub(super) fn barrier(&mut self) -> Result<(), Error> {
        let id = self.id_of("barrier");
        self.begin(id)?;
        self.calls.wake(false);
        for place in self.peers() {
            self.wait_for(|session| {
                session.compare(place)?;
                Ok(session.is_compared(place))
            })?;
        }
        if self.bootstrap.num_nodes() > 1 {
            self.bootstrap.barrier()?;
        }
        Ok(())
    }

    /// A call that all ranks of the node make, in which each tells all others something. Returns by place what each sent; the
    /// own place's is empty.
    ///
    /// # Errors
    /// As [`begin`](Self::begin); [`Error::Lost`] if somebody does not come before the deadline.
    pub(crate) fn exchange(&mut self, text: &str, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Result<Vec<Sent>, Error> {
        let id = self.id_of(text);
        // Peers may still have to read what this rank called when the group broke.
        if self.broken.is_none() {
            self.calls.write_text(text);
        }
        self.begin(id)?;
        self.calls.wake(false);
        for place in self.peers() {
            self.wait_for(|session| {
                session.compare(place)?;
                Ok(session.is_compared(place))
            })?;
        }
        let mut result = Ok(());
        for place in self.peers() {
            result = result.and_then(|()| self.mesh.send(place, bytes, files));
        }
        let since = Instant::now();
        let mut received = Vec::new();
        for place in 0..self.locals.len() {
            let deadline = self.options.deadline;
            let bootstrap = &self.bootstrap;
            let late = || {
                bootstrap.check_alive()?;
                let why = format!("it sent nothing for {deadline:?} in {text}");
                if since.elapsed() > deadline { Err(Error::Lost { peer: place as u32, why }) } else { Ok(()) }
            };
            match result.and_then(|()| self.mesh.receive(place, late)) {
                Ok(sent) => {
                    received.push(sent);
                    result = Ok(());
                }
                Err(error) => {
                    let error = name(error, &self.locals, &self.bootstrap);
                    self.give_up(&error);
                    return Err(error);
                }
            }
        }
        self.calls.finish(self.number);
        Ok(received)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if self.broken.is_none() {
            self.calls.leave(self.number);
        }
        // Peers see the connections close; nothing is waited for.
    }
}

/// A descriptor that a peer has sent and that did not arrive.
#[cold]
pub(super) fn lost_descriptor(peer: u32) -> Error {
    let what = format!("receive the descriptor of rank {peer}'s memory");
    let why = "this process has as many descriptors as it may have; raise the limit with `ulimit -n`".into();
    Error::System { what, why }
}

/// Puts the rank into an error that names a place; or who took that rank with it, which the group is about to hear.
fn name(error: Error, locals: &[u32], bootstrap: &Bootstrap) -> Error {
    match error {
        Error::Lost { peer, why } => match bootstrap.failure_within(HEARSAY) {
            Some(first) => first.into(),
            None => Error::Lost { peer: locals.get(peer as usize).copied().unwrap_or(peer), why },
        },
        other => other,
    }
}

/// The id of a text: the same on all machines (FNV-1a).
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use mscclpp_core::plan::Plan;

    use crate::algorithms;
    use crate::bootstrap::Bootstrap;
    use crate::message::Message;
    use crate::process::Transport;

    use super::*;

    #[test]
    fn packets_of_older_executables_are_stale_when_flags_start_again() {
        let algorithm = algorithms::find("allreduce_one_shot_packets").expect("it is in the library");
        let arguments = algorithm.arguments([]).expect("defaults");
        let plan = Plan::new(&algorithm.compile(algorithm.spec(2, 2), &arguments).expect("it compiles"));
        let prepare = |transport: &Transport, count| {
            transport.prepare(&plan, Message::of::<f32>(count).any_size()).expect("a little memory")
        };
        let rank = |group: Bootstrap| {
            let transport = Transport::new(Arc::new(group)).expect("a transport");
            let mut old = prepare(&transport, 10);
            let mut launch = |of: Option<&mut crate::process::Executable>, value: f32| {
                let x = of.unwrap_or(&mut old);
                let (input, mut output) = (vec![value; x.input_len()], vec![0.0; x.output_len()]);
                x.launch(&input, &mut output).expect("it runs");
                assert!(output.iter().all(|&found| found == 2.0 * value), "{output:?} of {value}");
            };
            (0..4).for_each(|_| launch(None, 1.0));
            let mut new = prepare(&transport, 10_000);
            transport.inner.session().expect("nobody else has it").launches = u64::from(u32::MAX);
            launch(Some(&mut new), 3.0);
            launch(None, 4.0);
            // What this launch reads first lay there before flags started again, if it is not cleared.
            if transport.rank() == 1 {
                std::thread::sleep(Duration::from_millis(200));
            }
            launch(None, 5.0);
        };
        std::thread::scope(|scope| {
            for group in Bootstrap::local(2).expect("a group") {
                scope.spawn(move || rank(group));
            }
        });
    }
}
