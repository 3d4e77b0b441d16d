//! Runs plans on rank 0, to which the others send what they have.

use std::sync::Arc;

use mscclpp_core::plan::Plan;

use crate::Error;
use crate::bootstrap::Bootstrap;
use crate::cpu::{Run, World};
use crate::dtype::Element;
use crate::message::Message;

pub(super) struct Transport {
    bootstrap: Arc<Bootstrap>,
    world: World,
}

pub(super) struct Executable {
    bootstrap: Arc<Bootstrap>,
    run: Run,
}

impl Transport {
    pub(super) fn new(bootstrap: Arc<Bootstrap>) -> Result<Self, Error> {
        let world = World::new(bootstrap.num_ranks());
        Ok(Self { bootstrap, world })
    }

    pub(super) fn prepare(&self, plan: &Plan, message: Message) -> Result<Executable, Error> {
        Ok(Executable { bootstrap: Arc::clone(&self.bootstrap), run: self.world.prepare(plan, message)? })
    }
}

impl Executable {
    pub(super) fn launch<T: Element>(&mut self, input: &[T], output: &mut [T]) -> Result<(), Error> {
        self.central(input.to_vec(), output, |run, all, outputs| {
            let inputs: Vec<_> = all;
            run.launch(&inputs, outputs)
        })
    }

    pub(super) fn launch_in_place<T: Element>(&mut self, buffer: &mut [T]) -> Result<(), Error> {
        self.central(buffer.to_vec(), buffer, |run, all, outputs| {
            outputs.clone_from_slice(&all);
            run.launch_in_place(outputs)
        })
    }

    fn central<T: Element>(
        &mut self,
        input: Vec<T>,
        output: &mut [T],
        launch: impl FnOnce(&mut Run, Vec<Vec<T>>, &mut [Vec<T>]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |error: crate::bootstrap::Error| Error::Internal(error.to_string());
        let boot = &self.bootstrap;
        if boot.rank() != 0 {
            boot.send(0, 7, bytemuck::cast_slice(&input)).map_err(failed)?;
            boot.send(0, 8, bytemuck::cast_slice(output)).map_err(failed)?;
            output.copy_from_slice(&bytemuck::pod_collect_to_vec(&boot.recv(0, 9).map_err(failed)?));
            return Ok(());
        }
        let (mut inputs, mut outputs) = (vec![input], vec![output.to_vec()]);
        for rank in 1..boot.num_ranks() {
            inputs.push(bytemuck::pod_collect_to_vec(&boot.recv(rank, 7).map_err(failed)?));
            outputs.push(bytemuck::pod_collect_to_vec(&boot.recv(rank, 8).map_err(failed)?));
        }
        launch(&mut self.run, inputs, &mut outputs)?;
        for (rank, result) in outputs.iter().enumerate().skip(1) {
            boot.send(rank as u32, 9, bytemuck::cast_slice(result)).map_err(failed)?;
        }
        output.copy_from_slice(&outputs[0]);
        Ok(())
    }
}
