#!/usr/bin/env bash
# Everything that only a CUDA device can show, part by part, with a log.
#
# Usage: scripts/gpu.sh [PART...]          builds, then runs these parts in this order; all but `bench` by default
#        scripts/gpu.sh build DIR          builds, and puts the programs and this script into DIR and DIR.tar.xz, for a machine without Rust
#        DIR/gpu.sh [PART...]              runs them there
#
#   smoke            whether the programs run here at all, and a few launches of each kind
#   suite            all tests of the executor on the device; or some: plans bits graphs stalls streams specialized native worlds
#   processes        2 and 4 processes on the device: memory by handles, by descriptors, and as ranks of two hosts
#   ucx              processes as ranks of two hosts over UCX, through memory of the host, and with UCX on memory of the device
#   rows[:B1,B2[:A[:SIZE]]]
#                    what is promised for one device, and whether it is reached; some rows, in this order, with algorithms A alone
#                    where there is a choice (names with commas between them; empty for all), up to messages of SIZE (such as 1M)
#   nccl[:JOBS]      PyTorch of python3 on this NCCL library: jobs of two ranks that share the device, and times of several ranks;
#                    the job memory needs multicast objects
#   torch[:JOBS]     the same jobs on the backend of mscclpp-python
#   bench            `mscclpp bench` of all collectives on 2, 4 and 8 virtual ranks
#   machine          `mscclpp machine measure` of the device, and of all devices if there are several: the descriptions, and the error of
#                    predictions on them
#   planted          bugs that the sanitizers must find
#   memcheck[:FILTER], racecheck[:FILTER]
#                    the tests whose names contain FILTER on small messages under compute-sanitizer; by default all plans, for memcheck
#                    also specialized kernels, kernels of users, all types and lengths
#
# BUDGET: seconds for all parts together; a part gets what is left of them, and at most its own limit. LIMIT: seconds for each part
# instead of these. LOGS or OUT: where logs go (gpu-logs), one for each call. MSCCLPP_NVRTC: what compiles at run time, if it is
# neither beside a toolkit nor in python3's packages.
#
# A quarter of an hour with one H200, in three calls, the most telling first. Before, where there is Rust: `scripts/gpu.sh build target/gpu`. The archive
# target/gpu.tar.xz, which git ignores, is all that has to be carried to the machine: `python3 -m tarfile -e target/gpu.tar.xz target`, then
#
#   BUDGET=280 target/gpu/gpu.sh rows:b4,b5:allreduce_one_shot_packets,allreduce_packets,allreduce_all_pairs:1M rows:b1:allreduce_one_shot_packets,allreduce_packets rows:b7 rows:b2,b3,b10:allreduce_all_pairs,allgather_all_pairs,reducescatter_all_pairs,alltoall_direct rows:b14::16M
#   BUDGET=330 target/gpu/gpu.sh streams worlds native stalls graphs processes bits nccl torch ucx plans
#   BUDGET=170 LIMIT=60 target/gpu/gpu.sh rows:b6,b8,b11 rows:b9 rows:b12,b13 planted memcheck racecheck
#
# Seconds that parts took on an H200: smoke 45, native 1, stalls 3, graphs 8, bits 21, processes 7, plans 89, nccl 85, torch 90, rows b9 30,
# b6 b7 b8 b11 30 together; specialized takes more than 75, and b4 of all sizes more than 60. A row without algorithms of its own tries all of them.
#
# Each row's log begins with what the device can do at best: L, the launch of an empty kernel; G, the same in a graph; F, a flag
# through the L2 cache; C, a copy.
# Rows of small messages (b1 b4 b6 b7 b8 b11) end with three stamps of the device's clock per launch (%globaltimer: first thread block
# starts, first store, finish), by kernels that are compiled for that; it needs MSCCLPP_NVRTC as above.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

usage() {
    sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0"
}

