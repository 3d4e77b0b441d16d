//! Intended differences between the plans of this project and those of the reference. The identifiers are those of
//! `docs/differences.md`.

/// An identifier, and a predicate on the output of [`differences`](super::compare::differences).
pub(crate) type Difference = (&'static str, fn(&str) -> bool);

/// Returns the differences of a plan; the name of a variant ends with its overrides.
pub(crate) fn of(name: &str) -> &'static [Difference] {
    let slug = name.split(' ').next().unwrap_or(name);
    KNOWN.iter().find(|(known, _)| *known == slug).map_or(&[], |(_, known)| known)
}

/// The packet destination of a fused reduction is shifted per instance like every other chunk.
const PACKET_SHIFT: Difference = ("DIFF-14", |found| found.contains(".dst_buff[1].index: "));
/// Instances split chunk ranges that cannot be interleaved unchanged.
const SPLIT: Difference = ("DIFF-15", |found| found.contains("\"size\":1") && found.contains("\"size\":2"));
/// Reductions into another chunk than their accumulator do not fuse, since that would change the result.
const NO_ACCUMULATION: Difference = ("DIFF-01", |found| {
    ["\"name\":\"re\"", "\"name\":\"rre\"", "\"name\":\"repkt\""].iter().any(|name| found.contains(name))
});
/// Two puts with signals on one channel do not fuse, since that would lose their order.
const SIGNALLING_PUTS: Difference = ("DIFF-03", |found| found.contains("\"name\":\"pws\""));

/// Every plan that differs, with its differences.
pub(crate) const KNOWN: &[(&str, &[Difference])] = &[
    ("exec-reduce-i2", &[SPLIT]),
    ("exec-reduce_pack_tbg-i2", &[PACKET_SHIFT]),
    ("multi-reducescatter_pkt-n2x4-i2", &[PACKET_SHIFT]),
    ("unit-put_with_signal_fuse_test-patched", &[SIGNALLING_PUTS]),
    ("unit-read_reduce_fuse_test", &[NO_ACCUMULATION]),
    ("unit-read_reduce_fuse_test-i2", &[NO_ACCUMULATION]),
    ("unit-reduce_copy_packet_test-i2", &[PACKET_SHIFT]),
    ("unit-reduce_copy_send_packet_test-i2", &[PACKET_SHIFT]),
    ("unit-reduce_fuse_test", &[NO_ACCUMULATION]),
    ("unit-reduce_fuse_test-i2", &[NO_ACCUMULATION]),
    ("unit-reduce_packets_fuse_test", &[NO_ACCUMULATION]),
    ("unit-reduce_packets_fuse_test-i2", &[NO_ACCUMULATION]),
    ("unit-tbg_reduce_fuse_test", &[NO_ACCUMULATION]),
    ("unit-tbg_reduce_fuse_test-i2", &[NO_ACCUMULATION]),
];
