//! Search for seeds that reveal an injected bug.

use libtest_mimic::Failed;

/// Number of seeds among which a bug must be detected.
const SEEDS: u64 = 30;

/// Checks that some seed reveals a bug. With `MSCCLPP_COUNT=1` all are tried, and the number of those that do is printed: a change of
/// the simulator must not reduce it.
pub(crate) fn some_seed_finds(bug: &str, finds: impl Fn(u64) -> Result<bool, Failed>) -> Result<(), Failed> {
    let counts = std::env::var_os("MSCCLPP_COUNT").is_some();
    let mut found = 0;
    for seed in 1..=SEEDS {
        found += u64::from(finds(seed)?);
        if found > 0 && !counts {
            return Ok(());
        }
    }
    println!("{bug}: found with {found} of {SEEDS} seeds");
    if found > 0 { Ok(()) } else { Err(format!("not found with {SEEDS} seeds").into()) }
}
