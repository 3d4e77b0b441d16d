//! Proxies that have nothing to do.

use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;
use mscclpp_exec::cuda::Executor;
use mscclpp_exec::{DataType, Message};

use super::super::processes::Work;
use super::shipped;

/// Proxies of complete launches do not run at all, and those of the next launches do.
pub(super) fn idle_proxies_sleep_until_a_launch(world: &Executor, rank: u32) -> Result<(), Failed> {
    let work = Work::new(shipped("allreduce_ring_ports", 2, 1)?, Message::new(DataType::F32, 100).any_size(), 2)?;
    for _ in 0..2 {
        work.run(world, rank)?;
        let end = Instant::now() + Duration::from_secs(100);
        // In succession, since a busy machine lets a thread run late.
        let (mut before, mut quiet) = (switches_of_proxies()?, 0);
        while quiet < 20 {
            thread::sleep(Duration::from_millis(100));
            let last = std::mem::replace(&mut before, switches_of_proxies()?);
            quiet = if last == before { quiet + 1 } else { 0 };
            if Instant::now() > end {
                return Err(format!("{last} switches, then {before}").into());
            }
        }
    }
    Ok(())
}

/// Returns how often the proxies of this process have given their processor back.
fn switches_of_proxies() -> Result<u64, Failed> {
    let mut switches = None;
    for task in std::fs::read_dir("/proc/self/task")? {
        let path = task?.path();
        // Other threads may end meanwhile.
        let Ok(name) = std::fs::read_to_string(path.join("comm")) else { continue };
        if name.trim() == "mscclpp-proxy" {
            let status = std::fs::read_to_string(path.join("status"))?;
            let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            *switches.get_or_insert(0) += count.ok_or("no count of switches")?.trim().parse::<u64>()?;
        }
    }
    switches.ok_or_else(|| "no proxy".into())
}
