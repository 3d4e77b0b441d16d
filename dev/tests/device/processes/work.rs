//! Launches of ranks, and their expected results.

use libtest_mimic::Failed;
use mscclpp_core::plan::Plan;
use mscclpp_exec::cuda::{Executor, PrepareOptions};
use mscclpp_exec::verify::{Pattern, Verifier};
use mscclpp_exec::{Error, Message, cpu};

/// Launches of ranks: inputs and expected outputs.
pub(crate) struct Work {
    pub(crate) plan: Plan,
    pub(crate) message: Message,
    /// By launch and rank: input, output before, output after.
    launches: Vec<Vec<[Vec<u8>; 3]>>,
}

impl Work {
    pub(crate) fn new(plan: Plan, message: Message, launches: u64) -> Result<Self, Failed> {
        let ranks = plan.num_ranks();
        let mut run = cpu::Executor::new(ranks).prepare(&plan, message)?;
        let mut buffers = run.buffers()?;
        let mut all = Vec::new();
        for launch in 0..launches {
            for rank in 0..ranks {
                buffers.output_mut(rank).fill(0xa5);
            }
            Verifier::with_pattern(&run, launch + 1, Pattern::Real).fill(&mut buffers);
            let before: Vec<_> =
                (0..ranks).map(|rank| (buffers.input(rank).to_vec(), buffers.output(rank).to_vec())).collect();
            run.launch_buffers(&mut buffers)?;
            let after = before.into_iter().zip(0..).map(|((i, o), rank)| [i, o, buffers.output(rank).to_vec()]);
            all.push(after.collect());
        }
        Ok(Self { plan, message, launches: all })
    }

    /// Runs a rank's part.
    pub(crate) fn run(&self, world: &Executor, rank: u32) -> Result<(), Error> {
        self.run_as(world, rank, PrepareOptions::default())
    }

    /// Runs a rank's part, prepared with settings.
    pub(crate) fn run_as(&self, world: &Executor, rank: u32, prepare: PrepareOptions) -> Result<(), Error> {
        let mut run = world.prepare_with_options(&self.plan, self.message, prepare)?;
        if prepare.specialize {
            run.specialized().map_err(|why| Error::Internal(format!("not specialized: {why}")))?;
        }
        let (mut buffers, stream) = (run.buffers()?, world.stream()?);
        for (number, launch) in self.launches.iter().enumerate() {
            let [input, before, after] = &launch[rank as usize];
            buffers.write_output(rank, before)?;
            buffers.write_input(rank, input)?;
            run.launch_buffers(&mut buffers, &stream)?;
            run.synchronize(&stream)?;
            let mut found = vec![0; after.len()];
            buffers.read_output(rank, &mut found)?;
            if let Some(at) = (0..found.len()).find(|&at| found[at] != after[at]) {
                let text = format!("launch {number}, byte {at}: {:#x}, expected {:#x}", found[at], after[at]);
                return Err(Error::Internal(text));
            }
        }
        Ok(())
    }
}
