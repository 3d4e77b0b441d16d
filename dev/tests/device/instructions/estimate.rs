//! How often the basic blocks of machine code are executed, from how often source lines are.
//!
//! An instruction belongs to a line and to those into which that was inlined, so it is executed at most as often as its own line, and not at all
//! if one of the others is not. The instructions of a basic block are executed equally often, so the least of these bounds is that of the basic
//! block; if more than half of its instructions belong to lines that are not executed, it is not. Further, a basic block is executed at most
//! as often as those before it. That bound matters where the compiler has copied a line, as when it unrolls a loop: the line is executed as
//! often as all of its copies together.
//!
//! These are the rules by which compilers use profiles of lines. The result is an estimate, because compilers merge and move code across
//! lines; but it is the same each time, and each instruction that is added to a line that is executed adds at least one.

use std::collections::{BTreeMap, BTreeSet};

use super::executed_lines::Executions;
use super::machine_code::{BasicBlock, Function, Line};

/// Depth of calls that are followed.
const MAX_CALLS: usize = 8;

/// Returns the number of executed instructions of a kernel, which is the first function, and of the functions that it calls.
pub(super) fn executed(functions: &[Function], executions: &Executions) -> u64 {
    // Those of the compiler have no lines.
    let of_code =
        |function: &Function| function.blocks.iter().map(|block| bound(block, executions)).collect::<Vec<_>>();
    let is_executed = |function: &&Function| {
        let bounds = of_code(function);
        bounds.iter().any(|bound| (1..u64::MAX).contains(bound)) || bounds.iter().all(|bound| *bound == u64::MAX)
    };
    let called: BTreeSet<&str> = functions.iter().filter(is_executed).map(|function| function.name.as_str()).collect();
    let mut calls = BTreeMap::from([(functions[0].name.as_str(), 1)]);
    let mut total = 0;
    for _ in 0..MAX_CALLS {
        let mut next = BTreeMap::from([(functions[0].name.as_str(), 1)]);
        total = 0;
        for function in functions {
            let Some(&times) = calls.get(function.name.as_str()) else { continue };
            let counts = counts(function, executions, times, &called);
            for (block, count) in function.blocks.iter().zip(counts).filter(|(_, count)| *count > 0) {
                total += count * block.instrs.len() as u64;
                block.calls.iter().for_each(|name| *next.entry(name.as_str()).or_default() += count);
            }
        }
        if next == std::mem::replace(&mut calls, next.clone()) {
            break;
        }
    }
    total
}

/// Returns how often each basic block of a function is executed, which is called this number of times; `called`: functions of which anything is
/// executed.
fn counts(function: &Function, executions: &Executions, times: u64, called: &BTreeSet<&str>) -> Vec<u64> {
    let is_called = |block: &BasicBlock| block.calls.iter().all(|name| called.contains(name.as_str()));
    let can_be_executed: Vec<bool> = function.blocks.iter().map(is_called).collect();
    let of_block = |(block, can): (_, &bool)| if *can { bound(block, executions) } else { 0 };
    let mut bounds: Vec<u64> = function.blocks.iter().zip(&can_be_executed).map(of_block).collect();
    bounds[0] = times;
    continue_execution(function, executions, &can_be_executed, &mut bounds);
    let mut flow = Flow { function, counts: vec![0; bounds.len()], bounds };
    let all: BTreeSet<usize> = (0..flow.bounds.len()).collect();
    flow.bound_by_predecessors(&all, &BTreeMap::from([(0, times)]), &BTreeSet::new());
    flow.counts
}

/// Lets execution continue after each basic block that is executed. The compiler merges paths, so that most instructions of a basic block may
/// belong to lines of a path that is not executed. Where none of those that may follow counts as executed, the one is that has most
/// instructions of executed lines; but a basic block of few instructions before a single one of many others counts as not executed instead.
fn continue_execution(function: &Function, executions: &Executions, can_be_executed: &[bool], bounds: &mut [u64]) {
    let parts = |at: usize| {
        let of_instrs = function.blocks[at].instrs.iter().filter_map(|lines| of_instr(lines, executions));
        let executed = of_instrs.clone().filter(|bound| *bound > 0).count();
        (executed, of_instrs.count() - executed)
    };
    for _ in 0..bounds.len() {
        let mut is_changed = false;
        for at in 0..bounds.len() {
            let successors = &function.blocks[at].successors;
            if bounds[at] == 0 || successors.iter().any(|&to| bounds[to] > 0) {
                continue;
            }
            let possible = successors.iter().copied().filter(|&to| can_be_executed[to]);
            let Some(next) = possible.max_by_key(|&to| (parts(to).0, std::cmp::Reverse(parts(to).1))) else { continue };
            let ((own, _), (executed, others)) = (parts(at), parts(next));
            let is_part_of_other_path = at != 0 && successors.len() == 1 && own + executed < others;
            match is_part_of_other_path {
                true => bounds[at] = 0,
                false => bounds[next] = bounds[at],
            }
            is_changed = true;
        }
        if !is_changed {
            break;
        }
    }
}

