//! The hash of an image: equal plans have equal hashes on every machine; a collision of different plans is practically
//! impossible.
//!
//! Two multiplicative lanes over 64-bit little-endian words. Each step is a bijection of the lane for a given word, so
//! that a change of any one word always changes both lanes. The hash detects damage and mix-ups, not forgery.

use super::layout::{HASH, HASH_END};

const SEEDS: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];
const PRIMES: [u64; 2] = [0x9e37_79b1_85eb_ca87, 0xc2b2_ae3d_27d4_eb4f];

/// Returns the hash of all bytes of an image except the hash field.
pub(super) fn hash(image: &[u8]) -> u128 {
    let mut lanes = SEEDS;
    absorb(&mut lanes, image.get(..HASH).unwrap_or(image));
    absorb(&mut lanes, image.get(HASH_END..).unwrap_or_default());
    let [a, b] = [finish(lanes[0]), finish(lanes[1] ^ image.len() as u64)];
    u128::from(a) << 64 | u128::from(b)
}

fn absorb(lanes: &mut [u64; 2], bytes: &[u8]) {
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        step(lanes, u64::from_le_bytes(*word));
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        step(lanes, u64::from_le_bytes(last));
    }
}

fn step(lanes: &mut [u64; 2], word: u64) {
    lanes[0] = (lanes[0] ^ word).wrapping_mul(PRIMES[0]).rotate_left(29);
    lanes[1] = lanes[1].wrapping_add(word).rotate_left(41).wrapping_mul(PRIMES[1]);
}

/// Spreads every bit of a lane over all other bits.
fn finish(mut lane: u64) -> u64 {
    lane = (lane ^ (lane >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    lane = (lane ^ (lane >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    lane ^ (lane >> 31)
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn every_bit_outside_the_field_counts() {
        let bytes: Vec<u8> = (0..=255).collect();
        let plain = hash(&bytes);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert_eq!(hash(&changed) == plain, (24..40).contains(&at), "byte {at} bit {bit}");
            }
        }
        assert_ne!(hash(&bytes[..255]), plain);
        assert_ne!(hash(&[0; 48]), hash(&[0; 49]));
    }
}
