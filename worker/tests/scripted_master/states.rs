//! States that a worker goes on from: larger ones than it would save itself, and ones of which its
//! own copy is damaged.

use std::io::{Read, repeat};

use super::*;

impl Master {
    /// A saved state with this one file.
    fn state_of(&self, path: &str, blob: BlobRef) -> Saved {
        let file = ListedFile::new(path.parse().unwrap(), blob);
        self.saved(self.list(vec![file]))
    }
}

pub(super) async fn a_state_larger_than_a_worker_saves_is_gone_on_from_as_far_as_its_disk_allows() {
    let mut master = Master::new();
    let config = Config {
        disk_limit_bytes: 1 << 20,
        ..config()
    };
    assert!(config.checkpoint_limit_bytes < 200_000);
    let (_stop, _run) = master.start_as(config);
    let mut worker = master.welcome(vec![]).await;
    let count = "cat $DESKGRID_CHECKPOINT_DIR/* | wc -c";
    let state = |master: &Master, bytes| {
        let blob = master.blobs.add_reader(repeat(7).take(bytes)).unwrap();
        Some(master.state_of("large", blob))
    };

    let large = state(&master, 200_000);
    worker.assign(vec![saving(1, count, SELDOM, large)]).await;
    let done = worker.delivered().await.remove(0);
    let all = Content::Inline(b"200000\n".to_vec());
    assert_eq!(done.stdout.content, all, "{done:?}");

    let too_large = state(&master, 2 << 20);
    worker
        .assign(vec![saving(2, "true", SELDOM, too_large)])
        .await;
    let (_, 0, Saving::FromScratch(why)) = worker.checkpoint().await else {
        panic!("used")
    };
    assert!(why.contains("at most"), "{why}");
}

pub(super) async fn a_state_whose_copy_on_this_host_is_damaged_is_fetched_again() {
    let (master, _stop, mut worker) = welcomed().await;
    let step = master.blobs.add_reader(&b"healthy"[..]).unwrap();
    let state = master.state_of("step", step);
    let cached = BlobStore::open(&master.home().join("cache")).unwrap();

    for (index, damaged) in (1..).zip([None, Some(step), Some(state.manifest)]) {
        if let Some(blob) = damaged {
            let bytes = vec![b'x'; blob.size as usize];
            fs::write(cached.path_of(&blob.hash), bytes).unwrap();
        }
        let script = "cat $DESKGRID_CHECKPOINT_DIR/step";
        worker
            .assign(vec![saving(index, script, SELDOM, Some(state))])
            .await;

        let done = worker.delivered().await.remove(0);
        let whole = Content::Inline(b"healthy".to_vec());
        assert_eq!(done.stdout.content, whole, "{index}: {done:?}");
    }
}
