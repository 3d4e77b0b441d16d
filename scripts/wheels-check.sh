#!/usr/bin/env bash
# Installs the wheels in target/wheels that scripts/wheels.sh has built, and runs a plan with each: that for aarch64 on an x86-64 machine by
# QEMU with Debian's Python for arm64, where these can be had (`apt-get install qemu-user-static`); otherwise it says that it does not.
# The packages for arm64 are unpacked, not installed; `dpkg --add-architecture arm64` lets apt-get find them from then on.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cat >"$work/run.py" <<'PYTHON'
import array, platform
import mscclpp_rs
outputs = mscclpp_rs.run(mscclpp_rs.Plan.builtin("allreduce_ring", 4), [array.array("f", [rank + 1.0] * 10) for rank in range(4)])
assert [memoryview(output).tolist() for output in outputs] == [[10.0] * 10] * 4, outputs
print(f"mscclpp-rs {mscclpp_rs.__version__} runs a plan on {platform.machine()}")
PYTHON

python3 -m venv "$work/environment"
"$work/environment/bin/pip" install --quiet --no-index --find-links "$target/wheels" mscclpp-rs
"$work/environment/bin/python" "$work/run.py"

wheels=("$target"/wheels/*_aarch64.whl)
if [ "$(uname -m)" = aarch64 ] || [ ! -f "${wheels[0]}" ]; then exit; fi
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || { echo "the wheel for aarch64 is not run: there is no QEMU"; exit 0; }
dpkg --add-architecture arm64 2>/dev/null && apt-get update --quiet=2 || { echo "the wheel for aarch64 is not run: packages for arm64 need apt-get"; exit 0; }
mkdir "$work/packages" "$work/root" "$work/package"
chmod 777 "$work" "$work/packages"
packages=(python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1 zlib1g libexpat1 libssl3 libcrypt1 libffi8)
(cd "$work/packages" && apt-get download --quiet=2 "${packages[@]/%/:arm64}")
for package in "$work"/packages/*.deb; do dpkg -x "$package" "$work/root"; done
python3 -m zipfile -e "${wheels[0]}" "$work/package"
"$qemu" -L "$work/root" -E PYTHONPATH="$work/package" -E PYTHONHOME="$work/root/usr" "$work/root/usr/bin/python3.11" "$work/run.py"
