//! The renewal of an identity: a new certificate for a new key before the old one expires, stored
//! so that a crash at any moment leaves an identity that works.
//!
//! The master takes the old key until the new one is first used. So whoever crashes before the new
//! one is saved goes on with the old one, and whoever crashes afterwards goes on with the new one.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, SystemTime};

use common::wire::enrol::EnrolReply;
use common::wire::stream::Open;
use rcgen::KeyPair;

use crate::endpoint::{Connection, Purpose, connect};
use crate::error::{LinkError, bad_identity};
use crate::files::unless_gone;
use crate::handshake;
use crate::identity::{
    EARLIER_S, Identity, JOINING_KEY, LinkInfo, UPDATE_KEY, Validity, kept_key, key_hash,
    public_key_hash, remove_file, signing_request, write_file,
};
use crate::proof;

/// Returns the present time in seconds since 1970, by this machine's clock.
pub fn now_s() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    })
}

/// Asks the master for a new certificate over a connection that shows the old one. Nothing is
/// saved.
///
/// # Errors
/// If the master refuses, is too old to know of renewals, or the connection is gone.
pub async fn renew(connection: &Connection, identity: &Identity) -> Result<Identity, LinkError> {
    let (key, csr) = request(identity)?;
    let open = match handshake::is_master(connection.quic()) {
        true => Open::Renew { csr },
        false => Open::RenewProved {
            proof: proof::prove(identity, &csr)?,
            csr,
        },
    };
    let mut channel = connection.open(&open).await?;
    channel.tx.finish();

    match channel.rx.expect::<EnrolReply>().await? {
        EnrolReply::Enrolled {
            certificate,
            ca,
            role,
            name,
        } => {
            if key_hash(&certificate)? != public_key_hash(&key) {
                return Err(LinkError::Protocol(
                    "a certificate for another key".to_owned(),
                ));
            }

            let known = key_hash(&ca)? == key_hash(&identity.ca)?;
            if !known && !handshake::is_master(connection.quic()) {
                let why = "a gateway names another CA, which is for the master to say";
                return Err(LinkError::Protocol(why.to_owned()));
            }

            let link = LinkInfo {
                master: identity.link.master.clone(),
                name,
                role,
            };
            Ok(Identity {
                certificate: certificate.into(),
                key: key.serialize_der().into(),
                ca: ca.into(),
                link,
                home: identity.home.clone(),
                update_key: identity.update_key,
            })
        }
        EnrolReply::Refused(refusal) => Err(refusal.into()),
        EnrolReply::Here { .. }
        | EnrolReply::StandsBy { .. }
        | EnrolReply::EnrolledWithKey { .. } => Err(LinkError::other_answer()),
    }
}

/// Makes the request of a renewal, for a new key. Until the renewal is over each request of an identity is for the
/// same key: whoever holds one back and delivers it later changes nothing.
fn request(identity: &Identity) -> Result<(KeyPair, Vec<u8>), LinkError> {
    let key = match &identity.home {
        Some(home) => kept_key(&home.join(PENDING))?,
        None => KeyPair::generate().map_err(bad_identity)?,
    };

    let csr = signing_request(&key)?;
    Ok((key, csr))
}

/// Renews the identity in `dir` if it is time to, over a connection of its own; gives the one that
/// is to be used. Where it cannot be renewed now but has not expired, that is the old one. One
/// process at a time does this. A `master` that is named counts instead of the one in `dir`.
///
/// # Errors
/// If the identity cannot be read, or has expired and is not renewed.
pub async fn fresh(
    dir: &Path,
    purpose: Purpose,
    master: Option<&str>,
) -> Result<Identity, LinkError> {
    let identity = load(dir, master)?;
    if !Validity::of(&identity.certificate)?.is_due(now_s()) {
        return Ok(identity);
    }

    let _turn = turn(dir.to_owned()).await?;
    // Somebody else may have done it meanwhile.
    let identity = load(dir, master)?;
    if !Validity::of(&identity.certificate)?.is_due(now_s()) {
        return Ok(identity);
    }
    Ok(warned(renewed(dir, purpose, identity).await?))
}

