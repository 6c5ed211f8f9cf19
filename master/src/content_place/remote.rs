//! The objects of a bucket, over S3's protocol.

use std::error::Error as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::BlobRef;
use common::content::BlobHash;
use common::wire::{Refusal, RefusalCode};
use futures_util::StreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, RetryConfig,
};
use tokio::sync::mpsc;

use super::bucket::ListedObject;
use super::dial::Dialer;
use super::fault::{BucketError, BucketFault};
use super::setting::BucketPlace;

/// The bytes of the parts in which a large object is sent; one of at most so many is sent whole.
const PART: u64 = 8 << 20;
/// The most parts of an object. S3 takes 10,000.
const PARTS: u64 = 9_000;
/// The time without a byte after which an object is no longer waited for.
const STALL: Duration = Duration::from_secs(30);
/// The pieces of an object that wait to be written.
const AHEAD: usize = 8;
/// The looks for an object that was acknowledged and is not there, and the pause between them: storage may show it a little later.
const LOOKS: u32 = 3;
const LOOK_AGAIN: Duration = Duration::from_millis(300);
/// The most characters of the storage's words that are passed on.
const SHOWN: usize = 300;

/// A bucket, or the part of one that a [`BucketPlace`] names.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    place: Arc<BucketPlace>,
}

impl Objects {
    /// Prepares to use a bucket. Nothing is asked yet.
    pub(crate) fn open(place: &BucketPlace) -> Result<Self, BucketError> {
        let unusable = |detail: String| BucketError {
            place: place.to_string(),
            fault: BucketFault::Settings,
            detail,
        };
        let dialer = Dialer::new(place.s3.certificates.as_deref()).map_err(unusable)?;

        // The environment has what AWS's own tools read there.
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(&place.bucket)
            .with_http_connector(dialer)
            .with_retry(retries());
        if let Some(region) = &place.s3.region {
            builder = builder.with_region(region);
        }
        if let Some(endpoint) = &place.s3.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
        if let Some(address) = endpoint.as_deref().filter(|address| !is_endpoint(address)) {
            let why = format!(
                "the address of the storage, `{address}` (s3.endpoint, or AWS_ENDPOINT_URL), is not https://HOST[:PORT]"
            );
            return Err(unusable(why));
        }
        let plain = endpoint.is_some_and(|address| address.starts_with("http://"));
        if let Some(file) = &place.s3.credentials {
            let key = AccessKey::read(file).map_err(unusable)?;
            builder = builder
                .with_access_key_id(key.id)
                .with_secret_access_key(key.secret);
            if let Some(token) = key.token {
                builder = builder.with_token(token);
            }
        }

        let built = builder.with_allow_http(plain).build();
        Ok(Self {
            store: Arc::new(built.map_err(|error| unusable(error.to_string()))?),
            place: Arc::new(place.clone()),
        })
    }

    /// The bucket.
    pub(crate) fn place(&self) -> &BucketPlace {
        &self.place
    }

    fn path(&self, name: &str) -> ObjectPath {
        match &*self.place.prefix {
            "" => ObjectPath::from(name),
            prefix => ObjectPath::from(format!("{prefix}/{name}")),
        }
    }

    fn told(&self, error: &Error) -> BucketError {
        told(&self.place, error)
    }

    /// Reads a short object; `None` if there is none of this name.
    pub(crate) async fn read(&self, name: &str) -> Result<Option<Bytes>, BucketError> {
        let read = async { self.store.get(&self.path(name)).await?.bytes().await };
        self.unless_missing(read.await)
    }

    /// The answer; `None` if the object is missing, and not the bucket.
    fn unless_missing<T>(&self, asked: Result<T, Error>) -> Result<Option<T>, BucketError> {
        match asked {
            Ok(found) => Ok(Some(found)),
            Err(error) => match (self.told(&error), error) {
                (told, _) if told.fault == BucketFault::NoBucket => Err(told),
                (_, Error::NotFound { .. }) => Ok(None),
                (told, _) => Err(told),
            },
        }
    }

    /// Writes `bytes` as a short object, unless there is one of this name where the storage can tell.
    pub(crate) async fn create(&self, name: &str, bytes: Vec<u8>) -> Result<(), BucketError> {
        let payload = PutPayload::from(bytes);
        let options = PutOptions::from(PutMode::Create);
        let path = self.path(name);
        let put = self.store.put_opts(&path, payload.clone(), options).await;
        match put {
            Ok(_) | Err(Error::AlreadyExists { .. }) => Ok(()),
            // Some storage knows no conditions.
            Err(_) => {
                let put = self.store.put(&path, payload).await;
                put.map(drop).map_err(|error| self.told(&error))
            }
        }
    }

