//! Holds the example programs in `examples/`; has no code of its own.
