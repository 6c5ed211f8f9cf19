//! Progress that tasks report of themselves, and the copies that follow from it.

use common::attempt::{HeldAttempt, Phase};
use common::{HostId, JobId, Span};
use scheduler::Event;
use scheduler::effect::StartReason;

use crate::world::{World, s, starts};

/// A job of four tasks of unknown length that run on as many hosts, beside an idle one.
fn four_running() -> (World, JobId) {
    let mut w = World::new();
    for host in 1..=4 {
        w.host(host).joins();
    }
    let job = w.job(4).submit();
    (1..=4).for_each(|host| drop(w.moves(HostId(host), Phase::Running)));
    w.host(5).joins();
    (w, job)
}

/// Lets `span` pass with a report of each host every ten seconds; task by task, the part of it that
/// is done in a second is in `rates`. Returns the tasks that were copied.
fn report(w: &mut World, span: Span, rates: [Option<f32>; 4]) -> Vec<u32> {
    let mut copied = Vec::new();
    let begun = w.now;
    while w.now.since(begun) < span {
        let mut effects = w.pass(s(10));
        let ran = w.now.since(begun);
        for (host, rate) in (1..=4).map(HostId).zip(rates) {
            let progress = rate.map(|rate| (rate * ran.secs() as f32).min(1.0));
            let held = w.books(host).into_iter().map(|attempt| HeldAttempt {
                attempt,
                phase: Phase::Running,
                ran,
                frozen_for: Span::ZERO,
                progress,
            });
            let held = held.collect();
            effects.extend(w.send(Event::AttemptsMoved { host, held }));
        }
        effects.extend(w.beats(HostId(5)));
        let copies = starts(&effects).into_iter();
        let copies = copies.filter(|(.., why)| matches!(why, StartReason::Duplicate(..)));
        copied.extend(copies.map(|(_, attempt, _)| attempt.task.index));
    }
    copied
}

#[test]
fn a_task_that_reports_little_progress_is_copied_before_any_task_has_ended() {
    let (mut w, _) = four_running();
    let quick = Some(0.001);
    let copied = report(&mut w, s(600), [quick, quick, Some(0.0001), quick]);
    assert_eq!(copied, [3], "the others are at 60 %, this one at 6 %");
}

#[test]
fn a_task_that_is_nearly_done_by_its_own_word_is_not_the_one_that_is_copied() {
    let quick = Some(0.001);
    let (mut w, _) = four_running();
    let copied = report(&mut w, s(550), [quick; 4]);
    assert_eq!(
        copied,
        [1],
        "of equal tasks the first one, in case its host is lost"
    );

    let (mut w, _) = four_running();
    let copied = report(&mut w, s(550), [Some(0.0018), quick, quick, quick]);
    assert_eq!(copied, [2]);
}

#[test]
fn tasks_of_unknown_length_that_report_nothing_are_not_copied() {
    let (mut w, _) = four_running();
    assert_eq!(report(&mut w, s(600), [None; 4]), [0; 0]);
}
