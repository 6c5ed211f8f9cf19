//! Tests of what is taken, and of which program a start runs.

use std::time::Duration;

use common::BlobRef;
use common::content::BlobHash;
use common::update::{ProgramVersion, SignedUpdate, UpdateKey, UpdateStatement};
use link::signing::UpdateSigner;

use super::*;

const OLD: ProgramVersion = ProgramVersion(0, 1, 0);
const NEW: ProgramVersion = ProgramVersion(0, 2, 0);

fn signer() -> UpdateSigner {
    UpdateSigner::read(&UpdateSigner::make().unwrap()).unwrap()
}

fn statement(version: ProgramVersion) -> UpdateStatement {
    UpdateStatement {
        platform: platform().parse().unwrap(),
        version,
        blob: BlobRef {
            hash: BlobHash([version.1 as u8; 32]),
            size: 1,
        },
        downgrade: None,
    }
}

fn unsigned(of: &UpdateStatement) -> SignedUpdate {
    SignedUpdate {
        statement: of.text(),
        signature: Vec::new(),
    }
}

/// Chooses for an installed program, where every program is there and signed.
fn chosen(programs: &mut TakenPrograms, installed: ProgramVersion) -> ProgramChoice {
    let read = |signed: &SignedUpdate| Ok(UpdateStatement::read(&signed.statement).unwrap());
    programs.choose(installed, read, |_| Ok(()))
}

#[test]
#[cfg(unix)]
fn only_what_the_owner_lets_in_and_the_known_key_has_signed_for_this_platform_is_taken() {
    let (ours, other) = (signer(), signer());
    let of = statement(NEW);
    let config = Config::default();
    let asked = |update: &SignedUpdate, config: &Config, key: Option<UpdateKey>, running| {
        admit(update, config, key, running).map_err(|why| why.split(':').next().unwrap().to_owned())
    };
    let signed = ours.sign(&of);
    let key = Some(ours.key());
    assert_eq!(asked(&signed, &config, key, OLD), Ok(of.clone()));

    let refused = |update: &SignedUpdate, config: &Config, key, running| {
        asked(update, config, key, running).expect_err("a refusal")
    };
    let closed = Config {
        updates: false,
        ..Config::default()
    };
    assert!(refused(&signed, &closed, key, OLD).contains("updates = false"));
    assert!(refused(&signed, &config, None, OLD).contains("knows no key"));
    assert!(refused(&other.sign(&of), &config, key, OLD).contains("signature"));
    assert!(refused(&signed, &config, key, ProgramVersion(0, 3, 0)).contains("older than 0.3.0"));
    let elsewhere = UpdateStatement {
        platform: "plan9-mips".parse().unwrap(),
        ..of.clone()
    };
    assert!(refused(&ours.sign(&elsewhere), &config, key, OLD).contains("plan9-mips"));

    // The owner's own word on the key counts over the one learned when joining.
    let named = Config {
        update_key: other.key().to_string(),
        ..Config::default()
    };
    assert!(refused(&signed, &named, key, OLD).contains("signature"));
    assert_eq!(asked(&other.sign(&of), &named, key, OLD), Ok(of));
}

#[test]
fn a_program_whose_starts_all_end_is_not_tried_for_ever_and_the_one_before_runs() {
    let of = statement(NEW);
    let mut programs = TakenPrograms::default();
    assert_eq!(chosen(&mut programs, OLD), ProgramChoice::Installed);
    programs.try_next(unsigned(&of), &of, OLD);
    for _ in 0..6 {
        assert_eq!(chosen(&mut programs, OLD), ProgramChoice::Trial(of.clone()));
    }
    assert_eq!(chosen(&mut programs, OLD), ProgramChoice::Installed);
    assert!(
        programs
            .failed(&of.blob.hash)
            .is_some_and(|why| why.contains("6 starts"))
    );

    // After one that has come up, that one runs again.
    let mut programs = TakenPrograms::default();
    programs.try_next(unsigned(&of), &of, OLD);
    programs.confirm(&of);
    assert_eq!(
        chosen(&mut programs, OLD),
        ProgramChoice::Current(of.clone())
    );
    let newer = statement(ProgramVersion(0, 3, 0));
    programs.try_next(unsigned(&newer), &newer, OLD);
    programs.fail(&newer, "no", false);
    assert_eq!(chosen(&mut programs, OLD), ProgramChoice::Current(of));
}

