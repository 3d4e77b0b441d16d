//! Drops the parts of a resolved plan that a rank does not need: what it keeps grows with the operations of the rank and those
//! that write to it from other nodes, not with those of all ranks.

use std::collections::BTreeSet;

use super::program::{Instr, Opcode, ResolvedPlan};

impl ResolvedPlan {
    /// Drops what `rank` needs neither to execute its operations nor to receive data: of the instructions it keeps the rank's,
    /// those whose proxies may write to the rank's memory, and one loop of each shape, whose number of iterations every rank
    /// checks; of the channels, the rank's and those of these instructions; of the proxies, the rank's.
    ///
    /// Indices of instructions and channels do not change. Thread blocks of other ranks are kept without their instructions.
    pub fn retain_rank(&mut self, rank: u32) {
        let own = || self.agents.iter().filter(|code| code.rank == rank);
        let start = own().map(|code| code.start).min().unwrap_or_default() as usize;
        let end = own().map(|code| code.end).max().unwrap_or_default() as usize;
        let mut shapes = Vec::new();
        self.loops.retain(|&at| {
            let Instr { count, unit, .. } = self.instrs[at as usize];
            let is_new = !shapes.contains(&(count, unit));
            if is_new {
                shapes.push((count, unit));
            }
            is_new
        });
        let arrives = |instr: &Instr| {
            let is_data = instr.action.is_port_send() && self.dsts(instr).iter().any(|dst| dst.rank == rank);
            is_data || instr.action == Opcode::ExchangeCounts
        };
        let others = self.instrs.indexed().filter(|&(at, instr)| self.loops.contains(&(at as u32)) || arrives(instr));
        let others: Vec<usize> = others.map(|(at, _)| at).collect();
        // Reports name the channels by which data arrives.
        let arriving = self.instrs.iter().filter(|instr| arrives(instr)).flat_map(|instr| self.ids(instr));
        let arriving: BTreeSet<usize> = arriving.map(|&channel| channel as usize).collect();
        self.instrs.retain(start..end.max(start), others.into_iter());

        let first = self.channels.iter().position(|channel| channel.rank == rank).unwrap_or_default();
        let own = self.channels.iter().filter(|channel| channel.rank == rank).count();
        self.channels.retain(first..first + own, arriving.into_iter());

        for code in self.agents.iter_mut().filter(|code| code.rank == rank) {
            code.proxy = 0;
        }
        self.proxies.retain(|&owner| owner == rank);

        let (mut operands, mut ids) = (Vec::new(), Vec::new());
        for instr in self.instrs.iter_mut() {
            let (first, first_id) = (operands.len() as u32, ids.len() as u32);
            operands.extend_from_slice(&self.operands[instr.operands as usize..][..(instr.srcs + instr.dsts) as usize]);
            ids.extend_from_slice(&self.ids[instr.first_id as usize..][..instr.ids as usize]);
            (instr.operands, instr.first_id) = (first, first_id);
        }
        (self.operands, self.ids) = (operands, ids);
        self.operands.shrink_to_fit();
        self.ids.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use mscclpp_algorithms as algorithms;

    use crate::interpret::{ResolvedPlan, resolve};

    fn resolved(name: &str, ranks: u32) -> ResolvedPlan {
        let algorithm = algorithms::find(name).expect("it is in the library");
        let (spec, arguments) = (algorithm.spec(ranks, ranks / 8), algorithm.arguments([]).expect("defaults"));
        resolve(&algorithm.plan(spec, &arguments).expect("it compiles")).expect("it can be run")
    }

    /// Returns the number of entries of the tables that grow with the operations.
    fn num_entries(plan: &ResolvedPlan) -> usize {
        let tables = [plan.operands.len(), plan.ids.len(), plan.proxies.len(), plan.loops.len()];
        plan.instrs.iter().count() + plan.channels.iter().count() + tables.iter().sum::<usize>()
    }

    #[test]
    fn kept_part_grows_with_the_number_of_ranks_and_the_whole_with_its_square() {
        for name in ["allreduce_ring_ports", "allgather_ring_ports", "alltoall_ports", "reducescatter_hierarchical"] {
            let [few, many] = [16, 64].map(|ranks| {
                let mut plan = resolved(name, ranks);
                let whole = num_entries(&plan);
                plan.retain_rank(ranks / 2 - 1);
                (whole, num_entries(&plan))
            });
            assert!(many.1 <= 5 * few.1, "{name}: {} entries for 16 ranks, {} for 64", few.1, many.1);
            assert!(many.0 >= 10 * many.1, "{name}: {} entries of {}", many.1, many.0);
        }
    }

    #[test]
    fn entries_keep_their_indices_and_operands() {
        for name in ["allreduce_ring_ports", "allreduce_hierarchical_packets", "alltoall_ports", "broadcast_tree_ports"]
        {
            let whole = resolved(name, 16);
            for rank in 0..16 {
                let mut plan = resolved(name, 16);
                plan.retain_rank(rank);
                let own = whole.agents.iter().filter(|code| code.rank == rank).flat_map(|code| code.start..code.end);
                let arrives = |&at: &u32| {
                    let instr = &whole.instrs[at as usize];
                    instr.action.is_port_send() && whole.dsts(instr).iter().any(|dst| dst.rank == rank)
                };
                for at in own.chain((0..whole.instrs.len() as u32).filter(arrives)) {
                    let expected = &whole.instrs[at as usize];
                    let found = plan.instrs.get(at as usize).unwrap_or_else(|| panic!("{name}: no {}", whole.path(at)));
                    assert_eq!((found.op, found.action), (expected.op, expected.action), "{name}");
                    assert_eq!(plan.srcs(found), whole.srcs(expected), "{name}");
                    assert_eq!(plan.dsts(found), whole.dsts(expected), "{name}");
                    assert_eq!(plan.ids(found), whole.ids(expected), "{name}");
                    if found.action.is_port_send() {
                        let id =
                            |plan: &ResolvedPlan, id: u32| plan.channels.get(id as usize).map(|channel| channel.id);
                        let ids =
                            |of: &ResolvedPlan| whole.ids(expected).iter().map(|&at| id(of, at)).collect::<Vec<_>>();
                        assert_eq!(ids(&plan), ids(&whole), "{name}: the channels of data that arrives");
                    }
                }
                for (at, channel) in plan.channels.indexed() {
                    assert_eq!(
                        (channel.rank, channel.pair),
                        (whole.channels[at].rank, whole.channels[at].pair),
                        "{name}"
                    );
                }
            }
        }
    }
}
