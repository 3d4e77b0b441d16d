#!/usr/bin/env bash
# Compiles the kernels and checks the result: registers, stack and spills, which it compares with `resources.txt`, and the instructions
# that order memory, are in flight, or are executed in a launch. Needs nvcc 13.0.88 and cuobjdump, or Python to install their wheels.
#
#   kernels/check.sh            checks the machine code for sm_90, which is that of prebuilt/; for other devices, the kernels and
#                               specialized ones are compiled as at run time. Without a compiler it prints that it skipped and succeeds.
#                               Rebuilds a seventh of prebuilt/, a different one each day, and compares it byte by byte
#   kernels/check.sh --install  installs the wheels, and checks nothing
#   kernels/check.sh --bless    rewrites resources.txt and dev/tests/device/instructions.txt
#   kernels/check.sh --full     checks all types for all devices, rebuilds all of prebuilt/, and compiles specialized kernels of all
#                               built-in plans
set -euo pipefail
cd "$(dirname "$0")"
target="${CARGO_TARGET_DIR:-$PWD/../target}"
venv="$target/nvcc"

if ! command -v nvcc >/dev/null || ! command -v cuobjdump >/dev/null; then
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv" && "$venv/bin/pip" install -q 'nvidia-cuda-nvcc==13.0.88' 'nvidia-nvvm==13.0.88' \
            'nvidia-cuda-crt==13.0.88' 'nvidia-cuda-runtime==13.0.96' 'nvidia-cuda-nvrtc==13.0.88' &&
            "$venv/bin/pip" install -q --no-deps 'nvidia-cuda-cuobjdump==13.2.*' 'nvidia-cuda-nvdisasm==13.2.*' ||
            { rm -rf "$venv"; echo "skipped: no nvcc, and its wheels cannot be installed"; exit 0; }
    fi
    # For older drivers. Version 12.4 of the library that makes fat binaries compresses them as all drivers of CUDA 12 know it.
    if ! ls "$venv"/lib/python*/site-packages/nvidia/nvfatbin >/dev/null 2>&1; then
        "$venv/bin/pip" install -q --no-deps 'nvidia-cuda-nvrtc-cu12==12.2.140' 'nvidia-nvfatbin-cu12==12.4.127' ||
            { echo "skipped: the wheels of CUDA 12 cannot be installed"; exit 0; }
    fi
    PATH="$(echo "$venv"/lib/python*/site-packages/nvidia/cu13/bin):$PATH"
fi
[ "${1:-}" != --install ] || exit 0

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

archs=(sm_90)
case "${1:-}" in --full | --bless) archs=(sm_80 sm_90 sm_100) ;; esac

# Calls a function with the words of each line, several lines at once.
in_parallel() { # FUNCTION
    xargs -P "$(nproc)" -L 1 bash -euo pipefail -c "$1"' "$@"' "$1"
}
export work

# The types that are checked each time: bytes, and elements combined in a wider type, need most registers.
pattern='^(f32|bf16|bf16_f32|u8) '
[ "${1:-}" != --full ] || pattern=.
grep -E "$pattern" types >"$work/checked"
compile() { # NAME ELEMENT ACCUMULATOR ARCH
    nvcc -std=c++17 -I. -fmad=false -arch="$4" -cubin -Xptxas -v -DMSCCLPP_T="$2" -DMSCCLPP_A="$3" \
        -o "$work/$1.$4.cubin" executor.cu 2>"$work/$1.$4.log" || { cat "$work/$1.$4.log" >&2; exit 255; }
}
export -f compile
for arch in "${archs[@]}"; do sed "s/\$/ $arch/" "$work/checked"; done | in_parallel compile

# Registers and stack of the kernel and the functions that it calls, and bytes that any of them spills.
while read -r name _; do
    for arch in "${archs[@]}"; do
        awk -v what="$arch $name" '
            /Compiling entry function/ { ours = $0 ~ /mscclpp_execute/ }
            ours && /bytes stack frame/ { spilled += $5 + $9 }
            ours && /Used [0-9]+ registers/ {
                for (i = 1; i <= NF; ++i) {
                    if ($i == "registers,") registers = $(i - 1)
                    if ($i == "cumulative") stack = $(i - 2)
                }
            }
            END { printf "%-16s %3d registers, %4d bytes of stack, %4d spilled\n", what, registers, stack, spilled }' "$work/$name.$arch.log"
    done
