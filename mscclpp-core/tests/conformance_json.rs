//! Every reference plan reads, and writes back as the same JSON value, through the tree and through the image.
//!
//! The plans are those of the directory in `MSCCLPP_CONFORMANCE`; without the variable there is nothing to compare with.

use std::path::PathBuf;

use mscclpp_core::plan::Plan;
use mscclpp_core::plan::json::{ReadOptions, Style, read, read_rank, write};
use serde_json::Value;

/// File name and text of every reference plan; `None`, and a word about it, if they are not there.
fn plans() -> Option<Vec<(String, String)>> {
    let Some(directory) = std::env::var_os("MSCCLPP_CONFORMANCE").map(PathBuf::from) else {
        println!("skipped: MSCCLPP_CONFORMANCE does not name a directory of reference plans");
        return None;
    };
    let index: Value = serde_json::from_str(&std::fs::read_to_string(directory.join("index.json")).unwrap()).unwrap();
    let slugs = index.as_array().unwrap().iter().map(|plan| plan["slug"].as_str().unwrap().to_owned());
    let plans: Vec<_> = slugs
        .map(|slug| {
            let text = std::fs::read_to_string(directory.join(format!("{slug}.json"))).unwrap();
            (slug, text)
        })
        .collect();
    assert!(plans.len() > 200, "found {} reference plans", plans.len());
    Some(plans)
}

#[test]
fn reference_plans_come_back() {
    for (slug, text) in plans().unwrap_or_default() {
        let (tree, warnings) =
            read(&text, ReadOptions { strict: true }).unwrap_or_else(|error| panic!("{slug}: {error}"));
        assert_eq!(warnings, [], "{slug}");
        let expected: Value = serde_json::from_str(&text).unwrap();
        let compact = write(&tree, Style::Compact);
        assert_eq!(serde_json::from_str::<Value>(&compact).unwrap(), expected, "{slug}");
        // Not only the value: the order of keys and lists as well.
        assert_eq!(compact, text.trim_end(), "{slug}");
        let pretty = write(&tree, Style::Pretty);
        assert_eq!(serde_json::from_str::<Value>(&pretty).unwrap(), expected, "{slug}");
    }
}

#[test]
fn reference_plans_come_back_from_images() {
    for (slug, text) in plans().unwrap_or_default() {
        let (tree, _) = read(&text, ReadOptions::default()).unwrap();
        let plan = Plan::new(&tree);
        assert_eq!(plan.tree(), tree, "{slug}");
        let read = Plan::from_bytes(plan.image().to_vec()).unwrap_or_else(|error| panic!("{slug}: {error}"));
        assert_eq!(read.tree(), tree, "{slug}");
    }
}

#[test]
fn one_rank_is_read_as_in_the_whole_plan() {
    for (slug, text) in plans().unwrap_or_default() {
        let (tree, _) = read(&text, ReadOptions::default()).unwrap();
        for rank in 0..tree.ranks.len() {
            let mut expected = tree.clone();
            for (other, plan) in expected.ranks.iter_mut().enumerate() {
                if other != rank {
                    *plan = Default::default();
                }
            }
            assert_eq!(read_rank(&text, rank as u32).unwrap(), expected, "{slug} rank {rank}");
        }
    }
}
