//! Connects to an acceptor.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::conn::Conn;
use super::error::Error;
use super::frame::{Frame, Malformed};
use super::link::CheckAlive;
use super::protocol::Purpose;
use super::secret::{self, Role, Secret, Transcript};
use crate::timeout::ActiveTimeout;

/// Maximum duration of one attempt to connect, because an unreachable host does not answer.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a waiting caller checks whether it should continue.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Time after which a caller reports that it continues to try.
const REPORT_TIME: Duration = Duration::from_secs(5);
/// Minimum and maximum delay between attempts. Between these bounds the delay is a fraction of the elapsed time, so
/// that ranks that start together lose little time, and ranks that wait long cost little.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_micros(300), Duration::from_millis(50));
const RETRY_DELAY_DIVISOR: u32 = 8;
/// Minimum and maximum delay before the next attempt to join a job that does not accept ranks yet.
pub(crate) const MIN_JOIN_RETRY_DELAY: Duration = Duration::from_millis(2);
pub(crate) const MAX_JOIN_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Connects to a rank at one of `addresses` and proves that this process knows the secret. Retries until `timeout`
/// expires; tries at least once.
///
/// # Errors
/// [`Error::Unreachable`] if no attempt succeeds in time. Without a retry, [`Error::NoDescriptor`] of this process, the
/// errors for a peer with another secret, version or protocol, and the error of `check_alive`.
pub(crate) fn connect(
    addresses: &[SocketAddr],
    purpose: Purpose,
    secret: &Secret,
    timeout: &mut ActiveTimeout,
    check_alive: CheckAlive,
) -> Result<Conn, Error> {
    let start = Instant::now();
    let (mut last, mut is_reported) = (None, false);
    loop {
        for address in addresses {
            check_alive()?;
            match attempt(*address, purpose, secret, timeout, check_alive)? {
                Ok(conn) => return Ok(conn),
                Err(reason) => last = Some((*address, reason)),
            }
        }
        let delay = (start.elapsed() / RETRY_DELAY_DIVISOR).clamp(RETRY_DELAYS.0, RETRY_DELAYS.1);
        if let Some((address, reason)) = last.as_ref().filter(|_| !is_reported && start.elapsed() > REPORT_TIME) {
            let (rank, peer) = (purpose.rank(), purpose.peer());
            log::warn!("rank {rank} has not reached rank {peer} at {address} so far and continues to try: {reason}");
            is_reported = true;
        }
        // Processes, hosts and networks may still start.
        let is_hopeless = addresses.len() == 1 && last.as_ref().is_some_and(|(_, reason)| reason == LOOPBACK_IS_DOWN);
        if timeout.update() <= delay || is_hopeless {
            let (address, reason) =
                last.unwrap_or_else(|| (SocketAddr::from(([0, 0, 0, 0], 0)), "no address to connect to".into()));
            let (rank, peer) = (purpose.rank(), purpose.peer());
            return Err(Error::Unreachable { rank, peer, address, waited: start.elapsed(), reason });
        }
        timeout.allow_gap(delay);
        thread::sleep(delay);
    }
}

