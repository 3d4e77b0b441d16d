//! A call in which every rank of every node sends data to all others.

use serde::{Deserialize, Serialize};

use super::session::Session;
use mscclpp_base::error::Error;
use mscclpp_base::shm::Sent;

/// Data that a rank sends to all others.
#[derive(Serialize, Deserialize)]
struct GatheredCall {
    text: String,
    bytes: Vec<u8>,
}

impl Session {
    /// Waits until all ranks have made this call. `text` describes it.
    ///
    /// # Errors
    /// As [`exchange`](Self::exchange).
    pub(super) fn named_barrier(&mut self, text: &str) -> Result<(), Error> {
        if self.has_several_nodes() {
            return self.exchange_all(text, Sent::default()).map(drop);
        }
        self.control(text, |_| Ok(()))
    }

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use mscclpp_bootstrap::Bootstrap;

    use super::super::Options;
    use super::*;
    use mscclpp_base::error::ErrorKind;
    use mscclpp_transport::Tcp;

    /// Makes the call on ranks on two nodes, and returns their results.
    fn results(text: impl Fn(u32) -> &'static str + Sync) -> Vec<Result<(), Error>> {
        let play = |group: Bootstrap| {
            let (rank, options) = (group.rank(), Options::default().timeout(Duration::from_secs(60)));
            let session = Session::with_transport(Arc::new(group), options, vec![0, 1, 1], Box::new(Tcp::new()));
            session?.named_barrier(text(rank))
        };
        let play = &play;
        std::thread::scope(|scope| {
            let groups = Bootstrap::local(3).expect("a group").into_iter();
            let ranks: Vec<_> = groups.map(|group| scope.spawn(move || play(group))).collect();
            ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect()
        })
    }

    #[test]
    fn ranks_on_two_nodes_compare_their_calls() {
        assert!(results(|_| "gather").iter().all(Result::is_ok));
        for odd in 0..3 {
            let errors = results(|rank| if rank == odd { "scatter" } else { "gather" });
            assert!(errors.iter().all(|found| matches!(found, Err(error) if error.kind() == ErrorKind::Mismatch)));
            let causes: Vec<_> = errors.iter().filter_map(|found| found.as_ref().err()?.root_cause()).collect();
            assert!(causes.len() == 3 && causes.iter().all(|cause| *cause == causes[0]), "{causes:?}");
        }
    }
}
