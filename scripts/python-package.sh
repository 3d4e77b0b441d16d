#!/usr/bin/env bash
# Prints a folder for PYTHONPATH with the package mscclpp_rs of this checkout and its metadata, without pip: its Python files are links to
# those of mscclpp-python, and its extension module is what `cargo build -p mscclpp-python` has built.
#
# Usage: scripts/python-package.sh [PROFILE]
set -euo pipefail
cd "$(dirname "$0")/.."
profile=${1:-debug}
target=$(cd "${CARGO_TARGET_DIR:-target}" && pwd)
library=$target/$profile/libmscclpp_rs.so
if [ ! -f "$library" ]; then
    echo "there is no $library; run cargo build -p mscclpp-python" >&2
    exit 3
fi
folder=$target/python-package/$profile
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
metadata=$folder/mscclpp_rs-$version.dist-info
mkdir -p "$folder/mscclpp_rs" "$metadata"
for file in mscclpp-python/python/mscclpp_rs/*; do
    case "$file" in */__pycache__) ;; *) ln -sfn "$PWD/$file" "$folder/mscclpp_rs/" ;; esac
done
ln -sfn "$library" "$folder/mscclpp_rs/_native.abi3.so"
printf 'Metadata-Version: 2.4\nName: mscclpp-rs\nVersion: %s\n' "$version" >"$metadata/METADATA"
# The entry points of pyproject.toml.
sed -n 's/^\[project\.entry-points\."\(.*\)"\]/[\1]/p; s/^\([a-z_]*\) = "\(mscclpp_rs\..*:.*\)"/\1 = \2/p' mscclpp-python/pyproject.toml \
    >"$metadata/entry_points.txt"
echo "$folder"
