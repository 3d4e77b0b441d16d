#!/usr/bin/env bash
# Collectives on this machine, side by side with what else it has: ranks in processes of their own, and ranks as tasks of one.
#
# All contenders run in turns, round after round, in one run; times are medians of the slowest rank, inputs rewritten before and
# outputs read after each call, results verified; a size counts with its median over the rounds. Prints the times, then
# the ratios of each comparison with their geometric mean and the lowest.
#
# Peers are found, not shipped: Open MPI (mpicc, mpirun) and Gloo (libgloo-dev), and the programs that drive them and that say
# what the machine could do, host_roofline.c, mpi_bench.c and gloo_bench.cc, in the folder PEERS. What is missing is left out.
#
# Usage: PEERS=DIR scripts/bench-cpu.sh [MSCCLPP]     the program; the optimized build by default
#   ROUNDS=3           rounds
#   END=67108864       largest message, in bytes
#   RANKS="2 4 8"      numbers of ranks
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath -e "${1:-${CARGO_TARGET_DIR:-target}/dist/mscclpp}") || {
    echo "build it with \`cargo build --profile dist -p mscclpp-cli\`" >&2
    exit 2
}
peers=${PEERS:-}
rounds=${ROUNDS:-3}
end=${END:-67108864}
ranks=${RANKS:-2 4 8}
cores=$(nproc)
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
# Rows of all contenders: name, collective, ranks, bytes, microseconds.
rows=$work/rows
: >"$rows"

have() { command -v "$1" >/dev/null; }

# build COMPILER SOURCE ARGUMENTS...: whether there is a program now
build() {
    local compiler=$1 source=$2
    shift 2
    [ -n "$peers" ] && [ -e "$peers/$source" ] && have "$compiler" \
        && "$compiler" -O3 -march=native -o "$work/${source%.*}" "$peers/$source" "$@" 2>"$work/log"
}

build cc host_roofline.c -pthread && roof=1 || roof=0
build mpicc mpi_bench.c && have mpirun && mpi=1 || mpi=0
build g++ gloo_bench.cc -std=c++17 -lgloo -lpthread && gloo=1 || gloo=0
echo "# $(nproc) cores, load $(cut -d' ' -f1-3 /proc/loadavg); found: roofline $roof, Open MPI $mpi, Gloo $gloo"

# ours N COLLECTIVE NAME OPTIONS...: a process per rank, each on a core of its own if there are enough
ours() {
    local n=$1 collective=$2 name=$3 port=$((20000 + RANDOM % 20000)) rank bind=()
    shift 3
    for ((rank = n - 1; rank > 0; rank--)); do
        [ "$n" -le "$cores" ] && bind=(taskset -c "$rank")
        env RANK=$rank WORLD_SIZE="$n" LOCAL_RANK=$rank LOCAL_WORLD_SIZE="$n" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
            "${bind[@]}" "$program" bench "$collective" --json -e "$end" "$@" >/dev/null &
    done
    [ "$n" -le "$cores" ] && bind=(taskset -c 0)
    env RANK=0 WORLD_SIZE="$n" LOCAL_RANK=0 LOCAL_WORLD_SIZE="$n" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port \
        "${bind[@]}" "$program" bench "$collective" --json -e "$end" "$@" >"$work/json"
    wait
    note "$name" "$n"
}

# tasks N COLLECTIVE: all ranks in one process
tasks() {
    "$program" bench "$2" --virtual-ranks "$1" --json -e "$end" >"$work/json"
    note tasks "$1"
}

