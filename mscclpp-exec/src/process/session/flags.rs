//! Flags that separate the packets of one launch from those of another.

use std::sync::Weak;

use super::Session;
use mscclpp_base::error::Error;
use mscclpp_base::numeric::{LINE, Line};
use mscclpp_base::shm::Views;

impl Session {
    /// Returns the flag of the next launch: 1, 2, …, and after the largest again 1, before which all ranks clear their
    /// packets.
    pub(in super::super) fn next_flag(&mut self) -> Result<u32, Error> {
        let flag = (self.launches % u64::from(u32::MAX)) as u32 + 1;
        if flag == 1 && self.launches > 0 {
            self.clear_packets()?;
        }
        self.launches += 1;
        Ok(flag)
    }

    #[cold]
    fn clear_packets(&mut self) -> Result<(), Error> {
        const TEXT: &str = "clearing of packets";
        // After the first agreement no rank uses packets any more; after the second no rank has any.
        self.agree(TEXT, TEXT)?;
        for packets in self.packets.iter().filter_map(Weak::upgrade) {
            let len = packets.len();
            let mut views = Views::new(1);
            packets.set_view(&mut views, 0, self.own_local_rank, 0..len);
            let span = views.memory().slice(0);
            for at in (0..len as usize).step_by(LINE) {
                span.store(at, LINE.min(len as usize - at), Line::ZERO);
            }
        }
        self.agree(TEXT, TEXT)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use mscclpp_core::plan::Plan;

    use crate::process::{Executor, on_threads};
    use mscclpp_algorithms as algorithms;
    use mscclpp_base::message::Message;
    use mscclpp_bootstrap::Bootstrap;
    #[test]
    fn packets_of_older_prepared_plans_are_stale_when_flags_wrap() {
        let algorithm = algorithms::find("allreduce_one_shot_packets").expect("it is in the library");
        let arguments = algorithm.arguments([]).expect("defaults");
        let plan = Plan::new(&algorithm.compile_tree(algorithm.spec(2, 2), &arguments).expect("it compiles"));
        let prepare = |transport: &Executor, count| {
            transport.prepare(&plan, Message::of::<f32>(count).any_size()).expect("a little memory")
        };
        let rank = |group: Bootstrap| {
            let transport = Executor::new(Arc::new(group)).expect("a transport");
            let mut old = prepare(&transport, 10);
            let mut launch = |of: Option<&mut crate::process::PreparedPlan>, value: f32| {
                let x = of.unwrap_or(&mut old);
                let (input, mut output) = (vec![value; x.input_len()], vec![0.0; x.output_len()]);
                x.launch(&input, &mut output).expect("it runs");
                assert!(output.iter().all(|&found| found == 2.0 * value), "{output:?} of {value}");
            };
            (0..4).for_each(|_| launch(None, 1.0));
            let mut new = prepare(&transport, 10_000);
            transport.inner.session().expect("nobody else has it").launches = u64::from(u32::MAX);
            launch(Some(&mut new), 3.0);
            launch(None, 4.0);
            // Without clearing, this launch would first read packets from before the flags started again.
            if transport.rank() == 1 {
                std::thread::sleep(Duration::from_millis(200));
            }
            launch(None, 5.0);
        };
        on_threads(Bootstrap::local(2), rank);
    }
}
