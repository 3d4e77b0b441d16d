//! Unchecked plans of four ranks on two nodes in which data is sent between the nodes and the receiver does not wait
//! for it.

use mscclpp_core::collective::CollectiveKind;
use mscclpp_core::dsl::Program;
use mscclpp_core::lower::lower;
use mscclpp_core::plan::Plan;
use mscclpp_core::spec::AlgoSpec;
use mscclpp_core::types::BlockSync;

/// How rank 2 is informed that rank 0 has put data to it and flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// By the neighbor of rank 0, which waits for nothing itself.
    ByThirdRank,
    /// By its own neighbor, as the last operation.
    ByNeighbour,
    /// By its own neighbor; rank 0 put to rank 2's scratch, which rank 2 then copies.
    ForScratch,
}

fn unchecked(body: impl FnOnce(&Program)) -> Plan {
    let kind = CollectiveKind::Custom { input: 1, output: 1 };
    let program = Program::new(AlgoSpec { ranks_per_node: 2, ..AlgoSpec::new("plan", kind, 4) });
    body(&program);
    Plan::new(&lower(&program.finish().expect("a program")).expect("a plan"))
}

/// Rank 0 puts its input to rank 2 and flushes, and rank 2 mistakes the flush for the arrival.
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

/// Rank 0 puts data that no rank reads to scratch of rank 2, then its input to rank 3, which signals rank 2: its last
/// wait is one that an executor may elide because of the launch's end.
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

/// Rank 2 copies its input to its output through scratch, as its first operations in a launch; then rank 0 puts data
/// there without a wait, which may still be in flight when rank 2's operations end.
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
