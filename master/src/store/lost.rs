//! Renewals of certificates that a store does not know because it began as a copy: the master of the original
//! issued them after the copy was made. Identities that joined meanwhile are not known at all.

use common::Time;
use common::identity::IdentityState;
use uuid::Uuid;

use super::peers::{PEER_COLUMNS, identity_state, peer_of};
use super::value::values;
use super::writer::Writer;
use super::{PeerStatus, StoreResult, micros};

/// The key in `meta` for the [`LostRenewals`] of each start on a copy: pairs of numbers, each the eight bytes of an `i64`.
const LOST: &str = "lost renewals";
/// The beginning of the keys in `meta` for the newest renewal of an identity that a store with lost ones knows: its
/// number follows, and the value is the time of issue in seconds since 1970, the eight bytes of an `i64`.
const KNOWN: &str = "known renewal ";
/// The time after a start on a copy for which lost renewals count: as long as a CA is trusted when it has given way
/// to another. Whoever has the CA's key could make a certificate of that time, so it ends.
const COUNT_S: i64 = 45 * 86_400;

/// The times of a certificate that a trusted CA has signed, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Issued {
    /// The time at which it was issued.
    pub at_s: i64,
    /// Its end.
    pub until_s: i64,
}

/// The time in which another master issued certificates that this store does not know, in seconds since 1970.
#[derive(Debug, Clone, Copy)]
struct LostRenewals {
    /// The time at which the copy was made.
    since_s: i64,
    /// The time at which a master was started on it.
    until_s: i64,
}

impl LostRenewals {
    /// Whether they count still at `now`.
    fn count(&self, now: Time) -> bool {
        seconds(now) <= self.until_s.saturating_add(COUNT_S)
    }
}

fn seconds(at: Time) -> i64 {
    i64::try_from(at.0 / 1_000_000).unwrap_or(i64::MAX)
}

/// The key in `meta` for the newest renewal of this identity.
fn known_key(id: Uuid) -> String {
    format!("{KNOWN}{id}")
}

impl Writer {
    /// Notes that a master is started at `now` on this copy, which was made at `copied`. An older store that somebody
    /// put back counts as copied at its start, and was left at the time that it has as `up`.
    pub(super) fn note_lost_renewals(&mut self, copied: Time, now: Time) -> StoreResult<()> {
        let up = self.db().meta_of("up")?;
        let up = up.map_or(copied, |bytes| Time(u64::from_le_bytes(bytes)));
        let lost = LostRenewals {
            since_s: seconds(copied.min(up)),
            until_s: seconds(now),
        };

        let mut all = self.lost_renewals()?;
        all.retain(|earlier| earlier.count(now));
        if all.is_empty() {
            // They are compared with lost ones alone.
            self.change(&format!("DELETE FROM meta WHERE key LIKE '{KNOWN}%'"), &[])?;
        }
        all.push(lost);
        let numbers = all.iter().flat_map(|lost| [lost.since_s, lost.until_s]);
        let bytes: Vec<u8> = numbers.flat_map(i64::to_le_bytes).collect();
        self.set_meta(LOST, &bytes)
    }

    fn lost_renewals(&self) -> StoreResult<Vec<LostRenewals>> {
        let bytes = self.note(LOST)?.unwrap_or_default();
        let numbers: Vec<i64> = bytes
            .chunks_exact(8)
            .filter_map(|number| number.try_into().ok())
            .map(i64::from_le_bytes)
            .collect();

        let pairs = numbers.chunks_exact(2).map(|pair| LostRenewals {
            since_s: pair[0],
            until_s: pair[1],
        });
        Ok(pairs.collect())
    }

    /// Notes that this store's master renews the certificate of an identity at `now`, while lost renewals count: those
    /// are older.
    pub(super) fn note_known_renewal(&mut self, id: Uuid, now: Time) -> StoreResult<()> {
        if !self.lost_renewals()?.iter().any(|lost| lost.count(now)) {
            return Ok(());
        }
        self.set_meta(&known_key(id), &seconds(now).to_le_bytes())
    }

    /// Whether the newest renewal of an identity that was noted is as late as `at_s`.
    fn knows_a_renewal_since(&self, id: Uuid, at_s: i64) -> StoreResult<bool> {
        let known = self.db().meta_of(&known_key(id))?;
        Ok(known.is_some_and(|bytes| i64::from_le_bytes(bytes) >= at_s))
    }

