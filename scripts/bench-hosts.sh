#!/usr/bin/env bash
# Collectives between two "hosts" on this machine, side by side with Open MPI: two network namespaces that a cable joins.
#
# All contenders run in turns, round after round, in one run: `mscclpp bench` over each engine of ENGINES, Open MPI over TCP and
# over UCX with TCP (without RDMA there is nothing else between hosts; shared memory between the namespaces is excluded). Times are
# medians of the slowest rank, inputs rewritten before and outputs read after each call, results verified. Prints a row per
# collective and size: the medians over the rounds, and how many times as long the best of Open MPI takes as the best of ours,
# with the lowest and highest ratio of any two rounds; then the geometric mean and the worst row.
#
# Needs root or user namespaces, and Debian's openmpi-bin and libopenmpi-dev; without them it says so and ends with 0.
#
# Usage: scripts/bench-hosts.sh [MSCCLPP]     the program; the optimized build by default
#   ROUNDS=3                 rounds
#   BEGIN=1024 END=67108864 FACTOR=4   sizes in bytes
#   PER_HOST=1               ranks on each host
#   COLLECTIVES="…"          all by default
#   ENGINES="tcp"            values of MSCCLPP_TRANSPORT
#   ITERATIONS=              calls per size; by default `mscclpp bench` and a time limit decide
#   RATE=                    rate of the cable, as for `tc … tbf rate`, such as 1gbit; unlimited by default
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/namespaces.sh

program=$(realpath -e "${1:-${CARGO_TARGET_DIR:-target}/dist/mscclpp}" 2>/dev/null) || {
    echo "build it with \`cargo build --profile dist -p mscclpp-cli\`" >&2
    exit 2
}
rounds=${ROUNDS:-3} begin=${BEGIN:-1024} end=${END:-67108864} factor=${FACTOR:-4} per=${PER_HOST:-1}
collectives=${COLLECTIVES:-all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv}
engines=${ENGINES:-tcp} iterations=${ITERATIONS:-}
readonly PORT=29531 SECONDS_PER_SIZE=0.5

for tool in ip mpicc mpirun; do
    command -v "$tool" >/dev/null || skip "there is no \`$tool\`; install iproute2, openmpi-bin and libopenmpi-dev"
done
UNSHARE=--mount-proc enter "$program"
create_hosts
connect_hosts
[ -z "${RATE:-}" ] || limit_rate "$RATE" 256kb

# Each host has its half of the processors, for all contenders: Open MPI would bind the ranks of both hosts to the first one.
half=$(($(nproc) / 2))
if [ "$half" -gt 0 ]; then
    declare -A processors=([a]=0-$((half - 1)) [b]=$half-$(($(nproc) - 1)))
else
    declare -A processors=([a]=0 [b]=0)
fi

# on HOST COMMAND...
on() {
    taskset -c "${processors[$1]}" ip netns exec "$@"
}

# Open MPI starts its daemon on the other host by this program instead of ssh.
cat >"$work/agent" <<AGENT
#!/bin/sh
shift
exec taskset -c ${processors[b]} ip netns exec b unshare -u sh -c "hostname host-b; \$*"
AGENT
chmod +x "$work/agent"
mpicc -O3 -o "$work/bench-hosts" scripts/bench-hosts.c

export MSCCLPP_TIMEOUT=120
rows=$work/rows
: >"$rows"

# ours ENGINE COLLECTIVE
ours() {
    local node host=(a b) pids=() pid options=(-b "$begin" -e "$end" -f "$factor" --json)
    [ -z "$iterations" ] || options+=(-n "$iterations" -w 2)
    for node in 1 0; do
        UCX_TLS=tcp,self MSCCLPP_TRANSPORT=$1 MSCCLPP_HOST_ID=${host[node]} on "${host[node]}" "$program" launch -n "$per" --nodes 2 \
            --node "$node" --address "10.77.0.1:$PORT" --no-prefix -- "$program" bench "$2" "${options[@]}" \
            >"$work/json.$node" 2>"$work/log.$node" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || {
            sed 's/^/ours: /' "$work"/log.* >&2
            exit 1
        }
    done
    awk -v name="ours-$1" -v c="$2" '
        function value(key) { match($0, "\"" key "\":[^,}]*"); return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) }
        { if (value("wrong") + 0 > 0) { print "wrong results" > "/dev/stderr"; exit 1 }
          print name, c, value("bytes"), value("time_us") }' "$work/json.0" >>"$rows"
}

