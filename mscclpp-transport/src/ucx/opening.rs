//! A connection whose sides have not agreed yet whether UCX carries its messages.

use mscclpp_bootstrap::StreamKeys;

use super::control::{Control, Record, Vote};
use super::inbox::Token;
use super::worker::{Endpoint, Worker};
use crate::frame::{Frame, Malformed};
use crate::{Buffer, Lost};

/// A connection whose sides have not agreed yet.
pub(super) struct Opening<B> {
    pub(super) control: Control,
    pub(super) keys: Option<StreamKeys>,
    /// Messages that were passed meanwhile.
    pub(super) pending: Vec<(Frame, Option<B>)>,
    /// The token of messages to this rank.
    pub(super) token: Token,
    peer: Option<Peer>,
    agreed: Option<Agreed>,
    malformed: Option<Malformed>,
    failed: Option<String>,
}

/// What is known of a peer that has UCX.
struct Peer {
    token: Token,
    address: Vec<u8>,
    /// What this side would use, and the way to the peer with it.
    vote: Vote,
    endpoint: Option<Endpoint>,
}

/// What the sides of a connection have agreed on.
pub(super) enum Agreed {
    /// The way to the peer, and the tokens in messages to it and from it.
    Ucx(Endpoint, [Token; 2]),
    Tcp,
}

impl<B: Buffer> Opening<B> {
    /// `token`: that of messages to this rank.
    pub(super) fn new(control: Control, keys: Option<StreamKeys>, token: Token) -> Self {
        Self { control, keys, pending: Vec::new(), token, peer: None, agreed: None, malformed: None, failed: None }
    }

    /// Exchanges records, and returns what was agreed, if anything.
    pub(super) fn advance(&mut self, worker: Option<&Worker>, is_required: bool) -> Option<Agreed> {
        while self.agreed.is_none() && self.malformed.is_none() && self.failed.is_none() {
            self.control.write();
            match self.control.receive() {
                Ok(Some(record)) => self.accept(record, worker, is_required),
                Ok(None) => return None,
                Err(malformed) => self.malformed = Some(malformed),
            }
        }
        // Messages follow on the stream only when the records of this side are sent.
        self.agreed.take_if(|_| self.control.write())
    }

    fn accept(&mut self, record: Record, worker: Option<&Worker>, is_required: bool) {
        match (record, worker, self.peer.take()) {
            (Record::Tcp, _, None) if !is_required => self.agreed = Some(Agreed::Tcp),
            (Record::Tcp, _, None) => {
                self.fail(Some(
                    "it cannot load UCX: set MSCCLPP_UCX there, or MSCCLPP_TRANSPORT=tcp on all ranks".into(),
                ));
            }
            (Record::Address(..), None, None) => self.agreed = Some(Agreed::Tcp),
            (Record::Address(token, address), Some(worker), None) => {
                let (vote, endpoint) = probe(worker, &address);
                if is_required && vote == Vote::Unreachable {
                    self.fail(worker.connect(&address, true).err());
                }
                self.control.send(&Record::Vote(vote));
                self.peer = Some(Peer { token, address, vote, endpoint });
            }
            (Record::Vote(theirs), Some(worker), Some(Peer { token, address, vote, endpoint })) => {
                let common = vote.min(theirs);
                let least = if is_required { Vote::Sockets } else { Vote::Rdma };
                let endpoint = match endpoint {
                    // Both sides need an endpoint of the same kind.
                    Some(mut endpoint) if vote == Vote::SharedMemory && common != vote || common < least => {
                        worker.close(&mut endpoint);
                        if common < least { None } else { worker.connect(&address, true).ok() }
                    }
                    endpoint => endpoint,
                };
                match endpoint {
                    Some(endpoint) => self.agreed = Some(Agreed::Ucx(endpoint, [token, self.token])),
                    None if is_required => self.fail(None),
                    None => self.agreed = Some(Agreed::Tcp),
                }
            }
            _ => self.malformed = Some(Malformed::Frame([0; 7])),
        }
    }

    fn fail(&mut self, reason: Option<String>) {
        let reason = reason.unwrap_or_else(|| "no transport of UCX reaches it".into());
        self.failed = Some(format!("UCX cannot connect to it: {reason}"));
        self.pending.clear();
    }