/// Renews the identity in `dir` whatever this machine's clock says, since the master's may say
/// something else; gives the one that is to be used, as [`fresh`] does.
///
/// # Errors
/// As for [`fresh`].
pub async fn refresh(
    dir: &Path,
    purpose: Purpose,
    master: Option<&str>,
) -> Result<Identity, LinkError> {
    let _turn = turn(dir.to_owned()).await?;
    let identity = load(dir, master)?;
    Ok(warned(renewed(dir, purpose, identity).await?))
}

/// Keeps the identity in `dir` fresh, over connections of its own, for a program whose connections stand for longer than a
/// certificate holds, such as the one that is `known`. Never ends. It begins with a pause: whoever is connected has just
/// done what [`fresh`] does. Nobody asked for it, and its failures disturb no screen: they are told at the level of details.
pub async fn keep_fresh(dir: &Path, purpose: Purpose, known: &[u8]) {
    let known = Validity::of(known);
    let mut pause = known.map_or(LONGEST_RETRY, |known| until_due(known, now_s()));
    loop {
        tokio::time::sleep(pause).await;
        pause = freshen(dir, purpose).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "the certificate is not renewed");
            LONGEST_RETRY
        });
    }
}

/// Renews the identity if that is due and nobody else is at it, and returns the pause before that is looked at again.
async fn freshen(dir: &Path, purpose: Purpose) -> Result<Duration, LinkError> {
    let validity = Validity::of(&load(dir, None)?.certificate)?;
    if !validity.is_due(now_s()) {
        return Ok(until_due(validity, now_s()));
    }
    // All programs of a user are at it at the same time: they do not wait for each other.
    let Some(_turn) = free_turn(dir)? else {
        return Ok(until_retry(validity, now_s()));
    };
    let identity = load(dir, None)?;
    let validity = Validity::of(&identity.certificate)?;
    if !validity.is_due(now_s()) {
        return Ok(until_due(validity, now_s()));
    }

    let tried = renewed(dir, purpose, identity).await?;
    let validity = Validity::of(&tried.identity.certificate)?;
    let pause = match tried.failed {
        Some(error) => {
            tracing::debug!(%error, "{NOT_YET}");
            until_retry(validity, now_s())
        }
        None if validity.is_due(now_s()) => until_next(validity),
        None => until_due(validity, now_s()),
    };
    Ok(pause)
}

/// Renews the identity over a lasting connection whenever that is due ([`until_due`]), and tells `taken` of the new one.
/// Ends only where that says so.
pub async fn keep_renewed(
    dir: &Path,
    connection: &Connection,
    identity: &mut Identity,
    mut taken: impl FnMut(&Identity) -> ControlFlow<()>,
) {
    loop {
        let Ok(validity) = Validity::of(&identity.certificate) else {
            return std::future::pending().await;
        };
        if !validity.is_due(now_s()) {
            tokio::time::sleep(until_due(validity, now_s())).await;
            continue;
        }

        let pause = until_retry(validity, now_s());
        let pause = match renew_in_place(dir, connection, identity).await {
            Ok(renewed) => {
                tracing::info!("the certificate was renewed");
                *identity = renewed;
                if taken(identity).is_break() {
                    return;
                }
                Validity::of(&identity.certificate).map_or(pause, until_next)
            }
            Err(error) => {
                tracing::warn!(%error, "{NOT_YET}");
                pause
            }
        };

        tokio::time::sleep(pause).await;
    }
}

/// Reads the identity in `dir`, towards the master that is named, if one is.
fn load(dir: &Path, master: Option<&str>) -> Result<Identity, LinkError> {
    let mut identity = Identity::load(dir)?;
    if let Some(master) = master {
        master.clone_into(&mut identity.link.master);
    }
    Ok(identity)
}

/// The words for a renewal that failed and is tried again.
const NOT_YET: &str = "the certificate could not be renewed yet";

/// The end of an attempt to renew an identity.
struct Renewed {
    /// The one that is to be used: the old one, if that failed.
    identity: Identity,
    failed: Option<LinkError>,
}

