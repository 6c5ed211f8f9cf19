//! The uploads under way by user, and the blobs that each host has uploaded. `store::uploads` has
//! those of users.

use std::collections::BTreeMap;
use std::sync::Mutex;

use common::checkpoint::MAX_FILES;
use common::content::BlobHash;
use common::units::Bytes;
use common::wire::{Refusal, RefusalCode};
use common::{BlobRef, HostId};
use uuid::Uuid;

use crate::locked;

/// The most blobs of a host with few slots that no message of it has named yet. A host uploads a forgotten one
/// again when asked.
const UNNAMED: usize = 65_536;

/// The most blobs of a state: its files and their list.
const OF_STATE: usize = MAX_FILES as usize + 1;

/// The same as `UNNAMED` of a host with many slots, whose attempts may all save a state at once: some 50 MB.
const MOST_UNNAMED: usize = 16 * OF_STATE;

/// The most blobs of one host that its messages have named: attempts may leave the same content.
const NAMED: usize = 128;

/// The uploads that are known while the master runs.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    by_host: Mutex<BTreeMap<HostId, HostUploads>>,
    /// The bytes of what each user is uploading now.
    under_way: Mutex<BTreeMap<Uuid, BTreeMap<BlobHash, u64>>>,
}

/// The blobs that one host has uploaded.
#[derive(Debug)]
struct HostUploads {
    unnamed: RecentBlobs,
    named: RecentBlobs,
}

impl Default for HostUploads {
    fn default() -> Self {
        Self {
            unnamed: RecentBlobs::of(UNNAMED),
            named: RecentBlobs::of(NAMED),
        }
    }
}

/// The last `most` blobs that were noted.
#[derive(Debug)]
struct RecentBlobs {
    most: usize,
    blobs: BTreeMap<BlobHash, (u64, u64)>,
    order: BTreeMap<u64, BlobHash>,
    next: u64,
}

impl RecentBlobs {
    fn of(most: usize) -> Self {
        Self {
            most,
            blobs: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
        }
    }

    fn note(&mut self, blob: BlobRef) {
        self.forget(&blob.hash);
        self.next += 1;
        self.blobs.insert(blob.hash, (blob.size, self.next));
        self.order.insert(self.next, blob.hash);
        self.shrink();
    }

    /// Forgets the oldest beyond `most`.
    fn shrink(&mut self) {
        while self.order.len() > self.most
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.blobs.remove(&oldest);
        }
    }

    fn forget(&mut self, hash: &BlobHash) {
        if let Some((_, place)) = self.blobs.remove(hash) {
            self.order.remove(&place);
        }
    }

    fn has(&self, blob: &BlobRef) -> bool {
        let size = self.blobs.get(&blob.hash).map(|(size, _)| *size);
        size == Some(blob.size)
    }
}

/// A user's upload under way; dropped at its end.
#[derive(Debug)]
pub(crate) struct BegunUpload<'a> {
    uploads: &'a Uploads,
    user: Uuid,
    hash: BlobHash,
}

/// Returns the most blobs of a host with so many slots that no message of it has named yet.
fn most_unnamed(slots: u32) -> usize {
    let slots = usize::try_from(slots).unwrap_or(usize::MAX);
    slots.saturating_mul(OF_STATE).clamp(UNNAMED, MOST_UNNAMED)
}

impl Uploads {
    /// Remembers as many blobs of a host from now on as the attempts in so many slots may bring at once.
    pub(crate) fn make_room(&self, host: HostId, slots: u32) {
        let most = most_unnamed(slots);
        let mut by_host = locked(&self.by_host);
        if most > UNNAMED || by_host.contains_key(&host) {
            let of = by_host.entry(host).or_default();
            of.unnamed.most = most;
            of.unnamed.shrink();
        }
    }

    /// Notes a blob that a host has uploaded.
    pub(crate) fn note(&self, host: HostId, blob: BlobRef) {
        let mut by_host = locked(&self.by_host);
        by_host.entry(host).or_default().unnamed.note(blob);
    }

