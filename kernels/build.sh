#!/usr/bin/env bash
# Builds kernels/prebuilt/: the kernels of every data type and accumulator, as machine code for sm_90, and as PTX for sm_90 and sm_80
# that the driver compiles for all other devices (once: it caches the result); and prebuilt/12.2/, those for older drivers. Needs the nvcc
# that `check.sh` installs on the PATH, or its path in NVCC, and beside it the wheels of NVRTC 12.2.
#
#   kernels/build.sh [OUT [TYPES]]   builds into OUT (kernels/prebuilt), the kernels of the types in a file (kernels/types)
set -euo pipefail
cd "$(dirname "$0")"
out="${1:-prebuilt}"
mkdir -p "$out"
nvcc="${NVCC:-nvcc}"

targets=(-gencode 'arch=compute_90,code=[sm_90,compute_90]' -gencode arch=compute_80,code=compute_80)

build() { # NAME ELEMENT ACCUMULATOR
    "$nvcc" -std=c++17 -I. -fmad=false "${targets[@]}" -fatbin --compress-mode=size \
        -DMSCCLPP_T="$2" -DMSCCLPP_A="$3" -o "$out/$1.fatbin" executor.cu
}

jobs=()
while read -r name element accumulator; do
    build "$name" "$element" "$accumulator" &
    jobs+=($!)
    if [ "${#jobs[@]}" -ge "${JOBS:-2}" ]; then
        wait "${jobs[0]}"
        jobs=("${jobs[@]:1}")
    fi
done <"${2:-types}"
for job in "${jobs[@]}"; do
    wait "$job"
done

wheels="$(dirname "$(command -v "$nvcc")")/../../.."
python3 build-12.2.py "$wheels" "$out/12.2" "${2:-types}"

# A test compares these hashes with the sources.
LC_ALL=C ls *.h *.cu build*.* types | LC_ALL=C sort | xargs sha256sum > "$out/SOURCES"