/// Warns of a renewal that failed, and returns the identity that is to be used.
fn warned(renewed: Renewed) -> Identity {
    if let Some(error) = renewed.failed {
        tracing::warn!(%error, "{NOT_YET}");
    }
    renewed.identity
}

/// Renews an identity over a separate connection, and replaces the old one.
async fn renewed(dir: &Path, purpose: Purpose, identity: Identity) -> Result<Renewed, LinkError> {
    let validity = Validity::of(&identity.certificate)?;
    let renewed = async {
        let connection = connect(&identity, purpose).await?;
        let renewed = renew(&connection, &identity).await;
        connection.close("renewed").await;
        renewed
    };

    match renewed.await {
        Ok(renewed) => {
            replace(&renewed, dir).await?;
            tracing::info!(name = renewed.link.name, "the certificate was renewed");
            Ok(Renewed {
                identity: renewed,
                failed: None,
            })
        }
        // A master that only wants to be asked less often takes the old one, where it is not
        // expired by the master's clock.
        Err(error) if validity.until_s < now_s() && !error.passing() => Err(error),
        Err(error @ (LinkError::Unreachable { .. } | LinkError::Closed(_)))
            if validity.until_s < now_s() =>
        {
            Err(error)
        }
        Err(error) => Ok(Renewed {
            identity,
            failed: Some(error),
        }),
    }
}

/// Renews the identity in `dir` over a connection that it already has.
///
/// # Errors
/// As [`renew`], and if the new one cannot be saved.
pub async fn renew_in_place(
    dir: &Path,
    connection: &Connection,
    identity: &Identity,
) -> Result<Identity, LinkError> {
    let _turn = turn(dir.to_owned()).await?;
    let renewed = renew(connection, identity).await?;
    replace(&renewed, dir).await?;
    Ok(renewed)
}

/// Does what [`Identity::replace`] does, off the runtime: each file is synced.
async fn replace(renewed: &Identity, dir: &Path) -> Result<(), LinkError> {
    off(renewed, dir, Identity::replace).await
}

/// Puts an identity that the master has just given to a newcomer into `dir`. Where another one lies there, a crash leaves
/// the one or the other, whole.
///
/// # Errors
/// If a file cannot be written.
pub async fn settle(joined: &Identity, dir: &Path) -> Result<(), LinkError> {
    if !Identity::found(dir)? {
        return joined.save(dir);
    }
    let _turn = turn(dir.to_owned()).await?;
    off(joined, dir, Identity::replace_by_newcomer).await
}

/// Writes an identity into a directory on another thread.
async fn off(
    identity: &Identity,
    dir: &Path,
    write: fn(&Identity, &Path) -> Result<(), LinkError>,
) -> Result<(), LinkError> {
    let identity = identity.again();
    let dir = dir.to_owned();
    let written = tokio::task::spawn_blocking(move || write(&identity, &dir)).await;
    written.map_err(|e| LinkError::Closed(e.to_string()))?
}

/// Waits for the exclusive right to change the identity; it ends when the returned file is dropped.
async fn turn(dir: std::path::PathBuf) -> Result<File, LinkError> {
    let shown = dir.join(LOCK);
    let locked = tokio::task::spawn_blocking(move || {
        let file = open_lock(&dir)?;
        file.lock()?;
        Ok(file)
    });
    locked
        .await
        .map_err(|e| LinkError::Closed(e.to_string()))?
        .map_err(LinkError::file("cannot lock", shown))
}

/// Takes the exclusive right to change the identity, as [`turn`] does; `None` if somebody else has it.
fn free_turn(dir: &Path) -> Result<Option<File>, LinkError> {
    let cannot = || LinkError::file("cannot lock", dir.join(LOCK));
    let file = open_lock(dir).map_err(cannot())?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => Ok(None),
        Err(std::fs::TryLockError::Error(error)) => Err(cannot()(error)),
    }
}

/// Opens the file whose lock is the right to change the identity.
fn open_lock(dir: &Path) -> std::io::Result<File> {
    File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(dir.join(LOCK))
}

/// Returns the time until a certificate is renewed, or until that is checked again. The master
/// renews a certificate once a third of its life is left, however short that is.
pub fn until_due(validity: Validity, now_s: i64) -> Duration {
    let left_s = validity.due_s().saturating_sub(now_s);
    seconds(left_s).clamp(SHORTEST_LOOK, LONGEST_LOOK)
}

