//! The objects of a bucket, in a program that was built without S3: there are none.

use std::path::PathBuf;

use bytes::Bytes;
use common::BlobRef;
use common::wire::Refusal;
use tokio::sync::mpsc;

use super::bucket::ListedObject;
use super::fault::{BucketError, BucketFault};
use super::setting::BucketPlace;

/// A bucket that cannot be used. None is made.
#[derive(Debug, Clone)]
pub(crate) struct NoObjects(BucketPlace);

pub(crate) use NoObjects as Objects;

type Asked<T> = Result<T, BucketError>;

fn refused<T>(place: &BucketPlace) -> Asked<T> {
    Err(BucketError {
        place: place.to_string(),
        fault: BucketFault::BuiltWithout,
        detail: String::new(),
    })
}

impl NoObjects {
    pub(crate) fn open(place: &BucketPlace) -> Asked<Self> {
        refused(place)
    }

    pub(crate) fn place(&self) -> &BucketPlace {
        &self.0
    }

    pub(crate) async fn read(&self, _: &str) -> Asked<Option<Bytes>> {
        refused(&self.0)
    }

    pub(crate) async fn create(&self, _: &str, _: Vec<u8>) -> Asked<()> {
        refused(&self.0)
    }

    pub(crate) async fn send(&self, _: &str, _: PathBuf, _: BlobRef) -> Asked<bool> {
        refused(&self.0)
    }

    pub(crate) async fn fetch(
        &self,
        _: &str,
    ) -> Asked<Option<mpsc::Receiver<Result<Bytes, Refusal>>>> {
        refused(&self.0)
    }

    pub(crate) async fn delete(&self, _: &str) -> Asked<()> {
        refused(&self.0)
    }

    pub(crate) async fn list(&self, _: &str, _: usize) -> Asked<Vec<ListedObject>> {
        refused(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_without_s3_refuses_a_bucket_and_says_how_to_get_it() {
        let place = BucketPlace::parse("s3://grid", &super::super::S3Settings::default());
        let error = Objects::open(&place.unwrap().unwrap()).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("built without S3 storage: s3://grid"),
            "{said}"
        );
        assert!(error.fault.hint().contains("--features s3"));
    }
}
