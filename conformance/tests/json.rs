//! Every reference plan can be read, and is written as the same JSON value, through the tree and through the image.

use mscclpp_core::export::for_reference;
use mscclpp_core::plan::Plan;
use mscclpp_core::plan::diff::diff;
use mscclpp_core::plan::json::{ReadOptions, Style, read, write};
use serde_json::Value;

/// File name, text and index entry of every reference plan.
fn plans() -> Vec<(String, String, Value)> {
    conformance::index()
        .into_iter()
        .map(|entry| {
            let slug = entry["slug"].as_str().expect("a name").to_owned();
            (slug.clone(), conformance::text(&format!("{slug}.json")), entry)
        })
        .collect()
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_round_trip_as_json() {
    for (slug, text, _) in plans() {
        let (tree, warnings) =
            read(&text, ReadOptions::default().strict(true)).unwrap_or_else(|error| panic!("{slug}: {error}"));
        assert_eq!(warnings, [], "{slug}");
        let expected: Value = serde_json::from_str(&text).unwrap();
        let compact = write(&tree, Style::Compact);
        assert_eq!(serde_json::from_str::<Value>(&compact).unwrap(), expected, "{slug}");
        // Compares the order of keys and lists as well, not only the value.
        assert_eq!(compact, text.trim_end(), "{slug}");
        let pretty = write(&tree, Style::Pretty);
        assert_eq!(serde_json::from_str::<Value>(&pretty).unwrap(), expected, "{slug}");
    }
}

#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn reference_plans_round_trip_through_images() {
    for (slug, text, _) in plans() {
        let (tree, _) = read(&text, ReadOptions::default()).unwrap();
        let plan = Plan::new(&tree);
        assert_eq!(plan.tree(), tree, "{slug}");
        let read = Plan::from_bytes(plan.image().to_vec()).unwrap_or_else(|error| panic!("{slug}: {error}"));
        assert_eq!(read.tree(), tree, "{slug}");
    }
}

/// The result of the reference's own loader: every plan that it loads can be exported unchanged, except for what its
/// executor then executes wrongly; where it writes past the end of its arrays, the plan is split or rejected.
#[test]
#[cfg_attr(not(reference_plans), ignore = "MSCCLPP_CONFORMANCE does not name a directory of reference plans")]
fn exports_agree_with_the_reference_loader() {
    let mut split = 0;
    for (slug, text, entry) in plans() {
        let (tree, _) = read(&text, ReadOptions::default()).unwrap();
        let verdict = entry["cxx_loader"].as_str().unwrap_or_default();
        match for_reference(&tree) {
            Ok(exported) => {
                assert!(verdict == "ok" || verdict.starts_with("undefined behaviour"), "{slug}: {verdict}");
                let changed = diff(&tree, &exported);
                let beside_size = changed.iter().filter(|one| one.what != "max message size").count();
                assert_eq!(beside_size == 0, verdict == "ok", "{slug}: {verdict}\n{changed:#?}");
                split += usize::from(beside_size != 0);
                assert_eq!(for_reference(&exported).as_ref(), Ok(&exported), "{slug}: a second export changes more");
                let text = write(&exported, Style::Compact);
                assert_eq!(read(&text, ReadOptions::default().strict(true)).unwrap().0, exported, "{slug}");
            }
            // The loader checks the number of operations only at the first launch, and never a get's chunks.
            Err(found) if verdict == "ok" => {
                let late = |message: &str| {
                    message.contains("operations, the limit of the reference executor is 64")
                        || message.contains("swaps the two")
                };
                assert!(found.iter().all(|one| late(&one.message)), "{slug}: {found}");
            }
            Err(_) => {}
        }
    }
    assert!(split >= 3, "{split} plans were split");
}