    pub(super) fn queued(&self) -> usize {
        self.pending.iter().map(|(frame, _)| frame.len() as usize).sum()
    }

    pub(super) fn malformed(&self) -> Option<Malformed> {
        self.malformed
    }

    pub(super) fn lost(&self) -> Option<Lost> {
        match &self.failed {
            Some(reason) => Some(Lost::Failed(reason.clone())),
            None => self.control.is_closed().then_some(Lost::Closed),
        }
    }

    /// Ends the connection.
    pub(super) fn end(&mut self, worker: &Worker) {
        self.pending.clear();
        self.control.end();
        if let Some(endpoint) = self.peer.as_mut().and_then(|peer| peer.endpoint.as_mut()) {
            worker.close(endpoint);
        }
    }
}

/// Returns what UCX would use to reach a peer, and an endpoint for it.
///
/// UCX leaves out shared memory where it has to detect a lost peer. The stream shows that of a process on the same host, so an
/// endpoint that has nothing but shared memory is used without detection.
fn probe(worker: &Worker, address: &[u8]) -> (Vote, Option<Endpoint>) {
    if worker.reports_transports()
        && let Ok(mut endpoint) = worker.connect(address, false)
    {
        let found = worker.transports(&endpoint).unwrap_or_default();
        if shares_memory(&found) {
            return (Vote::SharedMemory, Some(endpoint));
        }
        worker.close(&mut endpoint);
    }
    match worker.connect(address, true) {
        Ok(endpoint) => {
            let found = worker.transports(&endpoint).unwrap_or_default();
            let vote = if found.iter().any(|(name, _)| is_rdma(name)) { Vote::Rdma } else { Vote::Sockets };
            (vote, Some(endpoint))
        }
        // A version that does not say what it uses, and has shared memory alone.
        Err(_) if !worker.reports_transports() => {
            let endpoint = worker.connect(address, false).ok();
            (if endpoint.is_some() { Vote::SharedMemory } else { Vote::Unreachable }, endpoint)
        }
        Err(_) => (Vote::Unreachable, None),
    }
}

/// Returns the family of a transport: `rc` of `rc_mlx5`.
fn family(transport: &str) -> &str {
    transport.split('_').next().unwrap_or_default()
}

/// Returns whether an endpoint uses these transports and devices on shared memory, besides what copies memory of devices only.
fn shares_memory(found: &[(String, String)]) -> bool {
    let mut names = found.iter().map(|(name, _)| name).filter(|name| !copies_devices(name)).peekable();
    names.peek().is_some() && names.all(|name| is_shared_memory(name))
}

fn copies_devices(transport: &str) -> bool {
    ["cuda", "gdr", "rocm", "ze"].contains(&family(transport))
}

fn is_shared_memory(transport: &str) -> bool {
    ["posix", "sysv", "xpmem", "cma", "knem", "self"].contains(&family(transport))
}

fn is_rdma(transport: &str) -> bool {
    ["rc", "dc", "ud", "srd", "gga", "ugni"].contains(&family(transport))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_have_their_kind() {
        for name in ["posix", "sysv", "cma", "self"] {
            assert!(is_shared_memory(name) && !is_rdma(name), "{name}");
        }
        for name in ["rc_verbs", "rc_mlx5", "dc_mlx5", "ud_verbs"] {
            assert!(is_rdma(name) && !is_shared_memory(name), "{name}");
        }
        for name in ["tcp", "cuda_copy", "rdmacm", ""] {
            assert!(!is_rdma(name) && !is_shared_memory(name), "{name}");
        }
    }

    #[test]
    fn shared_memory_is_used_beside_copies_of_devices() {
        let shares =
            |names: &[&str]| shares_memory(&names.iter().map(|name| ((*name).into(), "".into())).collect::<Vec<_>>());
        assert!(shares(&["sysv", "cma", "cuda_ipc"]) && shares(&["posix"]));
        assert!(!shares(&["tcp", "cuda_ipc"]) && !shares(&["cuda_ipc"]) && !shares(&["posix", "tcp"]) && !shares(&[]));
    }
}
