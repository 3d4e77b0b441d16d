//! The rule `nodes`: between nodes a plan uses port channels only. It proves that, for the nodes given by
//! `ranks_per_node`,
//!
//! 1. signals and waits on memory channels stay within a node;
//! 2. an operation accesses the memory of a rank on another node only as the destination of a port channel;
//! 3. the members of a switch channel that is used are on one node.
//!
//! A node is a set of ranks that can map each other's memory. A memory channel to another node has nothing to map, and
//! every executor on several nodes rejects it. Each operation is checked separately; channels that no operation uses
//! are not checked. A plan on one node needs no proof.

use super::MAX_FINDINGS;
use super::access::accesses;
use super::place::{LocatedOp, each};
use super::view::View;
use mscclpp_plan::diag::{Code, Diagnostic, Diagnostics};
use mscclpp_plan::raw::{BufferRef, IdList, Operand, PlanTree};
use mscclpp_plan::types::ChannelKind;

/// Returns the findings about accesses to other nodes, for a plan that the rule `shape` accepts.
pub(super) fn check(view: View) -> Diagnostics {
    let (plan, mut found) = (view.plan, Diagnostics::default());
    // A plan from a file may contain any value.
    let per_node = plan.ranks_per_node;
    if per_node == 0 || per_node as usize >= plan.ranks.len() {
        return found;
    }
    each(view, &mut |at| {
        if found.len() < MAX_FINDINGS
            && let Some((peer, how, operand)) = reached(plan, &at, |rank| rank / per_node != at.rank as u32 / per_node)
        {
            let [own, other] = [at.rank as u32, peer].map(|rank| rank / per_node);
            let message = format!(
                "{} ({}) {how} rank {peer}, which is on node {other}, while rank {} is on node {own}",
                at.display_name(plan),
                at.agent(),
                at.rank,
            );
            let site = operand.map_or_else(|| at.site(plan), |operand| at.operand_site(plan, &operand));
            found.push(Diagnostic::new(Code::AcrossNodes, site, message).help(
                "use a port channel between nodes, or set `ranks_per_node` to the number of ranks that can map each \
                 other's memory",
            ));
        }
    });
    found
}

/// Returns a rank on another node that an operation accesses other than by a port channel, how, and by which operand.
fn reached(
    plan: &PlanTree,
    at: &LocatedOp,
    is_far: impl Fn(u32) -> bool,
) -> Option<(u32, &'static str, Option<Operand>)> {
    let op = at.op;
    let mut found = None;
    accesses(plan, at, &mut |effect| {
        let by_port = op.channel == Some(ChannelKind::Port) && effect.write;
        if !by_port && found.is_none() && is_far(effect.owner) {
            let switch = matches!(effect.range.buffer, BufferRef::Switch(_));
            let how = if switch { "uses a switch channel of" } else { "accesses the memory of" };
            found = Some((effect.owner, how, Some(effect.range)));
        }
    });
    if found.is_none() && op.kind.ids() == IdList::Channels && op.channel == Some(ChannelKind::Memory) {
        let tables = &plan.ranks[at.rank];
        let (numbers, peers) =
            (tables.blocks[at.block].channels(ChannelKind::Memory), tables.peers(ChannelKind::Memory));
        let peer = |id: &u32| peers.get(*numbers.get(*id as usize)? as usize).copied();
        let peer = op.ids.iter().filter_map(peer).find(|&peer| is_far(peer));
        found = peer.map(|peer| (peer, "uses a memory channel to", None));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::testing::plan;
    use mscclpp_plan::diag::Code;
    use mscclpp_plan::raw::PlanTree;

    /// Returns the messages about a plan with the given number of ranks per node.
    fn messages(mut plan: PlanTree, per_node: u32) -> Vec<String> {
        plan.ranks_per_node = per_node;
        let found = check((&plan).into());
        assert!(found.iter().all(|finding| finding.code == Code::AcrossNodes && finding.help.is_some()), "{found}");
        found.iter().map(|finding| finding.message.clone()).collect()
    }

    fn of(ops: &str) -> Vec<String> {
        messages(plan(&[&[ops], &[""]]), 1)
    }

    #[test]
    fn memory_of_another_node_is_rejected() {
        let who = |name: &str| format!("`{name}` (rank 0, thread block 0)");
        let ends = "rank 1, which is on node 1, while rank 0 is on node 0";
        assert_eq!(of("put.m i0 > r0:0"), [format!("{} accesses the memory of {ends}", who("put"))]);
        assert_eq!(of("get.m#0 r1:0 > o0"), [format!("{} accesses the memory of {ends}", who("get"))]);
        assert_eq!(of("rre.m i0 r1:0 > o0"), [format!("{} accesses the memory of {ends}", who("rre"))]);
        assert_eq!(of("ppkt.m i0 > r0:0"), [format!("{} accesses the memory of {ends}", who("ppkt"))]);
        assert_eq!(of("signal.m#0"), [format!("{} uses a memory channel to {ends}", who("signal"))]);
        assert_eq!(of("rlxwait.m#3"), [format!("{} uses a memory channel to {ends}", who("rlxwait"))]);
        assert_eq!(of("gstore.w i0 > w0:3"), [format!("{} uses a switch channel of {ends}", who("gstore"))]);
        assert_eq!(of("loop 64x1 { put.m i0 > r0:0; nop; signal.m#0 }").len(), 2);
    }

    #[test]
    fn ports_and_one_node_are_accepted() {
        assert_eq!(of("pwsf.p#0 i0 > r0:0; wait.p#0; put.p#1 i0 > r2:0; flush.p#1; copy i0 > s0"), [""; 0]);
        assert_eq!(of("sem_release#0; sem_acquire#0; cpkt i0 > s0; rppkt.p#0 s0 > r0:1"), [""; 0]);
        for per_node in [0, 2, 3, u32::MAX] {
            assert_eq!(messages(plan(&[&["put.m i0 > r0:0; signal.m#0"], &[""]]), per_node), [""; 0]);
        }
    }

    #[test]
    fn findings_are_bounded() {
        let many = vec!["signal.m#0"; 1000].join("; ");
        assert_eq!(of(&many).len(), crate::MAX_FINDINGS.min(1000));
    }
}
