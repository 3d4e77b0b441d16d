//! Connects the ranks of a node.

use std::sync::Arc;

use rustix::io::Errno;

use super::super::affinity::CpuAffinity;
use super::super::calls::Calls;
use super::super::options::Options;
use super::super::plan_memory::SlabPool;
use super::super::wire::{DELAY, NodeConnections, PooledBuffer};
use super::Session;
use super::history::CallHistory;
use mscclpp_base::error::Error;
use mscclpp_base::shm::{LocalListener, Mesh, ProcessMark, Sent, SharedCacheLines, Slab, system};
use mscclpp_bootstrap::call_report::CallReport;
use mscclpp_bootstrap::places::PlaceNumbers;
use mscclpp_bootstrap::{
    ActiveTimeout, Bootstrap, CAUSE_GRACE_PERIOD, Error as Cause, ErrorKind, NodeTransport, Topic,
};
use mscclpp_transport::Transport;

impl Session {
    /// Connects the ranks of a node.
    pub(crate) fn new(bootstrap: Arc<Bootstrap>, options: Options) -> Result<Self, Error> {
        let nodes = (0..bootstrap.num_ranks()).map(|peer| bootstrap.node_of(peer)).collect::<Result<Vec<_>, _>>()?;
        // Ranks of one node have no connections, and need not load a library for them.
        let is_alone = nodes.iter().all(|node| *node == nodes[0]);
        let choice = if is_alone { NodeTransport::Tcp } else { bootstrap.options().transport };
        let transport = mscclpp_transport::engine(choice, bootstrap.rank(), DELAY).map_err(|error| {
            // One error on all ranks, this one included, which names this rank.
            let (who, call) = (Box::new(bootstrap.member(bootstrap.rank())), "the connection of the nodes".to_owned());
            bootstrap.fail(Cause::CallFailed { who, call, kind: error.kind(), reason: error.to_string() })
        })?;
        Self::with_transport(bootstrap, options, nodes, transport)
    }

    /// Connects the ranks of a node. `nodes`: node of each rank; `transport`: the engine between nodes.
    pub(in super::super) fn with_transport(
        bootstrap: Arc<Bootstrap>,
        options: Options,
        nodes: Vec<u32>,
        transport: Box<dyn Transport<PooledBuffer>>,
    ) -> Result<Self, Error> {
        let rank = bootstrap.rank();
        let node = nodes[rank as usize];
        let locals: Vec<u32> = (0..).zip(&nodes).filter(|(_, on)| **on == node).map(|(peer, _)| peer).collect();
        let own_local_rank = locals.iter().position(|&peer| peer == rank).unwrap_or(0);
        let listener = LocalListener::open().map_err(|error| fail(error, &locals, &bootstrap))?;
        let affinity = CpuAffinity::current();
        let all = bootstrap.all_gather(&[listener.key().as_slice(), &affinity.to_bytes()].concat())?;
        let read = |(peer, sent): (u32, &Vec<u8>)| -> Result<([u8; 32], CpuAffinity), Error> {
            let sent = sent.split_first_chunk().map(|(key, affinity)| (*key, CpuAffinity::from_bytes(affinity)));
            sent.ok_or_else(|| Error::RankLost { peer, reason: "it sent no local address".into() })
        };
        let (keys, affinities): (Vec<_>, Vec<_>) = (0..).zip(&all).map(read).collect::<Result<_, _>>()?;
        let keys: Vec<_> = locals.iter().map(|&peer| keys[peer as usize]).collect();
        let mut timeout = ActiveTimeout::new(options.timeout);
        let name = |local_rank: usize| bootstrap.member(locals[local_rank]).to_string();
        let is_alive = || Ok(bootstrap.check_alive()?);
        let mesh = listener.connect(own_local_rank, &keys, name, &mut timeout, is_alive);
        let mesh = mesh.map_err(|error| fail(error, &locals, &bootstrap))?;
        let slab = share_first_slab(own_local_rank, &mesh, locals[0], &bootstrap, &mut timeout);
        let slab = slab.map_err(|error| fail(error, &locals, &bootstrap))?;
        let log = Calls::bytes(locals.len());
        let history = Arc::new(CallHistory::default());
        let (reported, members) = (Arc::clone(&history), bootstrap.members().to_vec());
        let report = move || {
            let report = CallReport { members: members.clone(), ..reported.report() };
            // Encoding fails only for types that cannot be serialized.
            postcard::to_allocvec(&report).unwrap_or_default()
        };
        bootstrap.set_report(Topic::Calls, Some(Arc::new(report)));
        Ok(Self {
            calls: Calls::new(SharedCacheLines::new(Arc::clone(slab.segment()), 0..log), own_local_rank, locals.len()),
            slabs: SlabPool::new(
                slab,
                log.next_multiple_of(rustix::param::page_size() as u64),
                own_local_rank,
                locals.len(),
            ),
            oversubscribed: affinity.is_oversubscribed(&affinities),
            has_device: false,
            timeline: None,
            compared: vec![0; locals.len()].into(),
            bootstrap,
            options,
            nodes,
            connections: NodeConnections::new(transport),
            locals,
            own_local_rank,
            mesh,
            mark: ProcessMark::new(),
            number: 0,
            history,
            place: None,
            place_numbers: PlaceNumbers::default(),
            launches: 0,
            cause: None,
            plans: Vec::new(),
            regions: Vec::new(),
            allocations: 0,
            staging: [None, None],
            ring: None,
            packets: Vec::new(),
        })
    }
}

