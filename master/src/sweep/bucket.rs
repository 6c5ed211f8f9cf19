//! Deletes objects of a bucket: those that were condemned some time ago, and never another one. Objects
//! that the store does not know, since a master died between an upload and the note of it, are found
//! by listing the bucket once a day, and condemned first.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use common::Span;
use common::content::BlobHash;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::content_place::{CONTENT, ListedObject, Objects, name_of, object_of};
use crate::core::ask::UpkeepAsk;
use crate::run::SessionContext;
use crate::store::{LiveObject, ObjectName};

/// The objects that are deleted between two notes of it, and at a time.
const PORTION: usize = 1_000;
const AT_ONCE: usize = 8;
/// The time between two lists of the bucket.
const LIST_EVERY: Duration = Duration::from_secs(86_400);
/// The age from which an object that the store does not know is left over. An upload is noted before
/// half of it (`LONGEST_UPLOAD` of the core).
const LEFT_OVER: Duration = Duration::from_secs(86_400);

/// The sweep of a bucket; remembers when it listed it.
#[derive(Debug, Default)]
pub(super) struct BucketSweep {
    listed: Option<Instant>,
}

impl BucketSweep {
    /// Deletes what was condemned longer than `wait` ago, and once a day condemns what is left over.
    /// The error is for the log.
    pub(super) async fn sweep(
        &mut self,
        state: &SessionContext,
        objects: &Objects,
        wait: Duration,
    ) -> Result<(), String> {
        delete_condemned(state, objects, wait.into()).await?;

        let due = self.listed.is_none_or(|at| at.elapsed() >= LIST_EVERY);
        if due {
            compare_list(state, objects).await?;
            self.listed = Some(Instant::now());
        }
        Ok(())
    }
}

async fn delete_condemned(
    state: &SessionContext,
    objects: &Objects,
    wait: Span,
) -> Result<(), String> {
    loop {
        let reader = state.reader.clone();
        let before = state.clock.now() - wait;
        let condemned = move || reader.condemned_objects(before, PORTION);
        let condemned = tokio::task::spawn_blocking(condemned).await;
        let condemned = condemned
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())?;
        if condemned.is_empty() {
            return Ok(());
        }

        let (deleted, failed) = delete(objects, &condemned).await;
        let whole = deleted.len() == PORTION;
        let count = deleted.len();
        let noted = state
            .core
            .ask::<()>(UpkeepAsk::ObjectsDeleted(deleted))
            .await;
        noted.map_err(|_| "the master ends".to_owned())?;
        tracing::info!(
            count,
            "objects of the bucket that nobody needs were deleted"
        );
        if let Some(why) = failed {
            return Err(why);
        }
        if !whole {
            return Ok(());
        }
    }
}

/// Deletes the objects `names`, and returns those that are gone, and why others are not.
async fn delete(objects: &Objects, names: &[ObjectName]) -> (Vec<ObjectName>, Option<String>) {
    let mut deleted = Vec::new();
    let mut failed = None;
    let mut running = JoinSet::new();
    let mut rest = names.iter().copied();
    loop {
        while failed.is_none()
            && running.len() < AT_ONCE
            && let Some(name) = rest.next()
        {
            let objects = objects.clone();
            running.spawn(async move { (name, objects.delete(&name_of(name)).await) });
        }

        match running.join_next().await {
            None => return (deleted, failed),
            Some(Ok((name, Ok(())))) => deleted.push(name),
            Some(Ok((_, Err(error)))) => failed = Some(error.to_string()),
            Some(Err(panic)) => failed = Some(panic.to_string()),
        }
    }
}

/// Lists the bucket, condemns objects that the store does not know and that are older than any upload that
/// lasts, and looks for those that the store knows and the list does not.
async fn compare_list(state: &SessionContext, objects: &Objects) -> Result<(), String> {
    let mut count = 0;
    for start in 0..=u8::MAX {
        // Before the list: what is noted by now was uploaded before it.
        let noted = state.blobs.index().map(|index| index.starting_with(start));
        let listed = objects
            .list(&format!("{CONTENT}/{start:02x}"), usize::MAX)
            .await;
        let listed = listed.map_err(|e| e.to_string())?;
        for name in missing(noted.unwrap_or_default(), &listed) {
            state.blobs.look_for(&state.core, name).await;
        }

        let old = old_names(&listed, SystemTime::now());
        if old.is_empty() {
            continue;
        }

        let reader = state.reader.clone();
        let unknown = tokio::task::spawn_blocking(move || reader.unknown_objects(&old)).await;
        let unknown = unknown
            .map_err(|e| e.to_string())?
            .map_err(|e| e.to_string())?;
        count += unknown.len();
        for portion in unknown.chunks(PORTION).map(<[ObjectName]>::to_vec) {
            let condemned = state
                .core
                .ask::<()>(UpkeepAsk::CondemnUnknown(portion))
                .await;
            condemned.map_err(|_| "the master ends".to_owned())?;
        }
    }
    if count > 0 {
        tracing::info!(
            count,
            "objects of the bucket that no store knows are condemned"
        );
    }
    Ok(())
}

/// The names of objects that are `noted` and not `listed`.
fn missing(noted: Vec<(BlobHash, LiveObject)>, listed: &[ListedObject]) -> Vec<ObjectName> {
    let there: BTreeSet<&str> = listed.iter().map(|object| &*object.name).collect();
    let names = noted.into_iter().map(|(hash, object)| ObjectName {
        hash,
        generation: object.generation,
    });
    names
        .filter(|name| !there.contains(&*name_of(*name)))
        .collect()
}

/// The names of content among `listed` that were written `LEFT_OVER` before `now`.
fn old_names(listed: &[ListedObject], now: SystemTime) -> Vec<ObjectName> {
    let is_old = |object: &&ListedObject| {
        now.duration_since(object.written)
            .is_ok_and(|age| age >= LEFT_OVER)
    };
    listed
        .iter()
        .filter(is_old)
        .filter_map(|object| object_of(&object.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_content_that_is_older_than_a_day_can_be_left_over() {
        let now = SystemTime::now();
        let object = ObjectName {
            hash: link::content::hash_bytes(b"x").hash,
            generation: 7,
        };
        let written = |name: &str, ago: Duration| ListedObject {
            name: name.to_owned(),
            size: 1,
            written: now - ago,
        };
        let listed = [
            written(&name_of(object), LEFT_OVER),
            written(
                &name_of(ObjectName {
                    generation: 8,
                    ..object
                }),
                LEFT_OVER - Duration::from_secs(60),
            ),
            written("content/ab/what-is-this", LEFT_OVER * 9),
            ListedObject {
                written: now + LEFT_OVER,
                ..written(&name_of(object), LEFT_OVER)
            },
        ];
        assert_eq!(old_names(&listed, now), [object]);
    }
}
