//! Ranks that are processes. Each has a thread for its connections; that of rank 0 forwards frames.

use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use mscclpp_core::threads;

use super::acceptor::Acceptor;
use super::client::Client;
use super::conn::Conn;
use super::connect::{self, MAX_JOIN_RETRY_DELAY, MIN_JOIN_RETRY_DELAY};
use super::continuation::Continuation;
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::group::Bootstrap;
use super::inbox::{Inbox, KeyedStream, State};
use super::link::{CheckAlive, Link, SharedListener};
use super::options::{MAX_TIMEOUT, Options, SHUTDOWN_TIMEOUT};
use super::outbox::Outbox;
use super::protocol::{Nonce, Purpose};
use super::rank_info::{RankInfo, in_zone_of};
use super::root::Root;
use super::secret::{self, Secret};
use crate::descriptors;
use crate::timeout::ActiveTimeout;

/// How much longer than rank 0 the other ranks wait for its report.
const ROOT_GRACE_PERIOD: Duration = Duration::from_secs(5);

/// One rank's link to the other ranks over TCP.
#[derive(Debug)]
struct TcpLink {
    rank: u32,
    process: u32,
    inbox: Arc<Inbox>,
    outbox: Arc<Outbox>,
    secret: Secret,
    /// Random number of the job.
    job: Nonce,
    options: Options,
    /// A second handle of the listening socket, which a later generation of the job may need: the port stays this
    /// rank's, and no connection is refused while this rank lives.
    listener: Mutex<Option<TcpListener>>,
}

/// Completes the rendezvous of `ranks` ranks at `listener`, as rank 0. `generation` is that of the job which forms;
/// `None` leaves it to the other ranks.
pub(super) fn host(
    listener: TcpListener,
    ranks: u32,
    secret: Secret,
    options: Options,
    generation: Option<u32>,
) -> Result<Bootstrap, Error> {
    host_prepared(listener, ranks, secret, options, generation, |_| {})
}

/// Does what [`host`] does, for a job that continues another one.
pub(super) fn host_continuation(
    listener: TcpListener,
    ranks: u32,
    secret: Secret,
    options: Options,
    generation: u32,
    continuation: Continuation,
) -> Result<Bootstrap, Error> {
    host_prepared(listener, ranks, secret, options, Some(generation), |root| root.set_continuation(continuation))
}

/// Does what [`host`] does, for a job whose ranks find rank 0 by a rendezvous. `conn`: rank 0's connection to it, by which rank 0
/// learns if a rank that arrives there later is rejected.
pub(super) fn host_found(
    listener: TcpListener,
    ranks: u32,
    secret: Secret,
    options: Options,
    conn: Conn,
) -> Result<Bootstrap, Error> {
    host_prepared(listener, ranks, secret, options, Some(0), |root| root.set_rendezvous(conn))
}

/// Does what [`host`] does, after `prepare`.
fn host_prepared(
    listener: TcpListener,
    ranks: u32,
    secret: Secret,
    options: Options,
    generation: Option<u32>,
    prepare: impl FnOnce(&mut Root),
) -> Result<Bootstrap, Error> {
    let options = options.bounded();
    let address = listener.local_addr().map_err(system("cannot get the address of a socket"))?;
    let second = listener.try_clone().map_err(system("cannot listen"))?;
    let acceptor = Acceptor::new(listener, secret.clone(), 0, ranks).map_err(system("cannot listen"))?;
    let job = secret::random()?;
    let (inbox, outbox) = (Arc::new(Inbox::default()), Arc::new(Outbox::new()?));
    let me = RankInfo::this(0, Some(address));
    let mut root = Root::new(me, ranks, acceptor, (inbox.clone(), outbox.clone()), options, job, generation);
    prepare(&mut root);
    start("mscclpp rank 0", move || root.run())?;
    let (process, listener) = (std::process::id(), Mutex::new(Some(second)));
    let link = TcpLink { rank: 0, process, inbox, outbox, secret, job, options, listener };
    complete_join(link, options.rendezvous_timeout + ROOT_GRACE_PERIOD)
}