    /// The [`PeerStatus`] at `now` of the holder of a certificate with this number, and with a key that
    /// [`Writer::standing`] does not know. It is let in if the certificate was `issued` while the master of a copy's
    /// original went on, so after whatever the copy knows, and after the newest renewal that is known since: an older
    /// one was renewed. Its key is the present one then. Which of two ends later says nothing: lives are a setting.
    pub(crate) fn standing_of_lost(
        &mut self,
        id: Uuid,
        key_hash: [u8; 32],
        (issued, now): (Issued, Time),
    ) -> StoreResult<PeerStatus> {
        let fits = |lost: &LostRenewals| {
            lost.count(now) && (lost.since_s..=lost.until_s).contains(&issued.at_s)
        };
        let may_be_lost = self.lost_renewals()?.iter().any(fits);
        if !may_be_lost || self.knows_a_renewal_since(id, issued.at_s)? {
            return Ok(PeerStatus::Unknown);
        }

        let sql = format!("SELECT {PEER_COLUMNS}, approved, revoked FROM peer WHERE uuid = $1");
        let found = self.db().first(&sql, values![id.as_bytes()], |row| {
            let (approved, revoked): (bool, bool) = (row.get(5)?, row.get(6)?);
            Ok((peer_of(row)?, identity_state(approved, revoked)))
        })?;
        let Some((peer, state)) = found else {
            return Ok(PeerStatus::Unknown);
        };
        match state {
            IdentityState::Revoked => return Ok(PeerStatus::Revoked(peer)),
            IdentityState::Waiting => return Ok(PeerStatus::Waiting(peer)),
            IdentityState::Active => {}
        }

        self.set_meta(&known_key(id), &issued.at_s.to_le_bytes())?;
        let expires = u64::try_from(issued.until_s).unwrap_or(0);
        let expires = Time(expires.saturating_mul(1_000_000));
        self.change(
            "UPDATE peer SET former_key_hash = key_hash, key_hash = $1, next_key_hash = NULL, expires = $2 WHERE uuid = $3",
            values![key_hash, micros(expires), id.as_bytes()],
        )?;
        Ok(PeerStatus::In(super::Peer { key_hash, ..peer }))
    }
}

#[cfg(test)]
mod tests {
    use common::token::Role;

    use super::super::tests::open;
    use super::*;

    const DAY_S: i64 = 86_400;

    fn day(day: u64) -> Time {
        Time(day * 86_400 * 1_000_000)
    }

    /// A certificate of that day, which lives for thirty.
    fn of_day(day: i64) -> Issued {
        Issued {
            at_s: day * DAY_S,
            until_s: (day + 30) * DAY_S,
        }
    }

    /// A store that began on day 107 as a copy of day 100, with an identity whose certificate is of day 90.
    fn begun_as_a_copy(dir: &tempfile::TempDir) -> (Writer, Uuid) {
        let mut store = open(dir);
        let pc = store.add_peer(Role::Worker, "pc", [0; 32], day(1)).unwrap();
        store.peer_expires(pc.id, day(120)).unwrap();
        store.is_a_copy(day(100)).unwrap();
        assert!(store.begin(day(107)).unwrap().1.is_some());
        (store, pc.id)
    }

    /// Whether the holder of this key is let in on this day, with a certificate of that one.
    fn is_in(store: &mut Writer, id: Uuid, key: u8, (now, issued): (u64, i64)) -> bool {
        let known = store
            .standing_of_lost(id, [key; 32], (of_day(issued), day(now)))
            .unwrap();
        matches!(known, PeerStatus::In(peer) if peer.key_hash == [key; 32])
    }

