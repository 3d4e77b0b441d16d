//! Ranks that are threads of one process: no sockets, and the router under a lock.

use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::address;
use super::error::Error;
use super::frame::Frame;
use super::inbox::{Inbox, KeyedStream};
use super::link::{CheckAlive, Link};
use super::mac::StreamKeys;
use super::options::Options;
use super::protocol::Nonce;
use super::rank_info::RankInfo;
use super::router::{Delivery, Router};
use super::secret;

/// State that the ranks share.
#[derive(Debug)]
struct Hub {
    router: Mutex<Router>,
    inboxes: Vec<Inbox>,
}

/// One rank's link to the other ranks in this process.
#[derive(Debug)]
pub(crate) struct LocalLink {
    hub: Arc<Hub>,
    members: Arc<[RankInfo]>,
    rank: u32,
    options: Options,
    /// Random number of the job.
    job: Nonce,
}

/// Returns one link for each of `ranks` ranks.
///
/// # Errors
/// [`Error::System`] if the system provides no random numbers.
pub(crate) fn links(ranks: u32, options: Options) -> Result<(Arc<[RankInfo]>, Vec<LocalLink>), Error> {
    let job = secret::random()?;
    let members: Arc<[RankInfo]> = (0..ranks).map(|rank| RankInfo::this(rank, None)).collect();
    let router = Mutex::new(Router::new(members.clone()));
    let hub = Arc::new(Hub { router, inboxes: members.iter().map(|_| Inbox::default()).collect() });
    let link = |rank| LocalLink { hub: hub.clone(), members: members.clone(), rank, options, job };
    let links = (0..ranks).map(link).collect();
    Ok((members, links))
}

impl Hub {
    /// Calls the router, and delivers its frames.
    fn with_router(&self, work: impl FnOnce(&mut Router, &mut Vec<Delivery>)) {
        let mut out = Vec::new();
        // Frames are delivered under the lock too, so that messages from one sender stay in order.
        let mut router = self.router.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut router, &mut out);
        while !out.is_empty() {
            let mut more = Vec::new();
            for Delivery { to, frame } in out {
                let Some((last, others)) = to.split_last() else { continue };
                let mut deliver_to = |rank: u32, frame| {
                    if let Some(answer) = self.inboxes[rank as usize].deliver(frame) {
                        router.route(rank, answer, Instant::now(), &mut more);
                    }
                };
                others.iter().for_each(|rank| deliver_to(*rank, frame.clone()));
                deliver_to(*last, frame);
            }
            out = more;
        }
    }
}

impl Link for LocalLink {
    fn inbox(&self) -> &Inbox {
        &self.hub.inboxes[self.rank as usize]
    }

    fn options(&self) -> Options {
        self.options
    }

    fn job(&self) -> Nonce {
        self.job
    }

    fn post(&self, frame: Frame) -> Result<(), Error> {
        self.hub.with_router(|router, out| router.route(self.rank, frame, Instant::now(), out));
        Ok(())
    }

    /// There is no connection thread, so the waiting ranks check the timeouts.
    fn expire(&self) -> Option<Instant> {
        let mut next = None;
        self.hub.with_router(|router, out| {
            router.expire(Instant::now(), out);
            next = router.next_expiry();
        });
        next
    }

    /// Opens a pair of sockets of this machine; the peer's end is delivered to its inbox.
    fn connect(
        &self,
        peer: &RankInfo,
        context: u64,
        id: u64,
        _: Duration,
        _: CheckAlive,
    ) -> Result<KeyedStream, Error> {
        let connect_pair = || -> std::io::Result<_> {
            let listener = TcpListener::bind(&address::loopback()[..])?;
            let ours = TcpStream::connect(listener.local_addr()?)?;
            loop {
                // Other connections to this port are closed.
                let (theirs, from) = listener.accept()?;
                if from == ours.local_addr()? {
                    ours.set_nodelay(true)?;
                    theirs.set_nodelay(true)?;
                    return Ok((ours, theirs));
                }
            }
        };
        let (ours, theirs) =
            connect_pair().map_err(|error| Error::of_system(format!("cannot open a stream to {peer}"), &error))?;
        let [our_keys, their_keys] = StreamKeys::pair()?;
        self.hub.inboxes[peer.rank as usize].deliver_stream((context, self.rank, id), (theirs, their_keys));
        Ok((ours, our_keys))
    }
}

impl Drop for LocalLink {
    fn drop(&mut self) {
        self.hub.with_router(|router, out| {
            let now = Instant::now();
            if thread::panicking() {
                let who = Box::new(self.members[self.rank as usize].clone());
                router.lose(self.rank, Error::Died { who, how: "its thread panicked".into() }, now, out);
            }
            router.route(self.rank, Frame::Leave { rank: self.rank }, now, out);
        });
        self.inbox().stop_receiving();
    }
}
