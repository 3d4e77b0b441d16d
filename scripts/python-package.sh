#!/usr/bin/env bash
# Prints a folder for PYTHONPATH with the package mscclpp_rs of this checkout and its metadata, without pip: its Python files are links to
# those of mscclpp-python, and its extension module to what `cargo build -p mscclpp-python` has built.
#
# Usage: scripts/python-package.sh [LIBRARY [FOLDER]]
#   LIBRARY  the extension module (target/debug/libmscclpp_rs.so)
#   FOLDER   where the package is made (target/python-package)
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
library=${1:-$target/debug/libmscclpp_rs.so}
folder=${2:-$target/python-package}
if [ ! -f "$library" ]; then
    echo "there is no $library; run cargo build -p mscclpp-python" >&2
    exit 3
fi
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
metadata=$folder/mscclpp_rs-$version.dist-info
mkdir -p "$folder" "$metadata"
find "$folder/mscclpp_rs" -type l -delete 2>/dev/null || true
(cd mscclpp-python/python && find mscclpp_rs -type f -not -path '*/__pycache__/*') | while read -r file; do
    mkdir -p "$folder/$(dirname "$file")"
    ln -s "$PWD/mscclpp-python/python/$file" "$folder/$file"
done
ln -s "$(realpath "$library")" "$folder/mscclpp_rs/_native.abi3.so"
printf 'Metadata-Version: 2.4\nName: mscclpp-rs\nVersion: %s\n' "$version" >"$metadata/METADATA"
# The entry points of pyproject.toml.
sed -n 's/^\[project\.entry-points\."\(.*\)"\]/[\1]/p; s/^\([a-z_]*\) = "\(mscclpp_rs\..*:.*\)"/\1 = \2/p' mscclpp-python/pyproject.toml \
    >"$metadata/entry_points.txt"
echo "$folder"
