//! Rule 4: every thread block runs to its end.
//!
//! All blocks of all ranks are executed round-robin, each until it must wait: for a signal, a semaphore, the other
//! blocks of a barrier, or packets that no operation has written yet in this launch. For a waiting block, signals and
//! semaphores only count up. So the order of execution does not matter for which blocks are blocked in the end, as long
//! as no two wait for the same unit: the race rule, which computes the order ([`super::race`]), rejects unordered waits
//! under the same code. Ports deliver at once here: a proxy always completes its triggers. A port that sends packets waits
//! here until they are written: if nothing orders that, the race rule finds it, whatever the order here. Loops make a few iterations,
//! in the ratio of their spans and units, and in a second execution one iteration each.

use super::machine::{AbstractMachine, WaitTarget};
use super::pairing::{Direction, order_of_creation};
use mscclpp_plan::diag::{Code, Diagnostic};

/// Maximum number of agents of a wait-for chain that are reported; the cycle is among them unless it is longer.
const MAX_LINKS: usize = 12;

/// Returns the finding about a finished execution, if some agents wait forever: a wait-for cycle, or the chain to an
/// agent for which no remaining operation provides what it waits for.
pub(super) fn check(machine: &AbstractMachine) -> Option<Diagnostic> {
    let blocked: Vec<usize> = (0..machine.agents.len()).filter(|&agent| machine.agents[agent].need.is_some()).collect();
    let model = machine.model;
    let mut chain = vec![*blocked.first()?];
    let mut cycle = None;
    loop {
        let last = *chain.last()?;
        let rank = model.agents[last].rank;
        let Some(need) = &machine.agents[last].need else { break };
        let server =
            blocked.iter().copied().find(|&other| other != last && machine.server(other, rank, need).is_some());
        // It waits for itself: the operation that would unblock it is after the wait, in the same block.
        let server = server.or_else(|| machine.server(last, rank, need).map(|_| last));
        let Some(server) = server else { break };
        if let Some(start) = chain.iter().position(|&known| known == server) {
            cycle = Some(start);
            break;
        }
        chain.push(server);
    }
    let first = cycle.map_or(chain.len().saturating_sub(1), |start| start);
    let links = &chain[first..];
    let first = machine.position(links[0])?;
    let mut message = waits(machine, links[0]);
    if cycle.is_some() {
        message.insert_str(0, "deadlock: ");
    }
    message += &match (cycle, links.len()) {
        (None, _) => ", but no remaining operation provides it".to_owned(),
        (Some(_), 1) => ", which this thread block provides only after its own wait".to_owned(),
        (Some(_), count) => format!("; {count} thread blocks form a wait-for cycle"),
    };
    if blocked.len() > links.len() {
        message += &format!(" ({} thread blocks are blocked in total)", blocked.len());
    }
    let mut finding = Diagnostic::new(Code::Deadlock, first.site(model.plan), message)
        .help(help(machine, machine.agents[links[0]].need.as_ref()));
    for (i, &agent) in links.iter().enumerate().take(MAX_LINKS) {
        let next = links[(i + 1) % links.len()];
        if i > 0
            && let Some(at) = machine.position(agent)
        {
            finding = finding.note(waits(machine, agent), at.site(model.plan));
        }
        let state = &machine.agents[agent];
        if cycle.is_some()
            && let Some(need) = &state.need
            && let Some(server) = machine.server(next, model.agents[agent].rank, need)
        {
            let what =
                format!("after its own wait, {} ({}) provides it", server.display_name(model.plan), server.agent());
            finding = finding.note(what, server.site(model.plan));
        }
    }
    Some(finding)
}

/// Returns how to let a wait end.
fn help(machine: &AbstractMachine, need: Option<&WaitTarget>) -> String {
    let move_signal = "move the signal before the wait that blocks it";
    let text = match need {
        Some(WaitTarget::Signal(counter)) => {
            let (plan, pairs) = (machine.model.plan, &machine.model.pairs);
            let direction = pairs.direction(*counter as usize);
            let Direction { from, to, kind, .. } = direction;
            let channels = pairs.ends(to, from, kind).count();
            if channels > 1 {
                let order = order_of_creation(plan, &direction);
                return format!(
                    "{move_signal}, or pair other channels: rank {to} has {channels} {kind} channels to rank {from}, and {order}"
                );
            }
            move_signal
        }
        None => move_signal,
        Some(WaitTarget::Unit(_)) => {
            "move the release before the acquire that blocks it, or increase the initial value of the semaphore"
        }
        Some(WaitTarget::Barrier(_)) => {
            "let all thread blocks of the barrier reach it, and reach all barriers in the same order"
        }
        Some(WaitTarget::Packet(_)) => "put packets there in every launch, before the operation that waits for them",
    };
    text.to_owned()
}

/// Returns a text such as "`wait` (rank 0, thread block 0) waits for …".
pub(super) fn waits(machine: &AbstractMachine, agent: usize) -> String {
    let model = machine.model;
    let super::model::Block { rank, block, .. } = &model.agents[agent];
    let name = machine.position(agent).map_or("an operation".to_owned(), |at| at.display_name(model.plan));
    let what = match &machine.agents[agent].need {
        Some(WaitTarget::Signal(counter)) => {
            let direction = model.pairs.direction(*counter as usize);
            format!("a signal of rank {} on {} channel {}", direction.from, direction.kind, direction.number)
        }
        Some(WaitTarget::Unit(id)) => format!("a unit of semaphore {}", model.semaphore(*id).1),
        Some(WaitTarget::Barrier(id)) => format!("the other thread blocks of barrier {}", model.barrier(*id)),
        Some(WaitTarget::Packet(atom)) => {
            format!("the packets of scratch chunk {}", model.atoms.range(*atom).start / model.size.chunk().max(1))
        }
        None => "nothing".to_owned(),
    };
    // A port does not wait for packets.
    let port = model.step_at(machine.agents[agent].next).port;
    let verb =
        if port && matches!(machine.agents[agent].need, Some(WaitTarget::Packet(_))) { "needs" } else { "waits for" };
    format!("{name} (rank {rank}, thread block {block}) {verb} {what}")
}

#[cfg(test)]
mod tests;
