//! Answers processes that ask what the ranks of the job are doing.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use super::{Phase, Root};
use crate::conn::Conn;
use crate::frame::Frame;
use crate::poll::Interest;
use crate::rank_info::RankInfo;
use crate::status::{CommunicatorReport, JobReport, Presence, RankReport, Topic};

/// How long ranks may take to report. A rank that does not answer in this time is suspended.
const REPORT_TIME: Duration = Duration::from_millis(500);
/// How long an observer may stay connected: enough to send its question and to read the answer.
const OBSERVER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of observers; the oldest one is disconnected to make room.
const MAX_OBSERVERS: usize = 8;
/// Maximum number of bytes of all reports in an answer. Later reports are omitted.
const MAX_ANSWER_BYTES: usize = 32 << 20;

/// Connected observers.
#[derive(Debug, Default)]
pub(super) struct Observers {
    connected: Vec<Observer>,
    /// Number of the last question.
    asked: u64,
}

#[derive(Debug)]
struct Observer {
    conn: Conn,
    until: Instant,
    question: Option<Question>,
}

/// A question that was passed on to the ranks.
#[derive(Debug)]
struct Question {
    id: u64,
    /// The ranks that have been asked and have not answered.
    awaited: Vec<u32>,
    /// By rank.
    reports: BTreeMap<u32, Vec<CommunicatorReport>>,
    until: Instant,
}

impl Observers {
    /// Adds a process that has authenticated.
    pub(super) fn add(&mut self, conn: Conn) {
        if self.connected.len() >= MAX_OBSERVERS {
            self.connected.remove(0);
        }
        self.connected.push(Observer { conn, until: Instant::now() + OBSERVER_TIMEOUT, question: None });
    }

    /// Records the answer of a rank.
    pub(super) fn record(&mut self, rank: u32, id: u64, reports: Vec<CommunicatorReport>) {
        let mut questions = self.connected.iter_mut().filter_map(|observer| observer.question.as_mut());
        if let Some(question) = questions.find(|question| question.id == id) {
            question.awaited.retain(|awaited| *awaited != rank);
            question.reports.insert(rank, reports);
        }
    }

    /// Returns the sockets to wait for.
    pub(super) fn sockets(&self) -> impl Iterator<Item = (BorrowedFd<'_>, Interest)> {
        self.connected.iter().map(|observer| (observer.conn.as_fd(), observer.conn.interest()))
    }

    /// Returns when the first question or connection times out.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        let until = |observer: &Observer| observer.question.as_ref().map_or(observer.until, |question| question.until);
        self.connected.iter().map(until).min()
    }
}

impl Root {
    /// Reads the questions of observers, passes them on, and answers them when all ranks have or the time is over.
    pub(super) fn serve_observers(&mut self, now: Instant) {
        for mut observer in std::mem::take(&mut self.observers.connected) {
            let open = observer.conn.read().unwrap_or(false);
            observer.conn.flush();
            match observer.conn.next() {
                Ok(Some(Frame::Observe(topic))) if observer.question.is_none() => {
                    observer.question = Some(self.ask(topic, now));
                }
                Ok(None) => {}
                // It does not follow the protocol.
                _ => continue,
            }
            let is_over = |question: &Question| question.awaited.is_empty() || now >= question.until;
            if let Some(question) = observer.question.take_if(|question| is_over(question)) {
                observer.conn.push(&Frame::Observed(self.job_report(question, now)));
            }
            if open && now < observer.until {
                self.observers.connected.push(observer);
            }
        }
    }

    /// Asks all ranks, and answers for this one.
    fn ask(&mut self, topic: Topic, now: Instant) -> Question {
        self.observers.asked += 1;
        let id = self.observers.asked;
        let frame = Frame::Inspect { id, topic }.encode();
        let mut awaited = Vec::new();
        for (rank, peer) in (0..).zip(&mut self.peers) {
            if let Some(peer) = peer.as_mut().filter(|peer| !peer.left) {
                peer.conn.push_encoded(&frame);
                awaited.push(rank);
            }
        }
        let reports = BTreeMap::from([(0, self.inbox.inspect(topic))]);
        Question { id, awaited, reports, until: now + REPORT_TIME }
    }

    fn job_report(&self, mut question: Question, now: Instant) -> JobReport {
        let mut bytes = 0;
        let mut rank_report = |rank: u32| {
            let reports = question.reports.remove(&rank).filter(|reports| {
                bytes += reports.iter().map(|report| report.bytes.len()).sum::<usize>();
                bytes <= MAX_ANSWER_BYTES
            });
            let info = self.members[rank as usize].clone().unwrap_or_else(|| RankInfo::unnamed(rank));
            RankReport { info, presence: self.presence(rank, now), reports }
        };
        let ranks = (0..self.ranks).map(&mut rank_report).collect();
        let (pending, failures) = match &self.phase {
            Phase::Connected(router) => {
                let failures = router.failures().map(|(context, error)| (context, error.to_string())).collect();
                (router.pending_calls(self.active_now()), failures)
            }
            Phase::Joining => Default::default(),
            Phase::Failed(error) => (Vec::new(), vec![(None, error.to_string())]),
        };
        JobReport { ranks, pending, failures }
    }

    fn presence(&self, rank: u32, now: Instant) -> Presence {
        if let Phase::Connected(router) = &self.phase {
            if let Some(error) = router.loss(rank) {
                return Presence::Lost(error.to_string());
            }
            if router.is_absent(rank) {
                return Presence::Left;
            }
        }
        match (&self.peers[rank as usize], &self.members[rank as usize]) {
            (Some(peer), _) => Presence::Joined(now.saturating_duration_since(peer.conn.last_received)),
            (None, Some(_)) if rank == 0 => Presence::Joined(Duration::ZERO),
            (None, Some(_)) => Presence::Lost("its connection closed".into()),
            (None, None) => Presence::NotJoined(self.active_clock.elapsed()),
        }
    }
}
