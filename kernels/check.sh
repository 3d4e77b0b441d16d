#!/usr/bin/env bash
# Compiles the kernels for all devices that they are for, and holds what comes out: registers, stack and spills against
# `resources.txt`, and the instructions that order memory. Needs nvcc 13.0 and cuobjdump, or Python to install their wheels.
#
#   kernels/check.sh            checks; says so and succeeds where there is no compiler to be had
#   kernels/check.sh --bless    writes resources.txt anew
#   kernels/check.sh --full     also builds prebuilt/ again and compares it byte by byte
set -euo pipefail
cd "$(dirname "$0")"
target="${CARGO_TARGET_DIR:-$PWD/../target}"
venv="$target/nvcc"

if ! command -v nvcc >/dev/null || ! command -v cuobjdump >/dev/null; then
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv" && "$venv/bin/pip" install -q 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' \
            'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*' &&
            "$venv/bin/pip" install -q --no-deps 'nvidia-cuda-cuobjdump==13.2.*' 'nvidia-cuda-nvdisasm==13.2.*' ||
            { rm -rf "$venv"; echo "skipped: no nvcc, and its wheels cannot be installed"; exit 0; }
    fi
    PATH="$(echo "$venv"/lib/python*/site-packages/nvidia/cu13/bin):$PATH"
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

resources() {
    for arch in sm_80 sm_90 sm_100; do
        while read -r name element accumulator; do
            nvcc -std=c++17 -I. -fmad=false -arch="$arch" -cubin -Xptxas -v -DMSCCLPP_T="$element" -DMSCCLPP_A="$accumulator" \
                -o "$work/$name.$arch.cubin" executor.cu 2>"$work/log"
            # The entry's own lines, the registers and the stack of it and all that it calls, then the lines of what it calls.
            awk -v what="$arch $name" '
                /Compiling entry function/ { entry = own = $0 ~ /mscclpp_execute/; called = 0 }
                entry && own && /bytes stack frame/ { stores = $5; loads = $9; own = 0 }
                called && /bytes stack frame/ { called_stores += $5; called_loads += $9 }
                entry && /Used [0-9]+ registers/ {
                    for (i = 1; i <= NF; ++i) {
                        if ($i == "registers,") registers = $(i - 1)
                        if ($i == "cumulative") stack = $(i - 2)
                    }
                    entry = 0
                    called = 1
                }
                END {
                    printf "%-16s %3d registers %4d bytes of stack, spilled %4d stored %4d loaded, in calls %4d stored %4d loaded\n",
                        what, registers, stack, stores, loads, called_stores, called_loads
                }' "$work/log"
        done <<'TYPES'
f32 float float
bf16 BF16 BF16
u8 uint8_t uint8_t
TYPES
    done
}

resources | tee "$work/resources.txt"
if [ "${1:-}" = --bless ]; then
    cp "$work/resources.txt" resources.txt
fi
diff -u resources.txt "$work/resources.txt" || { echo "resources have changed: look whether they should, then --bless"; exit 1; }
awk '$3 > 64 { print "more than 64 registers do not fit 1024 threads: " $0; bad = 1 } END { exit bad }' "$work/resources.txt"

# A signal releases (a fence, then an addition), a wait acquires (a strong load, after which caches are dropped), packets
# move as a whole.
for arch in sm_80 sm_90; do
    cuobjdump -sass "$work/f32.$arch.cubin" >"$work/sass"
    for instruction in 'MEMBAR\.[A-Z.]*GPU' 'RED[G.E]*\.ADD\.64\.STRONG\.GPU' 'RED[G.E]*\.ADD\.64\.STRONG\.SYS' \
        'LDG[.E]*\.64\.STRONG\.GPU' 'CCTL\.IVALL' 'STG[.E]*\.128\.STRONG\.SYS' 'LDG[.E]*\.128\.STRONG\.SYS'; do
        count="$(grep -cE "$instruction" "$work/sass" || true)"
        printf '%-6s %4d %s\n' "$arch" "$count" "$instruction"
        [ "$count" -gt 0 ] || { echo "expected at least one"; exit 1; }
    done
done

# Switch channels: stores at all members (the strong ones of 16 bytes above are packets and these), loads that add up.
for type in f32:F32x4 bf16:BF16x8; do
    count="$(cuobjdump -sass "$work/${type%:*}.sm_90.cubin" | grep -cE "LDGMC[A-Z0-9.]*ADD\.${type#*:}\.[A-Z.]*STRONG\.SYS" || true)"
    printf '%-6s %4d LDGMC of %s\n' sm_90 "$count" "${type%:*}"
    [ "$count" -gt 0 ] || { echo "expected at least one"; exit 1; }
done

if [ "${1:-}" = --full ]; then
    ./build.sh "$work/prebuilt"
    diff -r "$work/prebuilt" prebuilt && echo "prebuilt/ is what these sources give"
fi
