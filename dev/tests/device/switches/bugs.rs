//! Detection of bugs that are injected in code that only switch channels use.

use std::time::Duration;

use libtest_mimic::Failed;
use mscclpp_dev::Options;
use mscclpp_exec::verify::Verifier;
use mscclpp_exec::{DataType, Error, Message, cpu, cuda};

use super::{ALGORITHMS, counts, options, world_on};
use crate::bits::shipped;
use crate::seeds::some_seed_finds;

/// Checks that some seed reveals a bug.
pub(super) fn is_found(bug: &'static str) -> Result<(), Failed> {
    some_seed_finds(bug, |seed| {
        let patience = Duration::from_secs(2);
        let machine_options = Options { bug: Some(bug), patience, ..options(seed, counts()) };
        let asked = cuda::Options::default().in_switch_floats(true);
        let world = world_on(&[0, 1, 2], machine_options, asked)?;
        for name in ALGORITHMS {
            for count in [3 * 1024, 3 * 1024 + 3] {
                let message = Message::new(DataType::F32, count).any_size();
                let mut run = world.prepare(&shipped(name, 3)?, message)?;
                let cpu = cpu::Executor::new(3).prepare(&shipped(name, 3)?, message)?;
                let (mut buffers, mut expected, stream) = (run.buffers()?, cpu.buffers()?, world.stream()?);
                let verifier = Verifier::new(&cpu, seed);
                verifier.fill(&mut expected);
                for rank in 0..3 {
                    buffers.write_output(rank, expected.output(rank))?;
                    buffers.write_input(rank, expected.input(rank))?;
                }
                run.launch_buffers(&mut buffers, &stream)?;
                if matches!(run.synchronize(&stream), Err(Error::Stalled(_))) {
                    return Ok(true);
                }
                for rank in 0..3 {
                    buffers.read_output(rank, expected.output_mut(rank))?;
                }
                if !verifier.check(&expected).is_correct() {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    })
}
