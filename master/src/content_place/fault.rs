//! The faults of a bucket, in words for the admin.

use std::fmt;

use common::wire::{Refusal, RefusalCode};

/// The kind of a [`BucketError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BucketFault {
    /// This program was built without what it takes.
    BuiltWithout,
    /// The settings or the credentials cannot be used.
    Settings,
    /// There is no such bucket.
    NoBucket,
    /// The storage does not know the key, or the secret is another one.
    Key,
    /// The key may not do it.
    Forbidden,
    /// The clocks of this machine and of the storage are too far apart.
    Clock,
    /// The storage's certificate is of no authority that is trusted here, or for another name, or of
    /// another time.
    Certificate,
    /// The storage has no room, or wants less to do.
    NoRoom,
    /// The storage does not answer, or only with errors of its own.
    Away,
    /// The storage does not have what it acknowledged a moment ago.
    Dropped,
    /// The storage answers something else.
    Odd,
}

impl BucketFault {
    /// The remedy, shown to the admin.
    pub fn hint(self) -> &'static str {
        match self {
            Self::BuiltWithout => {
                "install a released deskgrid, or build it with: cargo build --release --features s3"
            }
            Self::Settings => "see [s3] in the settings (deskgrid master config explains each)",
            Self::NoBucket => {
                "make the bucket, or name the right one: --content s3://BUCKET[/PREFIX]"
            }
            Self::Key => {
                "see the access key: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the file that s3.credentials names"
            }
            Self::Forbidden => {
                "give the key the right to list the bucket, and to read, write and delete objects in it"
            }
            Self::Clock => {
                "set this machine's clock (on most systems: timedatectl set-ntp true), or that of the storage"
            }
            Self::Certificate => {
                "name the certificates of its authority (s3.certificates), and the storage by the name in its certificate (s3.endpoint)"
            }
            Self::NoRoom => {
                "make room in the storage, or raise its limits; what waits is tried again"
            }
            Self::Away => {
                "see whether the storage runs and can be reached from here (s3.endpoint); what waits is tried again"
            }
            Self::Dropped => {
                "see the storage's log, and what stands before it (s3.endpoint); what waits is sent again"
            }
            Self::Odd => "see the storage's log; its answer is in the message",
        }
    }

    /// Whether it may pass by itself.
    pub(crate) fn passes(self) -> bool {
        matches!(
            self,
            Self::NoRoom | Self::Away | Self::Clock | Self::Certificate
        )
    }
}

impl fmt::Display for BucketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BuiltWithout => "this deskgrid was built without S3 storage",
            Self::Settings => "the settings for S3 storage cannot be used",
            Self::NoBucket => "there is no such bucket",
            Self::Key => "the storage does not take the access key",
            Self::Forbidden => "the access key may not do this",
            Self::Clock => "this machine's clock and that of the storage are too far apart",
            Self::Certificate => "the storage's certificate is not trusted",
            Self::NoRoom => "the storage has no room, or is asked too much",
            Self::Away => "the storage does not answer",
            Self::Dropped => "the storage does not have what it has just acknowledged",
            Self::Odd => "the storage does not do what it is asked",
        })
    }
}

/// The reason why a bucket could not be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{fault}: {place}{}{detail}", if detail.is_empty() { "" } else { ": " })]
pub struct BucketError {
    /// The bucket, as `s3://BUCKET[/PREFIX]`.
    pub place: String,
    /// The kind.
    pub fault: BucketFault,
    /// The storage's own words; may be empty.
    pub detail: String,
}

impl BucketError {
    /// The refusal for whoever sent or wants content meanwhile.
    pub(crate) fn refusal(&self) -> Refusal {
        let what = format!(
            "the master's storage for content cannot be used: {}",
            self.fault
        );
        let hint = "it is tried again; the admin finds more in the master's log";
        Refusal::new(RefusalCode::Unavailable, what, hint)
    }
}
