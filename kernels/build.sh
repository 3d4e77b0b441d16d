#!/usr/bin/env bash
# Builds kernels/prebuilt/: the kernels of every data type and accumulator, machine code for sm_90 and text for sm_80, from
# which the driver makes machine code for all others (once: it keeps what it made). Needs nvcc 13.0 (`pip install 'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*'
# 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-runtime==13.0.*'`) on the PATH, or its path in NVCC.
#
#   kernels/build.sh [OUT]           builds into OUT (kernels/prebuilt)
set -euo pipefail
cd "$(dirname "$0")"
out="${1:-prebuilt}"
mkdir -p "$out"
nvcc="${NVCC:-nvcc}"

targets=(-gencode arch=compute_90,code=sm_90 -gencode arch=compute_80,code=compute_80)

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
done <<'TYPES'
i8 int8_t int8_t
u8 uint8_t uint8_t
i32 int32_t int32_t
u32 uint32_t uint32_t
i64 int64_t int64_t
u64 uint64_t uint64_t
f32 float float
f32_f64 float double
f64 double double
f16 F16 F16
f16_f32 F16 float
f16_f64 F16 double
bf16 BF16 BF16
bf16_f32 BF16 float
bf16_f64 BF16 double
f8e4m3 E4M3 E4M3
f8e4m3_f32 E4M3 float
f8e4m3_f64 E4M3 double
f8e5m2 E5M2 E5M2
f8e5m2_f32 E5M2 float
f8e5m2_f64 E5M2 double
TYPES
for job in "${jobs[@]}"; do
    wait "$job"
done

# So that a test can tell whether sources have changed since.
LC_ALL=C ls *.h *.cu build.sh | LC_ALL=C sort | xargs sha256sum > "$out/SOURCES"
