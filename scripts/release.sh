#!/usr/bin/env bash
# Rehearses the release of the version in Cargo.toml, or makes it.
#
# Usage: MSCCLPP_CONFORMANCE=FOLDER scripts/release.sh [--publish]
#
# A rehearsal runs .ci/run, scripts/full.sh (an interrupted run continues), the dry run of `cargo publish`, and builds and tries the
# wheels for x86-64 and aarch64. With --publish the crates go to crates.io, the wheels to PyPI (`MATURIN_PYPI_TOKEN`), and the commit gets
# a tag, which is not pushed. What needs a device, scripts/gpu.sh, has to be run beforehand.
set -euo pipefail
cd "$(dirname "$0")/.."

publish=
case "${1:-}" in
'') ;;
--publish) publish=1 ;;
*) sed -n 's/^# Usage: /usage: /p' "$0" >&2 && exit 2 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
[ -z "$(git status --porcelain)" ] || { echo "the checkout has changes that are not committed" >&2; exit 1; }
heading=$(grep -m 1 "^## $version" CHANGELOG.md) || { echo "CHANGELOG.md does not name $version" >&2; exit 1; }
if [ -n "$publish" ] && [[ $heading == *unreleased* ]]; then
    echo "CHANGELOG.md calls $version unreleased; it needs the date" >&2
    exit 1
fi

.ci/run
scripts/full.sh
cargo publish --dry-run --workspace

wheels=${CARGO_TARGET_DIR:-target}/wheels
tools=${CARGO_TARGET_DIR:-target}/wheel-tools
[ -x "$tools/bin/maturin" ] || { python3 -m venv "$tools" && "$tools/bin/pip" install --quiet maturin==1.16.0 ziglang==0.17.1; }
PATH=$(realpath "$tools")/bin:$PATH scripts/wheels.sh x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu
ls -l "$wheels"/*"$version"*.whl
scripts/wheels-check.sh

[ -n "$publish" ] || exit 0
cargo publish --workspace
"$tools/bin/maturin" upload --skip-existing "$wheels"/*"$version"*.whl
git tag "v$version"
