#!/usr/bin/env bash
# What takes too long for every change: the suites that measure how much the checks refuse and withstand, and long runs of the
# executors. Ends with the figures of all parts in one block, which go into docs/measured.md. Needs nothing but Rust; hours on two
# cores if all parts run. Parts that only a device can show are in scripts/gpu.sh.
#
# Usage: MSCCLPP_CONFORMANCE=FOLDER scripts/full.sh [PART ...]     all parts by default; the folder has the reference plans
#   loops      random plans with loops, changed once or twice: every number of iterations, and the fuzzer
#   mutants    shipped and reference plans, changed in every way
#   programs   random programs with loops against runs at every size, and unequal slices
#   small      random small plans that the checks accept, fuzzed in launches of changing sizes
#   processes  a thousand launches of 4 MiB between processes on two hosts, a million mixed
#              calls, and 10 000 rounds of faults whose root cause all ranks must name; what
#              remains of each is counted; 200 rounds of faults in calls of NCCL, and 1000 jobs
#              of random divisions of its communicators
#   transport  plans between nodes over an engine that delivers late and out of order, on the CPU and on
#              simulated devices: right results, and removed waits that are found with 100 of 100 seeds
#   scale      scripts/scale.sh: 64 processes as 8 hosts of 8, and what a rank needs as their number
#              grows; start-up of up to 1 024 ranks
#   clients    clients of NCCL in Python, among them vLLM's wrapper (340 MB to download)
#   python     the backend of PyTorch: all failures on PyTorch 2.11.0, tensors of more than 2^31 elements (9 GB of memory), and
#              all jobs by torchrun
#   hostile    time and memory of checks on plans that are made to take long
#   devices    dev/matrix.sh
#   sanitizer  scripts/sanitize.sh
#   links      scripts/links.sh --long: cables that are slow, lose packets, or delay and reorder them, also for simulated devices
#   ucx        scripts/ucx.sh over further transports of UCX, with every plan, also for simulated devices; takes a debug build
#              of the command
#   packages   `cargo deny`: bans, licenses and sources of dependencies; installs cargo-deny into target/deny where it is missing
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

tests() { # PACKAGE TARGET... -- FILTER...
    cargo test --release -p "$@" --nocapture
}

part() {
    printf '\n== %s\n' "$1"
    case "$1" in
    loops)
        MSCCLPP_LOOP_MUTANTS=130000 tests mscclpp-fuzz --test integration -- loop_mutants
        ;;
    mutants)
        MSCCLPP_MUTANTS=all MSCCLPP_OPERATIONS=130 MSCCLPP_SEEDS=16 MSCCLPP_LIST=1 MSCCLPP_LOOP_MUTANTS=0 \
            tests mscclpp-fuzz --test integration -- mutation::
        ;;
    programs)
        MSCCLPP_LOOP_PROGRAMS=30000 tests mscclpp-core --lib -- check::loops check::race::every
        MSCCLPP_SLICES=1500 tests mscclpp-core --lib -- check::slices
        ;;
    small)
        MSCCLPP_SCRIPTS=60000 tests mscclpp-fuzz --test integration -- fuzz::small
        ;;
    processes)
        MSCCLPP_SOAK=1000 tests mscclpp-exec --test integration -- process::ports::
        MSCCLPP_FAULT_ROUNDS=200 MSCCLPP_CAUSE_ROUNDS=1000 tests mscclpp-exec --test faults --
        MSCCLPP_CAUSE_ROUNDS=8800 tests mscclpp-exec --test soak -- --include-ignored
        MSCCLPP_NCCL_FAULT_ROUNDS=200 tests mscclpp-dev --test nccl -- faults_in_random_calls
        MSCCLPP_NCCL_DIVISION_ROUNDS=1000 tests mscclpp-dev --test nccl -- random_divisions
        ;;
    transport)
        MSCCLPP_SOAK=20 tests mscclpp-exec --lib -- process::wire transport::
        MSCCLPP_SOAK=100 tests mscclpp-exec --lib -- process::wire::tests::missing_wait
        MSCCLPP_SEEDS=100 tests mscclpp-fuzz --test integration -- fuzz::order
        MSCCLPP_SOAK=100 MSCCLPP_SEEDS=10 tests mscclpp-dev --test device -- nodes::hostile
        MSCCLPP_SOAK=100 tests mscclpp-dev --test device -- nodes::missing_wait
        ;;
    scale)
        cargo build --quiet --release -p mscclpp-cli
        scripts/scale.sh
        cargo bench --quiet -p mscclpp-bootstrap --bench startup
        ;;
    clients)
        local client
        for client in sglang vllm nccl4py; do
            scripts/python-client.sh "$client"
            tests mscclpp-dev --test nccl -- "$client"
        done
        ;;
    python)
        local python package
        scripts/python-env.sh 2.11.0
        python=$(scripts/python-env.sh 2.15.0)
        tests mscclpp-python --test torch -- --ignored pytorch_2.11.0
        cargo build --release -p mscclpp-python
        package=$(scripts/python-package.sh target/release/libmscclpp_rs.so)
        PYTHONPATH=$package "$python" -m mscclpp_rs launch -n 2 mscclpp-python/tests/jobs/large.py
        local job
        for job in collectives lists transfers programs training groups; do
            PYTHONPATH=$package OMP_NUM_THREADS=1 NUM_PROGRAMS=50 "$python" -m torch.distributed.run --nproc-per-node 4 "mscclpp-python/tests/jobs/$job.py"
        done
        ;;
    hostile)
        cargo bench -p mscclpp-core --bench hostile
        ;;
    devices)
        dev/matrix.sh
        ;;
    sanitizer)
        scripts/sanitize.sh
        ;;
    links)
        # It builds the command and the simulated driver.
        scripts/simulated-cuda.sh -- scripts/links.sh --long "${CARGO_TARGET_DIR:-target}/release/mscclpp"
        ;;
    ucx)
        scripts/ucx.sh posix,cma sysv
        MSCCLPP_UCX=$(scripts/ucx-env.sh) PLANS=all PROFILE=dev scripts/simulated-cuda.sh -- scripts/ucx.sh tcp,cuda_copy posix,cma,cuda
        ;;
    packages)
        local deny
        deny=$(command -v cargo-deny || echo target/deny/bin/cargo-deny)
        [ -x "$deny" ] || cargo install --quiet --debug --locked --root target/deny cargo-deny
        "$deny" check bans licenses sources
        ;;
    *)
        echo "no part \`$1\`; expected loops, mutants, programs, small, processes, transport, scale, clients, python, hostile, devices, sanitizer, links, ucx or packages" >&2
        exit 2
        ;;
    esac
}

[ $# -gt 0 ] || set -- loops mutants programs small processes transport scale clients python hostile devices sanitizer links ucx packages
for name in "$@"; do
    part "$name" 2>&1 | tee -a "$log"
done
printf '\n== figures for docs/measured.md: %s, %s, %s cores\n' "$(date -u +%F)" "$(git rev-parse --short HEAD)" "$(nproc)"
grep -vE '^(running [0-9]|test |successes:|failures:|$)|^ *(Blocking|Compiling|Checking|Finished|Running|Executable|Doc-tests) ' "$log"
