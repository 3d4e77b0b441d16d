#!/usr/bin/env bash
# Tests of plan images and of memory under the nightly compiler's AddressSanitizer, which finds accesses out of bounds, after the
# end of an allocation, and leaks. The standard library is the one that is installed, without the sanitizer in it.
#
# Usage: scripts/sanitize.sh      NIGHTLY=nightly: the toolchain. Where it is missing the script says so and succeeds.
set -euo pipefail
cd "$(dirname "$0")/.."

toolchain=${NIGHTLY:-nightly}
cargo "+$toolchain" --version >/dev/null 2>&1 || {
    echo "skipped: there is no toolchain \`$toolchain\`; install it with \`rustup toolchain install nightly\`"
    exit 0
}
host=$(rustc -vV | sed -n 's/^host: //p')

tests() { # PACKAGE FILTER...
    local package=$1
    shift
    # Only with a target do build scripts and macros stay as they are.
    RUSTFLAGS="-Zsanitizer=address -Cunsafe-allow-abi-mismatch=sanitizer" \
        cargo "+$toolchain" test --quiet --target "$host" --target-dir target/sanitize-address -p "$package" --lib -- "$@"
}

tests mscclpp-core plan::image
# Views of memory, segments, and the launches between ranks that are threads.
tests mscclpp-exec memory:: shm:: process::
