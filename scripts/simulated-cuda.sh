#!/usr/bin/env bash
# Runs a command on simulated CUDA devices: the mock driver takes the place of CUDA's `libcuda.so.1`. Device code runs on the CPU,
# thousands of times slower than a device, so choose small messages. Needs Rust and a C++ compiler.
#
# Usage: scripts/simulated-cuda.sh [-n RANKS] [--devices N] [--multicast N] [--peers N] [--fabric N] [--nccl] -- COMMAND ...
#   -n RANKS         start RANKS processes, with the variables of `mscclpp launch` and torchrun; otherwise one process
#   --devices N      devices of each process (8)
#   --multicast N    that many of these have multicast objects (0)
#   --peers N        consecutive devices that can access one another's memory: 1 for none (all)
#   --fabric N       number of an NVLink domain that has the devices of all hosts (none)
#   --driver N       version of the driver, 1000 times major plus 10 times minor (13000)
#   --nccl           programs that use CUDA's runtime and NCCL, such as PyTorch, get a runtime on simulated devices (libcudart.so.13,
#                    dev/cudart) and the NCCL library of this checkout; kernels of such a program do not run,
#                    but for simple ones of PyTorch, on contiguous tensors
#
# `mscclpp` in COMMAND is the command of this checkout. Times are those of the simulator and say nothing about devices.
# PROFILE=dev takes what `cargo test` has built instead of an optimized build.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)

usage() {
    sed -n '2,/^set/{/^# /s/^# //p}' "$0" >&2
    exit 2
}

# Kernels may wait for those that other threads or processes launch later.
export MSCCLPP_MOCK_OTHERS=1
ranks='' devices=8 multicast=0 peers=0 fabric='' version=13000 nccl=''
while [ $# -gt 0 ]; do
    case "$1" in
    --)
        shift
        break
        ;;
    --nccl)
        nccl=1
        shift
        continue
        ;;
    -n) ranks=${2:-} ;;
    --devices) devices=${2:-} ;;
    --multicast) multicast=${2:-} ;;
    --peers) peers=${2:-} ;;
    --fabric) fabric=${2:-} ;;
    --driver) version=${2:-} ;;
    *) usage ;;
    esac
    [[ "${2:-}" =~ ^[0-9]+$ ]] || usage
    shift 2
done
[ $# -gt 0 ] || usage
if [ "$devices" -lt 1 ] || [ "$devices" -gt 64 ] || [ "$multicast" -gt "$devices" ] || [ "$ranks" = 0 ]; then
    echo "expected 1 to 64 devices, at most as many with multicast objects, and at least 1 rank" >&2
    exit 2
fi
if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    echo "this machine has CUDA's driver, which programs would find first; run the command without this script" >&2
    exit 2
fi

target=${CARGO_TARGET_DIR:-$here/target}
profile=${PROFILE:-release}
# With the features of `cargo test --workspace`, whose build this would otherwise replace.
packages=(--workspace --lib --bins)
if [ "$profile" != dev ]; then
    packages=(-p mscclpp-mock-cuda -p mscclpp-cli)
    [ -z "$nccl" ] || packages+=(-p mscclpp-mock-cudart -p mscclpp-nccl)
fi
cargo build --quiet --profile "$profile" --manifest-path "$here/Cargo.toml" "${packages[@]}"
built=$target/${profile/#dev/debug}
driver=$target/simulated-cuda
mkdir -p "$driver"
# Also the compiler of device code, which compiles for the simulator, and NVML.
for name in libcuda.so libcuda.so.1 libnvrtc.so libnvidia-ml.so.1; do
    ln -sf "$built/libmscclpp_mock_cuda.so" "$driver/$name"
done

export LD_LIBRARY_PATH=$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} PATH=$built:$PATH
# Compiled code depends on the simulator, which a cache does not know.
export MSCCLPP_CACHE='' MSCCLPP_NVRTC=''
# Compilers of the host take long for each plan.
export MSCCLPP_KERNELS=${MSCCLPP_KERNELS:-interpreter}
export MSCCLPP_MOCK_DEVICES=$devices MSCCLPP_MOCK_MULTICAST=$multicast MSCCLPP_MOCK_PEERS=$peers MSCCLPP_MOCK_FABRIC=$fabric MSCCLPP_MOCK_DRIVER=$version
# UCX keeps an allocation of its own on each device that it uses.
[ -z "${MSCCLPP_UCX:-}" ] || export MSCCLPP_MOCK_LEFT=1
if [ -n "$nccl" ]; then
    # PyTorch finds libraries by its own DT_RPATH before LD_LIBRARY_PATH, but not before what is loaded already under their names.
    mkdir -p "$driver/nccl"
    for library in libcudart.so.13:mscclpp_mock_cudart libnccl.so.2:mscclpp_nccl libnccl.so:mscclpp_nccl; do
        ln -sf "$built/lib${library#*:}.so" "$driver/nccl/${library%%:*}"
    done
    LD_LIBRARY_PATH=$driver/nccl:$LD_LIBRARY_PATH
    set -- env "LD_PRELOAD=libcudart.so.13:libnccl.so.2${LD_PRELOAD:+:$LD_PRELOAD}" "$@"
fi
if [ -z "$ranks" ]; then
    exec "$@"
fi
exec mscclpp launch -n "$ranks" -- "$@"
