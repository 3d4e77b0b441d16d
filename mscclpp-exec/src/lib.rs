//! Executors, memory and default algorithms.
