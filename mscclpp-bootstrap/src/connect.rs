//! Connecting to a acceptor.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::error::Error;
use super::frame::{Frame, Malformed, Purpose};
use super::link::GoOn;
use super::secret::{self, Role, Secret};
use crate::timeout::ActiveTimeout;

/// Longest wait for one attempt to connect: a host that is not there does not say so.
const ATTEMPT: Duration = Duration::from_secs(3);
/// How often somebody who waits looks whether there is still a reason to.
const LOOK: Duration = Duration::from_millis(20);
/// Shortest and longest pause between attempts. Between them it is a part of the time that has gone by, so that ranks that
/// start together lose little, and those that wait for long cost little.
const PAUSES: (Duration, Duration) = (Duration::from_micros(300), Duration::from_millis(50));
const PART: u32 = 8;

/// Connects to rank `peer` at one of `addresses` and proves that this process knows the secret, as often as it takes, at
/// least once.
///
/// # Errors
/// [`Error::Unreachable`] if nobody answers in time; at once if somebody answers who has another secret, another version
/// or another protocol, and what `go_on` says.
pub(crate) fn connect(
    addresses: &[SocketAddr],
    peer: u32,
    purpose: Purpose,
    secret: &Secret,
    timeout: &mut ActiveTimeout,
    go_on: GoOn,
) -> Result<Conn, Error> {
    let start = Instant::now();
    let mut last = None;
    loop {
        for address in addresses {
            go_on()?;
            match attempt(*address, purpose, secret, timeout, go_on)? {
                Ok(conn) => return Ok(conn),
                Err(reason) => last = Some((*address, reason)),
            }
        }
        let pause = (start.elapsed() / PART).clamp(PAUSES.0, PAUSES.1);
        if timeout.update() <= pause {
            let (address, reason) =
                last.unwrap_or_else(|| (SocketAddr::from(([0, 0, 0, 0], 0)), "no address to connect to".into()));
            let rank = purpose.rank();
            return Err(Error::Unreachable { rank, peer, address, waited: start.elapsed(), reason });
        }
        timeout.allow_gap(pause);
        thread::sleep(pause);
    }
}

/// One attempt. What may be otherwise the next time is in the inner result.
fn attempt(
    address: SocketAddr,
    purpose: Purpose,
    secret: &Secret,
    timeout: &mut ActiveTimeout,
    go_on: GoOn,
) -> Result<Result<Conn, String>, Error> {
    // Also who comes late looks whether somebody is there.
    let time = timeout.update().clamp(LOOK, ATTEMPT);
    timeout.allow_gap(time);
    let stream = match TcpStream::connect_timeout(&address, time) {
        Ok(stream) => stream,
        Err(error) => return Ok(Err(reason(&error))),
    };
    // Where nobody listens on a port that the system may give to callers, a caller can end up with itself.
    if stream.local_addr().ok() == Some(address) {
        return Ok(Err("no process is listening there".into()));
    }
    let mut conn = match Conn::new(stream) {
        Ok(conn) => conn,
        Err(error) => return Ok(Err(reason(&error))),
    };
    let caller = secret::random()?;
    conn.push(&Frame::Hello { purpose, nonce: caller });
    match wait_frame(&mut conn, timeout, go_on)? {
        Some(Frame::Challenge { nonce: listener, proof }) => {
            if !secret.verify(Role::Responder, &purpose, &caller, &listener, &proof) {
                let error = Error::AuthenticationFailed { peer: address.to_string() };
                conn.push(&Frame::Rejected(error.clone()));
                return Err(error);
            }
            let proof = secret.response(Role::Initiator, &purpose, &caller, &listener);
            conn.push(&Frame::Response { proof });
            Ok(Ok(conn))
        }
        Some(Frame::Rejected(error)) => Err(error),
        Some(_) => Err(Malformed::Unexpected("a challenge").of(address)),
        // A forwarder closes where nobody listens behind it yet.
        None => Ok(Err("the connection was accepted, but no process answered".into())),
    }
}

/// Waits for a frame; `None` is the other end closing, or the end of the time.
///
/// # Errors
/// As [`Conn::wait_frame`], and what `go_on` says.
pub(crate) fn wait_frame(conn: &mut Conn, timeout: &mut ActiveTimeout, go_on: GoOn) -> Result<Option<Frame>, Error> {
    loop {
        go_on()?;
        let look = Instant::now() + timeout.update().min(LOOK.min(timeout.max_sleep()));
        let found = conn.wait_frame(look)?;
        if found.is_some() || Instant::now() < look || timeout.is_expired() {
            return Ok(found);
        }
    }
}

fn reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "no process is listening there".into(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "the host does not respond".into(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    const STREAM: Purpose = Purpose::Stream { from: 2, context: 0, id: 0 };

    #[test]
    fn whoever_is_not_there_is_named() {
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let (secret, mut timeout) = (Secret::derived(&[]), ActiveTimeout::new(Duration::from_millis(50)));
        let error = connect(&[closed], 1, STREAM, &secret, &mut timeout, &|| Ok(())).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("rank 2 did not reach rank 1 at {closed} within")), "{text}");
        assert!(!error.help().unwrap().contains("rank 0"));
    }

    #[test]
    fn who_has_no_reason_to_wait_does_not() {
        // Taken by the system, answered by nobody.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        for address in [silent.local_addr().unwrap(), closed] {
            let looks = Cell::new(0);
            let go_on = || {
                looks.set(looks.get() + 1);
                if looks.get() < 5 { Ok(()) } else { Err(Error::NoSuchRank { rank: 7, ranks: 7 }) }
            };
            let mut timeout = ActiveTimeout::new(Duration::from_secs(600));
            let error = connect(&[address], 1, STREAM, &Secret::derived(&[]), &mut timeout, &go_on).unwrap_err();
            assert_eq!(error, Error::NoSuchRank { rank: 7, ranks: 7 });
        }
    }
}
