#!/usr/bin/env bash
# Builds wheels of the Python package mscclpp-rs for Linux, which run on any distribution with glibc 2.28 or later (manylinux_2_28) and Python
# 3.11 or later, into target/wheels. Needs maturin (`pip install maturin`) and zig (`pip install ziglang`), which links for the older glibc.
#
# Usage: scripts/wheels.sh [TARGET ...]
#   TARGET  a target of rustc: x86_64-unknown-linux-gnu, aarch64-unknown-linux-gnu; by default that of this machine
#
# With MSCCLPP_WHEELS=native a wheel for this machine alone is built, without zig.
set -euo pipefail
cd "$(dirname "$0")/../mscclpp-python"
command -v maturin >/dev/null || {
    echo "there is no maturin; run pip install maturin ziglang" >&2
    exit 3
}
export CARGO_PROFILE_DIST_STRIP=symbols
# The package tells from what it was built: `mscclpp.version`.
MSCCLPP_GIT_COMMIT=$(git rev-parse HEAD 2>/dev/null || true)
export MSCCLPP_GIT_COMMIT
target=${CARGO_TARGET_DIR:-../target}
if [ "${MSCCLPP_WHEELS:-}" = native ]; then
    maturin build --profile dist --strip --out "$target/wheels"
    exit
fi
if [ $# -eq 0 ]; then
    set -- "$(rustc -vV | sed -n 's/^host: //p')"
fi
for host in "$@"; do
    rustup target add "$host"
    maturin build --profile dist --strip --zig --compatibility manylinux_2_28 --target "$host" --out "$target/wheels"
done
