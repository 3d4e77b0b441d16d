#!/usr/bin/env bash
# Builds the book from docs/ into target/book with mdBook: the one on PATH, or one that is installed into target/mdbook first.
# Fails if a page is not in docs/SUMMARY.md, or if a link between pages leads nowhere. Only the installation needs a network.
#
# Usage: scripts/book.sh [--check]      --check: only pages and links, without mdBook
set -euo pipefail
cd "$(dirname "$0")/.."

# The version that docs/book.toml was written for.
version=0.5.4

# What mdBook does not check: links and anchors. The test reads docs/, CONTRIBUTING.md and README.md.
cargo test --quiet --workspace --test repository book
[ "${1:-}" != --check ] || exit 0

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
mdbook=$(command -v mdbook || echo "$target/mdbook/bin/mdbook")
if ! [ -x "$mdbook" ]; then
    echo "installing mdbook $version into target/mdbook"
    # Not optimized: the build takes longer than the book.
    CARGO_TARGET_DIR="$target/mdbook/build" cargo install --quiet --debug --locked --no-default-features --features search \
        --version "$version" --root "$target/mdbook" mdbook
fi
"$mdbook" build docs --dest-dir "$target/book"
echo "$target/book/index.html"
