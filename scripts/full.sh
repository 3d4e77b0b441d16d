#!/usr/bin/env bash
# Before a release: every long random suite, and every further system, toolchain, client and package. Hours on two cores. Parts that
# only a device can show are in scripts/gpu.sh.
#
# Usage: MSCCLPP_CONFORMANCE=FOLDER scripts/full.sh [PART ...]     all parts by default; the folder has the reference plans
#
# A part that fails does not stop the others. Without arguments, parts that have passed on this commit are not run again, so that an
# interrupted run can be continued. Ends with a table of parts, and with the figures that they printed, which go into
# docs/measured.md; logs are in target/full.
#   loops      random plans with loops, changed once or twice: every number of iterations, and the fuzzer
#   mutants    shipped and reference plans, changed in every way
#   programs   random programs with loops against runs at every size, and unequal slices
#   routes     100 000 random plans that move data through any chunk, and mutants of shipped and reference plans, at all counts:
#              verdicts against the CPU executor's results
#   evaluator  random functions and programs, evaluated and compiled
#   executors  all built-in algorithms on up to 64 ranks: costs, and results of processes
#   small      random small plans that the checks accept, fuzzed in launches of changing sizes
#   order      verdicts of all plans with other numbers of ranks, thread blocks, channels and semaphores, and in random orders of
#              execution; the fuzzer on plans with changed numbers; random plans as executors run them
#   processes  a thousand launches of 4 MiB between processes on two hosts, a million mixed
#              calls, and 10 000 rounds of faults whose root cause all ranks must name; what
#              remains of each is counted; 200 rounds of faults in calls of NCCL, and 1000 jobs
#              of random divisions of its communicators
#   transport  plans between nodes over an engine that delivers late and out of order, on the CPU and on
#              simulated devices: right results, and removed waits that are found with 100 of 100 seeds
#   predictions  how fast simulations are, links that found plans use on all described machines, and selection by predicted times against
#              the default rules and with wrong constants
#   scale      scripts/scale.sh: 64 processes as 8 hosts of 8, and what a rank needs as their number
#              grows; start-up of up to 1 024 ranks
#   systems    the oldest Rust that the manifests promise, Windows and macOS
#   clients    all calls of NCCL in place on some ranks; its clients in Python, among them vLLM's wrapper (340 MB to download)
#   python     the backend of PyTorch: all failures on PyTorch 2.11.0, tensors of more than 2^31 elements (9 GB of memory), all jobs by
#              torchrun, and the package as pip installs it
#   examples   all examples and kinds of calls on simulated devices
#   hostile    time and memory of checks on plans that are made to take long
#   devices    dev/matrix.sh
#   sanitizer  scripts/sanitize.sh
#   links      scripts/links.sh --long: cables that are slow, lose packets, or delay and reorder them, also for simulated devices
#   ucx        scripts/ucx.sh over further transports of UCX, with every plan, also for simulated devices; takes a debug build
#              of the command
#   packages   scripts/package.sh; the book by mdBook; `cargo deny`: bans, licenses and sources of dependencies, installed into target/deny where it is
#              missing
set -euo pipefail
cd "$(dirname "$0")/.."

readonly parts=(loops mutants programs routes evaluator executors small order processes transport predictions scale systems clients python examples hostile devices sanitizer links ucx packages)
logs=$(realpath -m "${CARGO_TARGET_DIR:-target}")/full
mkdir -p "$logs"
commit=$(git rev-parse --short HEAD)

tests() { # PACKAGE TARGET... -- FILTER...
    cargo test --release -p "$@" --nocapture
}

