#!/usr/bin/env bash
# 64 processes on this machine as 8 hosts of 8: every built-in algorithm that runs between nodes, results verified; then what a
# rank needs as the number of ranks grows: descriptors, sockets and private memory, and the time to start.
#
# Usage: scripts/scale.sh [MSCCLPP]     the program; the optimized build by default
#   RANKS=64 HOSTS=8     ranks and hosts of the first part
#   GROWTH="8 16 32 64"  numbers of ranks of the second part, on HOSTS hosts
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/plans.sh

program=$(realpath -e "${1:-${CARGO_TARGET_DIR:-target}/dist/mscclpp}" 2>/dev/null) || {
    echo "build it with \`cargo build --profile dist -p mscclpp-cli\`" >&2
    exit 2
}
ranks=${RANKS:-64} hosts=${HOSTS:-8}
work=$(mktemp -d)
launcher=
trap '[ -z "$launcher" ] || kill "$launcher" 2>/dev/null || true; rm -rf "$work"' EXIT
# As many ranks on few cores are slow, not lost.
export MSCCLPP_TIMEOUT=600 MSCCLPP_HEARTBEAT_TIMEOUT=120

ran=0 refused=0
while read -r name collective mode; do
    # shellcheck disable=SC2086
    if "$program" launch -n "$ranks" --hosts "$hosts" -- "$program" bench "$collective" --plan "$name" $mode \
        -b 64K -e 64K -n 2 -w 1 -c 1 --json >"$work/out" 2>"$work/err"; then
        if ! grep -q '"wrong":0' "$work/out" || grep -q '"wrong":[1-9]' "$work/out"; then
            echo "FAILED: $name has wrong results" && cat "$work/out" && exit 1
        fi
        ran=$((ran + 1))
        echo "$name: right, $(sed -n 's/.*"time_us": *\([0-9.]*\).*/\1/p' "$work/out" | head -1) us"
    elif grep -q "the caller selected" "$work/err"; then
        refused=$((refused + 1))
        echo "$name: refused: $(grep -m1 -o "but it .*" "$work/err")"
    else
        echo "FAILED: $name" && tail -20 "$work/err" && exit 1
    fi
done < <(plans_between_nodes)
echo "$ran algorithms ran on $ranks ranks of $hosts hosts with right results, $refused were refused"
[ "$ran" -ge 15 ] || { echo "FAILED: expected at least 15 algorithms" && exit 1; }

# needs RANKS COLLECTIVE PLAN: what rank 1 needs in the middle of calls
needs() {
    local pid pids fds
    "$program" launch -n "$1" --hosts "$hosts" --no-prefix -- sh -c 'echo $$ >"$0/pid.$RANK"; exec "$@"' "$work" "$program" \
        bench "$2" --plan "$3" -b 64K -e 64K -n 1000000 -w 0 -c 0 >"$work/out" 2>"$work/err" &
    launcher=$!
    # Until the calls have begun: rank 0 has a connection to a rank of another host by then.
    until [ -s "$work/out" ] && [ -s "$work/pid.1" ]; do
        kill -0 "$launcher" 2>/dev/null || { cat "$work/err" && exit 1; }
        sleep 0.2
    done
    sleep "${SETTLE:-10}"
    pid=$(cat "$work/pid.1")
    fds=$(ls "/proc/$pid/fd" | wc -l)
    echo "$3, $1 ranks: $fds descriptors, $(ls -l "/proc/$pid/fd" | grep -c socket:) sockets," \
        "$(awk '/^Private_Dirty:/ { print $2 }' "/proc/$pid/smaps_rollup") KiB private"
    kill "$launcher" 2>/dev/null || true
    wait "$launcher" 2>/dev/null || true
    launcher=
    rm -f "$work"/pid.*
}
for plan in "all_reduce allreduce_hierarchical" "all_reduce allreduce_ring_ports" "all_to_all alltoall_ports"; do
    for n in ${GROWTH:-8 16 32 64}; do
        # shellcheck disable=SC2086
        needs "$n" $plan
    done
done
