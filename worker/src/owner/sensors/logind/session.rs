//! The activity of one session of the login manager. Pure; the bus is in `logind`.

use std::collections::BTreeMap;

use zbus::OwnedVariant;

use crate::owner::sensors::Unseen;

/// A session, as far as it matters here. Times are in microseconds since 1970; 0 where there is
/// none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LogindSession {
    pub id: String,
    pub person: String,
    /// The seat that it belongs to, with this host's devices; empty: none.
    pub seat: String,
    /// `user`, `greeter`, `manager`, `background` and others.
    pub class: String,
    /// `tty`, `x11`, `wayland`, `mir`, `web`, `unspecified`.
    pub kind: String,
    /// `opening`, `online`, `active`, `closing`.
    pub state: String,
    pub remote: bool,
    pub locked: bool,
    pub idle: bool,
    /// For a terminal: the time at which something was last typed. For a desktop: the time of the
    /// last change of its idle hint.
    pub idle_since: u64,
    /// The time at which the person logged in.
    pub began: u64,
}

/// Returns a property of a session, or nothing of its type where the login manager gives none.
fn property<'a, T: TryFrom<&'a OwnedVariant> + Default>(
    properties: &'a BTreeMap<String, OwnedVariant>,
    name: &str,
) -> T {
    let value = properties.get(name);
    value.and_then(|v| T::try_from(v).ok()).unwrap_or_default()
}

/// The activity of a session's person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Activity {
    /// None: it is nobody's session, or other sensors see its input.
    Nothing,
    /// The person did something at that time, and may be there since.
    At(u64),
    /// There is a person whose input nobody sees; says who.
    Unseen(String),
}

impl LogindSession {
    /// Reads the properties that the login manager gives.
    pub(super) fn of(
        id: String,
        seat: String,
        properties: &BTreeMap<String, OwnedVariant>,
    ) -> Self {
        let text = |name: &str| property::<&str>(properties, name).to_owned();
        Self {
            id,
            person: text("Name"),
            seat,
            class: text("Class"),
            kind: text("Type"),
            state: text("State"),
            remote: property(properties, "Remote"),
            locked: property(properties, "LockedHint"),
            idle: property(properties, "IdleHint"),
            idle_since: property(properties, "IdleSinceHint"),
            began: property(properties, "Timestamp"),
        }
    }

    /// Returns the activity. `watched`: whether other sensors look at the input devices of this
    /// host, or at its displays.
    pub(super) fn activity(&self, watched: bool, unseen: Unseen) -> Activity {
        if !self.class.starts_with("user") || self.state == "closing" {
            return Activity::Nothing;
        }

        let desktop = matches!(&*self.kind, "x11" | "wayland" | "mir" | "web");
        if desktop && (self.locked || self.idle) {
            // Only true hints prove something: many desktops never set them. They changed when the
            // person went.
            return Activity::At(self.began.max(if self.idle { self.idle_since } else { 0 }));
        }

        if !desktop && self.idle_since > 0 {
            return Activity::At(self.began.max(self.idle_since));
        }
        // No sensor sees the input of a Wayland desktop that has none of this host's devices.
        let apart = self.kind == "wayland" && self.seat.is_empty();
        if !self.remote && watched && !apart {
            return Activity::At(self.began);
        }

        match unseen {
            Unseen::Ignore => Activity::At(self.began),
            Unseen::Present => {
                let from = if self.remote {
                    "from elsewhere"
                } else {
                    "here"
                };
                Activity::Unseen(format!(
                    "{} is logged in {from} (session {}), and no input can be seen of it",
                    self.person, self.id
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(kind: &str) -> LogindSession {
        let word = str::to_owned;
        LogindSession {
            id: word("3"),
            person: word("alice"),
            seat: word("seat0"),
            class: word("user"),
            kind: word(kind),
            state: word("active"),
            began: 100,
            ..LogindSession::default()
        }
    }

    fn says(session: &LogindSession) -> Activity {
        session.activity(true, Unseen::Present)
    }

    #[test]
    fn a_terminal_tells_when_something_was_typed_wherever_it_is() {
        for remote in [false, true] {
            let tty = LogindSession {
                remote,
                idle_since: 700,
                ..session("tty")
            };
            assert_eq!(says(&tty), Activity::At(700));
            assert_eq!(
                says(&LogindSession {
                    idle: true,
                    locked: true,
                    ..tty
                }),
                Activity::At(700)
            );
        }
    }

    #[test]
    fn only_people_count() {
        for class in ["greeter", "manager", "background", "lock-screen"] {
            assert_eq!(
                says(&LogindSession {
                    class: class.to_owned(),
                    remote: true,
                    ..session("x11")
                }),
                Activity::Nothing
            );
        }

        assert_eq!(
            says(&LogindSession {
                state: "closing".to_owned(),
                remote: true,
                ..session("x11")
            }),
            Activity::Nothing
        );
    }

    #[test]
    fn a_local_desktop_is_left_to_sensors_of_its_input() {
        let desktop = LogindSession {
            idle_since: 700,
            ..session("wayland")
        };
        assert_eq!(
            says(&desktop),
            Activity::At(100),
            "the hint proves nothing, the login does"
        );
        assert!(
            matches!(
                desktop.activity(false, Unseen::Present),
                Activity::Unseen(_)
            ),
            "nobody sees it"
        );
    }

    #[test]
    fn a_wayland_desktop_without_this_hosts_devices_is_seen_by_nobody() {
        let mut desktop = session("wayland");
        desktop.seat.clear();
        assert!(matches!(says(&desktop), Activity::Unseen(who) if who.contains("session 3")));
        desktop.kind = "x11".to_owned();
        assert_eq!(
            says(&desktop),
            Activity::At(100),
            "its display is looked at"
        );
    }

    #[test]
    fn a_remote_desktop_counts_until_it_is_locked_or_idle() {
        let desktop = LogindSession {
            remote: true,
            idle_since: 700,
            ..session("x11")
        };
        assert!(
            matches!(says(&desktop), Activity::Unseen(who) if who.contains("alice") && who.contains("session 3"))
        );
        assert_eq!(
            says(&LogindSession {
                idle: true,
                ..desktop.clone()
            }),
            Activity::At(700)
        );

        assert_eq!(
            says(&LogindSession {
                locked: true,
                ..desktop.clone()
            }),
            Activity::At(100)
        );

        assert_eq!(desktop.activity(true, Unseen::Ignore), Activity::At(100));
    }

    #[test]
    fn a_remote_session_without_a_terminal_counts_as_long_as_it_lasts() {
        assert!(matches!(
            says(&LogindSession {
                remote: true,
                ..session("unspecified")
            }),
            Activity::Unseen(_)
        ));
    }
}
