//! Unchecked plans of four ranks on two nodes in which data goes between the nodes without a wait for it.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::BlockSync;

/// How rank 2 hears that rank 0 has put something to it and flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// By the neighbour of rank 0, which waits for nothing itself.
    ByThirdRank,
    /// By its own neighbour, as the last thing.
    ByNeighbour,
    /// The same; rank 0 put to its scratch, which it then copies.
    ForScratch,
}

fn unchecked(body: impl FnOnce(&Program)) -> Plan {
    let kind = CollectiveKind::Custom { input: 1, output: 1 };
    let program = Program::new(AlgoSpec { ranks_per_node: 2, ..AlgoSpec::new("plan", kind, 4) });
    body(&program);
    Plan::new(&lower(&program.finish().expect("a program")).expect("a plan"))
}

/// Rank 0 puts its input to rank 2 and flushes, and rank 2 takes that for the arrival.
pub(crate) fn flushed(news: News) -> Plan {
    unchecked(|p| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|rank| p.rank(rank));
        let (ac, ca) = (a.port_channel(c), c.port_channel(a));
        ca.signal(0);
        ac.wait(0).sync(BlockSync::After);
        let (scratch, output) = (c.scratch(1).chunk(0), c.output().chunk(0));
        match news {
            News::ForScratch => ac.put(scratch, a.input().chunk(0), 0),
            _ => ac.put(output, a.input().chunk(0), 0),
        }
        ac.flush(0);
        if news == News::ByThirdRank {
            let (ab, ba) = (a.memory_channel(b), b.memory_channel(a));
            let (bc, cb) = (b.port_channel(c), c.port_channel(b));
            ab.signal(0).sync(BlockSync::Before);
            ba.wait(0).sync(BlockSync::After);
            bc.signal(0).sync(BlockSync::Before);
            cb.wait(0).sync(BlockSync::After);
        } else {
            let (ad, da) = (a.port_channel(d), d.port_channel(a));
            let (cd, dc) = (c.memory_channel(d), d.memory_channel(c));
            ad.signal(0).sync(BlockSync::Before);
            da.wait(0).sync(BlockSync::After);
            dc.signal(0).sync(BlockSync::Before);
            cd.wait(0).sync(BlockSync::After);
        }
        if news == News::ForScratch {
            c.copy(output, scratch, 0);
        }
    })
}

/// Rank 0 puts to scratch of rank 2 what nobody reads, then its input to rank 3, which tells rank 2: its last wait is one that an
/// executor may leave to the end of launches.
pub(crate) fn dead_put() -> Plan {
    unchecked(|p| {
        let [a, _, c, d] = [0, 1, 2, 3].map(|rank| p.rank(rank));
        let (ac, ca) = (a.port_channel(c), c.port_channel(a));
        let (ad, da) = (a.port_channel(d), d.port_channel(a));
        let (cd, dc) = (c.memory_channel(d), d.memory_channel(c));
        ca.signal(0);
        da.signal(0);
        ac.wait(0);
        ad.wait(0).sync(BlockSync::After);
        ac.put(c.scratch(1).chunk(0), a.input().chunk(0), 0);
        ac.flush(0);
        ad.put_with_signal_and_flush(d.output().chunk(0), a.input().chunk(0), 0);
        da.wait(0).sync(BlockSync::After);
        dc.signal(0).sync(BlockSync::Before);
        cd.wait(0).sync(BlockSync::After);
    })
}

/// Rank 2 takes its input to its output through scratch, the first thing in a launch; then rank 0 puts there what nobody waits
/// for, and is still on its way perhaps when rank 2's operations end.
pub(crate) fn used_first_thing() -> Plan {
    unchecked(|p| {
        let [a, _, c, d] = [0, 1, 2, 3].map(|rank| p.rank(rank));
        let (ac, ca) = (a.port_channel(c), c.port_channel(a));
        let (ad, da) = (a.port_channel(d), d.port_channel(a));
        let (cd, dc) = (c.memory_channel(d), d.memory_channel(c));
        let scratch = c.scratch(1).chunk(0);
        c.copy(scratch, c.input().chunk(0), 0);
        c.copy(c.output().chunk(0), scratch, 0);
        ca.signal(0).sync(BlockSync::Before);
        ac.wait(0).sync(BlockSync::After);
        ac.put(scratch, a.input().chunk(0), 0);
        ac.flush(0);
        ad.signal(0).sync(BlockSync::Before);
        da.wait(0).sync(BlockSync::After);
        dc.signal(0).sync(BlockSync::Before);
        cd.wait(0).sync(BlockSync::After);
    })
}
