#!/usr/bin/env bash
# Compares the public items of the published crates with docs/api.txt; `MSCCLPP_BLESS=1 scripts/api.sh` rewrites the page.
# rustdoc's description of crates is unstable, so the variable below opens it in a stable compiler.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(mscclpp mscclpp-core mscclpp-algorithms mscclpp-bootstrap mscclpp-exec mscclpp-fuzz mscclpp-kernels)
RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="-Z unstable-options --output-format json" \
    cargo doc --quiet --no-deps "${packages[@]/#/--package=}" --features mscclpp/cuda,mscclpp/inspect --target-dir target/api
MSCCLPP_RUSTDOC_JSON="$PWD/target/api/doc" cargo test --quiet --package ui-tests --test integration api:: -- --ignored
