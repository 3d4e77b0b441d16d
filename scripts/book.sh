#!/usr/bin/env bash
# Builds the book from docs/ into target/book with mdBook: the one on PATH, or one that is installed into target/mdbook first.
# Appendices have what the commands print: their help, the explanation of each error, what `#[collective]` evaluates, the operations
# of plans, environment variables, the cost of each algorithm and a page that shows it over time, plans by default.
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

# docs/ with the appendices, which are not committed.
cargo build --quiet -p mscclpp-cli
export PATH="$target/debug:$PATH" NO_COLOR=1
source=$target/book-source
rm -rf "$source"
cp -r docs "$source"
# Prints commands as a heading each, with their output.
shown() {
    while read -r command; do
        printf '\n## `%s`\n\n```text\n%s\n```\n' "$command" "$($command)"
    done
}
# The names of the commands that a help lists.
names() {
    sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' | grep -v '^help$'
}
{
    echo '# Appendix: help of the commands'
    {
        mscclpp --help | names | grep -v '^plan$' | sed 's/.*/mscclpp & --help/'
        mscclpp plan --help | names | sed 's/.*/mscclpp plan & --help/'
        echo 'cargo-mscclpp mscclpp --help'
    } | shown
} >"$source/commands.md"
{
    echo '# Appendix: errors'
    mscclpp explain --json | python3 -c '
import json, sys
for code in json.load(sys.stdin):
    print("\n## {code} {slug}\n\n**{rule}.**\n\n{explanation}".format(**code))'
} >"$source/errors.md"
{ printf '# Appendix: environment variables\n\n'; mscclpp doctor --variables; } >"$source/variables.md"
{ printf '# Appendix: operations of plans\n\n'; mscclpp plan schema --operations; } >"$source/operations.md"
mscclpp explain --subset | sed '1s/^# What/# Appendix: what/' >"$source/subset.md"
{
    echo '# Appendix: algorithms'
    printf 'mscclpp plan list\nmscclpp plan list --cost\n' | shown
    printf '\n## Algorithms over time\n\nPredictions for 64 KiB on one node of 8 H100, or on two such nodes.\n\n'
    mkdir "$source/algorithms"
    mscclpp plan list --json | python3 -c '
import json, sys
for algorithm in json.load(sys.stdin):
    is_between = algorithm["runs_on"].startswith(("at least 2 nodes", "2 nodes"))
    print(algorithm["name"], "2x8xh100" if is_between else "8xh100")' | while read -r name machine; do
        mscclpp simulate "$name" --machine "$machine" --size 64K --html "$source/algorithms/$name.html" >/dev/null
        printf -- '- [`%s`](algorithms/%s.html) on %s\n' "$name" "$name" "$machine"
    done
    printf '\n## Plans by default on devices\n\n```text\n%s\n```\n' "$(cat mscclpp-exec/tests/default_plans.txt)"
} >"$source/algorithms.md"
cat >>"$source/SUMMARY.md" <<'END'

# Appendices

- [Help of the commands](commands.md)
- [Errors](errors.md)
- [What `#[collective]` evaluates](subset.md)
- [Operations of plans](operations.md)
- [Environment variables](variables.md)
- [Algorithms](algorithms.md)
END
"$mdbook" build "$source" --dest-dir "$target/book"
echo "$target/book/index.html"
