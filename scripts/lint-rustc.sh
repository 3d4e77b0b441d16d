#!/usr/bin/env bash
# The compiler of .ci/run, as RUSTC_WORKSPACE_WRAPPER: clippy, whose findings are errors, for crates that are only checked, and rustc
# for those that are built. `cargo clippy` has crates built by another compiler than other commands, so that lints share nothing with
# documentation and tests; with this one macros, what they need and build scripts, which compile the kernels, are built once for all
# three, and documentation needs no check of its own. (`sh` may drop the variables of cargo whose names have a dash.)
case " $* " in
*' --emit=dep-info,metadata '*) exec clippy-driver "$@" -D warnings ;;
*) exec "$@" ;;
esac