#[test]
fn a_package_of_the_same_or_a_newer_version_wins_over_what_the_master_sent() {
    let of = statement(NEW);
    let mut programs = TakenPrograms::default();
    programs.try_next(unsigned(&of), &of, OLD);
    programs.confirm(&of);
    assert_eq!(chosen(&mut programs, NEW), ProgramChoice::Installed);
    assert_eq!(programs.current, None);

    // A signed downgrade holds until another package comes.
    let newest = ProgramVersion(1, 0, 0);
    let back = UpdateStatement {
        downgrade: Some(newest),
        ..of
    };
    let mut programs = TakenPrograms::default();
    programs.try_next(unsigned(&back), &back, newest);
    programs.confirm(&back);
    assert_eq!(chosen(&mut programs, newest), ProgramChoice::Current(back));
    assert_eq!(
        chosen(&mut programs, ProgramVersion(1, 0, 1)),
        ProgramChoice::Installed
    );
}

#[test]
fn a_program_whose_file_was_changed_or_whose_signature_does_not_hold_any_more_is_not_run() {
    let of = statement(NEW);
    let taken = || {
        let mut programs = TakenPrograms::default();
        programs.try_next(unsigned(&of), &of, OLD);
        programs.confirm(&of);
        programs
    };
    let read = |signed: &SignedUpdate| Ok(UpdateStatement::read(&signed.statement).unwrap());
    let mut changed = taken();
    let choice = changed.choose(OLD, read, |_| Err("its file was changed".to_owned()));
    assert_eq!(
        (choice, &changed.current),
        (ProgramChoice::Installed, &None)
    );
    let mut foreign = taken();
    let choice = foreign.choose(OLD, |_| Err("another key".to_owned()), |_| Ok(()));
    assert_eq!(
        (choice, &foreign.current),
        (ProgramChoice::Installed, &None)
    );
}

#[test]
fn a_program_that_was_only_late_at_the_master_is_tried_once_more() {
    let of = statement(NEW);
    let mut programs = TakenPrograms::default();
    let late = |programs: &mut TakenPrograms| {
        programs.try_next(unsigned(&of), &of, OLD);
        programs.fail(&of, "it did not reach the master", true);
        programs.failed(&of.blob.hash).is_some()
    };
    assert!(!late(&mut programs), "the master may have been away");
    assert!(late(&mut programs));

    programs = TakenPrograms::default();
    programs.fail(&of, "it ended twice", false);
    assert!(programs.failed(&of.blob.hash).is_some());
}

#[test]
fn a_program_that_came_up_and_breaks_three_times_soon_after_its_start_is_taken_back() {
    let of = statement(NEW);
    let mut programs = TakenPrograms::default();
    programs.try_next(unsigned(&of), &of, OLD);
    programs.confirm(&of);

    assert!(!programs.broke(&of, "signal 11") && !programs.broke(&of, "signal 11"));
    assert_eq!(
        chosen(&mut programs, OLD),
        ProgramChoice::Current(of.clone())
    );
    assert!(programs.broke(&of, "signal 11"));
    assert_eq!(chosen(&mut programs, OLD), ProgramChoice::Installed);
    assert!(programs.failed(&of.blob.hash).is_some());
}

#[tokio::test]
async fn a_program_that_ran_for_long_is_not_charged_with_what_broke_before() {
    let dir = tempfile::tempdir().unwrap();
    let programs = ProgramDir::below(dir.path());
    let of = statement(NEW);
    let mut taken = TakenPrograms::default();
    taken.try_next(unsigned(&of), &of, OLD);
    taken.confirm(&of);
    assert!(!taken.broke(&of, "signal 9") && !taken.broke(&of, "signal 9"));
    programs.write(&taken).unwrap();

    let keeper = keeper::ProgramKeeper::new(dir.path(), &Config::default(), None, Vec::new());
    keeper.lasts(Duration::ZERO).await;
    taken = programs.read();
    assert!(!taken.broke(&of, "signal 9"), "the first after a long run");
    assert_eq!(chosen(&mut taken, OLD), ProgramChoice::Current(of));
}

#[cfg(unix)]
#[tokio::test(start_paused = true)]
async fn settings_that_no_program_takes_are_no_fault_of_the_one_on_trial() {
    use std::os::unix::process::ExitStatusExt;

    let dir = tempfile::tempdir().unwrap();
    let programs = ProgramDir::below(dir.path());
    let of = statement(NEW);
    let mut taken = TakenPrograms::default();
    taken.try_next(unsigned(&of), &of, OLD);
    programs.write(&taken).unwrap();

    let keeper = || keeper::ProgramKeeper::new(dir.path(), &Config::default(), None, Vec::new());
    let ended = async |keeper: keeper::ProgramKeeper| {
        let status = std::process::ExitStatus::from_raw(2 << 8);
        let began = tokio::time::Instant::now();
        keeper.after(&of, true, Ok(status), began).await
    };
    for _ in 0..=ENDS {
        assert_eq!(ended(keeper().with_unfit_settings(true)).await, Some(2));
    }
    assert!(programs.read().failed(&of.blob.hash).is_none());

    for _ in 0..ENDS {
        assert_eq!(ended(keeper()).await, None);
    }
    assert!(programs.read().failed(&of.blob.hash).is_some());
}
