#!/usr/bin/env bash
# Several "hosts" on one machine: two network namespaces joined by a cable, two ranks in each.
#
# Checks that the ranks find each other across the cable, also where rank 0's host has a loopback address for its own name;
# that everything they exchange arrives; and that cutting the cable ends all four ranks with an error that names who was
# lost, within the deadline. Needs root or user namespaces; where
# there are neither it says so and ends with 0.
#
# Usage: scripts/hosts.sh [MSCCLPP]     the program; the debug build by default
set -euo pipefail
cd "$(dirname "$0")/.."

readonly LIVENESS=5 TIMEOUT=60 PORT=29517
built=${CARGO_TARGET_DIR:-target}/debug/mscclpp
program=$(realpath -e "${1:-$built}" 2>/dev/null) || {
    echo "there is no ${1:-$built}: build it with \`cargo build -p mscclpp-cli\`" >&2
    exit 2
}

skip() {
    echo "skipped: $1"
    exit 0
}

command -v ip >/dev/null || skip "there is no \`ip\`; install iproute2"
# A network, mounts and a root of its own: what is made here ends with the script, whatever happens to it.
if [ "${HOSTS_INSIDE:-}" != 1 ]; then
    unshare -Urnm --kill-child true 2>/dev/null || skip "namespaces are not allowed here"
    HOSTS_INSIDE=1 exec unshare -Urnmpf --kill-child "$0" "$program"
fi

work=$(mktemp -d)
mount -t tmpfs none /run
mount -t tmpfs none "$work"
trap 'kill $(jobs -p) 2>/dev/null || true; umount "$work" && rmdir "$work"' EXIT
for host in a b; do
    ip netns add "$host"
    ip -n "$host" link set lo up
done
ip link add cable netns a type veth peer name cable netns b
ip -n a address add 10.77.0.1/24 dev cable
ip -n b address add 10.77.0.2/24 dev cable
ip -n a link set cable up
ip -n b link set cable up

export MSCCLPP_HEARTBEAT_TIMEOUT=$LIVENESS MSCCLPP_TIMEOUT=$TIMEOUT
MSCCLPP_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
export MSCCLPP_SECRET

# Rank 0's host calls itself what it is to nobody else.
echo "127.0.1.1 node-a" >"$work/hosts.a"
echo "10.77.0.1 node-a" >"$work/hosts.b"

address=cable:10.77.0.1:$PORT

# Starts two ranks on each host; each host's output is in $work/HOST.
start() {
    local node=0
    for host in a b; do
        ip netns exec "$host" sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts.$host" \
            "$program" launch -n 2 --nodes 2 --node $node --address "$address" --grace 60 -- "$@" >"$work/$host" 2>&1 &
        pids[node]=$!
        node=$((node + 1))
    done
}

fail() {
    echo "FAILED: $1"
    for host in a b; do sed "s/^/$host: /" "$work/$host"; done
    exit 1
}

# Waits for both launchers, which have to end well.
finish() {
    for pid in "${pids[@]}"; do wait "$pid" || fail "$1"; done
}

pids=()
for address in node-a:$PORT cable:10.77.0.1:$PORT; do
    start "$program" doctor --group
    finish "the ranks did not come together at $address"
    grep -q "4 ranks on 2 nodes" "$work/a" || fail "there should be 4 ranks on 2 nodes"
    sed 's/^\[0\] //' "$work/a"
done

# Every call is compared with the right result; `bench` ends with 1 if an element is wrong.
calls() {
    local collective
    for collective in all_reduce all_gather reduce_scatter all_to_all broadcast; do
        start "$program" bench $collective -b 1K -e 256K -f 16 -n 3 -w 1 -c 1
        finish "$collective failed"
        sed 's/^\[0\] //' "$work/a"
    done
}
MSCCLPP_TRANSPORT=tcp calls

# Waits until the other three ranks are connected to rank 0, and a little longer; in small steps, so that a machine that is
# paused meanwhile does not take all of that time away.
settle() {
    local line connected=0
    line="^ *[0-9]+: [0-9A-F]+:$(printf %04X $PORT) [0-9A-F]+:[0-9A-F]+ 01 "
    until [ "$connected" -ge 3 ]; do
        kill -0 "${pids[0]}" "${pids[1]}" 2>/dev/null || fail "the ranks ended before they were connected"
        sleep 0.1
        connected=$(ip netns exec a grep -cE "$line" /proc/net/tcp || true)
    done
    for _ in $(seq 30); do sleep 0.1; done
}

# Runs something that goes on, cuts the cable, and looks at what each rank says.
cut() {
    start "$@"
    settle
    kill -0 "${pids[0]}" "${pids[1]}" 2>/dev/null || fail "the ranks ended before the cable was cut"
    ip -n a link set cable down
    local when after
    when=$(date +%s%N)
    for pid in "${pids[@]}"; do
        if wait "$pid"; then fail "the ranks ended well without a cable"; fi
    done
    after=$((($(date +%s%N) - when) / 1000000))
    # Silence counts from the last word, and signs of life come four times in that time; the rest is for a busy machine.
    [ $after -lt $(((LIVENESS * 2 + 20) * 1000)) ] || fail "it took $after ms to notice"
    for rank in 0 1; do
        grep -qE "^\[$rank\] error: (rank $rank: )?no answer from rank [23] \(" "$work/a" || fail "rank $rank does not say who is lost"
    done
    for rank in 2 3; do
        grep -qE "^\[$rank\] error: (rank $rank: )?no answer from rank 0 \(" "$work/b" || fail "rank $rank does not say who is lost"
    done
    echo "cable cut in \`${*:2:2}\`: all 4 ranks ended within $after ms"
    grep -hE "^\[[0-9]\] error" "$work/a" "$work/b"
    ip -n a link set cable up
}

cut "$program" doctor --group --for 120
cut "$program" bench all_reduce -b 64K -e 64K -n 1000000 -c 0

# The same with UCX, over its sockets.
if library=$(MSCCLPP_UCX_INSTALL=0 scripts/ucx-env.sh); then
    export MSCCLPP_UCX=$library MSCCLPP_TRANSPORT=ucx UCX_TLS=tcp MSCCLPP_LOG_LEVEL=info
    calls
    grep -q "uses UCX .*: tcp/cable" "$work/b" || fail "the ranks do not use UCX over the cable"
    cut "$program" bench all_reduce -b 64K -e 64K -n 1000000 -c 0
fi
