#!/usr/bin/env bash
# Packages all published crates, and builds and runs a program outside of the workspace that uses the packaged files alone.
#
# Usage: scripts/package.sh [CARGO-PACKAGE-OPTION...]      for example --allow-dirty
#
# The crates are listed in the order in which they have to be published, which CONTRIBUTING.md explains.
set -euo pipefail
cd "$(dirname "$0")/.."

crates=(mscclpp-plan mscclpp-trace mscclpp-check mscclpp-predict mscclpp-core mscclpp-eval mscclpp-macros mscclpp-algorithms mscclpp-find mscclpp-bootstrap mscclpp-kernels mscclpp-images
    mscclpp-fuzz mscclpp-base mscclpp-transport mscclpp-cuda mscclpp-exec mscclpp-select mscclpp-communicator mscclpp-validate mscclpp mscclpp-nccl
    mscclpp-cli)
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A crate that is published and not listed would be missed.
published=$(grep -L '^publish = false' ./*/Cargo.toml | xargs grep -hm 1 '^name = ' | cut -d '"' -f 2 | sort)
listed=$(printf '%s\n' "${crates[@]}" | sort)
[ "$listed" = "$published" ] || {
    printf 'published crates, < as listed in %s, > as their manifests say:\n' "$0"
    diff <(echo "$listed") <(echo "$published")
    exit 1
}

cargo package --no-verify --quiet "$@" "${crates[@]/#/-p=}"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
for crate in "${crates[@]}"; do
    package=$target/package/$crate-$version.crate
    bytes=$(stat -c %s "$package")
    printf '%-20s %6d KiB\n' "$crate" $((bytes / 1024))
    # crates.io takes no more.
    [ "$bytes" -le $((10 << 20)) ] || { echo "$crate is packaged in $bytes bytes, expected at most 10 MiB"; exit 1; }
    tar xzf "$package" -C "$work"
    for file in LICENSE-MIT LICENSE-APACHE README.md; do
        [ -f "$work/$crate-$version/$file" ] || { echo "$crate is packaged without $file"; exit 1; }
    done
done

mkdir -p "$work/outside/src"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["outside", "outside-cuda", "mscclpp-cli-%s"]\n\n[patch.crates-io]\n' "$version"
    for crate in "${crates[@]}"; do printf '%s = { path = "%s-%s" }\n' "$crate" "$crate" "$version"; done
} >"$work/Cargo.toml"
cp Cargo.lock "$work/"
cat >"$work/outside/Cargo.toml" <<TOML
[package]
name = "outside"
version = "0.0.0"
edition = "2024"

[dependencies]
mscclpp = "$version"
mscclpp-fuzz = "$version"
TOML
cat >"$work/outside/src/main.rs" <<'RUST'
use mscclpp::prelude::*;

#[collective(AllGather, ranks = 2, in_place)]
fn swap(p: &Program) {
    for src in p.ranks() {
        for dst in p.ranks().filter(|dst| dst.id() != src.id()) {
            let channel = src.memory_channel(dst);
            channel.signal(0).relaxed();
            channel.wait(0).relaxed().sync(BlockSync::After);
            channel.put(dst.output().chunk(src.id()), src.output().chunk(src.id()), 0);
            channel.signal(0).sync(BlockSync::Before);
            channel.wait(0).sync(BlockSync::After);
        }
    }
}

fn main() -> mscclpp::Result<()> {
    let mut buffers = [[1, 0], [0, 2]];
    Executor::new(2).run_in_place(swap::plan(2), &mut buffers)?;
    assert_eq!(buffers, [[1, 2], [1, 2]]);
    assert_eq!(mscclpp_fuzz::ScheduleFuzzer::new(&swap::plan(2).tree()).find_failure(0..10), Ok(None));
    println!("a program outside of the workspace runs on the packaged crates");
    Ok(())
}
RUST
# A program that has chosen other bindings than the command.
mkdir -p "$work/outside-cuda/src"
cat >"$work/outside-cuda/Cargo.toml" <<TOML
[package]
name = "outside-cuda"
version = "0.0.0"
edition = "2024"

[dependencies]
cudarc = { version = "0.19", default-features = false, features = ["driver", "dynamic-loading", "cuda-12080"] }
mscclpp = { version = "$version", features = ["cuda"] }
TOML
awk '/^```rust/ { inside = 1; next } /^```/ { if (inside) exit } inside' docs/cuda.md >"$work/outside-cuda/src/main.rs"

export CARGO_TARGET_DIR=$target/outside
# Away from the configuration of the workspace.
cd "$work"
unset CUDARC_CUDA_VERSION
cargo run --quiet -p outside
# Programs for CPUs compile neither the CUDA executor nor device code.
if cargo tree -p outside --prefix none | grep -E '^(cudarc|mscclpp-kernels|mscclpp-images) '; then
    echo "a program with default features depends on CUDA code"
    exit 1
fi
cargo run --quiet -p outside-cuda
cargo run --quiet -p mscclpp-cli -- check allreduce_ring
# The plan in the program outside, found by the command as users call it.
plans=$(cargo run --quiet -p mscclpp-cli --bin cargo-mscclpp -- mscclpp list --quiet -p outside --bin outside)
echo "$plans"
grep -q '^swap .*bin `outside`' <<<"$plans" || { echo "cargo mscclpp list does not find the plan of the program outside"; exit 1; }