/// Returns the pause before a failed renewal is tried again: several tries fit before the
/// certificate expires.
pub fn until_retry(validity: Validity, now_s: i64) -> Duration {
    let left_s = validity.until_s.saturating_sub(now_s) / 8;
    seconds(left_s).clamp(SHORTEST_LOOK, LONGEST_RETRY)
}

/// Returns the time for which a new certificate needs no other, by its own life and not by a clock:
/// a clock that is far ahead finds each of them due.
pub fn until_next(validity: Validity) -> Duration {
    let fresh_s = validity
        .due_s()
        .saturating_sub(validity.from_s)
        .saturating_sub(EARLIER_S);
    seconds(fresh_s).clamp(SHORTEST_LOOK, LONGEST_LOOK)
}

/// Returns as many seconds, none if there are fewer.
fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

const SHORTEST_LOOK: Duration = Duration::from_secs(1);
/// The longest wait between two checks: clocks may be set meanwhile.
const LONGEST_LOOK: Duration = Duration::from_secs(3_600);
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// The directory in which a new identity is complete before it replaces the old one.
const NEXT: &str = "next";
/// The file in `NEXT` that says that the new identity is of somebody who has joined again.
const JOINED: &str = "joined";
/// The file of the key that a renewal is asked for, until that is over.
const PENDING: &str = "pending.key.der";
/// The file that whoever changes the identity has locked.
const LOCK: &str = "renewal.lock";
/// The time that a replacement by another process may take, in looks and the pause between them.
const LOOKS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// The files of an identity. The last one says that the others are there.
const FILES: [&str; 4] = ["key.der", "certificate.der", "ca.der", "link.toml"];

impl Identity {
    /// Puts this identity in the place of the one in `dir`. After a crash there is the one or the
    /// other, whole.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn replace(&self, dir: &Path) -> Result<(), LinkError> {
        empty_next(dir)?;
        self.put_in_place(dir)
    }

    /// As [`replace`](Self::replace), by somebody who has joined again: what was learned in joining is replaced, too, and the
    /// key of the request is of no use any more.
    fn replace_by_newcomer(&self, dir: &Path) -> Result<(), LinkError> {
        empty_next(dir)?;
        let next = dir.join(NEXT);
        crate::files::private_dir(&next).map_err(LinkError::file("cannot make", &next))?;
        write_file(&next.join(JOINED), &[])?;
        self.put_in_place(dir)
    }

    fn put_in_place(&self, dir: &Path) -> Result<(), LinkError> {
        self.save(&dir.join(NEXT))?;
        finish_replacing(dir)?;
        remove_file(&dir.join(PENDING))
    }
}

/// Removes what an earlier replacement has left.
fn empty_next(dir: &Path) -> Result<(), LinkError> {
    let next = dir.join(NEXT);
    match next.exists() {
        true => fs::remove_dir_all(&next).map_err(LinkError::file("cannot remove", &next)),
        false => Ok(()),
    }
}

/// Completes a replacement that a crash interrupted, if there is one. One that another process is at is
/// waited for: both at once would take each other's temporary files.
pub(crate) fn finish_interrupted(dir: &Path) -> Result<(), LinkError> {
    let is_over = || !dir.join(NEXT).join(FILES[3]).exists();
    let mut lock = None;
    for _ in 0..LOOKS {
        if is_over() {
            return Ok(());
        }
        let lock = lock.get_or_insert_with(|| open_lock(dir).ok());
        let tried = lock.as_ref().map(File::try_lock);
        if !matches!(tried, Some(Err(std::fs::TryLockError::WouldBlock))) {
            break;
        }
        std::thread::sleep(PAUSE);
    }

    if is_over() {
        return Ok(());
    }
    finish_replacing(dir)
}

