#!/usr/bin/env bash
# Two "hosts" on one machine, two ranks in each, over cables that are worse than that of scripts/hosts.sh:
#
#   rate   50 Mbit/s with a burst of 16 KiB, by `tbf`
#   loss   1 % of the packets are lost at random, and 8 in a row of every 1000; by nftables, whose random numbers have no seed
#   delay  each packet takes 10 ms to 20 ms and may overtake others, by scripts/relay.py
#
# For each of them and for each engine: plans between nodes and calls, all results verified; a rank that is killed or suspended and
# a cable that is cut, named by all ranks within the deadline; and a job that continues with right results after its cable was cut
# for less than the heartbeat timeout. Simulated devices run the plans too, where scripts/simulated-cuda.sh runs this script:
#
#   PROFILE=dev scripts/simulated-cuda.sh -- scripts/links.sh --long
#
# What a machine cannot do is named as skipped: engines without UCX (scripts/ucx-env.sh), links without nftables or Python.
#
# Usage: scripts/links.sh [--long] [MSCCLPP]     the program; the debug build by default
#   --long                every plan, every call, and every rank killed and suspended; otherwise some
#   LINKS="rate loss delay" ENGINES="tcp ucx" PARTS="plans calls devices faults"
#   SEED=                 of the delays; random by default, and printed
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/namespaces.sh
. scripts/plans.sh

readonly PORT=29519
long=
if [ "${1:-}" = --long ]; then
    long=1
    shift
fi
find_program "$@"
enter ${long:+--long} "$program"
create_hosts
address=cable:10.77.0.1:$PORT
export MSCCLPP_HEARTBEAT_TIMEOUT=6 MSCCLPP_TIMEOUT=60
export SEED=${SEED:-$RANDOM}
parts=" ${PARTS:-plans calls devices faults} "

# Seconds for which a cable is cut before a job continues. Heartbeats come four times per timeout, and TCP repeats what is not
# acknowledged after twice as long each time: a host may hear of the other one only as long again after the cable is restored.
readonly OUTAGE=2

# without LINK REASON: removes the cable where it cannot be what it should be.
without() {
    echo "skipped: $1: $2"
    ip -n a link delete cable
    return 1
}

# connect LINK: joins the hosts; returns 1 where this machine cannot.
connect() {
    local host
    case $1 in
    rate)
        connect_hosts
        limit_rate 50mbit 16kb || without rate "the kernel has no tbf"
        ;;
    loss)
        if ! command -v nft >/dev/null; then
            echo "skipped: loss: there is no \`nft\`; install nftables"
            return 1
        fi
        connect_hosts
        for host in a b; do
            # Large segments would be lost as one packet.
            ip -n $host link set cable gso_max_segs 1
            ip netns exec $host nft -f scripts/loss.nft || {
                without loss "the kernel's nftables have no numgen"
                return 1
            }
        done
        ;;
    delay)
        if ! command -v python3 >/dev/null || [ ! -c /dev/net/tun ]; then
            echo "skipped: delay: there is no \`python3\` or no /dev/net/tun"
            return 1
        fi
        ip netns exec a bash -c 'exec 3<>/dev/net/tun && exec ip netns exec b python3 scripts/relay.py "$SEED" 10 10' \
            >"$work/relay" 2>&1 &
        relay=$!
        until ip -n a link show cable >/dev/null 2>&1 && ip -n b link show cable >/dev/null 2>&1; do
            kill -0 $relay 2>/dev/null || fail "the relay ended: $(cat "$work/relay")"
            sleep 0.05
        done
        plug_in
        echo "delay: seed $SEED"
        ;;
    *)
        echo "no link \`$1\`; expected rate, loss or delay" >&2
        exit 2
        ;;
    esac
}

