#!/usr/bin/env bash
# Documents all crates without warnings, and compares the public items of the published ones with docs/api.txt;
# `MSCCLPP_BLESS=1 scripts/api.sh` rewrites the page.
# rustdoc's description of crates is unstable, so RUSTC_BOOTSTRAP opens it in a stable compiler: in rustdoc alone, because build
# scripts of dependencies read the variable, and what they build is shared with `cargo doc`.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
mkdir -p "$target"
printf '#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec "%s" "$@"\n' "$(command -v "${RUSTDOC:-rustdoc}")" >"$target/rustdoc-json"
chmod +x "$target/rustdoc-json"
RUSTDOC=$target/rustdoc-json RUSTDOCFLAGS="-D warnings -Z unstable-options --output-format json" cargo doc --quiet --no-deps --workspace
MSCCLPP_RUSTDOC_JSON="$target/doc" cargo test --quiet --workspace --test repository api:: -- --ignored