/// Joins the job whose rank 0 listens at one of `addresses`. This rank listens at `listen`, or at the local address of
/// its connection to rank 0. It listens on all interfaces only on rank 0's host, because that is the host to which the
/// other ranks then connect.
pub(super) fn join(
    addresses: &[SocketAddr],
    rank: u32,
    ranks: u32,
    secret: Secret,
    options: Options,
    listen: Option<IpAddr>,
    generation: Option<u32>,
) -> Result<Bootstrap, Error> {
    descriptors::open_standard();
    let options = options.bounded();
    let mut timeout = ActiveTimeout::new(options.rendezvous_timeout);
    let purpose = Purpose::Join { rank, ranks, generation };
    let mut delay = MIN_JOIN_RETRY_DELAY;
    let mut sleep = |timeout: &mut ActiveTimeout| {
        timeout.allow_gap(delay);
        thread::sleep(delay);
        delay = (2 * delay).min(MAX_JOIN_RETRY_DELAY);
    };
    let (conn, acceptor, second, outbox, remaining, options, job) = loop {
        let mut conn = connect::connect(addresses, purpose, &secret, &mut timeout, &|| Ok(()))?;
        let open = || {
            // The other ranks reach this host through the same network as rank 0.
            let ours = conn.local_addr().map_err(system("cannot get the address of a socket"))?;
            let at = listen.filter(|at| !at.is_unspecified() || ours.ip().is_loopback()).unwrap_or(ours.ip());
            let at = in_zone_of(SocketAddr::new(at, 0), ours);
            let listener = TcpListener::bind(at).map_err(system("cannot listen"))?;
            let address = listener.local_addr().map_err(system("cannot get the address of a socket"))?;
            let second = listener.try_clone().map_err(system("cannot listen"))?;
            let acceptor = Acceptor::new(listener, secret.clone(), rank, ranks).map_err(system("cannot listen"))?;
            Ok((acceptor, address, second, Outbox::new()?))
        };
        let (mut acceptor, address, second, outbox) = open().inspect_err(|error: &Error| {
            // The other ranks learn why this one does not join.
            let (who, call) = (Box::new(RankInfo::this(rank, None)), "the start of the job".to_owned());
            let failed = Error::CallFailed { who, call, kind: error.kind(), reason: error.to_string() };
            conn.close_after(&Frame::Failed(failed));
        })?;
        conn.raise_limit();
        conn.push(&Frame::Join(RankInfo::this(rank, Some(address))));
        let answer = connect::wait_frame(&mut conn, &mut timeout, &|| Ok(()));
        match answer.inspect_err(|error| conn.close_after(&Frame::Failed(error.clone())))? {
            Some(Frame::Admitted { remaining, timeout, heartbeat_timeout, job }) => {
                acceptor.set_job(job);
                let options = Options { timeout, heartbeat_timeout, ..options }.bounded();
                break (conn, acceptor, second, Arc::new(outbox), remaining, options, job);
            }
            Some(Frame::Rejected(error) | Frame::Failed(error)) => return Err(error),
            Some(Frame::Retry) if timeout.update() > MAX_JOIN_RETRY_DELAY => sleep(&mut timeout),
            // Closed before rank 0 answered. Another process may listen there now, or none, which the next connection
            // attempt shows.
            None if timeout.update() > MAX_JOIN_RETRY_DELAY => sleep(&mut timeout),
            Some(frame) if frame != Frame::Retry => {
                return Err(Malformed::Unexpected("a reply to the join request").of("rank 0"));
            }
            retry => {
                let reason = match retry {
                    Some(_) => "the job that runs there did not end",
                    None => "the connection was accepted, but rank 0 did not answer",
                };
                let (reason, address, waited) = (reason.into(), conn.peer, options.rendezvous_timeout);
                return Err(Error::Unreachable { rank, peer: 0, address, waited, reason });
            }
        }
    };
    let inbox = Arc::new(Inbox::default());
    let client = Client::new(rank, conn, acceptor, inbox.clone(), outbox.clone(), options);
    start(&format!("mscclpp rank {rank}"), move || client.run())?;
    let (process, listener) = (std::process::id(), Mutex::new(Some(second)));
    let link = TcpLink { rank, process, inbox, outbox, secret, job, options, listener };
    complete_join(link, remaining.min(MAX_TIMEOUT) + ROOT_GRACE_PERIOD)
}

