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
        self.start(text)?;
        let sent = GatheredCall { text: text.to_owned(), bytes: own.bytes };
        let sent = postcard::to_allocvec(&sent).map_err(|error| Error::Internal(error.to_string()))?;
        let gathered = self.gather_on_nodes(&sent)?;
        let mut all = Vec::with_capacity(gathered.len());
        for (peer, sent) in (0_u32..).zip(gathered) {
            let GatheredCall { text: other, bytes } = postcard::from_bytes(&sent).map_err(|error| {
                let reason = format!("it sent data that this rank cannot decode: {error}");
                self.abort(Error::RankLost { peer, reason })
            })?;
            if other != text {
                return Err(self.mismatch(self.number, peer));
            }
            let bytes = if peer == self.rank() { Vec::new() } else { bytes };
            all.push(Sent { bytes, ..Sent::default() });
        }
        let files = Sent { files: own.files, ..Sent::default() };
        for (local_rank, sent) in self.exchange_started(text, &files)?.into_iter().enumerate() {
            all[self.locals[local_rank] as usize].files = sent.files;
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use mscclpp_bootstrap::Bootstrap;

    use super::super::{Options, on_threads};
    use super::*;
    use mscclpp_base::error::ErrorKind;
    use mscclpp_transport::Tcp;

    /// Runs ranks on nodes in threads, with a timeout of each, and returns their results.
    fn on_nodes<R: Send>(
        nodes: [u32; 3],
        timeout: impl Fn(u32) -> Duration + Sync,
        play: impl Fn(Session) -> R + Sync,
    ) -> Vec<R> {
        let start = |group: Bootstrap| {
            let timeout = timeout(group.rank());
            group.set_timeout(timeout);
            let options = Options::default().timeout(timeout);
            play(
                Session::with_transport(Arc::new(group), options, nodes.to_vec(), Box::new(Tcp::new())).expect("ranks"),
            )
        };
        on_threads(Bootstrap::local(3), start)
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// Rank 0 waits on its node for rank 1, and rank 2, whose timeout ends first, on the other one for both.
    #[test]
    fn rank_that_waits_for_a_late_rank_of_its_node_is_not_late_itself() {
        let has_failed = Barrier::new(3);
        let timeout = |rank| if rank == 2 { Duration::from_millis(300) } else { MINUTE };
        let errors = on_nodes([0, 0, 1], timeout, |mut session| {
            if session.rank() == 1 {
                has_failed.wait();
            }
            let error = session.barrier().expect_err("rank 1 is late");
            if session.rank() != 1 {
                has_failed.wait();
            }
            error
        });
        for error in &errors {
            assert_eq!((error.lost(), error.to_string()), (vec![1], errors[0].to_string()));
        }
    }

    #[test]
    fn rank_without_memory_is_the_cause_for_ranks_of_other_nodes() {
        let errors = on_nodes(
            [0, 0, 1],
            |_| MINUTE,
            |mut session| {
                let bytes = if session.rank() == 1 { 1 << 50 } else { 10 };
                match session.allocate_buffers(bytes, "alloc") {
                    // Of its own node.
                    Ok(_) => session.barrier().expect_err("the other ranks have ended"),
                    // It ends.
                    Err(error) => error,
                }
            },
        );
        assert!(matches!(errors[1], Error::OutOfMemory { .. }), "{}", errors[1]);
        for error in [&errors[0], &errors[2]] {
            assert_eq!(error.root_cause().map(|cause| cause.rank), Some(1), "{error}");
        }
        assert!(errors[2].to_string().contains("ended after another failure: rank 1 ("), "{}", errors[2]);
    }

    #[test]
    fn ranks_on_two_nodes_compare_their_calls() {
        let results = |text: &(dyn Fn(u32) -> &'static str + Sync)| {
            on_nodes([0, 1, 1], |_| MINUTE, |mut session| session.named_barrier(text(session.rank())))
        };
        assert!(results(&|_| "gather").iter().all(Result::is_ok));
        for odd in 0..3 {
            let errors = results(&|rank| if rank == odd { "scatter" } else { "gather" });
            assert!(errors.iter().all(|found| matches!(found, Err(error) if error.kind() == ErrorKind::Mismatch)));
            let causes: Vec<_> = errors.iter().filter_map(|found| found.as_ref().err()?.root_cause()).collect();
            assert!(causes.len() == 3 && causes.iter().all(|cause| *cause == causes[0]), "{causes:?}");
        }
    }
}