/// Puts the files of `next` in their places, as far as they are there.
fn finish_replacing(dir: &Path) -> Result<(), LinkError> {
    let next = dir.join(NEXT);
    if !next.join(FILES[3]).exists() {
        return Ok(());
    }

    let has_joined = next.join(JOINED).exists();
    for name in FILES {
        let from = next.join(name);
        let bytes = match fs::read(&from) {
            // Another process was quicker.
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && !next.join(FILES[3]).exists() =>
            {
                return Ok(());
            }
            read => read.map_err(LinkError::file("cannot read", &from))?,
        };

        write_file(&dir.join(name), &bytes)?;
    }
    if has_joined {
        finish_joining(dir)?;
    }

    // The file that says that there is something to do goes first.
    let _ = fs::remove_file(next.join(FILES[3]));
    let _ = fs::remove_dir_all(&next);
    Ok(())
}

/// Puts in place what else the newcomer of `next` has learned, and forgets the key of its request.
fn finish_joining(dir: &Path) -> Result<(), LinkError> {
    let next = dir.join(NEXT);
    let from = next.join(UPDATE_KEY);
    let to = dir.join(UPDATE_KEY);
    let bytes = unless_gone(fs::read(&from)).map_err(LinkError::file("cannot read", &from))?;
    match bytes {
        Some(bytes) => write_file(&to, &bytes)?,
        // Another process was quicker.
        None if !next.join(FILES[3]).exists() => return Ok(()),
        None => remove_file(&to)?,
    }

    remove_file(&dir.join(JOINING_KEY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::token::Role;
    use common::update::UpdateKey;

    fn identity(fill: u8) -> Identity {
        let link = LinkInfo {
            master: "h:1".into(),
            name: format!("n{fill}"),
            role: Role::Worker,
        };
        Identity {
            certificate: vec![fill; 3].into(),
            key: vec![fill; 4].into(),
            ca: vec![fill; 5].into(),
            link,
            home: None,
            update_key: None,
        }
    }

    fn parts(identity: &Identity) -> (u8, u8, u8, String) {
        let first = |bytes: &[u8]| bytes[0];
        let certificate = first(&identity.certificate);
        let ca = first(&identity.ca);
        (
            certificate,
            first(identity.key.secret_pkcs8_der()),
            ca,
            identity.link.name.clone(),
        )
    }

    #[test]
    fn a_crash_at_any_moment_of_a_replacement_leaves_one_whole_identity() {
        // What lies there after each step of `replace`, and which identity must be read then.
        for (steps, expected) in [
            (0, 1),
            (1, 1),
            (2, 1),
            (3, 1),
            (4, 2),
            (5, 2),
            (6, 2),
            (7, 2),
            (8, 2),
        ] {
            let dir = tempfile::tempdir().unwrap();
            identity(1).save(dir.path()).unwrap();

            let next = dir.path().join(NEXT);
            let staged = tempfile::tempdir().unwrap();
            identity(2).save(staged.path()).unwrap();
            fs::create_dir(&next).unwrap();
            for name in &FILES[..steps.min(4)] {
                fs::copy(staged.path().join(name), next.join(name)).unwrap();
            }
            for name in &FILES[..steps.saturating_sub(4)] {
                fs::copy(next.join(name), dir.path().join(name)).unwrap();
            }

            let found = Identity::load(dir.path()).unwrap();
            assert_eq!(
                parts(&found),
                (expected, expected, expected, format!("n{expected}")),
                "after {steps} steps"
            );
            assert_eq!(
                parts(&Identity::load(dir.path()).unwrap()),
                parts(&found),
                "read twice"
            );
        }
    }

    #[test]
    fn whoever_joins_again_has_one_whole_identity_after_a_crash_and_what_was_learned_with_it() {
        let learned = |fill: u8, key: Option<u8>| Identity {
            update_key: key.map(|key| UpdateKey([key; 32])),
            ..identity(fill)
        };
        for (old, new) in [(None, Some(2)), (Some(1), Some(2)), (Some(1), None)] {
            // What lies there after a crash in front of each file that is put in place, and after the last one.
            for put in 0..=FILES.len() {
                let dir = tempfile::tempdir().unwrap();
                learned(1, old).save(dir.path()).unwrap();
                fs::write(dir.path().join(JOINING_KEY), "key").unwrap();

                let next = dir.path().join(NEXT);
                learned(2, new).save(&next).unwrap();
                fs::write(next.join(JOINED), "").unwrap();
                for name in &FILES[..put] {
                    fs::copy(next.join(name), dir.path().join(name)).unwrap();
                }
                let found = Identity::load(dir.path()).unwrap();
                assert_eq!(parts(&found), (2, 2, 2, "n2".to_owned()), "{put}");
                assert_eq!(found.update_key, learned(2, new).update_key);
                assert!(!dir.path().join(JOINING_KEY).exists());
            }
        }
    }

    #[tokio::test]
    async fn an_identity_that_cannot_be_written_leaves_the_one_before_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        identity(1).save(dir.path()).unwrap();
        fs::write(dir.path().join(JOINING_KEY), "key").unwrap();
        // It cannot be made: a file stands where its directory is to be.
        fs::write(dir.path().join(NEXT), "").unwrap();
        assert!(settle(&identity(2), dir.path()).await.is_err());
        assert_eq!(parts(&Identity::load(dir.path()).unwrap()).0, 1);

        fs::remove_file(dir.path().join(NEXT)).unwrap();
        settle(&identity(2), dir.path()).await.unwrap();
        assert_eq!(parts(&Identity::load(dir.path()).unwrap()).0, 2);
        assert!(!dir.path().join(NEXT).exists());
    }

    #[cfg(unix)]
    #[test]
    fn whoever_loads_an_identity_while_it_is_replaced_finds_one_whole() {
        let dir = tempfile::tempdir().unwrap();
        identity(1).save(dir.path()).unwrap();
        let replace = |fill: u8| {
            let lock = open_lock(dir.path()).map_err(LinkError::file("cannot open", LOCK))?;
            lock.lock().map_err(LinkError::file("cannot lock", LOCK))?;
            identity(fill).replace(dir.path())
        };

        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let replaced = (2..20).try_for_each(replace);
                over.store(true, std::sync::atomic::Ordering::Relaxed);
                replaced.unwrap();
            });
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(std::sync::atomic::Ordering::Relaxed) {
                        Identity::load(dir.path()).unwrap();
                    }
                });
            }
        });
        assert_eq!(parts(&Identity::load(dir.path()).unwrap()).0, 19);
    }

    #[test]
    fn requests_of_one_renewal_are_for_one_key_and_those_of_the_next_for_another() {
        let dir = tempfile::tempdir().unwrap();
        identity(1).save(dir.path()).unwrap();
        let present = Identity::load(dir.path()).unwrap();
        let asked = |identity: &Identity| request(identity).unwrap().0.serialize_der();
        let first = asked(&present);
        assert_eq!(asked(&present), first, "its answer may have been lost");

        identity(2).replace(dir.path()).unwrap();
        assert_ne!(asked(&Identity::load(dir.path()).unwrap()), first);
    }

    #[test]
    fn a_certificate_is_due_once_a_third_of_its_life_is_left() {
        let day = 86_400;
        let validity = Validity {
            from_s: 0,
            until_s: 32 * day,
        };
        assert!(
            !validity.is_due(22 * day - 1)
                && validity.is_due(22 * day)
                && validity.is_due(40 * day)
        );
    }

    #[test]
    fn a_renewal_is_scheduled_from_the_certificates_life_and_not_from_the_hour() {
        let issued_s = 1_000_000;
        for life_s in [600, 3_600, 30 * 86_400] {
            let validity = Validity {
                from_s: issued_s - EARLIER_S,
                until_s: issued_s + life_s,
            };
            let mut now_s = issued_s;
            let mut looks = 0;

            while !validity.is_due(now_s) {
                now_s += until_due(validity, now_s).as_secs() as i64;
                looks += 1;
            }

            assert!(
                now_s < validity.until_s,
                "{life_s}: renewed {} s too late",
                now_s - validity.until_s
            );
            assert!(looks <= life_s / 3_600 + 2, "{life_s}: {looks} looks");

            let tries = (validity.until_s - now_s) / until_retry(validity, now_s).as_secs() as i64;
            assert!(tries >= 8, "{life_s}: only {tries} tries");
        }
    }
}