part() {
    printf '\n== %s\n' "$1"
    case "$1" in
    loops)
        MSCCLPP_LOOP_MUTANTS=130000 tests mscclpp-fuzz --test integration -- loop_mutants
        MSCCLPP_ROW_MUTANTS=2000 tests mscclpp-fuzz --test integration -- rows::
        ;;
    mutants)
        MSCCLPP_MUTANTS=all MSCCLPP_OPERATIONS=130 MSCCLPP_NUM_SEEDS=16 MSCCLPP_LIST=1 MSCCLPP_LOOP_MUTANTS=0 \
            tests mscclpp-fuzz --test integration -- mutation::
        ;;
    programs)
        MSCCLPP_LOOP_PROGRAMS=30000 tests mscclpp-check --lib -- loops race::every
        MSCCLPP_SLICES=1500 tests mscclpp-check --lib -- slices
        ;;
    routes)
        MSCCLPP_ROUTES=100000 MSCCLPP_COUNTED=200 tests mscclpp-exec --test routes --
        ;;
    evaluator)
        MSCCLPP_RANDOM=5000 tests mscclpp-eval --test integration -- random::
        # Messages as cargo shows them for the crate of a user.
        cargo test --quiet --workspace --test repository messages_reach_a_crate_of_its_own -- --ignored
        ;;
    executors)
        MSCCLPP_SOAK=1 tests mscclpp-exec --test integration -- algorithms:: process::results::
        MSCCLPP_NUM_SEEDS=16 tests mscclpp-fuzz --test integration -- fuzz::builtin
        ;;
    small)
        MSCCLPP_SCRIPTS=60000 MSCCLPP_SIZES=10000 MSCCLPP_FREES=10000 MSCCLPP_TURNS=10000 tests mscclpp-fuzz --test integration -- fuzz::small
        ;;
    order)
        MSCCLPP_PERMUTATIONS=20 MSCCLPP_OPERATIONS=3000 tests mscclpp-fuzz --test integration -- permutations::
        MSCCLPP_MALFORMED=100000 tests mscclpp-fuzz --test integration -- fuzz::malformed
        MSCCLPP_COUNT_MUTANTS=5000 tests mscclpp-fuzz --test integration -- counts::
        MSCCLPP_RANDOM_PLANS=100000 tests mscclpp-validate --lib --
        ;;
    processes)
        MSCCLPP_SOAK=1000 tests mscclpp-exec --test integration -- process::ports::
        MSCCLPP_FAULT_ROUNDS=200 MSCCLPP_CAUSE_ROUNDS=1000 tests mscclpp-communicator --test faults --
        MSCCLPP_CAUSE_ROUNDS=8800 tests mscclpp-communicator --test soak -- --include-ignored
        MSCCLPP_NCCL_FAULT_ROUNDS=200 tests mscclpp-dev --test nccl -- faults_in_random_calls
        MSCCLPP_NCCL_DIVISION_ROUNDS=1000 tests mscclpp-dev --test nccl -- random_divisions
        ;;
    transport)
        MSCCLPP_SOAK=200 tests mscclpp-transport --lib --
        MSCCLPP_SOAK=20 tests mscclpp-exec --lib -- process::wire
        MSCCLPP_SOAK=100 tests mscclpp-exec --lib -- process::wire::tests::missing_wait
        MSCCLPP_NUM_SEEDS=100 tests mscclpp-fuzz --test integration -- fuzz::order
        MSCCLPP_SOAK=100 MSCCLPP_NUM_SEEDS=10 tests mscclpp-dev --test device -- nodes::hostile
        MSCCLPP_SOAK=100 tests mscclpp-dev --test device -- nodes::missing_wait
        ;;
    predictions)
        tests mscclpp-predict --test speed -- --ignored
        tests mscclpp-find --test found -- --ignored links_of_every
        tests mscclpp-select --test integration -- --ignored gains::
        ;;
    scale)
        cargo build --quiet --profile dist -p mscclpp-cli
        scripts/scale.sh
        cargo bench --quiet -p mscclpp-bootstrap --bench startup
        ;;
    systems)
        local oldest system
        oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
        rustup toolchain install "$oldest" --profile minimal
        cargo "+$oldest" check -p mscclpp -p mscclpp-cli
        # `ui-tests/tests/system.rs` says what needs Linux.
        for system in x86_64-pc-windows-msvc aarch64-apple-darwin; do
            rustup target add "$system"
            cargo check --target "$system" -p mscclpp-core -p mscclpp-macros -p mscclpp-algorithms -p mscclpp-fuzz -p mscclpp-kernels
            cargo check --target "$system" -p mscclpp --no-default-features --tests
        done
        ;;
    examples)
        local name call
        cargo build --workspace --examples -p mscclpp-cli
        for name in native_allreduce ping_pong bootstrap; do # `bootstrap` starts its second process itself
            PROFILE=dev scripts/simulated-cuda.sh -- "${CARGO_TARGET_DIR:-target}/debug/examples/$name"
        done
        for name in memory_channel port_channel switch_channel data_parallel channels port_allreduce; do
            PROFILE=dev scripts/simulated-cuda.sh --multicast 8 -n 4 -- "${CARGO_TARGET_DIR:-target}/debug/examples/$name"
        done
        # Devices of which only pairs can access each other's memory.
        PROFILE=dev scripts/simulated-cuda.sh -n 4 --devices 4 --peers 2 -- "${CARGO_TARGET_DIR:-target}/debug/examples/device_all_reduce"
        for call in all_reduce gather scatter all_to_all_v barrier; do
            PROFILE=dev scripts/simulated-cuda.sh -- mscclpp bench "$call" --backend cuda --gpus 4 --begin 1K --end 4K --iters 1 --json
        done
        PROFILE=dev scripts/simulated-cuda.sh -n 4 -- mscclpp bench all_reduce --backend cuda --begin 1K --end 4K --iters 1 --json
        PROFILE=dev scripts/simulated-cuda.sh -- mscclpp tune broadcast --backend cuda --gpus 2 --begin 1K --end 1K --iters 1 \
            --blocks 1 --threads 64 --output target/simulated-cuda/tuning.toml
        ;;
    clients)
        ALL_PLACES=1 tests mscclpp-dev --test nccl -- collectives_
        local client
        for client in sglang vllm nccl4py; do
            scripts/python-client.sh "$client"
            tests mscclpp-dev --test nccl -- "$client"
            tests mscclpp-python --test plans -- "$client"
        done
        ;;
    python)
        local python package
        scripts/python-env.sh 2.11.0
        python=$(scripts/python-env.sh 2.15.0)
        tests mscclpp-python --test torch -- --include-ignored pytorch_2.15.0
        tests mscclpp-dev --test nccl -- --include-ignored pytorch_2.15.0
        tests mscclpp-python --test torch -- --ignored pytorch_2.11.0
        [ -z "${MSCCLPP_SEEDS:-}" ] || tests mscclpp-python --test plans -- --ignored documents_of
        tests mscclpp-python --test plans -- --ignored native_modules_of_18
        # A checkout of microsoft/mscclpp; with MSCCLPP_CUPY also its executor_test.py (docs/python-plans.md).
        [ -z "${MSCCLPP_EXAMPLES:-}" ] || tests mscclpp-python --test plans -- --include-ignored of_the_reference
        cargo build --release -p mscclpp-python
        package=$(scripts/python-package.sh target/release/libmscclpp_rs.so)
        PYTHONPATH=$package "$python" -m mscclpp_rs launch -n 2 mscclpp-python/tests/jobs/large.py
        local job
        for job in collectives lists transfers programs training groups; do
            PYTHONPATH=$package OMP_NUM_THREADS=1 NUM_PROGRAMS=50 "$python" -m torch.distributed.run --nproc-per-node 4 "mscclpp-python/tests/jobs/$job.py"
        done
        scripts/python-install.sh 2.15.0
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
        command -v nft >/dev/null || apt-get install --quiet --yes nftables >/dev/null 2>&1 || echo "skipped: nftables"
        scripts/simulated-cuda.sh -- scripts/links.sh --long "${CARGO_TARGET_DIR:-target}/release/mscclpp"
        ;;
    ucx)
        scripts/ucx.sh posix,cma sysv
        MSCCLPP_UCX=$(scripts/ucx-env.sh) PROFILE=dev scripts/simulated-cuda.sh -- scripts/ucx.sh all
        MSCCLPP_UCX=$(scripts/ucx-env.sh) PLANS=all PROFILE=dev scripts/simulated-cuda.sh -- scripts/ucx.sh tcp,cuda_copy posix,cma,cuda
        ;;
    packages)
        scripts/package.sh
        scripts/book.sh
        local deny
        deny=$(command -v cargo-deny || echo target/deny/bin/cargo-deny)
        [ -x "$deny" ] || cargo install --quiet --debug --locked --root target/deny cargo-deny
        "$deny" check bans licenses sources
        ;;
    esac
}

