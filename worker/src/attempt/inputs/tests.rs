//! Large inputs that a task gets as links to the files of the cache.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::watch;

use super::super::disk::DiskLimits;
use super::*;
use crate::cache::Cache;
use crate::peers::InputPeers;

/// Places inputs of these sizes for a task that may have links to the cached files.
async fn linked(inputs: &[(&str, u64)]) -> (tempfile::TempDir, PathBuf, Vec<PlacedInput>) {
    let top = tempfile::tempdir().unwrap();
    let [store, trees, home] = ["cache", "trees", "attempt"].map(|name| top.path().join(name));
    fs::create_dir(&home).unwrap();
    let blobs = link::BlobStore::open(&store).unwrap();
    let peers = Arc::new(InputPeers::new(&crate::Config::default()));
    let master = watch::channel(None).1;
    let cache = Arc::new(Cache::open((&store, &trees), 1 << 30, master, peers).unwrap());

    let mut here = Vec::new();
    for (path, size) in inputs {
        let blob = blobs.add_reader(io::repeat(7).take(*size)).unwrap();
        let input = StagedInput {
            path: path.parse().unwrap(),
            blob,
            kind: StagedKind::File,
        };
        here.push((cache.fetch(blob).await.unwrap(), input));
    }
    let placing = Placing {
        sharing: Sharing::Link,
        own: BTreeSet::new(),
    };
    let (placed, damaged) = placing.place(here, &home).await.unwrap();
    assert!(damaged.is_empty());
    (top, home, placed)
}

#[tokio::test]
async fn an_input_that_shares_its_content_with_the_cache_takes_no_disk_of_the_tasks() {
    let (_top, home, placed) = linked(&[("large", LARGE), ("small", 5)]).await;
    let shares: Vec<_> = placed
        .iter()
        .map(|input| input.shared().is_some())
        .collect();
    assert_eq!(shares, [true, false]);
    let shared: BTreeSet<_> = placed.iter().filter_map(PlacedInput::shared).collect();
    let limits = DiskLimits {
        bytes: Some(1 << 20),
        files: None,
        shared: Arc::new(shared),
    };
    assert_eq!(limits.exceeded(&home), None);
}

#[tokio::test]
async fn an_input_is_not_removed_for_another_one_whose_link_it_could_be() {
    let (_top, home, placed) = linked(&[("data.link", LARGE), ("data", LARGE)]).await;
    for input in placed {
        let size = fs::metadata(home.join(&input.path)).unwrap().len();
        assert!(size == LARGE && input.shared().is_some(), "{input:?}");
    }
    assert_eq!(fs::read_dir(&home).unwrap().count(), 2);
}
