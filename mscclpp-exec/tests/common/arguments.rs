//! Arguments of a suite whose tests wait: for one another's processes, for timeouts, for compilers.

use std::num::NonZero;
use std::thread::available_parallelism;

use libtest_mimic::Arguments;

/// Returns the arguments of this process. Unless they say how many tests run at a time, these are two more than there are processors.
pub(crate) fn arguments() -> Arguments {
    let mut arguments = Arguments::from_args();
    let processors = available_parallelism().map_or(1, NonZero::get);
    arguments.test_threads.get_or_insert(processors + 2);
    arguments
}