/// Makes one attempt. The inner result is an error that may not recur in the next attempt.
pub(crate) fn attempt(
    address: SocketAddr,
    purpose: Purpose,
    secret: &Secret,
    timeout: &mut ActiveTimeout,
    check_alive: CheckAlive,
) -> Result<Result<Conn, String>, Error> {
    // A caller whose timeout has expired makes one attempt as well.
    let time = timeout.update().clamp(CHECK_INTERVAL, ATTEMPT_TIMEOUT);
    timeout.allow_gap(time);
    let stream = match TcpStream::connect_timeout(&address, time) {
        Ok(stream) => stream,
        Err(error) => {
            let what = format!("rank {} cannot connect to rank {} at {address}", purpose.rank(), purpose.peer());
            return match Error::of_system(what, &error) {
                limit @ Error::NoDescriptor { .. } => Err(limit),
                _ => Ok(Err(reason(address, &error))),
            };
        }
    };
    // If no process listens on a port of the ephemeral range, a connection can end up connected to itself.
    if stream.local_addr().ok() == Some(address) {
        return Ok(Err("no process is listening there".into()));
    }
    let mut conn = match Conn::new(stream) {
        Ok(conn) => conn,
        Err(error) => return Ok(Err(reason(address, &error))),
    };
    let caller = secret::random()?;
    conn.push(&Frame::Hello { purpose, nonce: caller });
    match wait_frame(&mut conn, timeout, check_alive)? {
        Some(Frame::Challenge { nonce, proof }) => {
            let transcript = Transcript { purpose, nonces: [caller, nonce] };
            if !secret.verify(Role::Responder, &transcript, &proof) {
                let error = Error::AuthenticationFailed { peer: address.to_string() };
                conn.push(&Frame::Rejected(error.clone()));
                return Err(error);
            }
            let proof = secret.proof(Role::Initiator, &transcript);
            conn.push(&Frame::Response { proof });
            conn.authenticate(secret.keys(Role::Initiator, &transcript), purpose.rank(), purpose.peer());
            Ok(Ok(conn))
        }
        Some(Frame::Rejected(error)) => Err(error),
        Some(_) => Err(Malformed::Unexpected("a challenge").of(address)),
        // A port forwarder closes the connection while its target does not listen yet.
        None => Ok(Err("the connection was accepted, but no process answered".into())),
    }
}

/// Waits for a frame. `None` means that the other end closed the connection, or that the timeout expired.
///
/// # Errors
/// As [`Conn::wait_frame`], and the error of `check_alive`.
pub(crate) fn wait_frame(
    conn: &mut Conn,
    timeout: &mut ActiveTimeout,
    check_alive: CheckAlive,
) -> Result<Option<Frame>, Error> {
    loop {
        check_alive()?;
        let next_check = Instant::now() + timeout.update().min(CHECK_INTERVAL.min(timeout.max_sleep()));
        let found = conn.wait_frame(next_check)?;
        if found.is_some() || Instant::now() < next_check || timeout.is_expired() {
            return Ok(found);
        }
    }
}

/// Why no connection to this host succeeds.
const LOOPBACK_IS_DOWN: &str = "the loopback interface of this host is down; bring it up: `ip link set lo up`";

fn reason(address: SocketAddr, error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NetworkUnreachable if address.ip().is_loopback() => LOOPBACK_IS_DOWN.into(),
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

    const STREAM: Purpose = Purpose::Stream { from: 2, to: 1, context: 0, id: 0, job: [0; 16] };

    #[test]
    fn connect_to_closed_port_names_rank_and_address() {
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let (secret, mut timeout) = (Secret::derived(&[]), ActiveTimeout::new(Duration::from_millis(50)));
        let error = connect(&[closed], STREAM, &secret, &mut timeout, &|| Ok(())).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("rank 2 did not reach rank 1 at {closed} within")), "{text}");
        assert!(!error.help().unwrap().contains("rank 0"));
    }

    #[test]
    fn connect_ends_when_check_alive_fails() {
        // The system accepts the connection, but no process answers.
        let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        for address in [silent.local_addr().unwrap(), closed] {
            let looks = Cell::new(0);
            let check_alive = || {
                looks.set(looks.get() + 1);
                if looks.get() < 5 { Ok(()) } else { Err(Error::NoSuchRank { rank: 7, num_ranks: 7 }) }
            };
            let mut timeout = ActiveTimeout::new(Duration::from_secs(600));
            let error = connect(&[address], STREAM, &Secret::derived(&[]), &mut timeout, &check_alive).unwrap_err();
            assert_eq!(error, Error::NoSuchRank { rank: 7, num_ranks: 7 });
        }
    }

    #[test]
    fn loopback_that_is_down_is_named() {
        let error = std::io::Error::from(ErrorKind::NetworkUnreachable);
        let text = |ip: [u8; 4]| reason((ip, 1).into(), &error);
        assert!(text([127, 0, 0, 1]).contains("ip link set lo up"), "{}", text([127, 0, 0, 1]));
        assert_eq!(text([10, 0, 0, 1]), error.to_string());
    }
}