/// Waits until rank 0 reports that all ranks have joined.
fn complete_join(link: TcpLink, time: Duration) -> Result<Bootstrap, Error> {
    let start = Instant::now();
    match link.inbox.wait(time, State::job_failure, |state| state.roster())? {
        Some(world) => {
            let settings = settings(link.options);
            let group = Bootstrap::all_ranks(link.rank, Arc::new(link), world);
            group.compare(&settings)?;
            Ok(group)
        }
        None => Err(Error::Timeout {
            rank: link.rank,
            from: Box::new(RankInfo::unnamed(0)),
            call: "list of all ranks".into(),
            waited: start.elapsed(),
        }),
    }
}

/// Returns what all ranks must have in common.
fn settings(options: Options) -> [(&'static str, &'static str); 3] {
    let authenticates = if options.authenticate_data { "1" } else { "0" };
    [
        ("version of mscclpp", env!("CARGO_PKG_VERSION")),
        ("MSCCLPP_AUTHENTICATE_DATA", authenticates),
        ("MSCCLPP_TRANSPORT", options.transport.name()),
    ]
}

/// Starts a connection thread. It ends after its rank has sent its shutdown frame.
fn start(name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    threads::named(name).spawn(body).map(drop).map_err(system("cannot start a thread"))
}

/// Returns the error of a failed system call.
pub(super) fn system(what: &'static str) -> impl Fn(std::io::Error) -> Error {
    move |error| Error::of_system(what, &error)
}

impl Link for TcpLink {
    fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    fn options(&self) -> Options {
        self.options
    }

    fn job(&self) -> Nonce {
        self.job
    }

    fn post(&self, frame: Frame) -> Result<(), Error> {
        if self.outbox.put(frame, self.options.timeout) {
            return Ok(());
        }
        // The event that ended the connections has failed the communicator as well.
        let (what, reason) = ("cannot send a message".into(), "earlier messages are still queued".into());
        Err(self.inbox.job_end().unwrap_or(Error::System { what, reason }))
    }

    fn secret(&self) -> Option<Secret> {
        Some(self.secret.clone())
    }

    fn take_listener(&self) -> Option<TcpListener> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        self.outbox.stop_accepting();
        Some(listener)
    }

    fn share_listener(&self) -> Result<Option<SharedListener>, Error> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        let listener = listener.as_ref().map(TcpListener::try_clone).transpose().map_err(system("cannot listen"))?;
        Ok(listener.map(|listener| SharedListener { listener, job: self.job, inbox: Arc::clone(&self.inbox) }))
    }

    fn leave(&self) {
        // A copy of the process, made by `fork`, has no connection thread that could announce it.
        if std::process::id() == self.process {
            self.inbox.stop_receiving();
            if self.outbox.put(Frame::Leave { rank: self.rank }, SHUTDOWN_TIMEOUT) {
                self.outbox.wait_drained(SHUTDOWN_TIMEOUT);
            }
        }
    }

    fn connect(
        &self,
        peer: &RankInfo,
        context: u64,
        id: u64,
        time: Duration,
        check_alive: CheckAlive,
    ) -> Result<KeyedStream, Error> {
        let broken = |reason: String| Error::System { what: format!("cannot open a stream to {peer}"), reason };
        let address = peer.address.ok_or_else(|| broken("it does not listen for streams".into()))?;
        let purpose = Purpose::Stream { from: self.rank, to: peer.rank, context, id, job: self.job };
        let mut timeout = ActiveTimeout::new(time);
        let mut conn = connect::connect(&[address], purpose, &self.secret, &mut timeout, check_alive)?;
        match connect::wait_frame(&mut conn, &mut timeout, check_alive)? {
            Some(Frame::StreamAccepted) => conn.into_stream().map_err(|error| broken(error.to_string())),
            Some(Frame::Rejected(error)) => Err(error),
            _ => Err(broken("it did not answer".into())),
        }
    }
}

impl Drop for TcpLink {
    fn drop(&mut self) {
        if thread::panicking() && std::process::id() == self.process {
            // The rank itself reports its failure, so it is not recorded as having left in order.
            let how = "its thread panicked".into();
            let who = Box::new(RankInfo::this(self.rank, None));
            let rank = self.rank;
            self.outbox.put(Frame::Lost { rank, error: Error::Died { who, how } }, Duration::ZERO);
        }
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpStream};
    use std::sync::Mutex;

