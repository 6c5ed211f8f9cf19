//! The objects of a bucket: which content it has, each time under a name of its own, and the names
//! that are to be deleted. The bucket's own list is never asked what there is.

use common::content::BlobHash;
use common::{BlobRef, Time};

use super::db::Db;
use super::reader::Reader;
use super::value::values;
use super::writer::Writer;
use super::{StoreResult, micros, time};

/// The name of an object: the content's hash, and a number that is drawn for each upload, so that no
/// name is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectName {
    /// The hash of the content.
    pub hash: BlobHash,
    /// The number of the upload.
    pub generation: i64,
}

/// An object that counts: it is not condemned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LiveObject {
    /// The number of its upload.
    pub(crate) generation: i64,
    /// The bytes of the content.
    pub(crate) size: u64,
    /// The time at which somebody last sent it or counted on it.
    pub(crate) counted_on: Time,
}

/// Returns each [`LiveObject`].
pub(crate) fn live_objects(db: &Db) -> StoreResult<Vec<(BlobHash, LiveObject)>> {
    let sql = "SELECT hash, generation, size, counted_on FROM content WHERE condemned IS NULL";
    db.all(sql, &[], |row| {
        let live = LiveObject {
            generation: row.get(1)?,
            size: row.get::<i64>(2)?.max(0) as u64,
            counted_on: time(row.get(3)?),
        };
        Ok((BlobHash(row.get(0)?), live))
    })
}

impl Reader {
    /// Returns objects that were condemned before this time, at most so many.
    pub(crate) fn condemned_objects(
        &self,
        before: Time,
        most: usize,
    ) -> StoreResult<Vec<ObjectName>> {
        let sql = format!(
            "SELECT hash, generation FROM content WHERE condemned < $1 ORDER BY condemned LIMIT {most}"
        );

        self.with(|db| {
            db.all(&sql, values![micros(before)], |row| {
                let hash = BlobHash(row.get(0)?);
                let generation = row.get(1)?;
                Ok(ObjectName { hash, generation })
            })
        })
    }

    /// Returns those of these objects that the store does not know.
    pub(crate) fn unknown_objects(&self, names: &[ObjectName]) -> StoreResult<Vec<ObjectName>> {
        let known = "SELECT 1 FROM content WHERE hash = $1 AND generation = $2";

        self.with(|db| {
            let mut unknown = Vec::new();
            for name in names {
                if !db.exists(known, values![name.hash.0, name.generation])? {
                    unknown.push(*name);
                }
            }
            Ok(unknown)
        })
    }
}

impl Writer {
    /// The same as [`live_objects`].
    pub(crate) fn live_objects(&self) -> StoreResult<Vec<(BlobHash, LiveObject)>> {
        live_objects(self.db())
    }

    /// Adds the object of an upload of `blob`. False if its name is condemned already.
    pub(crate) fn add_object(
        &mut self,
        generation: i64,
        blob: BlobRef,
        now: Time,
    ) -> StoreResult<bool> {
        let size = i64::try_from(blob.size).unwrap_or(i64::MAX);
        let sql = "INSERT INTO content (hash, generation, size, counted_on) VALUES ($1, $2, $3, $4)
            ON CONFLICT (hash, generation) DO NOTHING";
        let added = self.count(sql, values![blob.hash.0, generation, size, micros(now)])?;
        Ok(added > 0)
    }

    /// Notes that somebody counts on this content from now on.
    pub(crate) fn object_counts(&mut self, hash: &BlobHash, now: Time) -> StoreResult<()> {
        let sql = "UPDATE content SET counted_on = $1 WHERE hash = $2 AND condemned IS NULL";
        self.change(sql, values![micros(now), hash.0])
    }

    /// Condemns an object that counts: it does not any more, and may be deleted.
    pub(crate) fn condemn_object(&mut self, name: ObjectName, now: Time) -> StoreResult<()> {
        let sql = "UPDATE content SET condemned = $1
            WHERE hash = $2 AND generation = $3 AND condemned IS NULL";
        self.change(sql, values![micros(now), name.hash.0, name.generation])
    }

