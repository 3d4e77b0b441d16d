//! Every algorithm records the same program natively and evaluated from its source text.

use mscclpp_algorithms as algorithms;
use mscclpp_algorithms::BufferMode;

#[test]
fn evaluated_traces_equal_native_ones() {
    for algorithm in algorithms::all() {
        let mut tried = 0;
        for ranks in [2, 3, 4, 6, 8, 16] {
            for per_node in 1..=ranks {
                if !algorithm.supports(ranks, per_node) {
                    continue;
                }
                for in_place in [false, true] {
                    if algorithm.buffer_mode() == if in_place { BufferMode::OutOfPlace } else { BufferMode::InPlace } {
                        continue;
                    }
                    let mut spec = algorithm.spec(ranks, per_node);
                    spec.collective.in_place = in_place;
                    for value in algorithm.params().first().map_or(&[1][..], |param| param.values) {
                        let given = algorithm.params().first().map(|param| (param.name, *value));
                        let arguments = algorithm.arguments(given).expect("its own parameter");
                        let args: Vec<_> = arguments.iter().map(|value| *value as i128).collect();
                        let native = algorithm.record(spec.clone(), &arguments).expect("it is correct");
                        let evaluated =
                            mscclpp_eval::probe::trace(algorithm.source(), algorithm.name(), spec.clone(), &args)
                                .unwrap_or_else(|error| panic!("{}, {ranks} ranks: {error}", algorithm.name()));
                        assert!(evaluated == native, "{}: {ranks} ranks, {per_node} per node", algorithm.name());
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 0, "{} was never tried", algorithm.name());
    }
}