/// Shares the first slab, which begins with the call log. The first rank of the node creates it. `first`: that rank.
fn share_first_slab(
    own_local_rank: usize,
    mesh: &Mesh,
    first: u32,
    bootstrap: &Bootstrap,
    timeout: &mut ActiveTimeout,
) -> Result<Arc<Slab>, Error> {
    let num_ranks = mesh.num_ranks();
    let log = Calls::bytes(num_ranks);
    let bytes = SlabPool::first_slab_bytes(log);
    if own_local_rank == 0 {
        let slab = Arc::new(Slab::new(bytes, "calls")?);
        slab.reserve(&(0..log), "calls")?;
        let sent = Sent { slab: Some(Arc::clone(&slab)), ..Sent::default() };
        (1..num_ranks).try_for_each(|local_rank| mesh.send(local_rank, &sent))?;
        return Ok(slab);
    }
    let late = || {
        bootstrap.check_alive()?;
        let reason = "it did not share its call log in time".into();
        if timeout.is_expired() { Err(Error::RankLost { peer: 0, reason }) } else { Ok(()) }
    };
    mesh.receive(0, late)?.into_slab(bytes)?.ok_or_else(|| lost_descriptor(first))
}

/// Returns the error for a descriptor that a peer has sent and that did not arrive.
#[cold]
pub(in super::super) fn lost_descriptor(peer: u32) -> Error {
    let what = format!("receive the descriptor of rank {peer}'s memory");
    // The system drops descriptors only if the receiver has no room for them.
    system(&what, Errno::MFILE)
}

/// Replaces the local rank in an error by the rank; or returns the bootstrap's failure, if it is about to report the
/// cause.
pub(super) fn name_rank(error: Error, locals: &[u32], bootstrap: &Bootstrap) -> Error {
    match error {
        Error::RankLost { peer, reason } => match bootstrap.failure_within(CAUSE_GRACE_PERIOD) {
            Some(first) => first.into(),
            None => Error::RankLost { peer: locals.get(peer as usize).copied().unwrap_or(peer), reason },
        },
        other => other,
    }
}

/// Fails the communicator because the ranks of a node cannot connect, so that no rank waits for this one.
fn fail(error: Error, locals: &[u32], bootstrap: &Bootstrap) -> Error {
    let failed = |rank, kind, reason| {
        let (who, call) = (Box::new(bootstrap.member(rank)), "the connection of the ranks of a node".to_owned());
        bootstrap.fail(Cause::CallFailed { who, call, kind, reason })
    };
    match name_rank(error, locals, bootstrap) {
        Error::RankLost { peer, reason } => failed(peer, ErrorKind::RankLost, reason).into(),
        known @ Error::Bootstrap(_) => known,
        own => {
            failed(bootstrap.rank(), own.kind(), own.to_string());
            own
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Rank 1 has exchanged addresses, and fails before it connects.
    #[test]
    fn rank_that_fails_before_it_connects_is_reported_at_once() {
        let [zero, one]: [Bootstrap; 2] = Bootstrap::local(2).expect("a group").try_into().expect("two ranks");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let address = [&[0; 32][..], &CpuAffinity::current().to_bytes()].concat();
                one.all_gather(&address).expect("both ranks call");
                one.abort("a test");
            });
            let options = Options::default().timeout(Duration::from_secs(60));
            let error = Session::new(Arc::new(zero), options).map(drop).expect_err("rank 1 has aborted");
            assert!(error.to_string().contains("aborted: a test"), "{error}");
        });
    }
}
