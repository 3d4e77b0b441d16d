#!/usr/bin/env bash
# Compiles specialized kernels of default plans into images/kernels.bin, as machine code for sm_80, sm_90 and sm_100, those whose sources have
# changed; all of them after a change of a header. Lists them with their sizes in images/kernels.txt. Needs the nvcc that kernels/check.sh
# installs on the PATH, or its path in NVCC.
#
#   images/build.sh
set -euo pipefail
cd "$(dirname "$0")/.."
MSCCLPP_BLESS=1 cargo test --workspace --test ahead_of_time
# A test compares these hashes with the headers.
cd kernels
LC_ALL=C sha256sum *.h >../images/SOURCES
