//! Calls in which ranks share memory, or report why they cannot.

use serde::{Deserialize, Serialize};

use super::memory::{PeerMemory, SharedAllocation};
use super::{IpcGroup, decode, encode};
use crate::cuda::nodes::Owner;
use mscclpp_base::error::Error;
use mscclpp_base::shm::Sent;
use mscclpp_cuda::slice::DeviceSlice;

/// A rank's message about its memory.
#[derive(Serialize, Deserialize)]
enum Offer {
    /// The rank cannot take part, for this reason.
    Failed(String),
    /// It cannot share memory of its caller's, for this reason.
    NotShareable(String),
    Memories(Vec<SharedAllocation>),
}

impl Offer {
    fn failed(error: &Error) -> Self {
        match error {
            Error::NotShareable { reason, .. } => Self::NotShareable(reason.clone()),
            error => Self::Failed(error.to_string()),
        }
    }

    /// Returns the error of the others when `rank` makes this offer.
    fn error(self, rank: u32) -> Error {
        match self {
            Self::NotShareable(reason) => Error::NotShareable { rank, reason },
            Self::Failed(reason) => Error::RankLost { peer: rank, reason },
            Self::Memories(_) => Error::Internal("an offer that is no failure".into()),
        }
    }
}

/// Results of a call, by rank.
pub(super) struct Exchanged {
    pub(super) memories: Vec<Vec<PeerMemory>>,
    pub(super) others: Vec<Vec<u8>>,
}

impl IpcGroup {
    /// Exchanges whether every rank can continue; a call of all ranks.
    ///
    /// # Errors
    /// This rank's own error; [`Error::RankLost`] with the reason that another rank reports.
    pub(in crate::cuda) fn agree(&self, text: &str, mine: Result<(), Error>) -> Result<(), Error> {
        self.share(text, mine.map(|()| Vec::new())).map(|_| ())
    }

    /// Shares allocations of a plan, each a whole allocation given by its first address and its bytes; a call of all
    /// ranks. Returns, by rank, the memory as this rank accesses it.
    ///
    /// # Errors
    /// Those of [`agree`](Self::agree), and [`Error::MapFailed`].
    pub(in crate::cuda) fn share(
        &self,
        text: &str,
        mine: Result<Vec<DeviceSlice>, Error>,
    ) -> Result<Vec<Vec<PeerMemory>>, Error> {
        Ok(self.exchange(text, mine, Owner::Plan, &[])?.memories)
    }

    /// Does what [`share`](Self::share) does, and returns whether a condition holds on any rank.
    pub(in crate::cuda) fn share_with(
        &self,
        text: &str,
        mine: Result<Vec<DeviceSlice>, Error>,
        condition: bool,
    ) -> Result<(Vec<Vec<PeerMemory>>, bool), Error> {
        let Exchanged { memories, others } = self.exchange(text, mine, Owner::Plan, &[u8::from(condition)])?;
        Ok((memories, others.iter().any(|condition| condition == &[1])))
    }

    /// Shares any allocations, together with a message.
    pub(super) fn exchange(
        &self,
        text: &str,
        mine: Result<Vec<DeviceSlice>, Error>,
        owner: Owner,
        beside: &[u8],
    ) -> Result<Exchanged, Error> {
        self.check()?;
        let offer = mine.and_then(|slices| self.export(&slices, owner).map_err(|error| self.of_owner(owner, error)));
        // A rank that cannot continue takes part as well, or the others would wait for it.
        let (message, files) = match &offer {
            Ok(exported) => (Offer::Memories(exported.pieces.clone()), exported.files.clone()),
            Err(error) => (Offer::failed(error), Vec::new()),
        };
        let bytes = encode(&(message, beside.to_vec()))?;
        let sent = self.session()?.exchange_all(text, Sent { bytes, files, ..Sent::default() });
        let own = offer.map_err(|error| self.end(error))?.own;
        let offers = || -> Result<_, Error> {
            let mut offers = Vec::new();
            for (peer, sent) in (0_u32..).zip(sent?) {
                if peer == self.rank {
                    offers.push((Vec::new(), beside.to_vec(), sent.files));
                    continue;
                }
                let (offer, beside): (Offer, Vec<u8>) = decode(peer, sent.bytes)?;
                match offer {
                    Offer::Memories(pieces) => offers.push((pieces, beside, sent.files)),
                    failed => return Err(failed.error(peer)),
                }
            }
            Ok(offers)
        };
        // All ranks have received the failure, and there is nothing to map.
        let offers = offers().map_err(|error| self.end(error))?;
        let received = || -> Result<_, Error> {
            let (mut memories, mut others) = (Vec::new(), Vec::new());
            for (peer, (pieces, beside, files)) in (0_u32..).zip(offers) {
                others.push(beside);
                let mut files = files.into_iter();
                let import = |piece| self.import(peer, piece, &mut files);
                memories.push(match peer == self.rank {
                    true => own.clone(),
                    false => pieces.into_iter().map(import).collect::<Result<_, _>>()?,
                });
            }
            Ok(Exchanged { memories, others })
        };
        let received = received().map_err(|error| self.of_owner(owner, error));
        // No rank frees memory before the others have mapped it.
        let mapped = match &received {
            Ok(_) => Offer::Memories(Vec::new()),
            Err(error) => Offer::failed(error),
        };
        let mapped = Sent { bytes: encode(&mapped)?, ..Sent::default() };
        let ended = self.session()?.exchange_all(&format!("end of {text}"), mapped);
        let ended = || -> Result<(), Error> {
            for (peer, sent) in (0_u32..).zip(ended?).filter(|(peer, _)| *peer != self.rank) {
                match decode::<Offer>(peer, sent.bytes)? {
                    Offer::Memories(_) => {}
                    failed => return Err(failed.error(peer)),
                }
            }
            Ok(())
        };
        received.and_then(|received| ended().map(|()| received)).map_err(|error| self.end(error))
    }

    /// Returns the error of a rank that cannot share memory of its caller's, in place of its cause.
    pub(super) fn of_owner(&self, owner: Owner, error: Error) -> Error {
        match error {
            Error::Driver(_) | Error::Tensor { .. } | Error::MapFailed { .. } if owner == Owner::Caller => {
                Error::NotShareable { rank: self.rank, reason: error.to_string() }
            }
            other => other,
        }
    }

    /// Fails the group after a failure of which all ranks know, unless it concerns memory of callers, of which nothing was made.
    fn end(&self, error: Error) -> Error {
        match error {
            Error::NotShareable { .. } => error,
            other => self.abort_known(other),
        }
    }
}
