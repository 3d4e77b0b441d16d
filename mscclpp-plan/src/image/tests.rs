use proptest::prelude::*;

use super::hash::hash;
use super::layout::{HASH, HASH_END, HEADER};
use super::plan::Bytes;
use super::{ImageError, Plan};
use crate::arbitrary::tree;
use crate::collective::{Collective, CollectiveKind};
use crate::origin::{Origin, SourceLocation};
use crate::types::{BufferKind, ChannelKind, Protocol};
use crate::{ChannelTable, Expectation, Op, PlanTree};

/// Every operation in flat order.
fn flat<'a>(ops: &'a [Op], out: &mut Vec<&'a Op>) {
    for op in ops {
        out.push(op);
        if let Some(body) = &op.body {
            flat(&body.ops, out);
        }
    }
}

fn place<'a>(tree: &'a PlanTree, op: &Op) -> Option<&'a SourceLocation> {
    tree.origins.get(op.origin)
}

/// Reads everything there is through the views and returns how many values that were.
fn walk(plan: &Plan) -> usize {
    let mut count = plan.name().len() + plan.tags().count() + plan.collective().name_len();
    for rank in plan.ranks() {
        count += rank.remote_buffers().count() + rank.semaphores().count();
        count += BufferKind::ALL.map(|buffer| rank.chunks(buffer) as usize & 1).iter().sum::<usize>();
        count += rank.switch_channels().map(|(_, members)| members.count()).sum::<usize>();
        for kind in ChannelKind::ALL {
            count += rank.peers(kind).count();
        }
        for (number, block) in rank.blocks().enumerate() {
            for kind in ChannelKind::ALL {
                count += block.channels(kind).count() + block.remote_buffers(kind).count();
            }
            for (i, op) in block.ops().enumerate() {
                count += op.srcs().count() + op.dsts().count() + op.ids().count() + op.num_blocks() as usize % 2;
                count += usize::from(op.slice().is_some()) + usize::from(op.pipeline().is_some());
                count += usize::from(op.channel().is_some()) + usize::from(op.reduce().is_some());
                count += usize::from(plan.location(0, number as u32, i as u32).is_some()) + op.sync() as usize;
            }
        }
    }
    count
}

trait NameLength {
    fn name_len(&self) -> usize;
}

impl NameLength for crate::collective::Collective {
    fn name_len(&self) -> usize {
        self.kind.name().len()
    }
}