build() { # DIR
    local dir=${1%/}
    mkdir -p "$dir"
    # Executables by their target's name, as cargo tells them.
    cargo build --profile dist --manifest-path "$here/../Cargo.toml" -p mscclpp-nccl -p mscclpp-python
    cargo build --profile dist --manifest-path "$here/../Cargo.toml" -p mscclpp-cli -p mscclpp-dev --bin mscclpp --test device \
        --bench cuda --message-format json-render-diagnostics | awk -F'"' '/"executable":"/ {
            name = executable = ""
            for (i = 1; i < NF; ++i) {
                if ($i == "name" && name == "") name = $(i + 2)
                if ($i == "executable") executable = $(i + 2)
            }
            if (name ~ /^(device|cuda|mscclpp)$/ && executable != "") print name, executable }' |
        while read -r name executable; do install -s "$executable" "$dir/$name"; done
    local target=${CARGO_TARGET_DIR:-$here/../target}
    install -s "$target/dist/libmscclpp_nccl.so" "$dir/libnccl.so.2"
    rm -rf "$dir/python"
    cp -rL "$("$here/python-package.sh" "$target/dist/libmscclpp_rs.so" "$target/python-package-gpu")" "$dir/python"
    strip "$dir/python/mscclpp_rs/_native.abi3.so"
    cp "$here"/../dev/tests/python/*.py "$here"/../dev/benches/python/*.py "$dir/python/"
    rm -rf "$dir/ucx"
    if library=$(MSCCLPP_UCX='' "$here/ucx-env.sh"); then cp -r "$(dirname "$library")" "$dir/ucx"; fi
    cp "$here/gpu.sh" "$dir/"
    du -h "$dir"/* | sed 's/^/  /'
}

pack() { # DIR
    local dir=${1%/}
    # The programs have the same kernels in them, so a dictionary that holds several of them makes it a fifth as long.
    tar -c -C "$(dirname "$dir")" "$(basename "$dir")" | xz --lzma2=preset=6,dict=192MiB >"$dir.tar.xz"
    du -h "$dir.tar.xz" | sed 's/^/  /'
}

case "${1:-}" in -h | --help)
    usage
    exit
    ;;
esac
if [ "${1:-}" = build ]; then
    build "${2:?where to}"
    pack "$2"
    exit
fi

[ $# -gt 0 ] || set -- smoke suite processes ucx nccl torch rows machine planted memcheck racecheck
for wanted; do
    case ${wanted%%:*} in
        smoke | suite | plans | bits | graphs | stalls | streams | specialized | native | worlds | processes | ucx) ;;
        nccl | torch | rows | bench | machine | planted | memcheck | racecheck) ;;
        *)
            usage >&2
            echo "expected a part, found $wanted" >&2
            exit 2
            ;;
    esac
done

if [ -x "$here/device" ]; then
    programs=$here
else
    programs=${CARGO_TARGET_DIR:-$here/../target}/gpu
    build "$programs"
fi
logs=${LOGS:-${OUT:-gpu-logs}}
mkdir -p "$logs"
log=$(cd "$logs" && pwd)/gpu-$(date -u +%H%M%S).log
PATH=$PATH:/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer

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

# What it finds absent is no reason to stop.
doctor=$("$programs/mscclpp" doctor 2>&1) || true
{
    date -u +%F
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null || echo "no nvidia-smi"
    echo "NVRTC: ${MSCCLPP_NVRTC:-as the loader finds it}"
    printf '%s\n' "$doctor" | grep CUDA || printf '%s\n' "$doctor"
} | tee "$log"
if ! grep -q '^CUDA driver *ok' <<<"$doctor"; then
    echo "skipped: there is no device"
    exit
fi

failed=()
part_end=0

# Runs a command in what is left of a part's time.
limited() {
    local left=$((part_end - SECONDS))
    timeout --kill-after 5 "$((left > 1 ? left : 1))" "$@"
}

part() { # LIMIT NAME COMMAND...
    local limit=${LIMIT:-$1} name=$2 began=$SECONDS status=0
    shift 2
    part_end=$((SECONDS + limit))
    if [ -n "${BUDGET:-}" ] && [ "$part_end" -gt "$BUDGET" ]; then part_end=$BUDGET; fi
    if [ $((part_end - SECONDS)) -lt 5 ]; then
        echo "== $name: skipped, no time is left" | tee -a "$log"
        failed+=("$name (no time)")
        return
    fi
    printf '\n== %s, at most %s s\n' "$name" "$((part_end - SECONDS))" | tee -a "$log"
    # The log has all lines; here those are left out that say that a test went well.
    "$@" 2>&1 | tee -a "$log" | { grep --line-buffered -vE '^(test .*\.\.\. (ok|ignored))?$' || true; } || status=${PIPESTATUS[0]}
    case $status in
        0) status="done" ;;
        124 | 137) status="OUT OF TIME" ;;
        *) status="FAILED ($status)" ;;
    esac
    echo "== $name: $status after $((SECONDS - began)) s" | tee -a "$log"
    [ "$status" = "done" ] || failed+=("$name")
}

tests() { # FILTER...
    local filter status=0
    for filter; do limited "$programs/device" "$filter" --test-threads 1 || status=$?; done
    return "$status"
}

smoke() {
    local status=0
    echo "$("$programs/device" cuda:: --list 2>/dev/null | grep -c ': test$') tests for a device"
    limited "$programs/mscclpp" run allreduce_packets --ranks 8 --size 64K --backend cuda || status=$?
    limited "$programs/mscclpp" run allreduce_all_pairs --ranks 8 --size "${SMOKE_SIZE:-64M}" --iters 2 --backend cuda || status=$?
    limited "$programs/mscclpp" run allreduce_ring_ports --ranks 4 --size 64K --backend cuda || status=$?
    limited "$programs/mscclpp" bench all_reduce --backend cuda --virtual-ranks 8 --begin 1K --end 1K --iters 10 || status=$?
    MSCCLPP_SMALL=1 tests cuda::specialized || status=$?
    return "$status"
}

rows() { # ROWS ALGORITHMS SIZE
    local rows=${1//,/ } bytes=''
    [ -z "$3" ] || bytes=$(numfmt --from=iec "$3")
    # shellcheck disable=SC2086
    limited "$programs/cuda" ${REHEARSE:+rehearse} ${rows:-rows} ${2:+only:$2} ${bytes:+at-most:$bytes}
}

# Runs jobs of dev/tests/python with two ranks, which share the device.
jobs() { # BACKEND JOB...
    local backend=$1 job preload='' status=0
    shift
    [ "$backend" != nccl ] || preload=$programs/libnccl.so.2
    for job; do
        echo "$job on $backend"
        BACKEND=$backend PYTHONPATH=$programs/python limited "$programs/mscclpp" launch -n 2 -- \
            env LD_PRELOAD="$preload${LD_PRELOAD:+:$LD_PRELOAD}" timeout "${JOB_LIMIT:-30}" python3 "$programs/python/$job.py" || { status=$?; echo "$job on $backend FAILED ($status)"; }
    done
    return "$status"
}

has_pytorch() {
    python3 -c 'import torch' 2>/dev/null || { echo "skipped: python3 has no PyTorch"; return 1; }
}

nccl() { # JOBS
    local chosen=${1//,/ } status=0
    has_pytorch || return 0
    # shellcheck disable=SC2086
    jobs nccl ${chosen:-reductions models graphs gathers exchanges groups fsdp ddp} || status=$?
    [ -n "$chosen" ] || LD_PRELOAD=$programs/libnccl.so.2${LD_PRELOAD:+:$LD_PRELOAD} limited python3 "$programs/python/nccl.py" ${REHEARSE:+rehearse} || status=$?
    return "$status"
}

torch() { # JOBS
    local chosen=${1//,/ }
    has_pytorch || return 0
    # shellcheck disable=SC2086
    jobs mscclpp ${chosen:-reductions models graphs gathers exchanges groups fsdp ddp}
}

ucx() {
    local on_device status=0
    [ -e "$programs/ucx/libucp.so.0" ] || { echo "skipped: no UCX was packed"; return; }
    for on_device in 0 1; do
        echo "MSCCLPP_UCX_DEVICE_MEMORY=$on_device"
        MSCCLPP_TRANSPORT=ucx MSCCLPP_UCX=$programs/ucx/libucp.so.0 MSCCLPP_UCX_DEVICE_MEMORY=$on_device \
            tests cuda::processes::hosts || status=$?
    done
    return "$status"
}

bench() {
    local collective status=0
    for collective in all_reduce all_gather reduce_scatter all_to_all broadcast reduce send_recv gather scatter all_to_all_v barrier; do
        limited "$programs/mscclpp" bench "$collective" --backend cuda --virtual-ranks 2,4,8 || status=$?
    done
    return "$status"
}

machine() {
    local counts=(1) gpus file
    gpus=$(nvidia-smi --list-gpus 2>/dev/null | wc -l)
    [ "$gpus" -lt 2 ] || counts+=("$gpus")
    for gpus in "${counts[@]}"; do
        file=$(dirname "$log")/machine-$gpus.toml
        # shellcheck disable=SC2086
        limited "$programs/mscclpp" machine measure --backend cuda --gpus "$gpus" ${MACHINE_OPTIONS:-} --output "$file" || return
        cat "$file"
    done
}

under() { # TOOL TEST-ARGUMENT...
    local tool=$1 options=(--error-exitcode 9 --print-limit 20)
    shift
    # Calls that fail are tried on purpose.
    if [ "$tool" = memcheck ]; then options+=(--report-api-errors no); fi
    MSCCLPP_SMALL=1 limited compute-sanitizer --tool "$tool" "${options[@]}" "$programs/device" "$@" --test-threads 1
}

sanitizer() { # TOOL FILTER...
    local tool=$1 filter status=0
    shift
    command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer"; return; }
    for filter; do under "$tool" "$filter" || status=$?; done
    return "$status"
}

planted() {
    local tool bug status result=0
    command -v compute-sanitizer >/dev/null || { echo "skipped: no compute-sanitizer"; return; }
    while read -r tool bug; do
        status=0
        under "$tool" "planted::$bug" --ignored --exact </dev/null || status=$?
        if [ "$status" = 9 ]; then
            echo "$tool finds $bug"
        else
            echo "$tool does NOT find $bug: exit code $status"
            result=1
        fi
    done <<<$'memcheck out_of_bounds\nracecheck unordered'
    return "$result"
}

for wanted; do
    IFS=: read -r name first second third _ <<<"$wanted::::"
    # A filter may have colons.
    rest=${wanted#*:}
    case $name in
        smoke) part 120 smoke smoke ;;
        suite) part 600 suite tests cuda:: ;;
        plans | bits | graphs | stalls | streams | specialized | native | worlds) part 200 "$name" tests "cuda::$name::" ;;
        processes) part 150 processes tests cuda::processes:: ;;
        ucx) part 60 ucx ucx ;;
        nccl | torch) part 240 "$wanted" "$name" "$first" ;;
        rows) part 570 "$wanted" rows "$first" "$second" "$third" ;;
        bench) part 570 bench bench ;;
        machine) part 240 machine machine ;;
        planted) part 60 planted planted ;;
        memcheck | racecheck)
            if [ "$name" != "$wanted" ]; then
                part 570 "$wanted" sanitizer "$name" "$rest"
            elif [ "$name" = memcheck ]; then
                part 300 memcheck sanitizer memcheck cuda::plans:: cuda::specialized:: cuda::native:: cuda::bits::
            else
                part 570 racecheck sanitizer racecheck cuda::plans::
            fi
            ;;
    esac
done
printf '\nlog: %s\n' "$log"
if [ "${#failed[@]}" -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