    /// Writes a file, which must be `blob`. False if it is not, and nothing was written.
    pub(crate) async fn send(
        &self,
        name: &str,
        file: PathBuf,
        blob: BlobRef,
    ) -> Result<bool, BucketError> {
        let mut file = match part(HashedRead::open(file), PART.max(blob.size.div_ceil(PARTS))).await
        {
            Ok(read) => read,
            Err(error) => return unreadable(blob, &error),
        };
        let path = self.path(name);
        if file.is_whole(blob.size) {
            if file.hash() != blob.hash {
                return Ok(false);
            }
            let put = self.store.put(&path, file.take().into()).await;
            put.map_err(|error| self.told(&error))?;
            return self.is_kept(&path, blob.size).await.map(|()| true);
        }

        let begun = self.store.put_multipart(&path).await;
        let mut upload = begun.map_err(|error| self.told(&error))?;
        let sent = async {
            loop {
                upload.put_part(file.take().into()).await?;
                if file.is_whole(blob.size) {
                    break;
                }
                file = match part(Ok(file), PART.max(blob.size.div_ceil(PARTS))).await {
                    Ok(read) => read,
                    Err(_) => return Ok(false),
                };
            }
            Ok(file.hash() == blob.hash)
        };
        match sent.await {
            Ok(true) => {
                let done = upload.complete().await;
                done.map_err(|error| self.told(&error))?;
                self.is_kept(&path, blob.size).await.map(|()| true)
            }
            sent => {
                // Parts that stay are removed by the bucket's own rule.
                let _ = upload.abort().await;
                sent.map_err(|error| self.told(&error))
            }
        }
    }

    /// Makes sure that the storage has an object that it has acknowledged, of so many bytes. Where it does not say, its word
    /// counts: whoever sent the content would have to send it once more.
    async fn is_kept(&self, path: &ObjectPath, size: u64) -> Result<(), BucketError> {
        let mut detail = String::new();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            detail = match self.store.head(path).await {
                Ok(kept) if kept.size == size => return Ok(()),
                Ok(kept) => format!("{path} has {} bytes instead of {size}", kept.size),
                Err(Error::NotFound { .. }) => path.to_string(),
                Err(error) => {
                    tracing::debug!(%error, "what was stored cannot be looked at");
                    return Ok(());
                }
            };
        }

        Err(BucketError {
            place: self.place.to_string(),
            fault: BucketFault::Dropped,
            detail,
        })
    }

    /// Begins to read an object; `None` if there is none of this name. What comes is not verified.
    pub(crate) async fn fetch(
        &self,
        name: &str,
    ) -> Result<Option<mpsc::Receiver<Result<Bytes, Refusal>>>, BucketError> {
        let asked = self.store.get(&self.path(name)).await;
        let Some(found) = self.unless_missing(asked)? else {
            return Ok(None);
        };

        let (tx, rx) = mpsc::channel(AHEAD);
        let place = self.place.clone();
        tokio::spawn(async move {
            let mut pieces = found.into_stream();
            loop {
                let piece = match tokio::time::timeout(STALL, pieces.next()).await {
                    Ok(Some(Ok(piece))) => Ok(piece),
                    Ok(Some(Err(error))) => Err(told(&place, &error).refusal()),
                    Ok(None) => return,
                    Err(_) => Err(stalled()),
                };
                let failed = piece.is_err();
                if tx.send(piece).await.is_err() || failed {
                    return;
                }
            }
        });
        Ok(Some(rx))
    }

    /// Deletes the object `name`; fine if there is none of this name.
    pub(crate) async fn delete(&self, name: &str) -> Result<(), BucketError> {
        let deleted = self.store.delete(&self.path(name)).await;
        self.unless_missing(deleted).map(drop)
    }

    /// Lists the objects whose names begin with `under`, and at most so many.
    pub(crate) async fn list(
        &self,
        under: &str,
        most: usize,
    ) -> Result<Vec<ListedObject>, BucketError> {
        let under = self.path(under);
        let prefix = match &*self.place.prefix {
            "" => 0,
            prefix => prefix.len() + 1,
        };

        let mut listing = self.store.list(Some(&under)).take(most);
        let mut listed = Vec::new();
        while let Some(object) = listing.next().await {
            let object = object.map_err(|error| self.told(&error))?;
            let name = object.location.as_ref().get(prefix..).unwrap_or_default();
            listed.push(ListedObject {
                name: name.to_owned(),
                size: object.size,
                written: object.last_modified.into(),
            });
        }
        Ok(listed)
    }
}

fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 4,
        retry_timeout: Duration::from_secs(20),
    }
}

fn stalled() -> Refusal {
    let what = "the master's storage for content has stopped in the middle of it";
    Refusal::new(RefusalCode::Unavailable, what, "it is tried again")
}

fn unreadable(blob: BlobRef, error: &io::Error) -> Result<bool, BucketError> {
    tracing::warn!(hash = %blob.hash, %error, "content that was to be sent to the storage cannot be read");
    Ok(false)
}

/// A file that [`part`] reads, with the hash of what was read.
struct HashedRead {
    file: File,
    hasher: blake3::Hasher,
    read: u64,
    part: Vec<u8>,
}

impl HashedRead {
    fn open(path: PathBuf) -> io::Result<Self> {
        Ok(Self {
            file: File::open(path)?,
            hasher: blake3::Hasher::new(),
            read: 0,
            part: Vec::new(),
        })
    }

    fn is_whole(&self, size: u64) -> bool {
        self.read >= size
    }

    fn hash(&self) -> BlobHash {
        BlobHash(*self.hasher.finalize().as_bytes())
    }

    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.part).into()
    }
}

/// Reads the next part, which is shorter only at the end of the file.
async fn part(file: io::Result<HashedRead>, bytes: u64) -> io::Result<HashedRead> {
    let read = tokio::task::spawn_blocking(move || {
        let mut file = file?;
        file.part.reserve(usize::try_from(bytes).unwrap_or(0));
        Read::by_ref(&mut file.file)
            .take(bytes)
            .read_to_end(&mut file.part)?;

        file.hasher.update(&file.part);
        file.read += file.part.len() as u64;
        if file.part.is_empty() && file.read > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(file)
    });
    read.await
        .unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

/// An access key from a file in the form of AWS's own tools.
struct AccessKey {
    id: String,
    secret: String,
    token: Option<String>,
}

impl AccessKey {
    /// Reads the first key of a file, which nobody else may read. The error is for the admin, and
    /// repeats nothing of what the file has.
    fn read(path: &Path) -> Result<Self, String> {
        let wrong = |why: &dyn std::fmt::Display| format!("credentials: {}: {why}", path.display());
        let private = link::files::is_private(path).map_err(|error| wrong(&error))?;
        if !private {
            return Err(wrong(&"others may read it (chmod 600)"));
        }

        let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let value = |key: &str| {
            text.lines().find_map(|line| {
                let (name, value) = line.split_once('=')?;
                (name.trim() == key).then(|| value.trim().trim_matches('"').to_owned())
            })
        };
        let missing = |key: &str| wrong(&format!("it has no `{key} = …`"));
        Ok(Self {
            id: value("aws_access_key_id").ok_or_else(|| missing("aws_access_key_id"))?,
            secret: value("aws_secret_access_key")
                .ok_or_else(|| missing("aws_secret_access_key"))?,
            token: value("aws_session_token"),
        })
    }
}

/// Whether this is `https://HOST[:PORT]` or `http://HOST[:PORT]`, perhaps with a path.
fn is_endpoint(address: &str) -> bool {
    let Ok(address) = address.parse::<hyper::Uri>() else {
        return false;
    };
    let has_host = address.authority().is_some_and(|of| {
        let alone = of.as_str() == of.host();
        !of.host().is_empty() && (alone || of.port_u16().is_some())
    });
    has_host && matches!(address.scheme_str(), Some("http" | "https"))
}

/// Returns the [`BucketFault`] that an error of the client means.
fn told(place: &BucketPlace, error: &Error) -> BucketError {
    let text = error.to_string();
    let within = |tag: &str| {
        let (_, rest) = text.split_once(&format!("<{tag}>"))?;
        rest.split_once("</").map(|(value, _)| value.to_owned())
    };

    let cause = cause(error);
    let code = within("Code").unwrap_or_default();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let fault = match (&*code, error) {
        _ if cause.is_some_and(is_certificate) => BucketFault::Certificate,
        ("NoSuchBucket", _) => BucketFault::NoBucket,
        ("InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidToken" | "ExpiredToken", _) => {
            BucketFault::Key
        }
        ("RequestTimeTooSkewed", _) => BucketFault::Clock,
        ("AccessDenied", _) => BucketFault::Forbidden,
        ("SlowDown" | "QuotaExceeded" | "InsufficientStorage" | "XMinioStorageFull", _) => {
            BucketFault::NoRoom
        }
        (_, Error::Unauthenticated { .. }) => BucketFault::Key,
        (_, Error::PermissionDenied { .. }) => BucketFault::Forbidden,
        _ if has(&["507 Insufficient", "429 Too Many"]) => BucketFault::NoRoom,
        _ if has(&["HTTP error", "status code: 5", "timed out"]) => BucketFault::Away,
        _ => BucketFault::Odd,
    };

    // Without a key the machine's own role is asked for, at this address.
    if has(&["//169.254.169.254/"]) {
        return BucketError {
            place: place.to_string(),
            fault: BucketFault::Key,
            detail: "no access key is set, and this machine has no role that would do".to_owned(),
        };
    }
    let message = within("Message").unwrap_or_else(|| match cause {
        Some(cause) => format!("{cause} ({text})"),
        None => text,
    });
    BucketError {
        place: place.to_string(),
        fault,
        detail: message.chars().take(SHOWN).collect(),
    }
}

/// Returns what the connection failed of, if it did: the client's own words stop at the fact.
fn cause(error: &Error) -> Option<&io::Error> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        next = error.source();
    }
    None
}

