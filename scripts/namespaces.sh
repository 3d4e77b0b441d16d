# Two "hosts" on one machine, for the scripts that source this file: network namespaces `a` and `b`, joined by a cable, with
# two ranks in each. All of it ends with the script, whatever happens to it.
# shellcheck shell=bash disable=SC2034

# The seconds that a job may take to end after its heartbeat timeout: signs of life come four times in that time, and silence
# counts from the last one; the rest is for a busy machine.
readonly SLACK=20

skip() {
    echo "skipped: $1"
    exit 0
}

# find_program [MSCCLPP]: sets `program`, by default to the debug build.
find_program() {
    local built=${CARGO_TARGET_DIR:-target}/debug/mscclpp
    program=$(realpath -e "${1:-$built}" 2>/dev/null) || {
        echo "there is no ${1:-$built}: build it with \`cargo build -p mscclpp-cli\`" >&2
        exit 2
    }
}

# enter ARGUMENT...: starts the script again with these arguments, where a network, mounts and a root are its own.
enter() {
    command -v ip >/dev/null || skip "there is no \`ip\`; install iproute2"
    [ "${HOSTS_INSIDE:-}" != 1 ] || return 0
    unshare -Urnm --kill-child true 2>/dev/null || skip "namespaces are not allowed here"
    # shellcheck disable=SC2086
    HOSTS_INSIDE=1 exec unshare -Urnmpf ${UNSHARE:-} --kill-child "$0" "$@"
}

# Creates both hosts, without a cable, and $work for files.
create_hosts() {
    work=$(mktemp -d)
    mount -t tmpfs none /run
    mount -t tmpfs none "$work"
    trap 'kill $(jobs -p) 2>/dev/null || true; umount -l "$work" && rmdir "$work"' EXIT
    for host in a b; do
        ip netns add "$host"
        ip -n "$host" link set lo up
    done
    MSCCLPP_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
    export MSCCLPP_SECRET
    # Rank 0's host calls itself what it is to nobody else.
    echo "127.0.1.1 node-a" >"$work/hosts.a"
    echo "10.77.0.1 node-a" >"$work/hosts.b"
}

# Gives both ends of the cable their addresses.
plug_in() {
    ip -n a address add 10.77.0.1/24 dev cable
    ip -n b address add 10.77.0.2/24 dev cable
    local host
    for host in a b; do ip -n $host link set cable up; done
    # It takes a moment until programs find the interfaces usable.
    for host in a b; do
        until ip -n $host link show cable | grep -qE "state (UP|UNKNOWN)"; do sleep 0.05; done
    done
}

# Joins the hosts by a cable without a limit.
connect_hosts() {
    ip link add cable netns a type veth peer name cable netns b
    plug_in
}

# start COMMAND...: starts two ranks on each host, at $address. Each host's output is in $work/HOST, the number of rank N's process
# in $work/pid.N, those of the launchers in `pids`.
start() {
    local node=0 host
    rm -f "$work"/pid.*
    pids=()
    for host in a b; do
        # shellcheck disable=SC2016
        ip netns exec "$host" sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/hosts.$host" \
            "$program" launch -n 2 --nodes 2 --node $node --address "$address" --grace 60 -- \
            sh -c 'echo $$ >"$0/pid.$RANK" && exec "$@"' "$work" "$@" >"$work/$host" 2>&1 &
        pids[node]=$!
        node=$((node + 1))
    done
}

fail() {
    local host
    echo "FAILED: $1"
    for host in a b; do [ ! -e "$work/$host" ] || sed "s/^/$host: /" "$work/$host"; done
    exit 1
}

is_running() {
    kill -0 "${pids[@]}" 2>/dev/null
}

# finish MESSAGE: waits for both launchers, which have to end well.
finish() {
    local pid
    for pid in "${pids[@]}"; do wait "$pid" || fail "$1"; done
}

# settle [TENTHS]: waits until the other three ranks are connected to rank 0, and a little longer; in small steps, so that a
# machine that is paused meanwhile does not take all of that time away.
settle() {
    local line connected=0
    line="^ *[0-9]+: [0-9A-F]+:$(printf %04X "$PORT") [0-9A-F]+:[0-9A-F]+ 01 "
    until [ "$connected" -ge 3 ]; do
        is_running || fail "the ranks ended before they were connected"
        sleep 0.1
        connected=$(ip netns exec a grep -cE "$line" /proc/net/tcp || true)
    done
    for _ in $(seq "${1:-30}"); do sleep 0.1; done
    is_running || fail "the ranks ended before the fault"
}

# await_failure FAULT: waits for both launchers, which must not end well, and measures into `after` how many ms they take.
await_failure() {
    local when pid
    when=$(date +%s%N)
    for pid in "${pids[@]}"; do
        if wait "$pid"; then fail "the ranks ended well: $1"; fi
    done
    after=$((($(date +%s%N) - when) / 1000000))
    [ $after -lt $(((MSCCLPP_HEARTBEAT_TIMEOUT * 2 + SLACK) * 1000)) ] || fail "it took $after ms to notice: $1"
}

# cut_cable COMMAND...: runs something that goes on, cuts the cable, and looks at what each rank says. What it prints begins with $label.
cut_cable() {
    local rank
    start "$@"
    settle
    ip -n a link set cable down
    await_failure "the cable was cut"
    for rank in 0 1; do
        grep -qE "^\[$rank\] error: (rank $rank: )?no answer from rank [23] \(" "$work/a" || fail "rank $rank does not say who is lost"
    done
    for rank in 2 3; do
        grep -qE "^\[$rank\] error: (rank $rank: )?no answer from rank 0 \(" "$work/b" || fail "rank $rank does not say who is lost"
    done
    echo "${label:-}cable cut in \`${*:2:2}\`: all 4 ranks ended within $after ms"
    grep -hE "^\[[0-9]\] error" "$work/a" "$work/b"
    ip -n a link set cable up
}

# limit_rate RATE BURST: limits what leaves each host, as for `tc … tbf`.
limit_rate() {
    local host
    for host in a b; do ip netns exec $host tc qdisc add dev cable root tbf rate "$1" burst "$2" latency 50ms || return 1; done
}
