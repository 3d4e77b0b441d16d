#!/usr/bin/env bash
# All-to-alls with parts of any lengths between processes of this machine, side by side with `MPI_Alltoallv` of Open MPI.
#
# `mscclpp bench all_to_all_v` on registered buffers and scripts/bench-hosts.c take turns, round after round, each with a processor
# for every rank if there are enough. Both state the lengths on both sides; a rank sends one other rank SKEW times as much as each
# of the rest. Times are medians of the slowest rank, inputs rewritten before and outputs read after each call, results verified.
# Prints a row per number of ranks, skew and size: the medians over the rounds, and how many times as long Open MPI takes, with the
# lowest and highest ratio of the two times of a round; then the geometric mean and the lowest row for each number of ranks and skew.
#
# Needs Debian's openmpi-bin and libopenmpi-dev.
#
# Usage: scripts/bench-counts.sh [MSCCLPP]     the program; the optimized build by default
#   ROUNDS=5                           rounds
#   BEGIN=1024 END=16777216 FACTOR=4   sizes in bytes, of the parts of a rank together
#   RANKS="2 4" SKEWS="1 8"            numbers of ranks, and skews
#   OPTIONS=                           options of `mscclpp bench`, such as --unregistered
set -euo pipefail
cd "$(dirname "$0")/.."

program=$(realpath -e "${1:-${CARGO_TARGET_DIR:-target}/dist/mscclpp}" 2>/dev/null) || {
    echo "build it with \`cargo build --profile dist -p mscclpp-cli\`" >&2
    exit 2
}
rounds=${ROUNDS:-5} begin=${BEGIN:-1024} end=${END:-16777216} factor=${FACTOR:-4} ranks=${RANKS:-2 4} skews=${SKEWS:-1 8}
readonly SECONDS_PER_SIZE=0.2
for tool in mpicc mpirun; do
    command -v "$tool" >/dev/null || {
        echo "there is no \`$tool\`; install openmpi-bin and libopenmpi-dev" >&2
        exit 2
    }
done
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
mpicc -O3 -o "$work/bench-hosts" scripts/bench-hosts.c
rows=$work/rows
: >"$rows"
MSCCLPP_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d " \n")
export MSCCLPP_SECRET

# ours RANKS SKEW ROUND
ours() {
    local n=$1 port=$((20000 + RANDOM % 20000)) rank bind=() pids=() pid
    for ((rank = n - 1; rank >= 0; rank--)); do
        [ "$n" -le "$(nproc)" ] && bind=(taskset -c "$rank")
        # shellcheck disable=SC2086
        env RANK=$rank WORLD_SIZE="$n" LOCAL_RANK=$rank LOCAL_WORLD_SIZE="$n" MASTER_ADDR=127.0.0.1 MASTER_PORT=$port "${bind[@]}" \
            "$program" bench all_to_all_v --skew "$2" -b "$begin" -e "$end" -f "$factor" --json ${OPTIONS:-} >"$work/json.$rank" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
    awk -v n="$n" -v skew="$2" -v round="$3" '
        function value(key) { match($0, "\"" key "\":[^,}]*"); return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) }
        { if (value("wrong") + 0 > 0) { print "wrong results" > "/dev/stderr"; exit 1 }
          print n, skew, value("bytes"), round, "ours", value("time_us") }' "$work/json.0" >>"$rows"
}

# openmpi RANKS SKEW ROUND
openmpi() {
    mpirun --allow-run-as-root --oversubscribe -np "$1" "$work/bench-hosts" all_to_all_v "$begin" "$end" "$factor" $SECONDS_PER_SIZE \
        0 "$2" >"$work/mpi"
    awk -v n="$1" -v skew="$2" -v round="$3" '{ print n, skew, $3, round, "mpi", $4 }' "$work/mpi" >>"$rows"
}

echo "# $(nproc) processors, load $(cut -d' ' -f1-3 /proc/loadavg), $(date -u +%F), $(mpirun --version 2>/dev/null | head -1), $rounds rounds"
for ((round = 1; round <= rounds; round++)); do
    for n in $ranks; do
        for skew in $skews; do
            ours "$n" "$skew" "$round"
            openmpi "$n" "$skew" "$round"
        done
    done
done

sort -k1,1n -k2,2n -k3,3n -k4,4n "$rows" | awk '
    function short(b) { return b >= 1048576 ? b / 1048576 "M" : b >= 1024 ? b / 1024 "K" : b "" }
    function median(list, count,    i, k, t) {
        for (i = 1; i < count; i++) for (k = i; k > 0 && list[k] < list[k - 1]; k--) { t = list[k]; list[k] = list[k - 1]; list[k - 1] = t }
        return count % 2 ? list[int(count / 2)] : (list[count / 2 - 1] + list[count / 2]) / 2
    }
    function row(    i, a, b, r, low, high, pairs) {
        pairs = 0
        for (i in ours) if (i in mpi) {
            r = mpi[i] / ours[i]; a[pairs] = ours[i]; b[pairs] = mpi[i]; pairs++
            if (pairs == 1 || r < low) low = r
            if (pairs == 1 || r > high) high = r
        }
        if (!pairs) return
        r = median(b, pairs) / median(a, pairs)
        printf "%d ranks, skew %d %6s  %10.1f us  MPI %10.1f us  %6.2f (%.2f to %.2f)\n", n, skew, short(bytes), median(a, pairs), median(b, pairs), r, low, high
        group = n " ranks, skew " skew
        if (!(group in count)) { order[groups++] = group; lowest[group] = r }
        sum[group] += log(r); count[group]++
        if (r <= lowest[group]) { lowest[group] = r; where[group] = short(bytes) sprintf(" (%.2f to %.2f)", low, high) }
    }
    { key = $1 " " $2 " " $3
      if (key != last) { row(); delete ours; delete mpi; last = key; n = $1; skew = $2; bytes = $3 }
      if ($5 == "ours") ours[$4] = $6; else mpi[$4] = $6 }
    END { row()
          for (i = 0; i < groups; i++) { g = order[i]
              printf "%s: geometric mean %.2f of %d sizes, lowest %.2f at %s\n", g, exp(sum[g] / count[g]), count[g], lowest[g], where[g] } }'
