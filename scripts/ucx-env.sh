#!/usr/bin/env bash
# Prints the path of a libucp.so.0, for tests of the UCX transport. The first call downloads UCX from PyPI: 42 MB, 15 MB on disk.
#
# Usage: scripts/ucx-env.sh
#
# The library is the one that MSCCLPP_UCX names, or that of target/ucx/VERSION. It has the transports tcp, shared memory and cma, and those
# of CUDA, which UCX leaves out where there is no driver; but no hooks of CUDA's functions, which need a runtime. Several calls may run at
# once: one installs, the others wait for it.
# With MSCCLPP_UCX_INSTALL=0 nothing is installed. Where there is no library, the reason is printed and the exit status is 3.
set -euo pipefail

if [ $# -ne 0 ]; then
    sed -n '2,/^set/{/^# /s/^# //p}' "$0" >&2
    exit 2
fi
if [ -n "${MSCCLPP_UCX:-}" ]; then
    echo "$MSCCLPP_UCX"
    exit 0
fi

readonly version=1.22.0
folder=$(realpath -m "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}")/ucx
library=$folder/$version/lib/libucp.so.0
modules=(libuct_cma.so.0 libuct_cuda.so.0)

# An earlier version of this script did without some modules.
is_complete() {
    local module
    for module in "${modules[@]}"; do
        [ -e "$folder/$version/lib/ucx/$module" ] || return 1
    done
    [ -e "$library" ]
}

skip() {
    echo "skipped: $1" >&2
    exit 3
}

if ! is_complete; then
    [ "${MSCCLPP_UCX_INSTALL:-1}" != 0 ] || skip "there is no $library; run scripts/ucx-env.sh"
    [ "$(uname -sm)" = "Linux x86_64" ] || [ "$(uname -sm)" = "Linux aarch64" ] || skip "no package of UCX for $(uname -sm)"
    mkdir -p "$folder"
    exec 9>"$folder/lock"
    flock 9
    # Another call may have installed it in the meantime.
    if ! is_complete; then
        # Where an interrupted call leaves it, the next one removes it.
        partial=$folder/partial
        rm -rf "$partial"
        mkdir -p "$partial"
        python3 -m pip download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
            --dest "$partial" "libucx-cu12==$version" >&2 || skip "libucx-cu12 $version cannot be downloaded"
        # A wheel is an archive.
        python3 -m zipfile -e "$partial"/*.whl "$partial/wheel"
        mkdir -p "$partial/$version/lib/ucx"
        cp "$partial"/wheel/libucx/lib/libuc[mpst].so.0 "$partial/$version/lib"
        cp "${modules[@]/#/$partial/wheel/libucx/lib/ucx/}" "$partial/$version/lib/ucx"
        cp "$partial"/wheel/libucx_cu12-*.dist-info/licenses/LICENSE "$partial/$version" 2>/dev/null || true
        rm -rf "${folder:?}/$version"
        mv "$partial/$version" "$folder/$version"
        rm -rf "$partial"
    fi
fi
echo "$library"
