//! Leak check at the end of a host: all objects must have been released.

use super::SimulatedHost;

impl Drop for SimulatedHost {
    fn drop(&mut self) {
        if std::thread::panicking() || self.state().dead {
            return;
        }
        let pieces = self.memory().len();
        let state = self.state();
        let events = state.events.values().filter(|event| !event.destroyed).count();
        let (modules, streams) = (state.modules.len(), state.streams.len());
        let left = [pieces, modules, streams, state.graphs.len(), events, state.multicasts.len()];
        // A release that was made to fail leaks its object; so does one whose context could not be entered.
        let is_release = |call: &str| {
            ["Free", "Unload", "Destroy", "Close", "Ctx", "Unmap", "Release"].iter().any(|word| call.contains(word))
        };
        let stays = match self.options.failing {
            // With multicast addresses, the memory of another process that they map remains as well.
            Some(("cuMemUnmap", _)) => 2,
            failing => usize::from(failing.is_some_and(|(call, _)| is_release(call))),
        };
        assert!(
            left.iter().sum::<usize>() <= stays + self.options.left,
            "memory, modules, streams, graphs, events and multicast objects left behind: {left:?}"
        );
    }
}
