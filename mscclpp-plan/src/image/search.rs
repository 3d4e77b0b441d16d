//! Finds plan images inside other bytes: those that an executable or a library embeds.
//!
//! An image is found by its magic number and the length in its header, and validated in full like one from a file. Time is linear in
//! the number of bytes: accepted images do not overlap, and the bytes hashed for rejected ones are limited.

use std::collections::BTreeSet;

use super::error::ImageError;
use super::hash::hash;
use super::layout::{HASH, HEADER, LENGTH, MAGIC, VERSION, index, u32_at, u64_at};
use super::{Plan, validate};

/// Bytes of rejected images that are hashed, as a multiple of all bytes.
const MAX_HASHED: usize = 4;

/// Rejected images that are reported.
const MAX_REJECTED: usize = 16;

/// Format versions above this one are not taken for those of an image: code that compares magic numbers contains them
/// as well.
const MAX_VERSION: u32 = 255;

/// Number of bytes by which the search advances if a window ends with a byte.
const SHIFTS: [u8; 256] = {
    let mut shifts = [MAGIC.len() as u8; 256];
    let mut at = 0;
    while at + 1 < MAGIC.len() {
        shifts[MAGIC[at] as usize] = (MAGIC.len() - 1 - at) as u8;
        at += 1;
    }
    shifts
};

/// The plans that other bytes contain; see [`Plan::embedded_in`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct EmbeddedPlans {
    /// Each plan once, in the order of their images.
    pub plans: Vec<Plan>,
    /// Positions of bytes that begin like an image but are none, with the reason; at most 16.
    pub rejected: Vec<(usize, ImageError)>,
    /// Whether all bytes were searched. False only for bytes crafted to make the search slow.
    pub is_complete: bool,
}

impl Plan {
    /// Returns the plans whose images are anywhere in some bytes, such as those of an executable. They have no origins.
    ///
    /// # Cost
    /// Linear in the number of bytes.
    #[doc(hidden)]
    pub fn embedded_in(bytes: &[u8]) -> EmbeddedPlans {
        let mut found = EmbeddedPlans { is_complete: true, ..EmbeddedPlans::default() };
        let mut hashes = BTreeSet::new();
        let mut budget = bytes.len().saturating_mul(MAX_HASHED);
        let mut at = 0;
        while let Some(start) = next_magic(bytes, at) {
            at = start + MAGIC.len();
            let rest = &bytes[start..];
            if !(1..=MAX_VERSION).contains(&u32_at(rest, VERSION)) {
                continue;
            }
            let length = index(u64_at(rest, LENGTH)).min(rest.len());
            let image = &rest[..length.max(HEADER.min(rest.len()))];
            match read(image, budget) {
                Ok(plan) => {
                    at = start + image.len();
                    if hashes.insert(plan.hash()) {
                        found.plans.push(plan);
                    }
                }
                Err(Rejected::Budget) => {
                    found.is_complete = false;
                    break;
                }
                Err(Rejected::Image(error, cost)) => {
                    budget -= cost;
                    if found.rejected.len() < MAX_REJECTED {
                        found.rejected.push((start, error));
                    }
                }
            }
        }
        found
    }
}

enum Rejected {
    /// Not an image; with the number of bytes hashed to establish that.
    Image(ImageError, usize),
    /// Reading it would hash more bytes than allowed.
    Budget,
}

/// Reads an image. Allocates nothing until its hash is known to be correct.
fn read(image: &[u8], budget: usize) -> Result<Plan, Rejected> {
    validate::outline(image).map_err(|error| Rejected::Image(error, 0))?;
    let cost = image.len();
    if cost > budget {
        return Err(Rejected::Budget);
    }
    let [low, high] = [HASH, HASH + 8].map(|at| u128::from(u64_at(image, at)));
    let (found, expected) = (hash(image), high << 64 | low);
    if found != expected {
        return Err(Rejected::Image(ImageError::Hash { found, expected }, cost));
    }
    Plan::from_bytes(image.to_vec()).map_err(|error| Rejected::Image(error, cost))
}