# note NAME N: keeps what was measured last
note() {
    # One object per line; keys as `mscclpp bench --help` says.
    awk -v name="$1" -v n="$2" '
        function value(key) { match($0, "\"" key "\":[^,}]*"); return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) }
        { gsub(/"/, "\"") ; if (value("wrong") + 0 > 0) { print "wrong results" > "/dev/stderr"; exit 1 }
          c = value("collective"); gsub(/["_]/, "", c); print name, c, n, value("bytes"), value("time_us") }' "$work/json" >>"$rows"
}

# openmpi N COLLECTIVES NAME OPTIONS... [-- OPTIONS OF THE BENCHMARK]
openmpi() {
    local n=$1 collectives=$2 name=$3 mca=()
    shift 3
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        mca+=("$1")
        shift
    done
    [ $# -gt 0 ] && shift
    mpirun --allow-run-as-root --oversubscribe "${mca[@]}" -np "$n" "$work/mpi_bench" --ops "$collectives" --max "$end" \
        --budget 0.3 "$@" 2>>"$work/log" | awk -v name="$name" '!/^#/ { gsub("_", "", $2); print name, $2, $3, $4, $5 }' >>"$rows"
}

for ((round = 1; round <= rounds; round++)); do
    for n in $ranks; do
        # Of more ranks only all-reduces are compared.
        collectives=all_reduce all=allreduce
        if [ "$n" = 2 ]; then
            collectives="all_reduce all_gather reduce_scatter all_to_all" all=allreduce,allgather,reduce_scatter,alltoall
        fi
        for collective in $collectives; do
            ours "$n" "$collective" registered
        done
        ours "$n" all_reduce private --unregistered
        if [ "$n" -gt 2 ]; then tasks "$n" all_reduce; fi
        if [ $mpi = 1 ]; then
            openmpi "$n" $all openmpi
            openmpi "$n" allreduce openmpi-sm --mca coll_sm_priority 100
            openmpi "$n" allreduce openmpi-no-cma --mca btl_vader_single_copy_mechanism none
            openmpi "$n" allreduce openmpi-huge -- --thp
        fi
    done
    [[ " $ranks " = *" 2 "* ]] || continue
    if [ $gloo = 1 ]; then
        "$work/gloo_bench" 2 --ops allreduce --max "$end" --budget 0.3 2>>"$work/log" \
            | awk '{ print "gloo", $2, $3, $4, $5 }' >>"$rows"
    fi
    if [ $roof = 1 ]; then
        # The best of the hand-written schemes counts.
        "$work/host_roofline" coll --max "$end" | awk '!/^#/ { split($1, part, "_"); c = $1
            sub(/^[a-z]*_/, "", c); sub(/_(oneshot|twoshot|staged|push|pull).*/, "", c); gsub("_", "", c)
            if (part[1] == "shm") print "roof:" $1, c, 2, $3, $4 }' >>"$rows"
    fi
    echo "# round $round of $rounds, load $(cut -d' ' -f1-3 /proc/loadavg)"
done

# Start-up: two ranks to their first result.
started() {
    local before after
    before=$(date +%s%N)
    "$@" >/dev/null 2>&1
    after=$(date +%s%N)
    echo $(((after - before) / 1000))
}
for ((round = 1; round <= rounds; round++)); do
    echo "registered startup 2 0 $(started "$program" launch -n 2 -- "$program" bench all_reduce -b 1K -e 1K -n 1 -w 0)" >>"$rows"
    if [ $mpi = 1 ]; then
        echo "openmpi startup 2 0 $(started mpirun --allow-run-as-root --oversubscribe -np 2 "$work/mpi_bench" --ops barrier \
            --maxiters 1 --miniters 1 --budget 0)" >>"$rows"
    fi
done

# The median over the rounds of everything, then the comparisons.
sort -k1,1 -k2,2 -k3,3n -k4,4n -k5,5g "$rows" | awk '
    { key = $1 " " $2 " " $3 " " $4; if (key != last) { flush(); last = key; count = 0 } times[count++] = $5 }
    function flush() { if (count) print last, times[int(count / 2)] }
    END { flush() }' >"$work/medians"
if [ -n "${TIMES:-}" ]; then cat "$work/medians"; fi
awk '
    { time[$1, $2, $3, $4] = $5
      if (!(($2, $3, $4) in seen)) { seen[$2, $3, $4] = 1; sizes[$2, $3] = sizes[$2, $3] " " $4 }
      if ($1 ~ /^openmpi/) best("openmpi-best", $2, $3, $4, $5)
      if ($1 ~ /^roof:/) best("roof", $2, $3, $4, $5) }
    function best(name, c, n, b, t) { if (!((name, c, n, b) in time) || t < time[name, c, n, b]) time[name, c, n, b] = t }
    # compare(TITLE, OURS, PEER, COLLECTIVE, RANKS, FROM, TO): how many times as long the peer takes
    function compare(title, ours, peer, c, n, from, to,    list, m, i, b, r, sum, k, low, text) {
        m = split(sizes[c, n], list, " ")
        for (i = 1; i <= m; i++) for (k = i + 1; k <= m; k++) if (list[k] + 0 < list[i] + 0) { b = list[i]; list[i] = list[k]; list[k] = b }
        low = 1e9; k = 0
        for (i = 1; i <= m; i++) {
            b = list[i]
            if (b < from || b > to || !((ours, c, n, b) in time) || !((peer, c, n, b) in time)) continue
            r = time[peer, c, n, b] / time[ours, c, n, b]
            text = text sprintf(" %s:%.2f", short(b), r); sum += log(r); k++; if (r < low) low = r
        }
        if (k) printf "%-58s geomean %6.2f  lowest %6.2f  (%s )\n", title, exp(sum / k), low, text
    }
    function short(b) { return b >= 1048576 ? b / 1048576 "M" : b >= 1024 ? b / 1024 "K" : b "" }
    END {
        compare("A10 all-reduce, registered : best Open MPI", "registered", "openmpi-best", "allreduce", 2, 0, 1e18)
        compare("A11 all-reduce, private : best Open MPI", "private", "openmpi-best", "allreduce", 2, 0, 1e18)
        compare("A12 reduce-scatter, registered : Open MPI", "registered", "openmpi", "reducescatter", 2, 0, 1e18)
        compare("A13 all-gather, registered : Open MPI", "registered", "openmpi", "allgather", 2, 0, 1e18)
        compare("A13 all-to-all, registered : Open MPI", "registered", "openmpi", "alltoall", 2, 0, 1e18)
        compare("A14 all-reduce, registered : hand-written", "registered", "roof", "allreduce", 2, 0, 1e18)
        compare("A14 all-gather, registered : hand-written", "registered", "roof", "allgather", 2, 0, 1e18)
        compare("A14 reduce-scatter, registered : hand-written", "registered", "roof", "reducescatter", 2, 0, 1e18)
        compare("A14 all-to-all, registered : hand-written", "registered", "roof", "alltoall", 2, 0, 1e18)
        for (n = 4; n <= 8; n += 4) {
            row = n == 4 ? "A16" : "A17"
            compare(row " all-reduce, " n " ranks as tasks : best Open MPI", "tasks", "openmpi-best", "allreduce", n, 0, 1e18)
            compare(row " all-reduce, " n " processes : best Open MPI", "registered", "openmpi-best", "allreduce", n, 0, 1e18)
            compare(row " all-reduce, " n " processes, private : best Open MPI", "private", "openmpi-best", "allreduce", n, 0, 1e18)
        }
        compare("A18 all-reduce, registered, up to 16K : Gloo", "registered", "gloo", "allreduce", 2, 0, 16384)
        compare("A18 all-reduce, private, up to 16K : Gloo", "private", "gloo", "allreduce", 2, 0, 16384)
        compare("A18 all-reduce, registered, from 1M : Gloo", "registered", "gloo", "allreduce", 2, 1048576, 1e18)
        compare("A18 all-reduce, private, from 1M : Gloo", "private", "gloo", "allreduce", 2, 1048576, 1e18)
        compare("A19 start-up, 2 ranks : mpirun", "registered", "openmpi", "startup", 2, 0, 1e18)
    }' "$work/medians"
