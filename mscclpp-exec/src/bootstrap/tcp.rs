//! Ranks that are processes: each has a thread for its connections, and rank 0's passes frames on.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::client::Client;
use super::dial;
use super::error::Error;
use super::frame::{Frame, Malformed, Purpose};
use super::gate::Gate;
use super::group::Bootstrap;
use super::inbox::Inbox;
use super::link::Link;
use super::member::Member;
use super::options::Options;
use super::outbox::Outbox;
use super::root::Root;
use super::secret::Secret;

/// How long a goodbye may take.
pub(super) const GOODBYE: Duration = Duration::from_secs(1);
/// How much longer than rank 0 the others wait for what it says.
const GRACE: Duration = Duration::from_secs(1);

/// One rank's way to the others.
#[derive(Debug)]
struct TcpLink {
    rank: u32,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    secret: Secret,
    options: Options,
}

/// Brings `ranks` ranks together at `listener`, as rank 0.
pub(super) fn host(listener: TcpListener, ranks: u32, secret: Secret, options: Options) -> Result<Bootstrap, Error> {
    let address = listener.local_addr().map_err(system("cannot ask for the address of a socket"))?;
    let gate = Gate::new(listener, secret.clone(), ranks).map_err(system("cannot listen"))?;
    let (inbox, outbox) = (Arc::new(Inbox::default()), Arc::new(Outbox::new()?));
    let me = Member::this(0, Some(address));
    let root = Root::new(me, ranks, gate, inbox.clone(), outbox.clone(), options);
    start("mscclpp rank 0", move || root.run())?;
    let link = TcpLink { rank: 0, inbox, outbox, secret, options };
    come_together(link, Instant::now() + options.deadline + GRACE)
}

/// Joins the group that rank 0 brings together at one of `addresses`. The others find this rank at `listen`, or where it
/// reaches rank 0 from.
pub(super) fn join(
    addresses: &[SocketAddr],
    rank: u32,
    ranks: u32,
    secret: Secret,
    options: Options,
    listen: Option<IpAddr>,
) -> Result<Bootstrap, Error> {
    let until = Instant::now() + options.deadline;
    let mut conn = dial::dial(addresses, rank, Purpose::Join { rank, ranks }, &secret, until)?;
    // The others reach this host the way rank 0 does.
    let ours = conn.local_addr().map_err(system("cannot ask for the address of a socket"))?;
    let listener = TcpListener::bind((listen.unwrap_or(ours.ip()), 0)).map_err(system("cannot listen"))?;
    let listens = listener.local_addr().map_err(system("cannot ask for the address of a socket"))?;
    let gate = Gate::new(listener, secret.clone(), ranks).map_err(system("cannot listen"))?;
    conn.trust();
    conn.push(&Frame::Join(Member::this(rank, Some(listens))));
    let (remaining, options) = match conn.wait_frame(until)? {
        Some(Frame::Admitted { remaining, deadline, liveness }) => (remaining, Options { deadline, liveness }),
        Some(Frame::Refused(error) | Frame::Failed(error)) => return Err(error),
        Some(_) => return Err(Malformed::Unexpected("an admission").of("rank 0")),
        None => {
            let reason = "rank 0 took the connection and closed it again, or is stopped".into();
            return Err(Error::Unreachable { rank, address: conn.peer, waited: options.deadline, reason });
        }
    };
    let (inbox, outbox) = (Arc::new(Inbox::default()), Arc::new(Outbox::new()?));
    let client = Client::new(rank, conn, gate, inbox.clone(), outbox.clone(), options);
    start(&format!("mscclpp rank {rank}"), move || client.run())?;
    let link = TcpLink { rank, inbox, outbox, secret, options };
    come_together(link, Instant::now() + remaining.min(MAX_WAIT) + GRACE)
}

/// Longest wait that rank 0 may ask for: instants have an end.
const MAX_WAIT: Duration = Duration::from_secs(1 << 20);

/// Waits until rank 0 says that all have come.
fn come_together(link: TcpLink, until: Instant) -> Result<Bootstrap, Error> {
    let start = Instant::now();
    match link.inbox.wait(until, |state| state.roster())? {
        Some(world) => Ok(Bootstrap::whole(link.rank, Arc::new(link), world)),
        None => Err(Error::Timeout {
            rank: link.rank,
            from: Box::new(Member { rank: 0, ..Member::unknown() }),
            call: "list of all ranks".into(),
            waited: start.elapsed(),
        }),
    }
}

/// Starts a connection thread. It ends when its rank has said goodbye.
fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    thread::Builder::new().name(name.into()).spawn(body).map(drop).map_err(system("cannot start a thread"))
}

/// The error of a system call.
fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::System { what: what.into(), reason: error.to_string() }
}

impl Link for TcpLink {
    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn options(&self) -> Options {
        self.options
    }

    fn post(&self, frame: Frame) -> Result<(), Error> {
        if self.outbox.put(frame, Instant::now() + self.options.deadline) {
            return Ok(());
        }
        // Whatever ended the connections has ended the group as well.
        let (what, reason) = ("cannot send to rank 0".into(), "its connection does not take anything".into());
        Err(self.inbox.end().unwrap_or(Error::System { what, reason }))
    }

    fn dial(&self, peer: &Member, context: u64, id: u64, until: Instant) -> Result<TcpStream, Error> {
        let broken = |reason: String| Error::System { what: format!("cannot open a stream to {peer}"), reason };
        let address = peer.listens.ok_or_else(|| broken("it listens nowhere".into()))?;
        let purpose = Purpose::Stream { from: self.rank, context, id };
        let mut conn = dial::dial(&[address], self.rank, purpose, &self.secret, until)?;
        match conn.wait_frame(until)? {
            Some(Frame::Welcome) => conn.into_stream().map_err(|error| broken(error.to_string())),
            Some(Frame::Refused(error)) => Err(error),
            _ => Err(broken("it did not answer".into())),
        }
    }
}

impl Drop for TcpLink {
    fn drop(&mut self) {
        if thread::panicking() {
            // Said by who knows it; the rank is not recorded as gone in order.
            let how = "its thread panicked".into();
            let who = Box::new(Member::this(self.rank, None));
            self.outbox.put(Frame::Failed(Error::Died { who, how }), Instant::now());
        }
        if self.outbox.put(Frame::Left { rank: self.rank }, Instant::now() + GOODBYE) {
            self.outbox.wait_settled(GOODBYE);
        }
    }
}
