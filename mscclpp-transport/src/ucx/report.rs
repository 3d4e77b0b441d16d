//! What UCX would do on this machine, tried.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use mscclpp_bootstrap::ActiveTimeout;

use super::{Ucx, worker_of};
use crate::{LaunchId, Lost, Received, RemoteAddress, Signal, Transport};

/// Number of bytes of the put that is tried: long enough for a rendezvous.
const PUT_BYTES: u64 = 1 << 16;

/// Maximum duration of the trial.
const TIMEOUT: Duration = Duration::from_secs(10);

/// UCX as ranks of this machine would use it between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UcxReport {
    /// Its version, and where it was found.
    pub library: String,
    /// Transports and devices to ranks of other nodes on this host, as `posix/memory`. Empty if UCX is older than 1.14, which
    /// does not report them.
    pub same_host: Vec<String>,
    /// Transports and devices of which UCX detects the loss of a peer: those to other hosts.
    pub other_hosts: Vec<String>,
    /// Whether UCX can access memory of CUDA devices.
    pub supports_cuda: bool,
}

/// Loads UCX, and sends a put and a signal between two workers of this process.
///
/// # Errors
/// Why UCX cannot be used, or what did not arrive.
pub fn try_ucx() -> Result<UcxReport, String> {
    // The endpoints that are described are closed at once, while UCX connects them: the transfer has workers of its own.
    let report = describe(&engines()?)?;
    let [mut one, mut other] = engines()?;
    let failed = |error: std::io::Error| format!("cannot connect on loopback: {error}");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
    let stream = TcpStream::connect(listener.local_addr().map_err(failed)?).map_err(failed)?;
    let accepted = listener.accept().map_err(failed)?.0;
    one.open(1, stream, None).map_err(|error| error.to_string())?;
    other.open(0, accepted, None).map_err(|error| error.to_string())?;
    let launch = LaunchId { plan: 1, launch: 1, call: 1 };
    let content: Vec<u8> = (0..PUT_BYTES).map(|at| at as u8).collect();
    one.put(1, launch, RemoteAddress { key: 1, offset: 0 }, PUT_BYTES, Some(content.clone()));
    one.signal(1, launch, Signal::End);
    let (mut timeout, mut is_there) = (ActiveTimeout::new(TIMEOUT), false);
    loop {
        one.progress();
        other.progress();
        match other.receive(0, 1, &mut |len| Some(vec![0; len as usize])).map_err(|error| error.to_string())? {
            Received::Message(_, Some(bytes)) => is_there = bytes == content,
            Received::Message(..) if is_there => return Ok(report),
            Received::Message(..) => return Err(format!("a put of {PUT_BYTES} bytes arrived with other bytes")),
            Received::Part | Received::Nothing => {}
        }
        if let Some(lost) = one.lost(1).or(other.lost(0)) {
            let reason = if let Lost::Failed(reason) = lost { reason } else { "it was closed".into() };
            return Err(format!("the connection between two workers failed: {reason}"));
        }
        if timeout.is_expired() {
            return Err(format!("a put of {PUT_BYTES} bytes did not arrive within {} s", TIMEOUT.as_secs()));
        }
    }
}

/// Returns two engines of this process.
fn engines() -> Result<[Ucx<Vec<u8>>; 2], String> {
    let engine = || Ucx::new(true).map_err(|why| why.to_string());
    Ok([engine()?, engine()?])
}

/// Returns what the endpoints from one worker to another one use.
fn describe([one, other]: &[Ucx<Vec<u8>>; 2]) -> Result<UcxReport, String> {
    let gone = || "the process was copied".to_owned();
    let address = worker_of(&other.progress).ok_or_else(gone)?.address()?;
    let worker = worker_of(&one.progress).ok_or_else(gone)?;
    let transports = |detects_loss| -> Vec<String> {
        let Ok(mut endpoint) = worker.connect(&address, detects_loss) else { return Vec::new() };
        let found = worker.transports(&endpoint).unwrap_or_default();
        worker.close(&mut endpoint);
        let mut names: Vec<_> = found.iter().map(|(name, device)| format!("{name}/{device}")).collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let (same_host, other_hosts) = (transports(false), transports(true));
    Ok(UcxReport {
        library: worker.library().identity(),
        same_host,
        other_hosts,
        supports_cuda: worker.supports_cuda(),
    })
}
