//! Removal of switches.
//!
//! What enters a switch leaves it again. Capacity from an element to a switch and from there to another element is replaced by
//! capacity between the two elements, as long as all units can still reach every rank. Where as much may enter a switch as may leave it,
//! that never gets stuck (splitting off, Frank 1988 and Jackson 1988).

use super::flow::Graph;

/// Replaces the links of all switches by links between ranks; `None` if no such links let all units reach every rank.
pub(super) fn without_switches(mut graph: Graph, starts: &[u32]) -> Option<Graph> {
    for switch in graph.num_ranks..graph.num_elements {
        graph = without(graph, switch, starts)?;
    }
    let mut ranks = Graph::new(graph.num_ranks, graph.num_ranks);
    for from in 0..graph.num_ranks {
        for to in graph.successors(from) {
            ranks.add(from, to, graph.get(from, to));
        }
    }
    Some(ranks)
}

fn without(mut graph: Graph, switch: usize, starts: &[u32]) -> Option<Graph> {
    loop {
        let (into, out) = (graph.predecessors(switch), graph.successors(switch));
        if into.is_empty() || out.is_empty() {
            break;
        }
        let mut progress = false;
        // First one unit from every element to another one, so that units are spread over all pairs.
        for step in 0..out.len() {
            let pairs: Vec<_> = into
                .iter()
                .enumerate()
                .map(|(place, &from)| (from, out[(place + step + 1) % out.len()]))
                .filter(|(from, to)| from != to)
                .collect();
            let mut all = graph.clone();
            let done = pairs.iter().filter(|&&(from, to)| split(&mut all, switch, from, to)).count();
            if done > 0 && all.all_reach_all(starts) {
                (graph, progress) = (all, true);
                continue;
            }
            for &(from, to) in &pairs {
                let mut one = graph.clone();
                if split(&mut one, switch, from, to) && one.all_reach_all(starts) {
                    (graph, progress) = (one, true);
                }
            }
        }
        if !progress {
            break;
        }
    }
    // The rest is not needed, or there is no solution.
    for from in graph.predecessors(switch) {
        graph.take(from, switch, graph.get(from, switch));
    }
    graph.all_reach_all(starts).then_some(graph)
}

/// Moves one unit past a switch, if both links have room.
fn split(graph: &mut Graph, switch: usize, from: usize, to: usize) -> bool {
    if graph.get(from, switch) == 0 || graph.get(switch, to) == 0 {
        return false;
    }
    graph.take(from, switch, 1);
    graph.take(switch, to, 1);
    graph.add(from, to, 1);
    true
}