done <"$work/checked" | tee "$work/resources.txt"
if [ "${1:-}" = --bless ]; then
    cp "$work/resources.txt" resources.txt
fi
if [ "${1:-}" != --full ]; then
    grep -E "^($(IFS='|' && echo "${archs[*]}")) " resources.txt | diff -u - "$work/resources.txt" ||
        { echo "resources have changed: check whether that is intended, then use --bless"; exit 1; }
fi
# A multiprocessor has 65 536 registers, for 1 024 threads, or for 512 that combine in a wider type. On sm_100 a few registers may be spilled:
# to wait for every packet without a call would avoid that, and make the package too large.
awk '$3 > ($2 ~ /_f/ ? 128 : 64) { print "too many registers: " $0; bad = 1 }
     $5 > ($1 == "sm_100" ? 16 : 0) || $9 > ($1 == "sm_100" ? 32 : 0) { print "spilled: " $0; bad = 1 }
     END { exit bad }' "$work/resources.txt"

# A signal releases (a fence, then an addition), a wait acquires (a strong load, then an invalidation of caches), packets
# are moved as a whole.
for arch in "${archs[@]}"; do
    cuobjdump -sass "$work/f32.$arch.cubin" >"$work/sass"
    for instruction in 'MEMBAR\.[A-Z.]*GPU' 'RED[G.E]*\.ADD\.64\.STRONG\.GPU' 'RED[G.E]*\.ADD\.64\.STRONG\.SYS' \
        'LDG[.E]*\.64\.STRONG\.GPU' 'CCTL\.IVALL' 'STG[.E]*\.128\.STRONG\.SYS' 'LDG[.E]*\.128\.STRONG\.SYS'; do
        count="$(grep -cE "$instruction" "$work/sass" || true)"
        printf '%-6s %4d %s\n' "$arch" "$count" "$instruction"
        [ "$count" -gt 0 ] || { echo "expected at least one"; exit 1; }
    done
done

# Loads in flight of a thread: plain vectors of 8 sources, and packets. In the interpreter, and in functions of specialized kernels, each
# of which is alone in a kernel.
flying() { # CUBIN LOAD EXPECTED NAME
    count="$(cuobjdump -sass "$1" | awk -v kernel='mscclpp_execute|alone' -v load="$2" -f in_flight.awk)"
    printf '%-6s %4d loads in flight: %s\n' "$arch" "$count" "$4"
    [ "$count" -ge "$3" ] || { echo "expected at least $3"; exit 1; }
}
alone() { # NAME CALL
    cat >"$work/$1.cu" <<EOF
#include "specialized.h"
using Arith = mscclpp::Arithmetic<float, float>;
KERNEL(mscclpp::kMaxThreads) alone(KERNEL_PARAM mscclpp::LaunchParams launch) {
  using namespace mscclpp;
  begin_specialized(launch);
  $2;
  finish_launch(launch);
}
EOF
}
compile_alone() { # NAME ARCH
    local log=$work/$1.$2.log
    nvcc -std=c++17 -I. -fmad=false -arch="$2" -cubin -Xptxas -v -o "$work/$1.$2.cubin" "$work/$1.cu" 2>"$log" || { cat "$log" >&2; exit 255; }
    grep -q 'Used' "$log" && ! grep -E '[1-9][0-9]* bytes (stack|spill)' "$log"
}
export -f compile_alone
vector='LDG[.A-Z0-9]*[.]NA[.A-Z0-9]*128 ' packet='LDG[.A-Z0-9]*128[.]STRONG'
range='byte_range(launch, 0, 1, 0, 1)'
for to in 1 8; do alone reduce_$to "reduce_aligned<Arith, Reduction::kSum, 8, $to>(0, $range)"; done
alone packets "reduce_packets_aligned<Arith, Reduction::kSum, 8, 1, 0ull>(launch, 0, $range)"
for arch in "${archs[@]}"; do printf '%s\n' "reduce_1 $arch" "reduce_8 $arch" "packets $arch"; done | in_parallel compile_alone
for arch in "${archs[@]}"; do
    for type in f32 bf16; do
        flying "$work/$type.$arch.cubin" "$vector" 8 "sources of $type, interpreter"
        flying "$work/$type.$arch.cubin" "$packet" 4 "packets of $type, interpreter"
    done
    for to in 1 8; do flying "$work/reduce_$to.$arch.cubin" "$vector" 8 "8 sources into $to, specialized"; done
    flying "$work/packets.$arch.cubin" "$packet" 7 "packets of 7 peers, specialized"