    #[test]
    fn only_a_renewal_between_the_copy_and_the_start_on_it_is_taken_for_one_that_the_store_lost() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, pc) = begun_as_a_copy(&dir);
        assert!(!is_in(&mut store, pc, 1, (108, 99)), "before the copy");
        assert!(!is_in(&mut store, pc, 1, (108, 108)), "nobody issued it");
        assert!(!is_in(&mut store, pc, 1, (153, 103)), "too late");
        let nobody = Uuid::from_u128(7);
        assert!(!is_in(&mut store, nobody, 1, (108, 103)));

        assert!(is_in(&mut store, pc, 1, (108, 103)));
        assert_eq!(store.expiry_of(pc).unwrap(), Some(day(133)));
        let known = |store: &mut Writer, key: u8| store.standing(pc, [key; 32]).unwrap();
        assert!(matches!(known(&mut store, 1), PeerStatus::In(_)));
        assert!(matches!(known(&mut store, 0), PeerStatus::Former(_)));

        let elsewhere = tempfile::tempdir().unwrap();
        let mut other = open(&elsewhere);
        let pc = other.add_peer(Role::Worker, "pc", [0; 32], day(1)).unwrap();
        other.begin(day(107)).unwrap();
        assert!(!is_in(&mut other, pc.id, 1, (108, 103)), "it is no copy");
    }

    #[test]
    fn a_lost_renewal_does_not_push_out_a_newer_key() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, pc) = begun_as_a_copy(&dir);
        assert!(is_in(&mut store, pc, 1, (108, 102)));
        assert!(is_in(&mut store, pc, 2, (108, 104)), "renewed twice");
        assert!(!is_in(&mut store, pc, 3, (108, 103)));

        let renewed = store.renew_peer(pc, [4; 32], day(140), day(110));
        assert!(renewed.unwrap());
        store.standing(pc, [4; 32]).unwrap();
        assert!(!is_in(&mut store, pc, 1, (110, 102)));
        assert!(!is_in(&mut store, pc, 5, (110, 107)));
    }

    #[test]
    fn of_two_lost_renewals_that_counts_which_was_issued_later_whichever_ends_later() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, pc) = begun_as_a_copy(&dir);
        let is_in = |store: &mut Writer, key: u8, (at, until): (i64, i64)| {
            let issued = Issued {
                at_s: at * DAY_S,
                until_s: until * DAY_S,
            };
            let known = store.standing_of_lost(pc, [key; 32], (issued, day(108)));
            matches!(known.unwrap(), PeerStatus::In(_))
        };

        // The store knows one that ends on day 120; lives became shorter since.
        assert!(is_in(&mut store, 1, (103, 110)));
        assert_eq!(store.expiry_of(pc).unwrap(), Some(day(110)));
        assert!(!is_in(&mut store, 2, (102, 132)));
        assert!(!is_in(&mut store, 2, (103, 132)), "in the same second");
        assert!(is_in(&mut store, 2, (104, 109)));

        // This master renews, for a shorter time still.
        let renewed = store.renew_peer(pc, [4; 32], day(109), day(108));
        assert!(renewed.unwrap());
        assert!(!is_in(&mut store, 3, (106, 136)));
    }

    #[test]
    fn renewals_are_noted_while_lost_ones_count_and_no_longer() {
        let noted = |store: &Writer, id| store.note(&known_key(id)).unwrap().is_some();
        let dir = tempfile::tempdir().unwrap();
        let (mut store, pc) = begun_as_a_copy(&dir);
        store.renew_peer(pc, [1; 32], day(140), day(110)).unwrap();
        assert!(noted(&store, pc));
        store.is_a_copy(day(200)).unwrap();
        store.begin(day(200)).unwrap();
        assert!(!noted(&store, pc), "none of then counts any more");

        let elsewhere = tempfile::tempdir().unwrap();
        let mut other = open(&elsewhere);
        let pc = other.add_peer(Role::Worker, "pc", [0; 32], day(1)).unwrap();
        let renewed = other.renew_peer(pc.id, [1; 32], day(140), day(110));
        assert!(renewed.unwrap() && !noted(&other, pc.id), "it is no copy");
    }

    #[test]
    fn a_lost_renewal_lets_nobody_in_who_was_revoked_or_waits_for_approval() {
        let dir = tempfile::tempdir().unwrap();
        let (mut store, pc) = begun_as_a_copy(&dir);
        store.judge_peer(pc, IdentityState::Revoked).unwrap();
        let shown = (of_day(103), day(108));
        let known = store.standing_of_lost(pc, [1; 32], shown).unwrap();
        assert!(matches!(known, PeerStatus::Revoked(_)));
        let known = store.standing(pc, [1; 32]).unwrap();
        assert_eq!(known, PeerStatus::Unknown);

        let late = store
            .add_peer(Role::Client, "ann", [6; 32], day(1))
            .unwrap();
        let sql = "UPDATE peer SET approved = FALSE WHERE uuid = $1";
        store.change(sql, values![late.id.as_bytes()]).unwrap();
        let known = store.standing_of_lost(late.id, [1; 32], shown).unwrap();
        assert!(matches!(known, PeerStatus::Waiting(_)));
        let approved = store.judge_peer(late.id, IdentityState::Active);
        assert!(approved.unwrap() && is_in(&mut store, late.id, 1, (108, 103)));
    }

    #[test]
    fn an_older_store_that_was_put_back_lost_the_renewals_since_its_master_was_up() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(&dir);
        let pc = store.add_peer(Role::Worker, "pc", [0; 32], day(1)).unwrap();
        store.set_meta("up", &day(100).0.to_le_bytes()).unwrap();
        store.is_a_copy(day(107)).unwrap();
        store.begin(day(107)).unwrap();
        assert!(!is_in(&mut store, pc.id, 1, (108, 99)));
        assert!(is_in(&mut store, pc.id, 1, (108, 103)));

        // Another copy of it does not forget that.
        store.is_a_copy(day(109)).unwrap();
        store.begin(day(109)).unwrap();
        assert!(is_in(&mut store, pc.id, 2, (110, 104)));
        assert_eq!(store.lost_renewals().unwrap().len(), 2);
        store.is_a_copy(day(200)).unwrap();
        store.begin(day(200)).unwrap();
        assert_eq!(store.lost_renewals().unwrap().len(), 1);
    }
}
