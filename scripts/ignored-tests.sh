#!/usr/bin/env bash
# Compares the tests that `cargo test` ignored with ui-tests/ignored-tests.txt: a test that is ignored without a reason that holds on this
# machine is an error. Prints how many tests were ignored under each condition.
#
# Usage: scripts/ignored-tests.sh LOG      what `cargo test --workspace` printed
set -euo pipefail
cd "$(dirname "$0")/.."
log=${1:?expected what \`cargo test\` printed}

# Whether a condition holds: whether what it names is missing.
holds() {
    case "$1" in
    always) ;;
    no-plans) [ ! -d "${MSCCLPP_CONFORMANCE:-}" ] ;;
    no-documents) [ ! -d "${MSCCLPP_SEEDS:-}" ] ;;
    no-examples) [ ! -d "${MSCCLPP_EXAMPLES:-}" ] ;;
    no-rustc-*) ! rustc --version | grep -q "^rustc ${1#no-rustc-}\." ;;
    no-device) ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1 ' ;;
    no-c++) ! command -v c++ >/dev/null ;;
    no-nvrtc) ! ldconfig -p 2>/dev/null | grep -q libnvrtc ;;
    no-nm) ! command -v nm >/dev/null ;;
    no-pytorch-*) ! MSCCLPP_PYTHON_INSTALL=0 scripts/python-env.sh "${1#no-pytorch-}" >/dev/null 2>&1 ;;
    no-sglang | no-vllm | no-nccl4py) ! MSCCLPP_PYTHON_INSTALL=0 scripts/python-client.sh "${1#no-}" >/dev/null 2>&1 ;;
    no-cupy) [ ! -x "${MSCCLPP_CUPY:-}" ] ;;
    no-chromium) ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && ! command -v google-chrome >/dev/null ;;
    no-mypy) ! MSCCLPP_PYTHON_INSTALL=0 scripts/python-mypy.sh >/dev/null 2>&1 ;;
    no-python) ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ;;
    *)
        echo "ui-tests/ignored-tests.txt: no condition \`$1\`" >&2
        exit 2
        ;;
    esac
}

ignored=$(mktemp)
trap 'rm -f "$ignored"' EXIT
# `test NAME ... ignored`, with `, REASON` from the standard harness; doctests have lines of their own.
sed -nE 's|^test (.*[^ ]) *\.\.\. ignored(, (.*))?$|\1\t\3|p' "$log" | sort -u >"$ignored"
total=$(wc -l <"$ignored")
while read -r condition pattern; do
    [[ -n "$condition" && "$condition" != \#* ]] || continue
    holds "$condition" || continue
    matches="^(($pattern)"$'\t'".*|[^"$'\t'"]*"$'\t'"($pattern))$"
    count=$(grep -cE "$matches" "$ignored" || true)
    [ "$count" = 0 ] || printf '%6d ignored, %-18s %s\n' "$count" "$condition" "$pattern"
    grep -vE "$matches" "$ignored" >"$ignored.rest" || true
    mv "$ignored.rest" "$ignored"
done <ui-tests/ignored-tests.txt
if [ -s "$ignored" ]; then
    echo "tests that are ignored without a reason that holds here (ui-tests/ignored-tests.txt):" >&2
    sed 's/\t/, /' "$ignored" >&2
    exit 1
fi
echo "$total ignored tests, all for a reason that holds on this machine"
