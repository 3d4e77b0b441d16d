//! Clocks that are acquired and kept, with ordered and unordered signals.

use super::super::agent_ids::AgentIds;
use super::super::clock::{ClockArena, VectorClock};
use super::{Disordered, Event, ReleaseQueues, ReleasedClock};
use crate::model::{Model, sizes};
use crate::pairing::Pairs;
use crate::testing::plan;
use mscclpp_plan::raw::PlanTree;

/// Returns the number of clocks acquired, and of those kept, when `blocks` release a semaphore `times` each and
/// `threads` acquire it, all of them unordered.
fn shared(blocks: usize, times: usize, threads: usize) -> (usize, usize) {
    let waits = blocks * times / threads;
    let release = vec!["sem_release#0"; times].join("; ");
    let list = vec!["0"; threads].join(",");
    let acquire = vec![format!("sem_acquire#{list}"); waits].join("; nop; ");
    let mut texts = vec![&acquire[..]];
    texts.extend(vec![&release[..]; blocks]);
    let plan: PlanTree = plan(&[&texts, &[""]]);
    let pairs = Pairs::of(&plan);
    let size = sizes((&plan).into()).expect("few pieces")[..].first().copied();
    let size = size.expect("plans without loops have one size");
    let model = Model::of((&plan).into(), &pairs, size);
    let mut clocks = ClockArena::new(AgentIds::plain(blocks as u32 + 1));
    let all = Disordered { releases: [0].into(), ..Disordered::default() };
    let mut released_clocks = ReleaseQueues::of_semaphores(&model, &all, &mut clocks);
    for block in 1..=blocks as u32 {
        for turn in 0..times as u32 {
            released_clocks.send(0, (block, 0), Event { by: (block, 0), turn }, ReleasedClock::default(), &clocks);
        }
    }
    let mut acquired = 0;
    for _ in 0..waits {
        for thread in 0..threads as u32 {
            released_clocks.receive(0, (0, thread), false, |_, _| acquired += 1);
        }
    }
    let super::Uses::Unordered(uses) = &released_clocks.shared[&0].uses else { panic!("they are in no order") };
    let kept = uses.totals.len() + uses.waits.len() + uses.sent.values().map(Vec::len).sum::<usize>();
    (acquired, kept)
}

#[test]
fn unordered_releases_acquired_and_kept_are_linear_in_waits() {
    for (blocks, times, threads) in [(2, 200, 1), (400, 1, 1), (20, 20, 20), (20, 20, 1), (2, 200, 40), (400, 1, 400)] {
        let (acquired, kept) = shared(blocks, times, threads);
        // Each wait of a thread is one of its block, too, and the first one shows that the rank has started.
        assert!(acquired <= 2 * 400 + threads + 1, "{blocks} x {times} to {threads}: {acquired}");
        assert!(kept <= 3 * 400 + 2, "{blocks} x {times} to {threads}: {kept}");
    }
    // In the end a block has acquired everything, however many of its threads have waited.
    assert!(shared(20, 20, 20).0 >= 400);
}

#[test]
fn ordered_releases_are_acquired_one_by_one() {
    let plan = plan(&[&["signal.m#0; barrier#0=2", "barrier#0=2; signal.m#0"], &["wait.m#0; wait.m#0"]]);
    let pairs = Pairs::of(&plan);
    let model = Model::of((&plan).into(), &pairs, sizes((&plan).into()).expect("few pieces")[0]);
    let mut clocks = ClockArena::new(AgentIds::plain(3));
    let mut released_clocks = ReleaseQueues::of_channels(&model, &Disordered::default(), &mut clocks);
    let counter = (0..).find(|id| model.counters[*id as usize].up == 2).expect("a counter");
    let clock = |released_clocks: &mut ReleaseQueues| {
        let mut acquired = Vec::new();
        released_clocks.receive(counter, (2, 0), false, |_, released| acquired.push(released.clock));
        acquired
    };
    let first = clocks.of(0);
    let second = clocks.advance(VectorClock::default(), 0, 1);
    for (block, released) in [(0, first), (1, second)] {
        let event = Event { by: (block, 0), turn: 0 };
        released_clocks.send(counter, (block, 0), event, ReleasedClock { clock: released, relaxed: false }, &clocks);
    }
    assert!(released_clocks.disordered.is_empty());
    assert_eq!((clock(&mut released_clocks), clock(&mut released_clocks)), (vec![first], vec![second]));
    // One that does not happen after the last one.
    released_clocks.send(
        counter,
        (0, 0),
        Event { by: (0, 0), turn: 5 },
        ReleasedClock { clock: first, relaxed: false },
        &clocks,
    );
    assert_eq!(released_clocks.disordered, [counter].into());
}
