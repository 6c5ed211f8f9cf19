//! The meanings of values of macOS's registry.
#![cfg_attr(not(target_os = "macos"), allow(dead_code))] // Elsewhere it is only tested.

use common::Span;

use crate::owner::sight::{Reading, Sight};

/// Returns the sight of input: the time since the last, in nanoseconds.
pub(super) fn input(idle: Option<i64>) -> Sight {
    match idle.map(u64::try_from) {
        Some(Ok(idle)) => Sight::Seen(Reading::Idle(Span(idle / 1_000))),
        _ => Sight::Unknown("the registry of macOS has no HIDIdleTime".to_owned()),
    }
}

/// Returns the sight of what feeds the host, by Apple's name, and of its battery's charge as now and at most. An
/// unknown charge counts as none.
pub(super) fn power(told: Option<(String, Option<(i64, i64)>)>) -> Sight {
    let Some((kind, charge)) = told else {
        return Sight::Unknown("macOS does not tell what this host runs on".to_owned());
    };
    let charge = match charge {
        Some((now, most)) if most > 0 => (now as f64 / most as f64).clamp(0.0, 1.0),
        _ => 0.0,
    };
    match &*kind {
        "AC Power" => Sight::Seen(Reading::Battery(None)),
        "Battery Power" | "UPS Power" => Sight::Seen(Reading::Battery(Some(charge))),
        other => Sight::Unknown(format!("macOS calls what this host runs on `{other}`")),
    }
}

/// Returns the first program of the owner's list among the names of those that run.
pub(super) fn program<'a>(wanted: &[String], mut running: impl Iterator<Item = &'a str>) -> Sight {
    let found = running.find(|name| wanted.iter().any(|one| one == name));
    Sight::Seen(Reading::Program(found.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_registry_are_understood_and_strange_ones_are_unknown() {
        assert_eq!(
            input(Some(2_500_000_000)),
            Sight::Seen(Reading::Idle(Span(2_500_000)))
        );
        for strange in [None, Some(-1)] {
            assert!(matches!(input(strange), Sight::Unknown(_)));
        }

        let on = |kind: &str, charge| power(Some((kind.to_owned(), charge)));
        let battery = |charge| Sight::Seen(Reading::Battery(charge));
        assert_eq!(on("AC Power", Some((50, 100))), battery(None));
        assert_eq!(on("AC Power", None), battery(None));
        assert_eq!(on("Battery Power", Some((50, 200))), battery(Some(0.25)));
        assert_eq!(on("UPS Power", None), battery(Some(0.0)));
        assert_eq!(on("Battery Power", Some((5, 0))), battery(Some(0.0)));
        assert!(matches!(on("Steam", None), Sight::Unknown(why) if why.contains("Steam")));
        assert!(matches!(power(None), Sight::Unknown(_)));
    }

    #[test]
    fn a_program_of_the_owners_list_is_found_by_its_whole_name() {
        let wanted = ["Blender".to_owned(), "Final Cut Pro".to_owned()];
        let seen = |name: Option<&str>| Sight::Seen(Reading::Program(name.map(str::to_owned)));
        let running = ["launchd", "Blender Helper", "Final Cut Pro"];
        assert_eq!(
            program(&wanted, running.into_iter()),
            seen(Some("Final Cut Pro"))
        );
        assert_eq!(program(&wanted, running.into_iter().take(2)), seen(None));
    }
}