    /// Notes that a host has named these blobs, which it had uploaded for that.
    pub(crate) fn named(&self, host: HostId, blobs: impl Iterator<Item = BlobRef>) {
        let mut by_host = locked(&self.by_host);
        let Some(of) = by_host.get_mut(&host) else {
            return;
        };
        for blob in blobs {
            of.unnamed.forget(&blob.hash);
            of.named.note(blob);
        }
    }

    /// Forgets what the messages of a host have named. What none has named yet stays: in its next session
    /// the host need not upload it again.
    pub(crate) fn forget_named(&self, host: HostId) {
        let mut by_host = locked(&self.by_host);
        let Some(of) = by_host.get_mut(&host) else {
            return;
        };
        of.named = RecentBlobs::of(NAMED);
        // What was made room for counts for the next session, too, which may have begun.
        if of.unnamed.blobs.is_empty() && of.unnamed.most == UNNAMED {
            by_host.remove(&host);
        }
    }

    /// Whether this host has uploaded this content.
    pub(crate) fn brought(&self, host: HostId, blob: &BlobRef) -> bool {
        let by_host = locked(&self.by_host);
        let of = by_host.get(&host);
        of.is_some_and(|of| of.unnamed.has(blob) || of.named.has(blob))
    }

    /// Begins an upload of this content, which the same user does not upload already. It is refused if its
    /// bytes do not fit into `room` beside the user's `unused` bytes, the uploads under way and what came of
    /// others before they broke off: `parts` has what came of any.
    pub(crate) fn begin(
        &self,
        user: Uuid,
        (hash, bytes): (BlobHash, u64),
        (unused, parts): (u64, &BTreeMap<BlobHash, u64>),
        room: u64,
    ) -> Result<BegunUpload<'_>, Refusal> {
        let mut under_way = locked(&self.under_way);
        let begun = under_way.entry(user).or_default();
        let counts = |(part, _): &(&BlobHash, &u64)| **part != hash && !begun.contains_key(*part);
        let broken = parts.iter().filter(counts).map(|(_, bytes)| bytes);
        let others = begun.values().chain(broken);
        let all = others.fold(unused.saturating_add(bytes), |all, bytes| {
            all.saturating_add(*bytes)
        });

        if all > room {
            let [bytes, all, room] = [bytes, all, room].map(Bytes);
            let what = format!(
                "{bytes} more would make {all} of files that you have sent and no job needs: there is room for {room}"
            );
            let hint = "submit the jobs that need them, or wait: what no job needs goes after content_grace (1h where nothing \
                        is set); the admin can raise limits.unused_bytes_per_user or make room on the disk";
            if begun.is_empty() {
                under_way.remove(&user);
            }
            return Err(Refusal::new(RefusalCode::Conflict, what, hint));
        }

        begun.insert(hash, bytes);
        Ok(BegunUpload {
            uploads: self,
            user,
            hash,
        })
    }
}

