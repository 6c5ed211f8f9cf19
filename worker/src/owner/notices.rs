//! Notices to the owner on the desktop, off unless the owner asks for them: which there are, when
//! they are due, and in which words. `desktop` shows them.

#[cfg_attr(target_os = "linux", path = "notices/desktop.rs")]
#[cfg_attr(not(target_os = "linux"), path = "notices/none.rs")]
mod desktop;

use common::host::YieldReason;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::UnboundedSender;

/// A notice that an owner can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NoticeKind {
    /// The first task of the day starts.
    FirstTask,
    /// A task was given back, since the owner needed the host or its memory for long: once, until
    /// tasks may run again.
    GivenBack,
    /// A pause begins, or ends.
    Paused,
}

/// A notice in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Notice {
    kind: NoticeKind,
    title: &'static str,
    text: &'static str,
}

const FIRST_TASK: Notice = Notice {
    kind: NoticeKind::FirstTask,
    title: "This PC computes",
    text: "The first task of the day has started. It makes room as soon as you need the PC.",
};
const GIVEN_BACK: Notice = Notice {
    kind: NoticeKind::GivenBack,
    title: "This PC is all yours",
    text: "What waited for you here was given back, and runs elsewhere.",
};
const PAUSED: Notice = Notice {
    kind: NoticeKind::Paused,
    title: "Paused",
    text: "No task runs on this PC until the pause ends.",
};
const RESUMED: Notice = Notice {
    kind: NoticeKind::Paused,
    title: "The pause has ended",
    text: "Tasks may run on this PC again while you do not need it.",
};

/// The notices that the owner asked for.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// The kinds, and the way to the desktop; none where the owner asked for nothing.
    wanted: Option<(Vec<NoticeKind>, UnboundedSender<Notice>)>,
    paused: Option<bool>,
    gave_back: bool,
}

impl Notices {
    /// Shows these kinds (`notify` in `worker.toml`) from now on. Without any, nothing is connected to.
    pub(crate) fn new(kinds: &[NoticeKind]) -> Self {
        let wanted = (!kinds.is_empty()).then(|| (kinds.to_vec(), desktop::serve()));
        Self {
            wanted,
            ..Self::default()
        }
    }

    /// The first task of the day starts.
    pub(crate) fn first_task(&self) {
        self.show(FIRST_TASK);
    }

    /// A task was given back for the owner's sake (`Action::Spent`).
    pub(crate) fn given_back(&mut self) {
        if !std::mem::replace(&mut self.gave_back, true) {
            self.show(GIVEN_BACK);
        }
    }

    /// The decisive `YieldReason` has changed. The state that the worker starts in is no
    /// news.
    pub(crate) fn decided(&mut self, reason: Option<YieldReason>) {
        self.gave_back &= reason.is_some();
        let paused = reason == Some(YieldReason::PausedByOwner);
        match (self.paused.replace(paused), paused) {
            (Some(false), true) => self.show(PAUSED),
            (Some(true), false) => self.show(RESUMED),
            _ => {}
        }
    }

    fn show(&self, notice: Notice) {
        if let Some((kinds, desktop)) = &self.wanted
            && kinds.contains(&notice.kind)
        {
            // A desktop that is gone has said so in the log.
            let _ = desktop.send(notice);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    use super::*;

    fn notices(kinds: &[NoticeKind]) -> (Notices, UnboundedReceiver<Notice>) {
        let (tell, shown) = unbounded_channel();
        let notices = Notices {
            wanted: Some((kinds.to_vec(), tell)),
            ..Notices::default()
        };
        (notices, shown)
    }

    fn titles(shown: &mut UnboundedReceiver<Notice>) -> Vec<&'static str> {
        std::iter::from_fn(|| shown.try_recv().ok())
            .map(|notice| notice.title)
            .collect()
    }

    #[test]
    fn only_what_was_asked_for_is_shown() {
        let (mut notices, mut shown) = notices(&[NoticeKind::GivenBack]);
        notices.first_task();
        notices.decided(None);
        notices.decided(Some(YieldReason::PausedByOwner));
        notices.given_back();
        assert_eq!(titles(&mut shown), [GIVEN_BACK.title]);
    }

    #[test]
    fn a_pause_is_told_when_it_begins_and_when_it_ends_but_not_at_the_start() {
        let (mut notices, mut shown) = notices(&[NoticeKind::Paused]);
        notices.decided(Some(YieldReason::PausedByOwner));
        assert!(titles(&mut shown).is_empty());
        notices.decided(Some(YieldReason::InUse));
        notices.decided(None);
        notices.decided(Some(YieldReason::PausedByOwner));
        assert_eq!(titles(&mut shown), [RESUMED.title, PAUSED.title]);
    }

    #[test]
    fn what_is_given_back_is_told_once_until_tasks_may_run_again() {
        let (mut notices, mut shown) = notices(&[NoticeKind::GivenBack]);
        let typed = Some(YieldReason::InUse);
        notices.decided(typed);
        notices.given_back();
        notices.given_back();
        notices.decided(Some(YieldReason::Busy));
        notices.given_back();
        assert_eq!(titles(&mut shown).len(), 1);
        notices.decided(None);
        notices.decided(typed);
        notices.given_back();
        assert_eq!(titles(&mut shown).len(), 1);
    }
}
