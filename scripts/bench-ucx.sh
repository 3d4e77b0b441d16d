#!/usr/bin/env bash
# Puts of the UCX engine between two processes of this machine, side by side with UCX's own benchmark, over the same transports.
#
# Both take turns, round after round, with a processor for each process. The engine moves memory to memory of the other process, as the
# process executor does: puts of at most its maximum, and a signal after each message. Of `ucx_perftest` these are the tests of
# active messages, tags and puts, of which the last writes to the same bytes again and again and tells the peer nothing. Prints per size
# the best round of each, and the engine's part of the best and of the worst of UCX's tests: bandwidth in MB/s of 2^20 bytes, times to
# the other process in microseconds.
#
# The benchmark has error handling where the engine has it, that is except over shared memory: UCX then reports a lost peer, and does
# without transports and protocols that cannot.
#
# Needs Debian's ucx-utils, or another `ucx_perftest`; without it, says so and ends with 0.
#
# Usage: scripts/bench-ucx.sh [UCX_TLS]...     values of the variable; `tcp`, `posix` and `posix,cma` by default
#   MSCCLPP_UCX=            the library; the one that the benchmark uses by default
#   UCX_PERFTEST=           the benchmark; `ucx_perftest` by default
#   TEST_PROGRAM=           unit tests of mscclpp-exec; built with optimization by default
#   TRANSPORT=ucx           the engine; `tcp` measures the other one
#   ROUNDS=3                rounds
#   ERROR_HANDLING=         1 or 0: whether the benchmark has it
#   UCX_NET_DEVICES=lo      devices for `tcp`
set -euo pipefail
cd "$(dirname "$0")/.."

perftest=$(command -v "${UCX_PERFTEST:-ucx_perftest}") || {
    echo "skipped: there is no \`${UCX_PERFTEST:-ucx_perftest}\`; install ucx-utils"
    exit 0
}
MSCCLPP_UCX=${MSCCLPP_UCX:-$(ldd "$perftest" | awk '$1 == "libucp.so.0" { print $3 }')}
MSCCLPP_TRANSPORT=${TRANSPORT:-ucx}
UCX_LOG_LEVEL=${UCX_LOG_LEVEL:-error}
UCX_NET_DEVICES=${UCX_NET_DEVICES:-lo}
export MSCCLPP_UCX MSCCLPP_TRANSPORT UCX_LOG_LEVEL UCX_NET_DEVICES
readonly test=process::wire::bandwidth::engine_moves_memory_to_that_of_another_process
program=${TEST_PROGRAM:-$(cargo test --quiet --profile dist -p mscclpp-exec --lib --no-run --message-format json |
    sed -n 's/.*"name":"mscclpp_exec".*"executable":"\([^"]*\)".*/\1/p')}
rounds=${ROUNDS:-3}
[ $# -gt 0 ] || set -- tcp posix posix,cma
first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
last=$(taskset -cp $$ | sed 's/.*[-, ]//')

work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT

# perftest TEST SIZE COUNT: prints the size, the test, and microseconds or MB/s
perftest() {
    local port=$((20000 + RANDOM % 20000)) server options=(-t "$1" -s "$2" -n "$3" -w $(($3 / 10 + 1)) -f)
    [ "$errors" = 0 ] || options+=(-e)
    taskset -c "$first" "$perftest" -p "$port" >"$work/server" 2>&1 &
    server=$!
    for _ in $(seq 100); do
        ! grep -q "^ *[0-9]*: 0*:$(printf %04X "$port") 0*:0000 0A" /proc/net/tcp || break
        sleep 0.02
    done
    taskset -c "$last" "$perftest" 127.0.0.1 -p "$port" "${options[@]}" >"$work/client" 2>&1 || {
        cat "$work/client" >&2
        exit 1
    }
    wait "$server" || true
    # Columns: iterations; the latency's median, average and overall average; bandwidth and rate, average and overall.
    tail -1 "$work/client" | awk -v test="$1" -v size="$2" '{ print size, test, test ~ /_lat$/ ? $2 : $6 }'
}

for UCX_TLS in "$@"; do
    # UCX needs `self` for its own endpoints.
    export UCX_TLS=$UCX_TLS,self
    case $UCX_TLS in
    *posix* | *sysv* | *cma* | *xpmem* | sm,* | shm,* | all,*) errors=${ERROR_HANDLING:-0} ;;
    *) errors=${ERROR_HANDLING:-1} ;;
    esac
    : >"$work/rows"
    for ((round = 1; round <= rounds; round++)); do
        "$program" --exact "$test" --ignored --nocapture 2>"$work/log" >"$work/engine" || {
            echo "UCX_TLS=$UCX_TLS: the engine cannot be measured: $(grep -m1 -A1 panicked "$work/log" | tail -1)"
            continue 2
        }
        awk '$2 == "us" || $2 == "MB/s" { print $1, "engine", $3 }' "$work/engine" >>"$work/rows"
        for size in 8 1024; do
            for kind in ucp_am_lat tag_lat; do perftest $kind $size 5000 >>"$work/rows"; done
        done
        for size_count in 65536:800 1048576:80 16777216:4 67108864:2; do
            for kind in ucp_am_bw tag_bw ucp_put_bw; do perftest $kind ${size_count/:/ } >>"$work/rows"; done
        done
    done
    echo "# UCX_TLS=$UCX_TLS, $MSCCLPP_TRANSPORT engine with $MSCCLPP_UCX, next to $perftest$([ "$errors" = 0 ] || echo " -e"), $(date -u +%F), load $(cut -d' ' -f1-3 /proc/loadavg)"
    awk '
        { key = $1 " " $2; is_time = $1 < 65536
          if (!(key in best) || (is_time ? $3 < best[key] : $3 > best[key])) best[key] = $3
          if ($2 != "engine") tests[$1] = tests[$1] ~ $2 ? tests[$1] : tests[$1] " " $2
          if (!seen[$1]++) order[n++] = $1 }
        END { for (i = 0; i < n; i++) {
            size = order[i]; is_time = size < 65536; own = best[size " engine"]; m = split(tests[size], names, " "); text = ""; top = bottom = ""
            for (j = 1; j <= m; j++) {
                v = best[size " " names[j]]; r = is_time ? v / own : own / v; text = text sprintf("  %s %s", names[j], v)
                if (bottom == "" || r < bottom) bottom = r
                if (top == "" || r > top) top = r
            }
            printf "%9d  engine %9.2f %-4s %-60s  %.2f to %.2f\n", size, own, is_time ? "us" : "MB/s", text, bottom, top
        } }' "$work/rows"
done
