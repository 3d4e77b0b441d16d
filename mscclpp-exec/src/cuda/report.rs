//! Converts the device's reports into a description of a stall.

use mscclpp_base::error::{BlockedThreadBlock, Stall, UnblockedBy, WaitsFor};
use mscclpp_base::interpret::program::{Block, ResolvedPlan};
use mscclpp_base::interpret::report::{Key, Releases, released_by};
use mscclpp_base::interpret::{AgentState, Params};
use mscclpp_core::plan::raw::OpKind;
use mscclpp_cuda::abi;

/// Describes what thread blocks, by their number in the resolved plan, were waiting for when they aborted.
///
/// `absent`: ranks that have not begun the launch. Waits that no known operation would release are attributed to these:
/// the rank that an operation names may itself wait for one of them.
pub(super) fn stall(
    program: &ResolvedPlan,
    params: &Params,
    reports: &[(u32, abi::WaitReport)],
    absent: &[u32],
) -> Stall {
    let states: Vec<(u32, AgentState)> =
        reports.iter().map(|(agent, report)| (*agent, state(program, params, *agent, report))).collect();
    let releases = Releases::new(program, states.iter());
    let mut blocked: Vec<BlockedThreadBlock> = reports
        .iter()
        .zip(&states)
        .map(|((agent, report), (_, state))| blocked(program, *agent, report, state, &releases))
        .collect();
    for blocked in
        blocked.iter_mut().filter(|blocked| !absent.is_empty() && blocked.unblocked_by == UnblockedBy::Nothing)
    {
        blocked.waits_for = WaitsFor::Peers { ranks: absent.to_vec() };
        blocked.unblocked_by = UnblockedBy::PeerStart;
    }
    for blocked in blocked.iter_mut().filter(|blocked| blocked.kind == OpKind::ExchangeCounts) {
        // A rank gives its counts when it starts.
        blocked.unblocked_by = UnblockedBy::PeerStart;
    }
    blocked.sort_by_key(|blocked| matches!(blocked.unblocked_by, UnblockedBy::Operation { .. }));
    let launch = reports.iter().map(|(_, report)| report.launch).min().unwrap_or(0);
    Stall { plan: program.plan.name().to_owned(), launch, num_blocks: program.agents.len(), blocked }
}

/// Returns the position of a thread block.
fn state(program: &ResolvedPlan, params: &Params, agent: u32, report: &abi::WaitReport) -> AgentState {
    let code = &program.agents[agent as usize];
    let mut state = AgentState::default();
    state.at.instr = report.instr.clamp(code.start, code.end - 1);
    state.at.iteration = report.iteration;
    let around = program.loops.iter().find(|&&at| {
        let body = program.instrs[at as usize].body;
        (at + 1..at + 1 + body).contains(&state.at.instr)
    });
    if let Some(&at) = around {
        let header = &program.instrs[at as usize];
        state.loop_start = at + 1;
        state.loop_end = at + 1 + header.body;
        state.trips = params.layout.trips(header.count, params.layout.window(header.unit));
    }
    state
}

fn blocked(
    program: &ResolvedPlan,
    agent: u32,
    report: &abi::WaitReport,
    state: &AgentState,
    releases: &Releases,
) -> BlockedThreadBlock {
    let Block { rank, block, .. } = program.agents[agent as usize];
    let instr = &program.instrs[state.at.instr as usize];
    let ids = program.ids(instr);
    let (waits_for, released) = match report.kind {
        abi::WaitKind::SIGNAL => match program.channels.get(report.id as usize) {
            Some(channel) => {
                let waits_for = WaitsFor::Signal {
                    channel: channel.kind,
                    id: channel.id,
                    peer: channel.peer,
                    expected: report.expected,
                    seen: report.seen,
                };
                (waits_for, releases.by(Key::Channel(report.id), agent))
            }
            None => (WaitsFor::Proxy, None),
        },
        abi::WaitKind::SEMAPHORE => {
            let of = ids.iter().find(|&&id| program.semaphores[id as usize].id == report.id);
            let value = report.seen.cast_signed();
            (WaitsFor::Semaphore { id: report.id, value }, of.and_then(|&id| releases.by(Key::Semaphore(id), agent)))
        }
        abi::WaitKind::BARRIER => {
            let round = report.expected.saturating_sub(instr.count.into());
            let arrived = report.seen.saturating_sub(round) as u32;
            let waits_for = WaitsFor::Barrier { id: report.id, arrived, expected: instr.count };
            (waits_for, ids.first().and_then(|&id| releases.by(Key::Barrier(id), agent)))
        }
        abi::WaitKind::PACKET => match program.operands.get(report.id as usize) {
            Some(operand) => {
                let waits_for = WaitsFor::Packet {
                    chunk: operand.index,
                    packet: report.detail,
                    expected: report.expected as u32,
                    seen: report.seen as u32,
                };
                (waits_for, releases.packets(operand, agent))
            }
            None => (WaitsFor::Proxy, None),
        },
        abi::WaitKind::COUNTS => (WaitsFor::Peers { ranks: vec![report.id] }, None),
        _ => (WaitsFor::Proxy, None),
    };
    BlockedThreadBlock {
        rank,
        block,
        op: instr.op,
        kind: instr.kind,
        iteration: (state.loop_end != 0).then_some(state.at.iteration),
        location: program.plan.location(rank, block, instr.op),
        waits_for,
        unblocked_by: released_by(program, released),
    }
}