/// Returns how often an instruction is executed at most; `None` if only devices have its lines.
fn of_instr(lines: &[Line], executions: &Executions) -> Option<u64> {
    let mut known = lines.iter().filter_map(|line| executions.get(line)).copied();
    let own = known.next()?;
    // A line of a loop is executed more often than that into which the loop was inlined.
    Some(if known.any(|of_call| of_call == 0) { 0 } else { own })
}

/// Returns how often a basic block is executed at most, by its lines.
fn bound(block: &BasicBlock, executions: &Executions) -> u64 {
    let bounds: Vec<u64> = block.instrs.iter().filter_map(|lines| of_instr(lines, executions)).collect();
    let executed = bounds.iter().copied().filter(|bound| *bound > 0);
    match executed.clone().min() {
        Some(least) if 2 * executed.count() >= bounds.len() => least,
        None if bounds.is_empty() => u64::MAX,
        _ => 0,
    }
}

/// Estimated executions of the basic blocks of a function.
struct Flow<'a> {
    function: &'a Function,
    bounds: Vec<u64>,
    counts: Vec<u64>,
}

impl Flow<'_> {
    /// Counts some basic blocks. `entries`: those to which the others lead, and how often. `headers`: those whose edges from these basic
    /// blocks are left out, because they lead to the next iteration of a loop.
    fn bound_by_predecessors(
        &mut self,
        of: &BTreeSet<usize>,
        entries: &BTreeMap<usize, u64>,
        headers: &BTreeSet<usize>,
    ) {
        let limit: u64 = entries.values().sum();
        for part in components(of, |at| self.successors(at, of, headers)) {
            let mut inflow: BTreeMap<usize, u64> =
                entries.iter().filter(|(at, _)| part.contains(at)).map(|(&at, &count)| (at, count)).collect();
            for from in of.difference(&part) {
                for to in self.successors(*from, &part, headers) {
                    *inflow.entry(to).or_default() += self.counts[*from];
                }
            }
            let total = inflow.values().sum();
            let first = part.first().copied().unwrap_or_default();
            if part.len() == 1 && self.successors(first, &part, headers).is_empty() {
                self.counts[first] = self.bounds[first].min(total).min(limit);
            } else if let Some((&header, _)) = inflow.iter().max_by_key(|(_, count)| **count).filter(|_| total > 0) {
                let bounds = part.iter().map(|&at| self.bounds[at]).filter(|bound| *bound < u64::MAX);
                let of_header = Some(self.bounds[header]).filter(|bound| (1..u64::MAX).contains(bound));
                let trips = of_header.or(bounds.max()).unwrap_or(total);
                let mut headers = headers.clone();
                headers.insert(header);
                self.bound_by_predecessors(&part, &BTreeMap::from([(header, trips)]), &headers);
            }
        }
    }

    fn successors(&self, of: usize, among: &BTreeSet<usize>, headers: &BTreeSet<usize>) -> Vec<usize> {
        let may_follow = |to: &usize| among.contains(to) && !headers.contains(to);
        self.function.blocks[of].successors.iter().copied().filter(may_follow).collect()
    }
}

/// Returns the strongly connected components of a graph, each before those that follow it: Tarjan's algorithm, without recursion.
fn components(nodes: &BTreeSet<usize>, successors: impl Fn(usize) -> Vec<usize>) -> Vec<BTreeSet<usize>> {
    let (mut numbers, mut lowest) = (BTreeMap::new(), BTreeMap::new());
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for &root in nodes {
        let mut path: Vec<(usize, Vec<usize>)> = Vec::new();
        let mut next = Some(root).filter(|root| !numbers.contains_key(root));
        loop {
            if let Some(node) = next.take() {
                let number = numbers.len();
                numbers.insert(node, number);
                lowest.insert(node, number);
                open.push(node);
                path.push((node, successors(node)));
            }
            let Some((node, rest)) = path.last_mut() else { break };
            let node = *node;
            if let Some(to) = rest.pop() {
                if !numbers.contains_key(&to) {
                    next = Some(to);
                } else if open.contains(&to) {
                    let low = numbers[&to].min(lowest[&node]);
                    lowest.insert(node, low);
                }
                continue;
            }
            path.pop();
            if let Some((parent, _)) = path.last() {
                let low = lowest[&node].min(lowest[parent]);
                lowest.insert(*parent, low);
            }
            if lowest[&node] == numbers[&node] {
                let at = open.iter().position(|of| *of == node).unwrap_or(0);
                found.push(open.drain(at..).collect());
            }
        }
    }
    found.reverse();
    found
}
