//! A call in which every rank of every node sends data to all others.

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::error::Error;
use crate::shm::Sent;

/// Data that a rank sends to all others.
#[derive(Serialize, Deserialize)]
struct GatheredCall {
    text: String,
    bytes: Vec<u8>,
}

impl Session {
    /// Does what [`exchange`](Self::exchange) does, with all ranks of all nodes. Descriptors are sent to the ranks of
    /// the node. Returns the received data by rank; this rank's is empty.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange), and [`Error::Bootstrap`].
    pub(crate) fn exchange_all(&mut self, text: &str, own: Sent) -> Result<Vec<Sent>, Error> {
        if !self.has_several_nodes() {
            return self.exchange(text, &own);
        }
        let number = self.enter()?;
        let sent = GatheredCall { text: text.to_owned(), bytes: own.bytes };
        let sent = postcard::to_allocvec(&sent).map_err(|error| Error::Internal(error.to_string()))?;
        let gathered = self.bootstrap.all_gather(&sent).map_err(|error| self.abort(error.into()))?;
        let mut all = Vec::with_capacity(gathered.len());
        for (peer, sent) in (0_u32..).zip(gathered) {
            let GatheredCall { text: other, bytes } = postcard::from_bytes(&sent).map_err(|error| {
                let reason = format!("it sent data that this rank cannot decode: {error}");
                self.abort(Error::RankLost { peer, reason })
            })?;
            if other != text {
                return Err(self.mismatch(number, peer));
            }
            let bytes = if peer == self.rank() { Vec::new() } else { bytes };
            all.push(Sent { bytes, ..Sent::default() });
        }
        // All ranks of the node have entered this call.
        let files = Sent { files: own.files, ..Sent::default() };
        for (local_rank, sent) in self.exchange(text, &files)?.into_iter().enumerate() {
            all[self.locals[local_rank] as usize].files = sent.files;
        }
        Ok(all)
    }
}
