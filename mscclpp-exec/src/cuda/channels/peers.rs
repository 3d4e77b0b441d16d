//! Whether the ranks for which kernels may wait are still there.

use std::time::{Duration, Instant};

use mscclpp_bootstrap::{Bootstrap, Error};

/// How long kernels may wait after a rank has left: its last signals may still be on their way.
const LEAVE_GRACE_PERIOD: Duration = Duration::from_secs(1);

/// What a rank knows of the others while it waits for a stream.
pub(super) struct PeerWatch<'a> {
    bootstrap: &'a Bootstrap,
    /// The first rank that was seen to have left, and when.
    left: Option<(u32, Instant)>,
}

impl<'a> PeerWatch<'a> {
    pub(super) fn new(bootstrap: &'a Bootstrap) -> Self {
        Self { bootstrap, left: None }
    }

    /// Checks that no rank is lost, and that none left long ago.
    ///
    /// # Errors
    /// Why the communicator has failed; [`Error::RankLeft`].
    pub(super) fn check(&mut self) -> Result<(), Error> {
        let bootstrap = self.bootstrap;
        bootstrap.check_alive()?;
        match self.left {
            Some((rank, since)) if since.elapsed() > LEAVE_GRACE_PERIOD => Err(Error::RankLeft {
                who: Box::new(bootstrap.member(rank)),
                waiting: Some(bootstrap.rank()),
                call: "the wait of a kernel's channel".into(),
            }),
            Some(_) => Ok(()),
            None => {
                for rank in (0..bootstrap.num_ranks()).filter(|&rank| rank != bootstrap.rank()) {
                    if bootstrap.has_left(rank)? {
                        self.left = Some((rank, Instant::now()));
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}
