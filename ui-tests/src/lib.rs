//! Holds the programs that must not compile; has no code of its own.