    /// Condemns an object that the store does not know, and never will.
    pub(crate) fn condemn_unknown(&mut self, name: ObjectName, now: Time) -> StoreResult<()> {
        let sql = "INSERT INTO content (hash, generation, size, counted_on, condemned) VALUES ($1, $2, 0, $3, $4)
            ON CONFLICT (hash, generation) DO NOTHING";
        let now = micros(now);
        self.change(sql, values![name.hash.0, name.generation, now, now])
    }

    /// Forgets those of the objects `names` that are condemned, since they were deleted.
    pub(crate) fn forget_objects(&mut self, names: &[ObjectName]) -> StoreResult<()> {
        let sql =
            "DELETE FROM content WHERE hash = $1 AND generation = $2 AND condemned IS NOT NULL";
        for name in names {
            self.change(sql, values![name.hash.0, name.generation])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000_000;

    fn blob(text: &str) -> BlobRef {
        link::content::hash_bytes(text.as_bytes())
    }

    fn name(text: &str, generation: i64) -> ObjectName {
        let hash = blob(text).hash;
        ObjectName { hash, generation }
    }

    fn live(store: &Writer) -> Vec<i64> {
        let live = store.live_objects().unwrap();
        live.iter().map(|(_, object)| object.generation).collect()
    }

    #[test]
    fn an_object_counts_until_it_is_condemned_and_its_content_can_come_again_under_another_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        assert!(store.add_object(1, blob("a"), Time(10)).unwrap());
        store.object_counts(&blob("a").hash, Time(20)).unwrap();
        store.commit().unwrap();
        let object = LiveObject {
            generation: 1,
            size: 1,
            counted_on: Time(20),
        };
        assert_eq!(store.live_objects().unwrap(), [(blob("a").hash, object)]);

        store.condemn_object(name("a", 1), Time(30)).unwrap();
        assert!(store.add_object(2, blob("a"), Time(40)).unwrap());
        store.object_counts(&blob("a").hash, Time(50)).unwrap();
        store.commit().unwrap();
        assert_eq!(live(&store), [2]);
        // A second time changes nothing of when it was condemned.
        store.condemn_object(name("a", 1), Time(DAY)).unwrap();
        store.commit().unwrap();
        let reader = Reader::new(dir.path());
        assert_eq!(
            reader.condemned_objects(Time(31), 9).unwrap(),
            [name("a", 1)]
        );
        assert_eq!(reader.condemned_objects(Time(30), 9).unwrap(), []);
    }

    #[test]
    fn an_object_that_was_taken_for_left_over_never_counts() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        assert!(store.add_object(1, blob("a"), Time(1)).unwrap());
        store.commit().unwrap();
        let reader = Reader::new(dir.path());
        let (known, unknown) = (name("a", 1), name("b", 7));
        assert_eq!(
            reader.unknown_objects(&[known, unknown]).unwrap(),
            [unknown]
        );

        // One that has become known meanwhile is not condemned with the others.
        for object in [known, unknown] {
            store.condemn_unknown(object, Time(2)).unwrap();
        }
        store.commit().unwrap();
        assert!(!store.add_object(7, blob("b"), Time(3)).unwrap());
        store.commit().unwrap();
        assert_eq!(live(&store), [1]);
    }

    #[test]
    fn only_condemned_objects_are_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        for (generation, text) in [(1, "a"), (2, "b")] {
            assert!(store.add_object(generation, blob(text), Time(1)).unwrap());
        }
        store.condemn_object(name("a", 1), Time(2)).unwrap();
        store.forget_objects(&[name("a", 1), name("b", 2)]).unwrap();
        store.commit().unwrap();
        assert_eq!(live(&store), [2]);
        let reader = Reader::new(dir.path());
        assert_eq!(reader.condemned_objects(Time(DAY), 9).unwrap(), []);
        assert_eq!(
            reader.unknown_objects(&[name("a", 1)]).unwrap(),
            [name("a", 1)]
        );
    }
}