# disconnect LINK: says what the cable did to packets, which must be something.
disconnect() {
    local did
    case $1 in
    rate)
        did=$(ip netns exec a tc -s qdisc show dev cable | grep -o "overlimits [1-9][0-9]*") || fail "no packet had to wait"
        ip -n a link delete cable
        ;;
    loss)
        did=$(ip netns exec a nft list ruleset | awk '/counter/ { lost += $(NF - 3) } END { print lost " packets lost" }')
        [ "${did%% *}" -gt 0 ] || fail "no packet was lost"
        ip -n a link delete cable
        for host in a b; do ip netns exec $host nft flush ruleset; done
        ;;
    delay)
        kill $relay
        wait $relay || fail "the relay failed: $(cat "$work/relay")"
        did=$(grep "arrived, [1-9]" "$work/relay") || fail "no packet overtook another one"
        ;;
    esac
    echo "$1: $did"
}

# bench OPTION...: runs `mscclpp bench`, whose results must be right. Returns 1 if the plan does not run on these ranks.
bench() {
    local pid bad=0
    start "$program" bench "$@" -c 1 --json
    for pid in "${pids[@]}"; do wait "$pid" || bad=1; done
    if [ $bad = 1 ]; then
        grep -q "the caller selected" "$work/a" && return 1
        fail "bench $*"
    fi
    if ! grep -q '"wrong":0' "$work/a" || grep -q '"wrong":[1-9]' "$work/a"; then fail "wrong results: bench $*"; fi
}

# plans BACKEND OPTION...: runs every plan, or some. `bench` ends with 1 if an element is wrong.
plans() {
    local backend=$1 name collective mode ran=0 refused=()
    shift
    while read -r name collective mode; do
        # shellcheck disable=SC2086
        if bench "$collective" --plan "$name" $mode --backend "$backend" "$@"; then
            ran=$((ran + 1))
        else
            refused+=("$name")
        fi
    done <"$work/plans"
    echo "$label$ran plans right on $backend${refused[*]:+, refused: ${refused[*]}}"
    [ $ran -ge "$expected_plans" ] || fail "expected at least $expected_plans plans"
}

calls() {
    local collective
    for collective in $collectives; do
        bench "$collective" -b 1K -e 64K -f 64 -n 3 -w 1 || fail "bench $collective"
    done
    echo "${label}right: $collectives"
}

# Something that goes on, and has data on the cable most of the time.
readonly ENDLESS="bench all_reduce -b 1M -e 1M -n 1000000 -c 0"
endless() {
    # shellcheck disable=SC2086
    start "$program" $ENDLESS
    settle
}

# names_lost RANK LOST: whether the rank has an error that names the lost one.
names_lost() {
    grep -qE "^\[$1\] error: .*rank $2 \(" "$work/a" "$work/b"
}

killed() {
    local rank
    endless
    kill -KILL "$(cat "$work/pid.$1")"
    await_failure "rank $1 was killed"
    for rank in 0 1 2 3; do
        [ "$rank" = "$1" ] || names_lost "$rank" "$1" || fail "rank $rank does not say that rank $1 is lost"
    done
    echo "${label}rank $1 killed, named by the others within $after ms"
}

# A suspended rank is named by the others while it is suspended, and ends as well when it continues.
suspended() {
    local rank when
    endless
    kill -STOP "$(cat "$work/pid.$1")"
    when=$(date +%s%N)
    for rank in 0 1 2 3; do
        [ "$rank" = "$1" ] || until names_lost "$rank" "$1"; do
            after=$((($(date +%s%N) - when) / 1000000))
            [ $after -lt $(((MSCCLPP_HEARTBEAT_TIMEOUT * 2 + SLACK) * 1000)) ] ||
                fail "rank $rank does not say within $after ms that rank $1 is lost"
            sleep 0.1
        done
    done
    after=$((($(date +%s%N) - when) / 1000000))
    echo "${label}rank $1 suspended, named by the others within $after ms"
    kill -CONT "$(cat "$work/pid.$1")"
    await_failure "rank $1 was suspended"
    grep -qE "^\[$1\] error: " "$work/a" "$work/b" || fail "rank $1 does not say why it ends"
}

