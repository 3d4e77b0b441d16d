//! Calls on memory of the host.

use std::ops::DerefMut;

use mscclpp_communicator::Communicator;
use mscclpp_communicator::tune::{MeasureOptions, MeasuredCall, Measurement, measure_call};
use mscclpp_exec::{Element, with_type};

use super::shape::{PlanlessCall, Shape};
use super::{measured, shapes};
use crate::args::BenchArgs;
use crate::error::Result;
use crate::job::{on_ranks, require_memory};
use crate::output::print;

/// Measures all sizes; returns the number of wrong elements.
pub(super) fn bench(args: &BenchArgs, call: PlanlessCall, sizes: &[u64]) -> Result<u64> {
    on_ranks(args.ranks, |comm| {
        let shapes = shapes(args, call, sizes, comm.rank(), comm.num_ranks())?;
        let largest = shapes.last().map_or(0, Shape::bytes);
        // Input and output, and what travels.
        require_memory(comm, || format!("a call of {largest} bytes per rank"), largest.saturating_mul(4))?;
        let talks = comm.rank() == 0;
        // All ranks have equally much.
        let registered = call == PlanlessCall::AllToAllV && !args.unregistered;
        if let Some(shape) = shapes.first().filter(|_| talks && !args.json) {
            print(measured(shape, registered).header())?;
        }
        let mut wrong = 0_u64;
        for shape in &shapes {
            let options = args.measuring(shape.bytes());
            let found = with_type!(shape.dtype, T => of_size::<T>(comm, shape, registered, options))?;
            wrong = wrong.saturating_add(found.wrong.unwrap_or(0));
            if talks {
                let shown = measured(shape, registered);
                print(if args.json { shown.line(&found) } else { shown.row(&found) })?;
            }
        }
        Ok(wrong)
    })
}

fn of_size<T: Element>(
    comm: &Communicator,
    shape: &Shape,
    registered: bool,
    options: MeasureOptions,
) -> Result<Measurement> {
    let elements = |counts: &[usize]| -> Result<Memory<T>> {
        let len = counts.iter().sum();
        Ok(if registered { Box::new(comm.alloc::<T>(len)?) } else { Box::new(vec![T::zeroed(); len]) })
    };
    let counts = shape.sent_to();
    let received = shape.received_from();
    let (input, output) = (elements(&counts)?, elements(&received)?);
    Ok(measure_call(comm, &mut OnSlices { comm, shape, counts, received, input, output }, options)?)
}

/// Memory of the caller, or registered memory.
type Memory<T> = Box<dyn DerefMut<Target = [T]>>;

/// A call with its buffers.
struct OnSlices<'a, T> {
    comm: &'a Communicator,
    shape: &'a Shape,
    counts: Vec<usize>,
    received: Vec<usize>,
    input: Memory<T>,
    output: Memory<T>,
}

impl<T: Element> MeasuredCall for OnSlices<'_, T> {
    fn fill(&mut self, nth: u64) {
        self.shape.fill(nth, bytemuck::cast_slice_mut(&mut self.input));
    }

    fn make(&mut self) -> std::result::Result<(), mscclpp_exec::Error> {
        match self.shape.call {
            PlanlessCall::Gather => self.comm.gather(&self.input, &mut self.output, self.shape.root),
            PlanlessCall::Scatter => self.comm.scatter(&self.input, &mut self.output, self.shape.root),
            PlanlessCall::Barrier => self.comm.barrier(),
            PlanlessCall::AllToAllV => {
                let (counts, received) = (&self.counts, &self.received);
                self.comm.all_to_all_v_into(&self.input, counts, &mut self.output, Some(received)).map(drop)
            }
        }
    }

    fn result(&self) -> &[u8] {
        bytemuck::cast_slice(&self.output)
    }

    fn count_wrong(&self, nth: u64) -> u64 {
        self.shape.count_wrong(nth, self.result())
    }
}