/// Returns the first position of a magic number at or after a position.
fn next_magic(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        let window = bytes.get(at..)?.first_chunk::<{ MAGIC.len() }>()?;
        if *window == MAGIC {
            return Some(at);
        }
        at += usize::from(SHIFTS[usize::from(window[MAGIC.len() - 1])]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arbitrary::tree;
    use crate::image::layout::FORMAT;

    fn names(found: &EmbeddedPlans) -> Vec<u128> {
        found.plans.iter().map(Plan::hash).collect()
    }

    proptest! {
        #[test]
        fn every_image_is_found_once_wherever_it_lies(
            trees in prop::collection::vec(tree(), 1..4),
            gaps in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 4),
        ) {
            let plans: Vec<_> = trees.iter().map(Plan::new).collect();
            let mut bytes = gaps[3].clone();
            let mut expected: Vec<u128> = Vec::new();
            for (plan, gap) in plans.iter().chain(&plans).zip(gaps.iter().cycle()) {
                bytes.extend_from_slice(&MAGIC[..gap.len() % 8]);
                bytes.extend_from_slice(plan.image());
                bytes.extend_from_slice(gap);
                if !expected.contains(&plan.hash()) {
                    expected.push(plan.hash());
                }
            }
            let found = Plan::embedded_in(&bytes);
            prop_assert!(found.is_complete && found.rejected.is_empty());
            prop_assert_eq!(names(&found), expected);
        }

        #[test]
        fn no_bytes_cause_a_panic(tree in tree(), cut in any::<prop::sample::Index>(), flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4)) {
            let mut bytes = Plan::new(&tree).image().to_vec();
            for (at, mask) in flips {
                let at = at.index(bytes.len());
                bytes[at] ^= mask;
            }
            let found = Plan::embedded_in(&bytes[..cut.index(bytes.len() + 1)]);
            prop_assert!(found.plans.iter().all(|plan| Plan::from_bytes(plan.image().to_vec()).is_ok()));
        }
    }

    #[test]
    fn truncated_changed_and_older_images_are_rejected_with_the_reason() {
        let image = Plan::new(&crate::testing::plan(&[&["nop"]])).image().to_vec();
        let rejected = |bytes: &[u8]| {
            let found = Plan::embedded_in(bytes);
            assert!(found.plans.is_empty() && found.is_complete);
            found.rejected.into_iter().next().map(|(_, error)| error)
        };
        assert!(matches!(rejected(&image[..image.len() - 1]), Some(ImageError::Length { .. })));
        assert!(matches!(rejected(&image[..30]), Some(ImageError::Length { .. })));
        let mut changed = image.clone();
        changed[HEADER + 1] ^= 1;
        assert!(matches!(rejected(&changed), Some(ImageError::Hash { .. })));
        let mut older = image.clone();
        older[VERSION] = FORMAT as u8 - 1;
        assert!(matches!(rejected(&older), Some(ImageError::Version { .. })));
        // A magic number that code compares with.
        assert!(rejected(b"...mscclpp\0\x48\x89\xc7\xe8....").is_none());
        assert!(rejected(b"").is_none());
    }

    #[test]
    fn bytes_made_to_take_long_are_given_up() {
        // Each claims to last until the end.
        let count = 20_000;
        let size = HEADER + 8;
        let mut bytes = vec![0; count * size];
        let total = bytes.len();
        for start in (0..total).step_by(size) {
            bytes[start..start + 8].copy_from_slice(&MAGIC);
            bytes[start + VERSION] = FORMAT as u8;
            bytes[start + LENGTH..start + LENGTH + 8].copy_from_slice(&((total - start) as u64).to_le_bytes());
        }
        let found = Plan::embedded_in(&bytes);
        assert!(!found.is_complete);
        assert_eq!(found.rejected.len(), MAX_HASHED);
    }
}
