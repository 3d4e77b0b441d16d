//! The bytes that links carry for an execution.

use mscclpp_check::execution::Execution;

use super::cost::Costs;
use super::rates::Flow;
use crate::error::PredictError;
use crate::machine::{Constants, Machine};
use crate::topology::Topology;

/// Returns the bytes that each link carries, in the order of the topology.
pub(crate) fn bytes_of_links(
    run: &Execution,
    machine: &Machine,
    topology: &Topology,
) -> Result<Vec<f64>, PredictError> {
    // Without constants, every transfer uses links for its own bytes alone, and nothing but links.
    let none = Constants::default();
    let mut costs = Costs::new(run, machine, topology, &none, 0.0)?;
    let mut flow = Flow::default();
    let mut carried = vec![0.0; topology.edges.len()];
    for number in 0..run.nodes.len() {
        costs.of(run, number, &mut flow)?;
        for &(resource, bytes) in &flow.uses {
            if let Some(all) = carried.get_mut(resource) {
                *all += bytes;
            }
        }
    }
    Ok(carried)
}
