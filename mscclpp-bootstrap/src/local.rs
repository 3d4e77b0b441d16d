//! Ranks that are threads of one process: no sockets, the router under a lock.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::error::Error;
use super::frame::Frame;
use super::inbox::Inbox;
use super::link::{GoOn, Link};
use super::options::Options;
use super::rank_info::RankInfo;
use super::router::{Delivery, Router};

/// What the ranks share.
#[derive(Debug)]
struct Hub {
    router: Mutex<Router>,
    inboxes: Vec<Inbox>,
}

/// One rank's way to the others.
#[derive(Debug)]
pub(crate) struct LocalLink {
    hub: Arc<Hub>,
    members: Arc<[RankInfo]>,
    rank: u32,
    options: Options,
}

/// One link for each of `ranks` ranks.
pub(crate) fn links(ranks: u32, options: Options) -> (Arc<[RankInfo]>, Vec<LocalLink>) {
    let members: Arc<[RankInfo]> = (0..ranks).map(|rank| RankInfo::this(rank, None)).collect();
    let router = Mutex::new(Router::new(members.clone(), options.timeout));
    let hub = Arc::new(Hub { router, inboxes: members.iter().map(|_| Inbox::default()).collect() });
    let link = |rank| LocalLink { hub: hub.clone(), members: members.clone(), rank, options };
    let links = (0..ranks).map(link).collect();
    (members, links)
}

impl Hub {
    /// Lets the router work, and hands out what it says.
    fn drive(&self, work: impl FnOnce(&mut Router, &mut Vec<Delivery>)) {
        let mut out = Vec::new();
        // Handing out happens under the lock too: messages of one sender stay in order.
        let mut router = self.router.lock().unwrap_or_else(PoisonError::into_inner);
        work(&mut router, &mut out);
        while !out.is_empty() {
            let mut more = Vec::new();
            for Delivery { to, frame } in out {
                let Some((last, others)) = to.split_last() else { continue };
                let mut give = |rank: u32, frame| {
                    if let Some(error) = self.inboxes[rank as usize].deliver(frame) {
                        router.fail(error, &mut more);
                    }
                };
                others.iter().for_each(|rank| give(*rank, frame.clone()));
                give(*last, frame);
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

    fn post(&self, frame: Frame) -> Result<(), Error> {
        self.hub.drive(|router, out| router.route(self.rank, frame, Instant::now(), out));
        Ok(())
    }

    /// Nobody else looks at the clock: whoever waits does.
    fn expire(&self) {
        self.hub.drive(|router, out| router.expire(Instant::now(), out));
    }

    /// A pair of sockets of this machine; the other end finds its half in its inbox.
    fn connect(&self, peer: &RankInfo, context: u64, id: u64, _: Duration, _: GoOn) -> Result<TcpStream, Error> {
        let pair = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let ours = TcpStream::connect(listener.local_addr()?)?;
            loop {
                // Whoever else connects to this port meanwhile is closed again.
                let (theirs, from) = listener.accept()?;
                if from == ours.local_addr()? {
                    ours.set_nodelay(true)?;
                    theirs.set_nodelay(true)?;
                    return Ok((ours, theirs));
                }
            }
        };
        let (ours, theirs) = pair().map_err(|error: std::io::Error| Error::System {
            what: format!("cannot open a stream to {peer}"),
            reason: error.to_string(),
        })?;
        self.hub.inboxes[peer.rank as usize].deliver_stream((context, self.rank, id), theirs);
        Ok(ours)
    }
}

impl Drop for LocalLink {
    fn drop(&mut self) {
        self.hub.drive(|router, out| {
            if thread::panicking() {
                let who = Box::new(self.members[self.rank as usize].clone());
                router.fail(Error::Died { who, how: "its thread panicked".into() }, out);
            }
            router.route(self.rank, Frame::Leave { rank: self.rank }, Instant::now(), out);
        });
        self.inbox().abandon();
    }
}
