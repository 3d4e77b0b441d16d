//! A call in which every rank of every node tells all others something.

use std::os::fd::BorrowedFd;

use serde::{Deserialize, Serialize};

use super::session::Session;
use crate::error::Error;
use crate::shm::Sent;

/// What a rank says to all.
#[derive(Serialize, Deserialize)]
struct Said {
    text: String,
    bytes: Vec<u8>,
}

impl Session {
    /// As [`exchange`](Self::exchange), with all ranks of all nodes. Descriptors go to the ranks of the node. Returns by rank
    /// what each sent; the own one's is empty.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange), and [`Error::Group`].
    pub(crate) fn exchange_all(
        &mut self,
        text: &str,
        bytes: &[u8],
        files: &[BorrowedFd<'_>],
    ) -> Result<Vec<Sent>, Error> {
        if self.bootstrap.num_nodes() <= 1 {
            return self.exchange(text, bytes, files);
        }
        let number = self.enter()?;
        let said = Said { text: text.to_owned(), bytes: bytes.to_vec() };
        let said = postcard::to_allocvec(&said).map_err(|error| Error::Internal(error.to_string()))?;
        let gathered = self.bootstrap.all_gather(&said).map_err(Error::from);
        let gathered = gathered.inspect_err(|error| self.give_up(error))?;
        let mut all = Vec::with_capacity(gathered.len());
        for (peer, said) in (0_u32..).zip(gathered) {
            let Said { text: other, bytes } = postcard::from_bytes(&said).map_err(|error| {
                let error =
                    Error::RankLost { peer, why: format!("it sent data that this rank cannot decode: {error}") };
                self.give_up(&error);
                error
            })?;
            if other != text {
                let error = Error::CallMismatch { number, rank: self.rank(), call: text.to_owned(), peer, other };
                self.give_up(&error);
                return Err(error);
            }
            let bytes = if peer == self.rank() { Vec::new() } else { bytes };
            all.push(Sent { bytes, files: Vec::new() });
        }
        // All of them are in this call.
        for (place, sent) in self.exchange(text, &[], files)?.into_iter().enumerate() {
            all[self.locals[place] as usize].files = sent.files;
        }
        Ok(all)
    }
}
