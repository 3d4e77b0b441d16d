#!/usr/bin/env bash
# The full matrix of what can be shown without a device: every shipped algorithm and every plan file, all data types and reductions,
# even and odd sizes, buffers that begin anywhere, on the simulator and behind the mock driver, under sixty seeds (so many try
# every pair of a type and a reduction), compared with the CPU executor byte for byte; specialized kernels of all shipped algorithms;
# ten thousand replays of a graph; planted bugs; ThreadSanitizer; the kernels for all devices, and prebuilt/ built again.
# Takes an hour or more on two cores.
#
# Usage: MSCCLPP_CONFORMANCE=FOLDER dev/matrix.sh        the plans of the reference system; without them, shipped ones only
#   SEEDS=60   seeds          SEED=N   the first; the day's by default
set -euo pipefail
cd "$(dirname "$0")/.."
export MSCCLPP_SEED="${SEED:-$(($(date +%s) / 86400))}"
echo "first seed $MSCCLPP_SEED; plans of ${MSCCLPP_CONFORMANCE:-${MSCCLPP_TEST_PLANS:-shipped algorithms only}}"

device() { # SEEDS FILTER
    printf '\n== %s seeds of %s\n' "$1" "${2:-everything}"
    MSCCLPP_NUM_SEEDS=$1 cargo test --release -p mscclpp-dev --test device -- ${2:+"$2"}
}

device "${SEEDS:-60}" sim::
device "${SEEDS:-60}" mock::
# What has other seeds, or none: several devices, processes, nodes, switches, faults, planted bugs, ThreadSanitizer.
device 5 ""
# All properties of calls of a communicator, hours.
MSCCLPP_COVER=all device 1 communicator::cover
MSCCLPP_ALL=1 device 1 sim::specialized
MSCCLPP_ALL=1 device 1 graphs::ten_thousand_replays
MSCCLPP_ALL=1 device 1 counts::
MSCCLPP_ALL=1 device 1 communicator::counts
cargo test --release -p mscclpp-exec --features cuda --test jit
kernels/check.sh --full
echo "the full matrix holds"
