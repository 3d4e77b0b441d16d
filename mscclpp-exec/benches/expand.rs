//! Expansion of `#[collective]` on the built-in algorithms: parse, evaluate, lower, check, encode, emit.
//!
//! `cargo bench -p mscclpp-exec --bench expand` with the evaluator optimized; with `--profile dev` as users' macros run
//! it, in every profile of theirs. `docs/measured.md` contains the results.
#![allow(missing_docs, reason = "a benchmark has no readers of documentation")]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mscclpp_algorithms as algorithms;
use quote::ToTokens;

/// Returns the attribute's arguments and the function after it, of the file that contains an algorithm.
fn tokens(source: &str, name: &str) -> Option<(proc_macro2::TokenStream, proc_macro2::TokenStream)> {
    let file = syn::parse_file(source).ok()?;
    let mut function = file.items.into_iter().find_map(|item| match item {
        syn::Item::Fn(function) if function.sig.ident == name => Some(function),
        _ => None,
    })?;
    let position = function.attrs.iter().position(|attr| attr.path().is_ident("collective"))?;
    let attribute = function.attrs.remove(position);
    let args = attribute.meta.require_list().ok()?.tokens.clone();
    Some((args, function.into_token_stream()))
}

fn expand(c: &mut Criterion) {
    let mut group = c.benchmark_group("expand");
    group.sample_size(10);
    for algorithm in algorithms::all() {
        let Some((args, item)) = tokens(algorithm.source(), algorithm.name()) else { continue };
        group.bench_function(BenchmarkId::from_parameter(algorithm.name()), |b| {
            b.iter(|| mscclpp_eval::collective(args.clone(), item.clone()));
        });
    }
    group.finish();
}

criterion_group!(benches, expand);
criterion_main!(benches);
