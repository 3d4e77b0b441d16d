#!/usr/bin/env bash
# Everything that only a CUDA device can show, with a log of each part.
#
# Usage: scripts/gpu.sh [PART...]          builds, then runs these parts; all by default
#        scripts/gpu.sh build DIR          builds, and puts the programs and this script into DIR, for a machine without Rust
#        DIR/gpu.sh [PART...]              runs them there
#
#   suite       every test of the executor on the device: plans, types, graphs (10 000 replays between eager launches), stalls
#   memcheck    the same on small messages, under compute-sanitizer
#   racecheck   some of it, on small messages, under compute-sanitizer
#   rows        everything that is promised for one device, and whether it is reached
#   bench       `mscclpp bench` of all collectives on 2, 4 and 8 virtual ranks
#
# LOGS: where logs go (gpu-logs). MSCCLPP_NVRTC: what compiles at run time, if it is neither beside a toolkit nor in python3's packages.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

build() { # DIR
    local dir=$1
    mkdir -p "$dir"
    # Executables by their target's name, as cargo tells them.
    cargo build --release --manifest-path "$here/../Cargo.toml" -p mscclpp-cli -p mscclpp-kernels --bins --tests --benches \
        --message-format json-render-diagnostics | awk -F'"' '/"executable":"/ {
            name = executable = ""
            for (i = 1; i < NF; ++i) {
                if ($i == "name" && name == "") name = $(i + 2)
                if ($i == "executable") executable = $(i + 2)
            }
            if (name ~ /^(device|cuda|mscclpp)$/ && executable != "") print name, executable }' |
        while read -r name executable; do
            case "$name:$executable" in
                device:*|cuda:*|mscclpp:*/release/mscclpp) install -s "$executable" "$dir/$name" ;;
            esac
        done
    cp "$here/gpu.sh" "$dir/"
}

if [ "${1:-}" = build ]; then
    build "${2:?where to}"
    exit
fi

if [ -x "$here/device" ]; then
    programs=$here
else
    programs=${CARGO_TARGET_DIR:-$here/../target}/gpu
    build "$programs"
fi
logs=${LOGS:-gpu-logs}
mkdir -p "$logs"
logs=$(cd "$logs" && pwd)

# Toolkits keep it in one of these places, Python's wheels in the others.
if [ -z "${MSCCLPP_NVRTC:-}" ]; then
    packages=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])' 2>/dev/null || true)
    for library in "$packages"/nvidia/cu13/lib/libnvrtc.so.1? "$packages"/nvidia/cuda_nvrtc/lib/libnvrtc.so.1? \
        /usr/local/cuda/lib64/libnvrtc.so.1?; do
        if [ -e "$library" ]; then
            export MSCCLPP_NVRTC=$library
            break
        fi
    done
fi

{
    date -u +%F
    command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
    "$programs/mscclpp" doctor | grep CUDA
} | tee "$logs/machine"
if ! grep -q '^CUDA driver *ok' "$logs/machine"; then
    echo "skipped: there is no device"
    exit
fi

failed=()
part() { # NAME COMMAND...
    local name=$1
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$logs/$name" | tail -n "${TAIL:-15}" || failed+=("$name")
}

sanitizer() { # TOOL FILTER
    command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer"; return; }
    MSCCLPP_SMALL=1 compute-sanitizer --tool "$1" --error-exitcode 9 "$programs/device" "$2" --test-threads 1
}

bench() {
    local collective
    for collective in all_reduce all_gather reduce_scatter all_to_all broadcast reduce; do
        "$programs/mscclpp" bench "$collective" --backend cuda --virtual-ranks 2,4,8
    done
}

for wanted in "${@:-all}"; do
    known=
    is() { [ "$wanted" = "$1" ] || [ "$wanted" = all ]; }
    if is suite; then known=1; part suite "$programs/device" cuda:: --test-threads 1; fi
    if is memcheck; then known=1; part memcheck sanitizer memcheck cuda::; fi
    if is racecheck; then known=1; part racecheck sanitizer racecheck cuda::plans::allreduce; fi
    if is rows; then known=1; TAIL=40 part rows "$programs/cuda" rows; fi
    if is bench; then known=1; TAIL=80 part bench bench; fi
    [ -n "$known" ] || { echo "expected suite, memcheck, racecheck, rows, bench or build, found $wanted" >&2; exit 2; }
done
printf '\nlogs: %s\n' "$logs"
if [ "${#failed[@]}" -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