/// Whether a handshake failed because of the storage's certificate.
fn is_certificate(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidCertificate(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> Error {
        Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn the_storages_answers_become_words_with_a_remedy() {
        let place = BucketPlace::parse("s3://grid", &super::super::S3Settings::default());
        let place = place.unwrap().unwrap();
        let xml = |code: &str| {
            format!(
                "Server returned non-2xx status code: 403 Forbidden: <Error><Code>{code}</Code><Message>in its words</Message></Error>"
            )
        };
        for (text, fault) in [
            (xml("NoSuchBucket"), BucketFault::NoBucket),
            (xml("InvalidAccessKeyId"), BucketFault::Key),
            (xml("SignatureDoesNotMatch"), BucketFault::Key),
            (xml("RequestTimeTooSkewed"), BucketFault::Clock),
            (xml("AccessDenied"), BucketFault::Forbidden),
            (xml("SlowDown"), BucketFault::NoRoom),
            (
                "Server returned non-2xx status code: 507 Insufficient Storage: ".to_owned(),
                BucketFault::NoRoom,
            ),
            (
                "Server returned non-2xx status code: 503 Service Unavailable: ".to_owned(),
                BucketFault::Away,
            ),
            (
                "HTTP error: client error (Connect)".to_owned(),
                BucketFault::Away,
            ),
            (
                "Error performing PUT http://169.254.169.254/latest/api/token in 1ms: 403"
                    .to_owned(),
                BucketFault::Key,
            ),
            ("what is this?".to_owned(), BucketFault::Odd),
        ] {
            let told = told(&place, &generic(&text));
            assert_eq!(told.fault, fault, "{text}");
            assert!(!fault.hint().is_empty());
            let said = told.to_string();
            assert!(
                said.contains("s3://grid: ") && !said.contains('<'),
                "{said}"
            );
        }
    }

    #[test]
    fn an_address_of_storage_that_makes_no_sense_is_refused_before_it_is_used() {
        for right in [
            "https://s3.example.org",
            "http://127.0.0.1:8333",
            "https://[::1]:9/x",
        ] {
            assert!(is_endpoint(right), "{right}");
        }
        for wrong in [
            "",
            "127.0.0.1:8333",
            " http://127.0.0.1:8333",
            "http://127.0.0.1:2690000",
            "htp://127.0.0.1:8333",
            "http://",
        ] {
            let s3 = super::super::S3Settings {
                endpoint: Some(wrong.to_owned()),
                ..super::super::S3Settings::default()
            };
            let place = BucketPlace::parse("s3://grid", &s3).unwrap().unwrap();
            let told = Objects::open(&place).unwrap_err();
            assert_eq!(told.fault, BucketFault::Settings, "{wrong}: {told}");
        }
    }

    #[test]
    fn a_key_is_read_from_a_file_that_others_cannot_read() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("credentials");
        let text = "[default]\naws_access_key_id = AK\naws_secret_access_key=very secret\n";
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(AccessKey::read(&path).err().unwrap().contains("chmod 600"));

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let key = AccessKey::read(&path).unwrap();
        assert_eq!(
            (&*key.id, &*key.secret, key.token),
            ("AK", "very secret", None)
        );
        std::fs::write(&path, "aws_secret_access_key = very secret").unwrap();
        let told = AccessKey::read(&path).err().unwrap();
        assert!(
            told.contains("aws_access_key_id") && !told.contains("very secret"),
            "{told}"
        );
    }
}