done

# Instructions of the prologue of a launch, up to its block sync, with those that only long records execute.
prologue() { # CUBIN MOST NAME
    count="$(cuobjdump -sass "$1" | awk '/Function :/ { ours = /mscclpp_execute|alone/; syncs = 0 }
        ours && /^ *\/\*[0-9a-f]+\*\/ .*;/ && syncs < 1 { ++count; syncs += /BAR\.SYNC/ }
        END { print count + 0 }')"
    printf '%-6s %4d instructions before the first operation, %s\n' "$arch" "$count" "$3"
    [ "$count" -gt 0 ] && [ "$count" -le "$2" ] || { echo "expected at most $2"; exit 1; }
}
for arch in "${archs[@]}"; do
    prologue "$work/f32.$arch.cubin" 420 interpreter
    prologue "$work/reduce_1.$arch.cubin" 400 specialized
done

# Executed instructions of launches on simulated devices, which `dev/tests/device/instructions.txt` has: the executions of source lines
# times the instructions of these lines, with loops and calls. The instructions above are those that are in the code.
(
    case "${1:-}" in --full) export MSCCLPP_ALL=1 ;; --bless) export MSCCLPP_ALL=1 MSCCLPP_BLESS=1 ;; esac
    cargo test -q --manifest-path ../Cargo.toml --workspace --test device sim::instructions
)

# Switch channels: stores at all members (with packets the strong ones of 16 bytes above), loads that add, and minima and maxima of short
# floats.
for arch in "${archs[@]}"; do
    [ "$arch" != sm_80 ] || continue
    for type in f32:ADD.F32x4 bf16:ADD.BF16x8 bf16:MIN.BF16x8 bf16:MAX.BF16x8; do
        count="$(cuobjdump -sass "$work/${type%:*}.$arch.cubin" |
            grep -cE "LDGMC[A-Z0-9.]*${type#*:}\.[A-Z.]*STRONG\.SYS" || true)"
        printf '%-6s %4d LDGMC of %s, %s\n' "$arch" "$count" "${type%:*}" "${type#*:}"
        [ "$count" -gt 0 ] || { echo "expected at least one"; exit 1; }
    done
done

# Every source compiles alone.
compile_source() { # FILE
    nvcc -std=c++17 -I. -c -o "$work/$(basename "$1").o" "$1"
}
export -f compile_source
printf '%s\n' *.cu timeline/*.cu ../dev/benches/cuda/*.cu ../examples/cuda/*.cu | in_parallel compile_source

if [ "${1:-}" = --full ]; then
    ./build.sh "$work/prebuilt"
    diff -r "$work/prebuilt" prebuilt
else
    awk -v day=$(($(date +%s) / 86400 % 7)) 'NR % 7 == day' types >"$work/types"
    ./build.sh "$work/prebuilt" "$work/types"
    for image in "$work"/prebuilt/*.fatbin "$work"/prebuilt/12.2/*.fatbin; do
        cmp "$image" "prebuilt/${image#"$work/prebuilt/"}"
    done
fi
echo "prebuilt/ is up to date: $(cd "$work/prebuilt" && echo *.fatbin 12.2/*.fatbin)"

# The same sources, compiled at run time: for devices without prebuilt machine code, for plans, for the example. Registers of
# specialized kernels are printed; kernels that use the stack are rejected.
nvrtc="${MSCCLPP_NVRTC:-$(ls "$(dirname "$(command -v nvcc)")"/../lib*/libnvrtc.so.1? 2>/dev/null | head -n 1 || true)}"
if [ -n "$nvrtc" ]; then
    [ "${1:-}" != --full ] || export MSCCLPP_ALL=1
    MSCCLPP_NVRTC="$nvrtc" cargo test -q --manifest-path ../Cargo.toml --workspace --test jit
else
    echo "skipped: no NVRTC, so nothing was compiled as at run time"
fi