/// Puts the hash right, so that the checks behind it are reached.
fn rehash(image: &mut [u8]) {
    if image.len() >= HASH_END {
        let hash = hash(image);
        image[HASH..HASH_END].copy_from_slice(&hash.to_le_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_tree_comes_back_from_its_image(tree in tree()) {
        let plan = Plan::new(&tree);
        prop_assert_eq!(&plan.tree(), &tree);
        let read = Plan::from_bytes(plan.image().to_vec()).unwrap();
        prop_assert_eq!(&read.tree(), &tree);
        prop_assert_eq!(read.hash(), plan.hash());
        prop_assert!(Plan::new(&read.tree()) == plan);
    }

    #[test]
    fn views_agree_with_the_tree(tree in tree()) {
        let plan = Plan::new(&tree);
        prop_assert_eq!(plan.name(), &tree.name);
        prop_assert_eq!(plan.num_ranks() as usize, tree.ranks.len());
        for (r, rank) in tree.ranks.iter().enumerate() {
            let view = plan.rank(r as u32).unwrap();
            for kind in ChannelKind::ALL {
                prop_assert_eq!(view.peers(kind).collect::<Vec<_>>(), rank.peers(kind));
            }
            let switches: Vec<_> = view.switch_channels().map(|(buffer, ranks)| (buffer, ranks.collect())).collect();
            let expected: Vec<_> = rank.switch_channels().map(|(buffer, ranks)| (buffer, ranks.to_vec())).collect();
            prop_assert_eq!(switches, expected);
            for (b, block) in rank.blocks.iter().enumerate() {
                let view = view.block(b as u32).unwrap();
                for kind in ChannelKind::ALL {
                    prop_assert_eq!(view.channels(kind).collect::<Vec<_>>(), block.channels(kind));
                    prop_assert_eq!(view.remote_buffers(kind).collect::<Vec<_>>(), block.remote_buffers(kind));
                }
                let mut ops = Vec::new();
                flat(&block.ops, &mut ops);
                prop_assert_eq!(view.num_ops() as usize, ops.len());
                for (i, op) in ops.iter().enumerate() {
                    let view = view.op(i as u32).unwrap();
                    prop_assert_eq!(view.kind(), op.kind);
                    prop_assert_eq!(view.channel(), op.channel);
                    prop_assert_eq!(view.reduce(), op.reduce);
                    prop_assert_eq!(view.sync(), op.sync);
                    prop_assert_eq!(view.slice(), op.slice);
                    prop_assert_eq!(view.srcs().collect::<Vec<_>>(), op.srcs.to_vec());
                    prop_assert_eq!(view.dsts().collect::<Vec<_>>(), op.dsts.to_vec());
                    prop_assert_eq!(view.ids().collect::<Vec<_>>(), op.ids.to_vec());
                    prop_assert_eq!(view.num_blocks(), op.num_blocks);
                    prop_assert_eq!(view.pipeline().map(|l| (l.unit, l.num_chunks)),
                        op.body.as_ref().map(|l| (l.unit, l.num_chunks)));
                    prop_assert_eq!(plan.location(r as u32, b as u32, i as u32), place(&tree, op).cloned());
                }
                prop_assert!(view.op(ops.len() as u32).is_none());
                prop_assert!(plan.location(r as u32, b as u32, ops.len() as u32).is_none());
            }
            prop_assert!(view.block(rank.blocks.len() as u32).is_none());
        }
        prop_assert!(plan.rank(tree.ranks.len() as u32).is_none());
    }

    #[test]
    fn origins_come_back_and_do_not_count(tree in tree()) {
        let plan = Plan::new(&tree);
        let read = Plan::from_bytes(plan.image().to_vec()).unwrap();
        prop_assert_eq!(&read, &plan);
        prop_assert!(read.location(0, 0, 0).is_none());
        let read = read.with_origins(plan.origins().to_vec()).tree();
        for (rank, expected) in read.ranks.iter().zip(&tree.ranks) {
            for (block, expected) in rank.blocks.iter().zip(&expected.blocks) {
                let (mut ops, mut wanted) = (Vec::new(), Vec::new());
                flat(&block.ops, &mut ops);
                flat(&expected.ops, &mut wanted);
                for (op, expected) in ops.iter().zip(&wanted) {
                    prop_assert_eq!(place(&read, op), place(&tree, expected));
                }
            }
        }
    }

    #[test]
    fn changed_bytes_are_errors_and_lying_ones_never_panic(
        tree in tree(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        low in any::<bool>(),
    ) {
        let plan = Plan::new(&tree);
        let mut image = plan.image().to_vec();
        for (at, byte) in &changes {
            // Half of the runs aim at the header and the directory, where a byte does most harm.
            let reach = if low { image.len().min(HEADER + 40) } else { image.len() };
            let at = at.index(reach);
            image[at] = *byte;
        }
        if let Some(cut) = cut {
            image.truncate(cut.index(image.len()));
        }
        if image != plan.image() {
            prop_assert!(Plan::from_bytes(image.clone()).is_err());
        }
        let mut origins = plan.origins().to_vec();
        for (at, byte) in &changes {
            if !origins.is_empty() {
                let at = at.index(origins.len());
                origins[at] = *byte;
            }
        }
        rehash(&mut image);
        match Plan::from_bytes(image.clone()) {
            // What is accepted is an image that `new` writes: no second spelling of a plan.
            Ok(read) => prop_assert!(Plan::new(&read.tree()) == read),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        let unchecked = Plan {
            image: Bytes::Shared(image.into()),
            origins: Bytes::Shared(origins.into()),
        };
        walk(&unchecked);
        unchecked.tree();
    }

    #[test]
    fn random_bytes_are_errors(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(Plan::from_bytes(bytes.clone()).is_err());
        let mut bytes = bytes;
        if bytes.len() > 16 {
            bytes[..12].copy_from_slice(b"mscclpp\0\x02\0\0\0");
        }
        let unchecked = Plan::from_static(&[], &[]);
        prop_assert_eq!(walk(&unchecked), "custom".len());
        let unchecked = Plan { image: Bytes::Shared(bytes.into()), origins: Bytes::Static(&[]) };
        walk(&unchecked);
        unchecked.tree();
    }
}

fn empty() -> PlanTree {
    PlanTree {
        name: "empty".into(),
        collective: Collective::new(CollectiveKind::AllGather),
        protocol: Protocol::Simple,
        reuse_resources: false,
        threads_per_block: 1024,
        double_scratch: false,
        buffer_alignment: 16,
        min_message_size: 0,
        max_message_size: u64::MAX,
        ranks_per_node: 0,
        tags: Default::default(),
        ranks: Vec::new(),
        expectations: Vec::new(),
        origins: Default::default(),
    }
}

#[test]
fn outlines_are_told_apart() {
    let image = Plan::new(&empty()).image().to_vec();
    let read = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = image.clone();
        change(&mut image);
        Plan::from_bytes(image).unwrap_err()
    };
    assert_eq!(read(&|image| image[0] = 0), ImageError::Magic { found: image.len() });
    assert_eq!(read(&|image| image[8] = 9), ImageError::Version { found: 9, expected: 3 });
    let length = image.len() as u64;
    assert_eq!(read(&|image| image.push(0)), ImageError::Length { found: length + 1, expected: length });
    assert!(matches!(read(&|image| image[50] = 1), ImageError::Hash { .. }));
    let error = read(&|image| {
        image[44] = 200;
        rehash(image);
    });
    assert_eq!(error.to_string(), "plan image with collective 200 in its header, expected 0 to 9");
}

#[test]
fn a_damaged_section_names_its_rank() {
    let mut tree = empty();
    tree.ranks = vec![Default::default(), Default::default()];
    tree.ranks[1].channels.push(ChannelTable::Memory(vec![0]));
    let mut image = Plan::new(&tree).image().to_vec();
    // The tag of rank 1's channel table, its last five words being tag, first, length, number and the padding behind.
    let at = image.len() - 7 - 4;
    assert_eq!(image[at], 0);
    image[at] = 9;
    rehash(&mut image);
    let error = Plan::from_bytes(image).unwrap_err();
    assert_eq!(error.to_string(), "plan image, rank 1: channel table's tag 9, expected less than 5");
    let diagnostic = crate::diag::Diagnostic::from(error).to_string();
    assert!(diagnostic.contains("M0310") && diagnostic.ends_with("--> rank 1"), "{diagnostic}");
}

#[test]
fn expectations_are_part_of_the_image() {
    let mut tree = empty();
    tree.expectations =
        vec![Expectation { rank: 0, chunk: 300, len: 2, inputs: vec![(1, 2), (0, 5)], origin: Origin::UNKNOWN }];
    let plan = Plan::new(&tree);
    assert_ne!(plan, Plan::new(&empty()));
    let read = Plan::from_bytes(plan.image().to_vec()).unwrap();
    assert_eq!(read.tree(), tree);
    assert_eq!(read.expectations().collect::<Vec<_>>(), tree.expectations);

    // The number of inputs, the fourth of eight words of two bytes after the width.
    let at = HEADER + 8 + "empty".len() + 1 + 2 * 3;
    let mut image = plan.image().to_vec();
    assert_eq!(image[at], 2);
    image[at] = 200;
    rehash(&mut image);
    let error = Plan::from_bytes(image).unwrap_err();
    assert_eq!(
        error.to_string(),
        "plan image with expectations of length 17 in its header, expected whole expectations in words of the least width"
    );
}

#[test]
fn a_plan_is_cheap_to_hand_around() {
    fn shared<T: Clone + Send + std::marker::Sync + 'static>() {}
    shared::<Plan>();
    static IMAGE: &[u8] = b"mscclpp\0";
    static PLAN: Plan = Plan::from_static(IMAGE, &[]);
    assert!(matches!(PLAN.check_header(), Err(ImageError::Version { found: 0, .. })));
}