    use super::super::frame::Call;
    use super::super::mac::FrameKey;
    use super::super::secret::{Role, Transcript};
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);
    const JOIN: Purpose = Purpose::Join { rank: 1, ranks: 2, generation: Some(0) };

    fn secret() -> Secret {
        Secret::derived(&["a test"])
    }

    /// Hosts a job of two ranks with `caller` as the second one, and returns the result of rank 0.
    fn host_with_caller(timeout: Duration, caller: impl FnOnce(SocketAddr) + Send) -> Result<Bootstrap, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let options = Options::default().timeout(timeout);
        thread::scope(|scope| {
            scope.spawn(move || caller(at));
            host(listener, 2, secret(), options, Some(0))
        })
    }

    /// Hosts a job to which an unauthenticated process connects, with a longer timeout if it connects too late.
    fn host_until_rejection(host: impl Fn(Duration) -> Result<Bootstrap, Error>) -> Result<Bootstrap, Error> {
        let in_time = |ended: &Result<Bootstrap, Error>| match ended {
            Err(Error::JoinTimeout { rejections, .. }) => !rejections.is_empty(),
            _ => true,
        };
        [300, 3_000].into_iter().map(|ms| host(Duration::from_millis(ms))).find(in_time).unwrap_or_else(|| host(MINUTE))
    }

    /// Sends the proof of a rank that joins, and authenticates the frames after it.
    fn respond(conn: &mut Conn, own: Nonce, theirs: Nonce) {
        let transcript = Transcript { purpose: JOIN, nonces: [own, theirs] };
        conn.push(&Frame::Response { proof: secret().proof(Role::Initiator, &transcript) });
        conn.authenticate(secret().keys(Role::Initiator, &transcript), 1, 0);
    }

    /// Runs the first `count` steps of joining, one after the other, and then closes the connection.
    fn run_join_steps(at: SocketAddr, count: u32, member: RankInfo) {
        let until = Instant::now() + MINUTE;
        // After its timeout rank 0 no longer listens.
        let Ok(stream) = TcpStream::connect(at) else { return };
        let mut conn = Conn::new(stream).unwrap();
        let nonce = [5; 16];
        if count >= 1 {
            conn.push(&Frame::Hello { purpose: JOIN, nonce });
        }
        if count >= 2 {
            let Some(Frame::Challenge { nonce: theirs, .. }) = conn.wait_frame(until).unwrap() else {
                panic!("no challenge")
            };
            respond(&mut conn, nonce, theirs);
        }
        if count >= 3 {
            conn.push(&Frame::Join(member));
            assert!(matches!(conn.wait_frame(until), Ok(Some(Frame::Admitted { .. }))));
        }
        if count >= 4 {
            assert!(matches!(conn.wait_frame(until), Ok(Some(Frame::Roster(..)))));
        }
    }

    #[test]
    fn disconnect_after_any_join_step_is_reported() {
        for closed_after in 0..=4 {
            let host =
                |timeout| host_with_caller(timeout, |at| run_join_steps(at, closed_after, RankInfo::this(1, None)));
            // Rank 0 reports the caller as missing at its timeout, or as dead at once.
            let ended = if closed_after < 2 { host_until_rejection(host) } else { host(MINUTE) };
            match (closed_after, ended) {
                // A caller that has not authenticated does not count as the rank.
                (0..2, Err(Error::JoinTimeout { missing, rejections, .. })) => {
                    assert_eq!((&missing[..], rejections.len()), (&[1][..], 1));
                }
                // After the last steps it is reported in the first collective call, which compares versions.
                (2.., Err(Error::Died { who, .. })) => assert_eq!(who.rank, 1),
                (_, other) => panic!("after {closed_after} steps: {other:?}"),
            }
        }
    }

    #[test]
    fn join_with_another_rank_than_authenticated_is_rejected() {
        let error = host_with_caller(MINUTE, |at| {
            let nonce = [5; 16];
            let until = Instant::now() + MINUTE;
            let mut conn = Conn::new(TcpStream::connect(at).unwrap()).unwrap();
            conn.push(&Frame::Hello { purpose: JOIN, nonce });
            let Ok(Some(Frame::Challenge { nonce: theirs, .. })) = conn.wait_frame(until) else {
                panic!("no challenge")
            };
            respond(&mut conn, nonce, theirs);
            conn.push(&Frame::Join(RankInfo::this(0, None)));
            let _ = conn.wait_frame(until);
        });
        assert!(matches!(&error, Err(Error::Died { who, .. }) if who.rank == 1), "{error:?}");
    }

    /// Only a rejection that the rendezvous sends before all ranks have joined fails the job: not its end, and not other bytes.
    #[test]
    fn only_early_rejection_of_the_rendezvous_fails_the_job() {
        let rejection = Error::NoSuchRank { rank: 7, num_ranks: 7 };
        for (early, late) in [(Some("rejection"), None), (Some("end"), None), (Some("garbage"), None), (None, Some(()))]
        {
            let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let (listener, rendezvous) = (bind(), bind());
            let at = listener.local_addr().unwrap();
            let conn = Conn::new(TcpStream::connect(rendezvous.local_addr().unwrap()).unwrap()).unwrap();
            let mut other = rendezvous.accept().unwrap().0;
            let prefix_and_body = {
                let frame = Frame::Rejected(rejection.clone()).encode();
                [&frame.prefix(None), &frame.body[..]].concat()
            };
            let options = Options::default().timeout(MINUTE);
            thread::scope(|scope| {
                let first = scope.spawn(|| host_found(listener, 2, secret(), options, conn));
                match early {
                    Some("rejection") => {
                        other.write_all(&prefix_and_body).unwrap();
                        assert_eq!(first.join().unwrap().unwrap_err(), rejection);
                        return;
                    }
                    Some("garbage") => other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap(),
                    Some(_) => other.shutdown(std::net::Shutdown::Both).unwrap(),
                    None => {}
                }
                let second = join(&[at], 1, 2, secret(), options, None, Some(0)).unwrap();
                let first = first.join().unwrap().unwrap();
                if late.is_some() {
                    // Rank 0 may have closed the connection already.
                    let _ = other.write_all(&prefix_and_body);
                }
                let both = [scope.spawn(move || first.barrier()), scope.spawn(move || second.barrier())];
                assert!(both.into_iter().all(|thread| thread.join().unwrap().is_ok()), "{early:?}, {late:?}");
            });
        }
    }

    #[test]
    fn replayed_proof_is_rejected() {
        let refused = Mutex::new(None);
        let replay = |at: SocketAddr| {
            let until = Instant::now() + MINUTE;
            // After its timeout rank 0 no longer listens, or does not answer.
            let Ok(stream) = TcpStream::connect(at) else { return };
            let mut conn = Conn::new(stream).unwrap();
            conn.push(&Frame::Hello { purpose: JOIN, nonce: [5; 16] });
            if let Ok(Some(Frame::Challenge { proof, .. })) = conn.wait_frame(until) {
                // The only proof that an unauthenticated process receives is the listener's own.
                conn.push(&Frame::Response { proof });
                *refused.lock().unwrap() = conn.wait_frame(until).unwrap_or(None);
            }
        };
        let error = host_until_rejection(|timeout| host_with_caller(timeout, replay));
        let refused = refused.into_inner().unwrap();
        assert!(matches!(refused, Some(Frame::Rejected(Error::AuthenticationFailed { .. }))), "{refused:?}");
        assert!(
            matches!(&error, Err(Error::JoinTimeout { rejections, .. }) if rejections[0].contains("failed \
                authentication")),
            "{error:?}"
        );
    }

    #[test]
    fn unspecified_listen_address_works_before_and_after_shrink() {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr().unwrap().port()));
        let everywhere = Some(Ipv4Addr::UNSPECIFIED.into());
        let body = |group: Bootstrap| {
            let own = group.rank_info(group.rank()).unwrap().address.unwrap();
            assert!(own.ip().is_unspecified(), "{own}");
            let open_streams = |group: &Bootstrap| {
                let others = (0..group.num_ranks()).filter(|peer| *peer != group.rank());
                others.for_each(|peer| drop(group.stream(peer, 0).unwrap()));
                group.barrier().unwrap();
            };
            open_streams(&group);
            if group.rank() == 0 {
                return group.abort("on purpose");
            }
            let lost = group.barrier().unwrap_err().lost();
            open_streams(&group.shrink(&lost).unwrap());
        };
        thread::scope(|scope| {
            for rank in 1..4 {
                scope.spawn(move || {
                    body(join(&[at], rank, 4, secret(), Options::default(), everywhere, Some(0)).unwrap())
                });
            }
            body(host(listener, 4, secret(), Options::default(), Some(0)).unwrap());
        });
    }

    /// Frames from rank 0 and from a third rank to a slow reader wait with their senders, and the slow reader does not
    /// count as dead.
    #[test]
    fn slow_reader_is_not_reported_dead() {
        const MESSAGES: usize = 64;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let options = Options::default().heartbeat_timeout(None);
        let long = vec![7; 1 << 20];
        let send_all = |group: Bootstrap| {
            (0..MESSAGES).for_each(|_| group.send(1, 0, &long).unwrap());
            group.barrier().unwrap();
        };
        thread::scope(|scope| {
            scope.spawn(|| send_all(host(listener, 3, secret(), options, Some(0)).unwrap()));
            scope.spawn(|| send_all(join(&[at], 2, 3, secret(), options, None, Some(0)).unwrap()));
            let until = Instant::now() + MINUTE;
            let purpose = Purpose::Join { rank: 1, ranks: 3, generation: Some(0) };
            let mut conn =
                connect::connect(&[at], purpose, &secret(), &mut ActiveTimeout::new(MINUTE), &|| Ok(())).unwrap();
            conn.raise_limit();
            conn.push(&Frame::Join(RankInfo::this(1, None)));
            let mut next = || conn.wait_frame(until).unwrap().expect("rank 0 is there");
            assert!(matches!(next(), Frame::Admitted { .. }) && matches!(next(), Frame::Roster(..)));
            let arrive = |sequence, call, bytes: Vec<u8>| {
                let bytes = serde_bytes::ByteBuf::from(bytes);
                let (part_of, place, group, timeout) = (None, String::new(), vec![], MINUTE);
                Frame::EnterCollective { context: 0, sequence, call, part_of, place, group, timeout, bytes }
            };
            let values = postcard::to_allocvec(&settings(options)[..]).unwrap();
            conn.push(&arrive(0, Call::Compare, values));
            conn.push(&arrive(1, Call::Barrier, vec![]));
            // Long enough for rank 0 to read more than it may queue.
            thread::sleep(Duration::from_secs(2));
            let (mut messages, mut calls) = ([0, 0, 0], 0);
            while messages != [MESSAGES, 0, MESSAGES] || calls < 2 {
                match conn.wait_frame(until).unwrap().expect("rank 0 is there") {
                    Frame::Message { from, bytes, .. } => {
                        assert!(bytes == long);
                        messages[from as usize] += 1;
                    }
                    Frame::Gathered { .. } => calls += 1,
                    Frame::Heartbeat => {}
                    other => panic!("{other:?}"),
                }
            }
            conn.push(&Frame::Leave { rank: 1 });
        });
    }

    #[test]
    fn frame_sent_byte_by_byte_is_decoded() {
        let group = host_with_caller(MINUTE, |at| {
            let until = Instant::now() + MINUTE;
            let mut stream = TcpStream::connect(at).unwrap();
            let dribble = |stream: &mut TcpStream, frame: Frame, key: Option<&mut FrameKey>| {
                let encoded = frame.encode();
                for byte in [&encoded.prefix(key), &encoded.body[..]].concat() {
                    stream.write_all(&[byte]).unwrap();
                    thread::sleep(Duration::from_micros(200));
                }
            };
            dribble(&mut stream, Frame::Hello { purpose: JOIN, nonce: [5; 16] }, None);
            let mut conn = Conn::new(stream.try_clone().unwrap()).unwrap();
            let Ok(Some(Frame::Challenge { nonce: theirs, .. })) = conn.wait_frame(until) else {
                panic!("no challenge")
            };
            // All handles of a socket share its settings.
            stream.set_nonblocking(false).unwrap();
            let transcript = Transcript { purpose: JOIN, nonces: [[5; 16], theirs] };
            let proof = secret().proof(Role::Initiator, &transcript);
            let mut key = secret().keys(Role::Initiator, &transcript).frames.send;
            dribble(&mut stream, Frame::Response { proof }, None);
            dribble(&mut stream, Frame::Join(RankInfo::this(1, None)), Some(&mut key));
            stream.set_nonblocking(true).unwrap();
            conn.authenticate(secret().keys(Role::Initiator, &transcript), 1, 0);
            assert!(matches!(conn.wait_frame(until), Ok(Some(Frame::Admitted { .. }))));
        });
        // It joined, and then closed its connection.
        assert!(matches!(&group, Err(Error::Died { who, .. }) if who.rank == 1), "{group:?}");
    }
}
