#!/usr/bin/env bash
# Tests of plan images, memory and launches under the tools of the nightly compiler. Parts, all by default:
#
#   address    AddressSanitizer: accesses out of bounds, after the end of an allocation, and leaks. The standard library is the one
#              that is installed, without the sanitizer in it.
#   thread     ThreadSanitizer: data races of workers and callers. The standard library is built with it (component rust-src). It sees
#              no assembler, so memory is accessed as on processors without any (`portable_memory`).
#   undefined  Miri: undefined behavior, by interpreting the program (component miri).
#
# Usage: scripts/sanitize.sh [PART]...      NIGHTLY=nightly: the toolchain. A part whose toolchain or component is missing says so
# and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain=${NIGHTLY:-nightly}
cargo "+$toolchain" --version >/dev/null 2>&1 || {
    echo "skipped: there is no toolchain \`$toolchain\`; install it with \`rustup toolchain install nightly\`"
    exit 0
}
kind=(--lib)
host=$(rustc "+$toolchain" -vV | sed -n 's/^host: //p')
library=$(rustc "+$toolchain" --print sysroot)/lib/rustlib/src/rust/library

skipped() { # PART COMPONENT
    echo "skipped: $1 needs the component $2; install it with \`rustup component add $2 --toolchain $toolchain\`"
}

tests() { # PART COMMAND PACKAGE FILTER...: a target, with which build scripts and macros stay as they are
    local part=$1 package=$3
    # shellcheck disable=SC2206
    local command=($2)
    shift 3
    # Libraries, or the tests that `kind` selects.
    cargo "+$toolchain" "${command[@]}" --quiet --target "$host" --target-dir "target/sanitize-$part" -p "$package" \
        "${kind[@]}" -- "$@"
}

address() {
    local -x RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer"
    tests address test mscclpp-plan image
    # Views of memory, segments, and the launches between ranks that are threads.
    tests address test mscclpp-base memory:: shm::
    tests address test mscclpp-exec process::
}

thread() {
    [ -d "$library" ] || { skipped thread rust-src; return; }
    local -x RUSTFLAGS="-Zsanitizer=thread --cfg portable_memory"
    tests thread "test -Zbuild-std" mscclpp-base memory:: shm:: interpret:: numeric::
    tests thread "test -Zbuild-std" mscclpp-exec cpu::
    # Ranks that are threads. Those of `process::` are left out: memory that one of them unmaps and the next one maps at the same
    # address is reported, because these system calls do not go through the C library, where the sanitizer intercepts them.
    local kind=(--test integration)
    tests thread "test -Zbuild-std" mscclpp-communicator communicator::
    tests thread "test -Zbuild-std" mscclpp-exec errors:: lang::
}

undefined() {
    [ -d "$library" ] || { skipped undefined rust-src; return; }
    cargo "+$toolchain" miri --version >/dev/null 2>&1 || { skipped undefined miri; return; }
    local -x MIRIFLAGS="-Zmiri-disable-isolation" PROPTEST_CASES=2
    # mscclpp-core forbids unsafe code, and the numbers in `numeric` have none.
    tests undefined "miri test" mscclpp-base memory::
}

[ $# -gt 0 ] || set -- address thread undefined
for part in "$@"; do
    case $part in
    address | thread | undefined) "$part" ;;
    *)
        echo "no part \`$part\`; expected address, thread or undefined" >&2
        exit 2
        ;;
    esac
done