# openmpi NAME COLLECTIVE OPTIONS...
openmpi() {
    local name=$1 collective=$2
    shift 2
    on a unshare -u sh -c 'hostname host-a; exec "$@"' sh mpirun --allow-run-as-root --oversubscribe --bind-to none \
        --mca plm_rsh_agent "$work/agent" --mca oob_tcp_if_include cable --mca mpi_yield_when_idle 0 \
        --host "10.77.0.1:$per,10.77.0.2:$per" -np $((2 * per)) "$@" \
        "$work/bench-hosts" "$collective" "$begin" "$end" "$factor" $SECONDS_PER_SIZE $iterations >"$work/mpi" 2>"$work/log" || {
        sed "s/^/$name: /" "$work/log" >&2
        exit 1
    }
    awk -v name="$name" '{ print name, $1, $3, $4 }' "$work/mpi" >>"$rows"
}

echo "# $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%F), 2 hosts of $per ranks, rate ${RATE:-unlimited}, $(mpirun --version 2>/dev/null | head -1)"
for ((round = 1; round <= rounds; round++)); do
    for collective in $collectives; do
        for engine in $engines; do
            ours "$engine" "$collective"
        done
        openmpi mpi-tcp "$collective" --mca pml ob1 --mca btl tcp,self,vader --mca btl_tcp_if_include cable
        UCX_TLS=tcp,self,sm UCX_NET_DEVICES=cable openmpi mpi-ucx "$collective" --mca pml ucx --mca pml_ucx_tls any \
            --mca pml_ucx_devices any -x UCX_TLS=tcp,self -x UCX_NET_DEVICES=cable
    done
    echo "# round $round of $rounds, load $(cut -d' ' -f1-3 /proc/loadavg)"
done

# Per contender, collective and size: the median, the lowest and the highest of the rounds.
sort -k1,1 -k2,2 -k3,3n -k4,4g "$rows" | awk '
    { key = $1 " " $2 " " $3; if (key != last) { flush(); last = key; count = 0 } times[count++] = $4 }
    function flush() { if (count) print last, times[int(count / 2)], times[0], times[count - 1] }
    END { flush() }' | sort -k2,2 -k3,3n | awk '
    function short(b) { return b >= 1048576 ? b / 1048576 "M" : b >= 1024 ? b / 1024 "K" : b "" }
    function row(    r, low, high) {
        if (!("ours" in med) || !("mpi" in med)) return
        r = med["mpi"] / med["ours"]; low = min["mpi"] / max["ours"]; high = max["mpi"] / min["ours"]
        printf "%-15s %6s  %-40s %-42s %6.2f (%.2f to %.2f)\n", c, short(b), text["ours"], text["mpi"], r, low, high
        sum += log(r); rows++; under += high < 0.9
        if (worst == "" || r < worst) { worst = r; where = c " " short(b) sprintf(" (%.2f to %.2f)", low, high) }
    }
    { kind = $1 ~ /^ours/ ? "ours" : "mpi"
      if ($2 != c || $3 != b) { row(); delete med; delete text; c = $2; b = $3 }
      text[kind] = text[kind] $1 " " sprintf("%.1f", $4) " us  "
      if (!(kind in med) || $4 < med[kind]) { med[kind] = $4; min[kind] = $5; max[kind] = $6 } }
    END { row()
          if (rows) printf "geometric mean %.2f of %d rows, worst %.2f: %s; %d rows whose whole spread is under 0.9\n",
                           exp(sum / rows), rows, worst, where, under }'
