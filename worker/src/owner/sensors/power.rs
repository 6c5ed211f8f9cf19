//! Mains and batteries, as the system lists them below `class/power_supply`. Batteries of mice and
//! headsets do not feed the host and are ignored.

use std::fs;
use std::path::Path;

use link::files::unless_gone;

use super::SensorsConfig;
use super::glance::Glance;
use crate::owner::sight::{Reading, Sight, Topic};

/// One thing that can feed the host.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Supply {
    /// A plug, and whether it gives current.
    Plug { online: bool },
    /// A battery (or an uninterruptible supply): whether the host lives on it, and its charge
    /// between 0 and 1.
    Battery { drained: bool, charge: f64 },
}

/// Makes the sensor of the host's power supply.
pub(super) fn sensor(config: &SensorsConfig) -> Glance {
    let supplies = config.sys_dir.join("class/power_supply");
    let look = move || look(&supplies);
    Glance::new("power", Topic::Power, config.power_every, look)
}

fn look(supplies: &Path) -> Sight {
    let entries = match unless_gone(fs::read_dir(supplies)) {
        Ok(entries) => entries.into_iter().flatten().flatten(),
        Err(error) => {
            return Sight::Unknown(format!("cannot list {}: {error}", supplies.display()));
        }
    };
    let found: Vec<Supply> = entries.filter_map(|entry| supply(&entry.path())).collect();
    judge(&found).unwrap_or_else(|| Sight::Absent("this host has no battery".to_owned()))
}

fn supply(dir: &Path) -> Option<Supply> {
    let read = |name: &str| {
        fs::read_to_string(dir.join(name))
            .ok()
            .map(|text| text.trim().to_owned())
    };
    if read("scope").as_deref() == Some("Device") {
        return None;
    }

    match read("type")?.as_str() {
        "Battery" | "UPS" if read("present").is_none_or(|present| present != "0") => {
            let charge = read("capacity")
                .and_then(|percent| percent.parse::<f64>().ok())
                .unwrap_or(0.0)
                / 100.0;
            // A battery that does not say in the kernel's words that it is not drained is taken to
            // be.
            let fed = |status: String| matches!(&*status, "Charging" | "Not charging" | "Full");
            let drained = !read("status").is_some_and(fed);
            Some(Supply::Battery {
                drained,
                charge: charge.clamp(0.0, 1.0),
            })
        }
        "Mains" | "USB" | "Wireless" => Some(Supply::Plug {
            online: read("online").is_some_and(|on| on != "0"),
        }),
        _ => None,
    }
}

/// Decides from the supplies: on battery if a battery is drained and no plug gives current.
fn judge(supplies: &[Supply]) -> Option<Sight> {
    let charges: Vec<f64> = supplies
        .iter()
        .filter_map(|s| {
            if let Supply::Battery { charge, .. } = s {
                Some(*charge)
            } else {
                None
            }
        })
        .collect();
    if charges.is_empty() {
        return None;
    }

    let plugged = supplies.contains(&Supply::Plug { online: true });
    let drained = supplies
        .iter()
        .any(|supply| matches!(supply, Supply::Battery { drained: true, .. }));
    let charge = charges.iter().sum::<f64>() / charges.len() as f64;

    Some(Sight::Seen(Reading::Battery(
        (drained && !plugged).then_some(charge),
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::sensors::Sensor;

    /// Returns the sight of a host that has these supplies, each with its files.
    fn host(supplies: &[(&str, &[(&str, &str)])]) -> Sight {
        let sys = tempfile::tempdir().unwrap();
        for (name, files) in supplies {
            let dir = sys.path().join("class/power_supply").join(name);
            fs::create_dir_all(&dir).unwrap();
            files
                .iter()
                .for_each(|(file, text)| fs::write(dir.join(file), format!("{text}\n")).unwrap());
        }

        sensor(&SensorsConfig {
            sys_dir: sys.path().into(),
            ..SensorsConfig::default()
        })
        .sense()
    }

    const DRAINED: (&str, &[(&str, &str)]) = (
        "BAT0",
        &[
            ("type", "Battery"),
            ("status", "Discharging"),
            ("capacity", "40"),
            ("present", "1"),
        ],
    );

    #[test]
    fn a_laptop_is_on_battery_once_it_is_unplugged() {
        assert_eq!(
            host(&[("AC", &[("type", "Mains"), ("online", "0")]), DRAINED]),
            Sight::Seen(Reading::Battery(Some(0.4)))
        );
        assert_eq!(
            host(&[("AC", &[("type", "Mains"), ("online", "1")]), DRAINED]),
            Sight::Seen(Reading::Battery(None))
        );

        let full: (&str, &[(&str, &str)]) = (
            "BAT0",
            &[("type", "Battery"), ("status", "Full"), ("capacity", "100")],
        );
        assert_eq!(
            host(&[full]),
            Sight::Seen(Reading::Battery(None)),
            "some laptops list no plug"
        );
    }

    #[test]
    fn two_batteries_have_the_mean_charge_and_an_empty_bay_has_none() {
        let second: (&str, &[(&str, &str)]) = (
            "BAT1",
            &[
                ("type", "Battery"),
                ("status", "Not charging"),
                ("capacity", "80"),
            ],
        );

        let bay: (&str, &[(&str, &str)]) = ("BAT2", &[("type", "Battery"), ("present", "0")]);
        let Sight::Seen(Reading::Battery(Some(charge))) = host(&[DRAINED, second, bay]) else {
            panic!("on battery")
        };
        assert!((charge - 0.6).abs() < 1e-9, "{charge}");
    }

    #[test]
    fn a_pc_has_no_battery_and_that_of_its_mouse_does_not_count() {
        let mouse: (&str, &[(&str, &str)]) = (
            "hid-1",
            &[
                ("type", "Battery"),
                ("scope", "Device"),
                ("status", "Discharging"),
                ("capacity", "9"),
            ],
        );
        for supplies in [
            &[][..],
            &[mouse],
            &[("AC", &[("type", "Mains"), ("online", "1")])],
        ] {
            assert!(matches!(host(supplies), Sight::Absent(_)), "{supplies:?}");
        }
    }

    #[test]
    fn a_battery_that_does_not_say_is_taken_to_be_drained() {
        assert_eq!(
            host(&[("BAT0", &[("type", "Battery")])]),
            Sight::Seen(Reading::Battery(Some(0.0)))
        );
        let garbage = [("type", "Battery"), ("status", "?!"), ("capacity", "x")];
        assert_eq!(
            host(&[("BAT0", &garbage)]),
            Sight::Seen(Reading::Battery(Some(0.0)))
        );
    }
}
