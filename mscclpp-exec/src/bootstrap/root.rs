//! The connection thread of rank 0: brings the ranks together, then passes their frames on.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::error::Error;
use super::frame::{BODY_BYTES, Frame, Purpose};
use super::gate::{Gate, Visitor};
use super::inbox::Inbox;
use super::member::Member;
use super::options::Options;
use super::outbox::Outbox;
use super::poll::{self, Interest};
use super::pulse::Pulse;
use super::router::{Delivery, Router};
use super::tcp::GOODBYE;
use crate::patience::Patience;

/// How many bytes may wait for one rank's connection before messages to it wait with their senders.
const FULL_BYTES: usize = 4 << 20;
/// Most bytes that may wait there, of what does not wait with its sender, before the rank counts as stuck; less in tests,
/// which then need not send as much.
const QUEUED_BYTES: usize = if cfg!(test) { 32 << 20 } else { 4 * BODY_BYTES };

/// Rank 0's side of all connections.
#[derive(Debug)]
pub(super) struct Root {
    me: Member,
    ranks: u32,
    gate: Gate,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    options: Options,
    pulse: Pulse,
    /// Who has proved itself, but has not said who it is.
    joining: Vec<(u32, u32, Conn)>,
    /// By rank; empty for rank 0, for who has not come and who is gone.
    seats: Vec<Option<Seat>>,
    /// Who came, by rank.
    members: Vec<Option<Member>>,
    phase: Phase,
    started: Instant,
    /// How long ago that was, as deadlines count.
    clock: Patience,
    /// When rank 0 said goodbye.
    leaving: Option<Instant>,
}

#[derive(Debug)]
enum Phase {
    /// Not all have come.
    Gathering,
    /// All have come.
    Together(Router),
    /// They will not come together, and why.
    Failed(Error),
}

#[derive(Debug)]
struct Seat {
    conn: Conn,
    /// A message of this rank's that waits for room at its receiver. Until it goes, nothing else of this rank is read.
    held: Option<Frame>,
    /// Has said goodbye.
    left: bool,
    /// Has seen rank 0's goodbye.
    seen: bool,
}

impl Root {
    pub(super) fn new(
        me: Member,
        ranks: u32,
        gate: Gate,
        inbox: Arc<Inbox>,
        outbox: Arc<Outbox>,
        options: Options,
    ) -> Self {
        let empty = || (0..ranks).map(|_| None);
        let mut members: Vec<_> = (0..ranks).map(|_| None).collect();
        members[0] = Some(me.clone());
        Self {
            me,
            ranks,
            gate,
            inbox,
            outbox,
            options,
            pulse: Pulse::new(options.liveness),
            joining: Vec::new(),
            seats: empty().collect(),
            members,
            phase: Phase::Gathering,
            started: Instant::now(),
            clock: Patience::new(options.deadline),
            leaving: None,
        }
    }