impl Drop for BegunUpload<'_> {
    fn drop(&mut self) {
        let mut under_way = locked(&self.uploads.under_way);
        if let Some(begun) = under_way.get_mut(&self.user) {
            begun.remove(&self.hash);
            if begun.is_empty() {
                under_way.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins an upload of the blob with this number.
    fn begin(
        uploads: &Uploads,
        user: Uuid,
        (n, bytes): (usize, u64),
        unused: u64,
    ) -> Result<BegunUpload<'_>, Refusal> {
        uploads.begin(user, (blob(n).hash, bytes), (unused, &BTreeMap::new()), 100)
    }

    #[test]
    fn running_requests_count_only_for_their_own_user() {
        let uploads = Uploads::default();
        let ann = Uuid::from_u128(1);
        let bob = Uuid::from_u128(2);
        let first = begin(&uploads, ann, (1, 60), 0).expect("there is room");
        let refusal = begin(&uploads, ann, (2, 60), 0).expect_err("beside the first there is none");
        assert!(
            refusal.message.contains("room for 100")
                && refusal.hint.contains("unused_bytes_per_user")
        );

        drop(begin(&uploads, bob, (2, 60), 0).expect("bob has sent nothing"));
        drop(first);
        drop(begin(&uploads, ann, (2, 60), 40).expect("the first is over"));
        assert!(begin(&uploads, ann, (2, 60), 41).is_err());
        assert!(locked(&uploads.under_way).is_empty());
    }

    #[test]
    fn what_has_come_of_an_upload_counts_once_while_it_is_under_way() {
        let uploads = Uploads::default();
        let ann = Uuid::from_u128(1);
        let [one, other, asked] = [1, 2, 3].map(|n| blob(n).hash);
        let begin = |bytes, parts: &[(BlobHash, u64)]| {
            let parts: BTreeMap<_, _> = parts.iter().copied().collect();
            uploads.begin(ann, (asked, bytes), (10, &parts), 100)
        };
        let parts = [(one, 39), (asked, 5)];
        let nothing = BTreeMap::new();
        let first = uploads.begin(ann, (one, 40), (10, &nothing), 100);
        let first = first.expect("there is room");
        drop(begin(50, &parts).expect("40 are under way, and 10 unused"));
        assert!(begin(51, &parts).is_err());
        assert!(begin(50, &[(one, 39), (other, 1)]).is_err(), "it broke off");

        drop(first);
        drop(begin(51, &parts).expect("39 have come of what broke off"));
        assert!(begin(52, &parts).is_err());
    }

    fn blob(n: usize) -> BlobRef {
        link::content::hash_bytes(&n.to_le_bytes())
    }

    #[test]
    fn the_oldest_content_of_a_host_is_forgotten_first() {
        let uploads = Uploads::default();
        for n in (0..UNNAMED).chain([0, UNNAMED]) {
            uploads.note(HostId(1), blob(n));
        }
        let brought = |n| uploads.brought(HostId(1), &blob(n));
        assert!(brought(0) && !brought(1) && brought(2) && brought(UNNAMED));
        assert!(
            !uploads.brought(HostId(2), &blob(0))
                && !uploads.brought(HostId(1), &BlobRef { size: 1, ..blob(0) })
        );
    }

    #[test]
    fn the_attempts_in_all_slots_of_a_host_may_save_states_of_many_files_at_once() {
        let uploads = Uploads::default();
        let four = HostId(1);
        uploads.make_room(four, 4);
        // The end of the session before comes late.
        uploads.forget_named(four);
        for n in 0..4 * OF_STATE {
            uploads.note(four, blob(n));
        }
        assert!(uploads.brought(four, &blob(0)));
        uploads.make_room(four, 1);
        assert!(!uploads.brought(four, &blob(0)) && uploads.brought(four, &blob(4 * OF_STATE - 1)));

        // Hosts with few slots take no place before they bring something; none takes more than its bound.
        uploads.make_room(HostId(2), 3);
        assert_eq!(locked(&uploads.by_host).len(), 1);
        assert_eq!(
            [1, 3, 4, 16].map(most_unnamed),
            [UNNAMED, UNNAMED, 4 * OF_STATE, MOST_UNNAMED]
        );
        assert_eq!(most_unnamed(u32::MAX), MOST_UNNAMED);
    }

    #[test]
    fn a_new_session_forgets_named_content_and_keeps_what_the_host_still_collects() {
        let uploads = Uploads::default();
        uploads.note(HostId(1), blob(0));
        uploads.note(HostId(1), blob(1));
        uploads.named(HostId(1), [blob(0)].into_iter());
        assert!(
            [0, 1]
                .map(blob)
                .iter()
                .all(|blob| uploads.brought(HostId(1), blob))
        );

        uploads.forget_named(HostId(1));
        let brought = |n| uploads.brought(HostId(1), &blob(n));
        assert!(!brought(0) && brought(1));

        uploads.named(HostId(1), (1..NAMED + 2).map(blob));
        assert!(!brought(1) && brought(2) && brought(NAMED + 1));
        uploads.forget_named(HostId(1));
        assert!(locked(&uploads.by_host).is_empty());
    }
}
