//! Holds the compile-fail and compile-pass programs; has no code of its own.