    /// Serves until rank 0 has said goodbye and nobody needs it any more.
    pub(super) fn run(mut self) {
        // Rank 0 may be all there is.
        self.come_together();
        loop {
            match self.turn() {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
        }
        self.outbox.settle();
    }

    fn turn(&mut self) -> Result<bool, Error> {
        let ready = self.wait()?;
        let now = Instant::now();
        self.pulse.woke(now);
        self.clock.look();
        self.own(now);
        for visitor in self.gate.attend(now) {
            self.visit(visitor);
        }
        self.join();
        for rank in 1..self.ranks {
            let held = self.seats[rank as usize].as_ref().is_some_and(|seat| seat.held.is_some());
            if held || ready[rank as usize] {
                self.hear(rank, now);
            }
        }
        self.look_at_the_clock(now);
        // The survivors may want the port.
        if let Phase::Together(router) = &self.phase
            && router.has_failed()
        {
            self.gate.close();
        }
        Ok(self.goes_on(now))
    }

    /// Waits, and says whose seats have something, by rank.
    fn wait(&self) -> Result<Vec<bool>, Error> {
        let mut sockets = vec![(self.outbox.waker().as_fd(), Interest::Read)];
        let mut ranks = vec![0];
        for (rank, seat) in self.seats.iter().enumerate() {
            let Some(seat) = seat else { continue };
            let interest = match seat.conn.interest() {
                interest if seat.held.is_none() => interest,
                Interest::Read => continue,
                _ => Interest::Write,
            };
            sockets.push((seat.conn.as_fd(), interest));
            ranks.push(rank);
        }
        sockets.extend(self.joining.iter().map(|(_, _, conn)| (conn.as_fd(), conn.interest())));
        sockets.extend(self.gate.sockets());
        let seats = self.seats.iter().flatten();
        let pulses =
            seats.filter_map(|seat| self.pulse.next(seat.conn.spoke, Some(seat.conn.heard).filter(|_| !seat.left)));
        // The next look at the clock that counts deadlines.
        let deadline = match &self.phase {
            Phase::Gathering => Some(self.clock.left()),
            Phase::Together(router) => router.next_expiry().map(|at| at.saturating_duration_since(self.counted())),
            Phase::Failed(_) => None,
        };
        let deadline = deadline.map(|left| Instant::now() + left.min(self.clock.nap()));
        let goodbye = self.leaving.map(|since| since + GOODBYE).filter(|until| *until > Instant::now());
        let next = pulses.chain(deadline).chain(self.gate.next_expiry()).chain(goodbye).min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
        // Room that was made meanwhile does not show at any socket.
        let timeout = if self.could_go_on() { Some(Duration::ZERO) } else { timeout };
        let found = poll::wait(&sockets, timeout)?;
        let mut ready = vec![false; self.ranks as usize];
        for (rank, found) in ranks.into_iter().zip(found) {
            ready[rank] = found;
        }
        Ok(ready)
    }

    /// What rank 0 itself has to say.
    fn own(&mut self, now: Instant) {
        let counted = self.counted();
        self.outbox.waker().clear();
        while let Some(frame) = self.outbox.take_if(|frame| self.has_room(frame)) {
            if let Frame::Left { .. } = frame {
                self.leaving = Some(now);
            }
            match &mut self.phase {
                Phase::Together(router) => {
                    let mut out = Vec::new();
                    router.route(0, frame, counted, &mut out);
                    self.deliver(out);
                }
                // Before all have come, all that rank 0 can say is that it gives up.
                _ => match frame {
                    Frame::Failed(error) => self.fail(error),
                    Frame::Left { .. } => self.push_to_all(&frame),
                    _ => {}
                },
            }
        }
    }

    fn visit(&mut self, Visitor { purpose, conn }: Visitor) {
        match purpose {
            Purpose::Join { rank, ranks } => self.joining.push((rank, ranks, conn)),
            Purpose::Stream { .. } => self.inbox.welcome(purpose, conn),
        }
    }

    /// Listens to those who say who they are.
    fn join(&mut self) {
        for (rank, ranks, mut conn) in std::mem::take(&mut self.joining) {
            let open = conn.read().unwrap_or(false);
            match conn.next() {
                Ok(Some(Frame::Join(member))) if member.rank == rank && member.is_sane() => {
                    self.take_in(member, ranks, conn);
                }
                Ok(None) if open => self.joining.push((rank, ranks, conn)),
                // It knew the secret, so it was one of us.
                _ if matches!(self.phase, Phase::Gathering) && rank < self.ranks => {
                    let who = Box::new(Member { rank, ..Member::unknown() });
                    self.fail(Error::Died { who, how: "its connection closed before it said who it is".into() });
                }
                _ => {}
            }
        }
    }

    fn take_in(&mut self, member: Member, ranks: u32, mut conn: Conn) {
        let rank = member.rank as usize;
        if let Phase::Failed(error) = &self.phase {
            conn.push(&Frame::Refused(error.clone()));
            // Whoever it is, it has heard.
            if let Some(place @ None) = self.members.get_mut(rank) {
                *place = Some(member);
            }
            return;
        }
        if matches!(&self.phase, Phase::Together(router) if router.has_failed()) {
            return conn.push(&Frame::Later);
        }
        let wrong = if ranks != self.ranks {
            Some(Error::WorldSize { who: Box::new(member.clone()), theirs: ranks, ours: self.ranks })
        } else {
            match self.members.get(rank) {
                None => Some(Error::NoSuchRank { rank: member.rank, ranks: self.ranks }),
                Some(Some(first)) => {
                    Some(Error::Duplicate { first: Box::new(first.clone()), second: Box::new(member.clone()) })
                }
                Some(None) => None,
            }
        };
        if let Some(error) = wrong {
            conn.push(&Frame::Refused(error.clone()));
            // A job that runs is not ended by who comes too late.
            if matches!(self.phase, Phase::Gathering) {
                self.fail(error);
            }
            return;
        }
        let Options { deadline, liveness } = self.options;
        let remaining = self.clock.left();
        conn.trust();
        conn.push(&Frame::Admitted { remaining, deadline, liveness });
        self.members[rank] = Some(member);
        self.seats[rank] = Some(Seat { conn, held: None, left: false, seen: false });
        self.come_together();
    }

    /// Tells all who they are, if all are there.
    fn come_together(&mut self) {
        if let Some(members) = self.members.iter().cloned().collect::<Option<Vec<_>>>() {
            let router = Router::new(members.clone().into(), self.options.deadline);
            self.phase = Phase::Together(router);
            self.push_to_all(&Frame::Roster(members.clone()));
            let here = Ipv4Addr::LOCALHOST.into();
            let seen = |one: Member| if one.rank == 0 { one } else { one.seen_by_way_of(here) };
            self.inbox.deliver(Frame::Roster(members.into_iter().map(seen).collect()));
        }
    }

    /// Listens to a rank.
    fn hear(&mut self, rank: u32, now: Instant) {
        let Some(seat) = &mut self.seats[rank as usize] else { return };
        seat.conn.flush();
        let open = if seat.held.is_some() { Ok(true) } else { seat.conn.read() };
        loop {
            let Some(seat) = &mut self.seats[rank as usize] else { return };
            let next = match seat.held.take() {
                Some(held) => {
                    // Nobody has listened to it meanwhile.
                    seat.conn.heard = now;
                    Ok(Some(held))
                }
                None => seat.conn.next(),
            };
            let frame = match next {
                Ok(Some(frame)) => frame,
                Ok(None) => break,
                Err(malformed) => {
                    let error = malformed.of(self.name(rank));
                    self.seats[rank as usize] = None;
                    return self.fail(error);
                }
            };
            let has_room = self.has_room(&frame);
            let Some(seat) = &mut self.seats[rank as usize] else { return };
            match frame {
                Frame::Seen => seat.seen = true,
                Frame::Beat => {}
                frame if !has_room => {
                    seat.held = Some(frame);
                    return;
                }
                frame => {
                    if let Frame::Left { .. } = frame {
                        seat.left = true;
                        seat.conn.push(&Frame::Seen);
                    }
                    self.route(rank, frame);
                }
            }
        }
        let how = match open {
            Ok(true) => return,
            Ok(false) => "its connection closed without a goodbye".to_owned(),
            Err(error) => format!("its connection broke: {error}"),
        };
        let left = self.seats[rank as usize].take().is_none_or(|seat| seat.left);
        if !left {
            self.fail(Error::Died { who: Box::new(self.name(rank)), how });
        }
    }

    fn route(&mut self, rank: u32, frame: Frame) {
        let counted = self.counted();
        match (&mut self.phase, frame) {
            (Phase::Together(router), frame) => {
                let mut out = Vec::new();
                router.route(rank, frame, counted, &mut out);
                self.deliver(out);
            }
            (_, Frame::Failed(error)) => self.fail(error),
            (Phase::Gathering, Frame::Left { .. }) => {
                let who = Box::new(self.name(rank));
                self.fail(Error::Died { who, how: "it gave up before all ranks had come".into() });
            }
            _ => {}
        }
    }

    /// Deadlines and signs of life.
    fn look_at_the_clock(&mut self, now: Instant) {
        let mut silent = None;
        for (rank, seat) in self.seats.iter_mut().enumerate() {
            let Some(seat) = seat else { continue };
            if self.pulse.is_due(seat.conn.spoke, now) {
                seat.conn.push(&Frame::Beat);
            }
            if let Some(time) = self.pulse.silence(seat.conn.heard, now).filter(|_| !seat.left) {
                silent.get_or_insert((rank as u32, time));
            }
        }
        if let Some((rank, silent)) = silent {
            let who = Box::new(self.name(rank));
            self.fail(Error::Silent { who, silent });
            // It is not missed a second time; if it wakes up, it finds out how the group ended.
            if let Some(seat) = &mut self.seats[rank as usize] {
                seat.left = true;
            }
        }
        let counted = self.counted();
        match &mut self.phase {
            Phase::Gathering if self.clock.left().is_zero() => {
                let missing = (0..self.ranks).filter(|rank| self.members[*rank as usize].is_none()).collect();
                let strangers = self.gate.turned_away().to_vec();
                self.fail(Error::Missing { missing, waited: self.options.deadline, strangers });
            }
            Phase::Together(router) => {
                let mut out = Vec::new();
                router.expire(counted, &mut out);
                self.deliver(out);
            }
            _ => {}
        }
    }

    /// Now, as deadlines count.
    fn counted(&self) -> Instant {
        self.started + self.clock.spent()
    }

    /// Whether rank 0 is still needed. Once it has said goodbye, it passes on frames until the others are done too, unless
    /// the group has failed.
    fn goes_on(&self, now: Instant) -> bool {
        let Some(since) = self.leaving else { return true };
        // Ranks that are still on their way are to hear what went wrong, instead of finding nobody.
        let told = match &self.phase {
            Phase::Failed(_) => self.members.iter().all(Option::is_some),
            _ => true,
        };
        let seen = self.seats.iter().flatten().all(|seat| seat.seen);
        let settled = (told && seen) || now >= since + GOODBYE;
        if settled {
            self.outbox.settle();
        }
        let failed = match &self.phase {
            Phase::Gathering | Phase::Failed(_) => true,
            Phase::Together(router) => router.has_failed(),
        };
        let alone = self.seats.iter().all(Option::is_none);
        !(settled && (failed || alone))
    }

    /// Whether a frame can be passed on, or has to wait because it is a message to a rank for which enough waits already.
    fn has_room(&self, frame: &Frame) -> bool {
        let Frame::Message { to, .. } = frame else { return true };
        let Phase::Together(router) = &self.phase else { return true };
        let seat = self.seats.get(*to as usize).and_then(Option::as_ref);
        router.has_failed() || seat.is_none_or(|seat| seat.conn.queued() <= FULL_BYTES)
    }

    /// Whether something that waited for room has it.
    fn could_go_on(&self) -> bool {
        let mut held = self.seats.iter().flatten().filter_map(|seat| seat.held.as_ref());
        held.any(|frame| self.has_room(frame)) || self.outbox.is_next(|frame| self.has_room(frame))
    }

    /// Hands out what the router says.
    fn deliver(&mut self, out: Vec<Delivery>) {
        let mut failures = Vec::new();
        for Delivery { to, frame } in out {
            let bytes: Arc<[u8]> = frame.encode().into();
            for rank in to {
                let Some(seat) = &mut self.seats[rank as usize] else {
                    if rank == 0 {
                        failures.extend(self.inbox.deliver(frame.clone()));
                    }
                    continue;
                };
                seat.conn.push_bytes(bytes.clone());
                if seat.conn.queued() > QUEUED_BYTES {
                    self.seats[rank as usize] = None;
                    let (who, how) = (Box::new(self.name(rank)), "it takes none of its messages".into());
                    failures.push(Error::Died { who, how });
                }
            }
        }
        // Only now: the others hear everything that was to be said.
        failures.into_iter().for_each(|error| self.fail(error));
    }

    fn fail(&mut self, error: Error) {
        let mut out = Vec::new();
        match &mut self.phase {
            Phase::Together(router) => router.fail(error, &mut out),
            Phase::Gathering => {
                self.phase = Phase::Failed(error.clone());
                out.push(Delivery { to: (0..self.ranks).collect(), frame: Frame::Failed(error) });
            }
            Phase::Failed(_) => {}
        }
        self.deliver(out);
    }

    fn push_to_all(&mut self, frame: &Frame) {
        let bytes: Arc<[u8]> = frame.encode().into();
        self.seats.iter_mut().flatten().for_each(|seat| seat.conn.push_bytes(bytes.clone()));
    }

    fn name(&self, rank: u32) -> Member {
        let known = self.members.get(rank as usize).cloned().flatten();
        known.unwrap_or_else(|| Member { rank, ..self.me.clone() })
    }
}
