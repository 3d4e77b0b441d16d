//! Random programs of the subset, evaluated and run another way: plain code by rustc, programs of the authoring API by a small
//! interpreter of the generator's own tree.
//!
//! `MSCCLPP_RANDOM=5000 cargo test -p mscclpp-eval --test integration random` tries more of them, `MSCCLPP_SEED=7` starts at another seed.

mod language;
mod programs;
mod rng;

/// A number from the environment.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}