# Runs a part. What it prints is also in its log, whose last line says how it ended.
run() {
    local start=$SECONDS result=passed
    # In a shell of its own, where `set -e` holds also though this one looks at the status.
    scripts/full.sh --part "$1" 2>&1 | tee "$logs/$1" || result=failed
    echo "$result at $commit in $((SECONDS - start)) s" >>"$logs/$1"
    [ "$result" = passed ]
}

if [ "${1:-}" = --part ]; then
    part "$2"
    exit
fi
named=$#
[ $# -gt 0 ] || set -- "${parts[@]}"
for name in "$@"; do
    [[ " ${parts[*]} " == *" $name "* ]] || {
        echo "no part \`$name\`; expected one of ${parts[*]}" >&2
        exit 2
    }
done
status=0
for name in "$@"; do
    if [ $named -eq 0 ] && tail -n 1 "$logs/$name" 2>/dev/null | grep -q "^passed at $commit "; then continue; fi
    run "$name" || status=1
done
printf '\n== parts\n'
for name in "$@"; do printf '%-10s %s\n' "$name" "$(tail -n 1 "$logs/$name")"; done
printf '\n== figures for docs/measured.md: %s, %s, %s cores\n' "$(date -u +%F)" "$commit" "$(nproc)"
for name in "$@"; do
    grep -vE '^(running [0-9]|test |successes:|failures:|$|(passed|failed) at )|^ *(Blocking|Compiling|Checking|Finished|Running|Executable|Doc-tests) ' "$logs/$name" || true
done
exit $status