# A cable that is cut again and again, each time for less than the heartbeat timeout.
restored() {
    local time count cuts=0
    bench all_reduce -b 256K -e 256K -n 5 -w 1 || fail "bench"
    time=$(sed -n 's/.*"time_us": *\([0-9]*\).*/\1/p' "$work/a" | head -1)
    count=$(((${long:+5} + 5) * 1000000 / time + 1))
    start "$program" bench all_reduce -b 256K -e 256K -n $count -w 1 -c 1 --json
    settle 10
    while is_running; do
        ip -n b link set cable down
        sleep $OUTAGE
        ip -n b link set cable up
        cuts=$((cuts + 1))
        for _ in $(seq 40); do sleep 0.1; done
    done
    finish "the job did not continue after its cable was restored"
    grep -q '"wrong":0' "$work/a" || fail "wrong results"
    [ $cuts -gt 0 ] || fail "the job ended before its cable was cut"
    echo "$label$count calls right, the cable was cut $cuts times for $OUTAGE s"
}

# A cable that is cut while the ranks start, and restored before the heartbeat timeout.
joined() {
    start "$program" bench all_reduce -b 64K -e 64K -n 3 -w 1 -c 1 --json
    sleep "0.$((1 + RANDOM % 5))"
    ip -n b link set cable down
    sleep $OUTAGE
    ip -n b link set cable up
    finish "the ranks did not come together when the cable was restored"
    grep -q '"wrong":0' "$work/a" || fail "wrong results"
    echo "${label}right, with a cable that was cut for $OUTAGE s while the ranks started"
}

# A cable that is restored after the heartbeat timeout: the ranks do not continue, and hear why.
restored_late() {
    local rank
    endless
    ip -n b link set cable down
    for _ in $(seq $((MSCCLPP_HEARTBEAT_TIMEOUT * 14))); do sleep 0.1; done
    ip -n b link set cable up
    await_failure "the cable was restored after the timeout"
    for rank in 0 1 2 3; do
        grep -qE "^\[$rank\] error: .*no answer from (rank [0-3] \(|it for )" "$work/a" "$work/b" ||
            fail "rank $rank does not say that the cable was cut"
    done
    echo "${label}cable cut and restored after the timeout, named by all ranks"
}

faults() {
    local rank
    for rank in $victims; do
        killed "$rank"
        [ -z "$long" ] || suspended "$rank"
    done
    if [ -n "$long" ]; then
        # shellcheck disable=SC2086
        cut_cable "$program" $ENDLESS
        restored_late
        joined
    fi
    [ "$engine" = tcp ] || [ -n "$long" ] || return 0
    restored
}

if [ -n "$long" ]; then
    plans_between_nodes >"$work/plans"
    collectives="all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv gather scatter all_to_all_v barrier"
    expected_plans=15 victims="0 1 2 3"
else
    plans_between_nodes | grep -E "^(allreduce_hierarchical|allgather_ring_ports|alltoall_ports) " >"$work/plans"
    collectives="all_reduce broadcast" expected_plans=3 victims=3
fi

for link in ${LINKS:-rate loss delay}; do
    connect "$link" || continue
    for engine in ${ENGINES:-tcp ucx}; do
        # One link is enough for UCX where time is short.
        [ -n "$long" ] || [ "$engine" = tcp ] || [ "$link" = delay ] || continue
        label="$link, $engine: "
        export MSCCLPP_TRANSPORT=$engine
        if [ "$engine" = ucx ]; then
            MSCCLPP_UCX=$(MSCCLPP_UCX_INSTALL=0 scripts/ucx-env.sh) || continue
            export MSCCLPP_UCX UCX_TLS=tcp
        fi
        if [[ $parts = *" plans "* ]]; then plans cpu -b 4K -e 256K -f 64 -n 2 -w 1; fi
        if [[ $parts = *" calls "* ]]; then calls; fi
        if [[ $parts = *" devices "* ]] && [ -n "${MSCCLPP_MOCK_DEVICES:-}" ]; then plans cuda -b 4K -e 4K -n 1; fi
        if [[ $parts = *" faults "* ]]; then faults; fi
    done
    disconnect "$link"
done
