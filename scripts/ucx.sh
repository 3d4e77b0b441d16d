#!/usr/bin/env bash
# Tests the UCX transport: the contract of an engine, plans between processes of simulated hosts, and a killed rank, over several
# transports of UCX. RDMA is not among them. Where there is no UCX (scripts/ucx-env.sh), says so and ends with 0.
#
# Usage: scripts/ucx.sh [UCX_TLS]...     values of the variable; `all` and `tcp` by default
#   PLANS=all     also every algorithm between nodes
# Where scripts/simulated-cuda.sh runs this script, plans run on simulated devices, too, whose memory UCX accesses if UCX_TLS has CUDA's
# transports; without the tests of the engine.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/plans.sh

MSCCLPP_UCX=$(scripts/ucx-env.sh) || exit 0
export MSCCLPP_UCX MSCCLPP_TRANSPORT=ucx
[ $# -gt 0 ] || set -- all tcp
built=${CARGO_TARGET_DIR:-target}/debug/mscclpp
program=$(realpath -e "$built" 2>/dev/null) || {
    echo "there is no $built: build it with \`cargo build -p mscclpp-cli\`" >&2
    exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $1"
    cat "$work/output"
    exit 1
}

# Runs a command on 4 ranks of 2 hosts, which has to end well and to use UCX.
ranks() {
    MSCCLPP_LOG_LEVEL=info "$program" launch -n 4 --hosts 2 -- "$program" "$@" >"$work/output" 2>&1 || fail "$*"
    grep -qE "uses UCX [0-9.]* \(.*: ($expected)/" "$work/output" || fail "\`$*\` does not use $expected"
}

for UCX_TLS in "$@"; do
    export UCX_TLS
    case $UCX_TLS in
    all) expected="posix|sysv" ;;
    *) expected=${UCX_TLS%%,*} ;;
    esac
    [ -n "${MSCCLPP_MOCK_DEVICES:-}" ] || MSCCLPP_TRANSPORT='' cargo test --quiet --workspace --lib -- --ignored ucx --test-threads=2
    # Every call is compared with the right result; `bench` ends with 1 if an element is wrong.
    if [ -n "${MSCCLPP_MOCK_DEVICES:-}" ]; then
        for MSCCLPP_UCX_DEVICE_MEMORY in 0 1; do
            export MSCCLPP_UCX_DEVICE_MEMORY
            ranks bench all_reduce --backend cuda --plan allreduce_ring_ports -b 64K -e 256K -n 1 -c 1
            ranks run allgather_ring_ports --backend cuda --count 100000 --iters 1
        done
        case $UCX_TLS in
        all | *cuda*) grep -q "UCX accesses memory of the device" "$work/output" || fail "UCX does not access memory of devices" ;;
        *) grep -q "no UCX that supports CUDA was loaded" "$work/output" || fail "nothing says that UCX has no CUDA" ;;
        esac
    fi
    for authenticates in 0 1; do
        export MSCCLPP_AUTHENTICATE_DATA=$authenticates
        ranks bench all_reduce -b 1K -e 1M -f 32 -n 3 -w 1 -c 1
        ranks bench all_gather --plan allgather_ring_ports -b 1K -e 1M -f 32 -n 3 -w 1 -c 1
        ranks bench all_reduce --plan allreduce_ring_ports -b 1K -e 1M -f 32 -n 3 -w 1 -c 1
    done
    unset MSCCLPP_AUTHENTICATE_DATA
    ran=0
    if [ "${PLANS:-}" = all ]; then
        while read -r name collective mode; do
            # Of long puts UCX accesses memory of devices.
            for backend in "cpu -b 4K -e 4K" ${MSCCLPP_MOCK_DEVICES:+"cuda -b 64K -e 64K"}; do
                # shellcheck disable=SC2086
                ranks bench "$collective" --plan "$name" $mode --backend $backend -n 1 -c 1
                ran=$((ran + 1))
            done
        done < <(plans_between_nodes)
        [ $ran -ge 15 ] || fail "expected at least 15 algorithms"
    fi
    echo "UCX_TLS=$UCX_TLS: right, over $expected${PLANS:+, with $ran runs of algorithms}"

    # A rank that is killed is named by all others.
    MSCCLPP_TIMEOUT=60 "$program" launch -n 4 --hosts 2 --grace 60 -- \
        "$program" bench all_reduce -b 64K -e 64K -n 100000000 -w 1 -c 0 >"$work/output" 2>&1 &
    launcher=$!
    for _ in $(seq 100); do
        sleep 0.1
        [ "$(pgrep -cP $launcher || true)" -lt 4 ] || break
    done
    sleep 3
    pid=$(pgrep -P $launcher | tail -1)
    number=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^RANK=//p')
    kill -KILL "$pid"
    if wait $launcher; then fail "the ranks ended well without rank $number"; fi
    for rank in 0 1 2 3; do
        [ "$rank" = "$number" ] || grep -qE "^\[$rank\] error: .*rank $number \(" "$work/output" ||
            fail "rank $rank does not say that rank $number is lost"
    done
    echo "UCX_TLS=$UCX_TLS: rank $number killed, named by the others"
done
# All ranks report one cause where UCX cannot be loaded.
if MSCCLPP_UCX=/nonexistent/libucp.so.0 "$program" launch -n 2 --hosts 2 --grace 60 -- \
    "$program" bench all_reduce -b 1K -e 1K -n 1 >"$work/output" 2>&1; then
    fail "the ranks ended well without a library"
fi
for rank in 0 1; do
    grep -qE "^\[$rank\] error: .*/nonexistent/libucp.so.0" "$work/output" || fail "rank $rank does not name the library"
done
echo "no library: named by all ranks"
