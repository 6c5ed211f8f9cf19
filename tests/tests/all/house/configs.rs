//! Every shipped configuration file is listed here with the type that reads it, and loads.

use common::Span;
use common::settings::ConfigDuration;
use std::collections::BTreeSet;

use super::{files, text};

type Load = fn(&str) -> Result<(), String>;

/// Each file of `configs/` and what loads it.
const CONFIGS: [(&str, Load); 6] = [
    ("configs/master.toml", master),
    ("configs/site.toml", worker::site::check),
    ("configs/worker-boinc.toml", boinc),
    ("configs/worker-dedicated.toml", dedicated),
    ("configs/worker-htcondor.toml", htcondor),
    ("configs/worker.toml", worker),
];

/// The master's file shows the defaults.
fn master(text: &str) -> Result<(), String> {
    let shipped = master::Config::parse(text).map_err(|e| e.to_string())?;
    if shipped == master::Config::default() {
        Ok(())
    } else {
        Err(format!("does not show the defaults: {shipped:?}"))
    }
}

/// So does the worker's.
fn worker(text: &str) -> Result<(), String> {
    let shipped: worker::Config = text.parse().map_err(|e| format!("{e}"))?;
    if shipped == worker::Config::default() {
        Ok(())
    } else {
        Err(format!("does not show the defaults: {shipped:?}"))
    }
}

fn owner(text: &str) -> Result<worker::owner::rules::OwnerRules, String> {
    text.parse::<worker::Config>()
        .map(|config| config.owner)
        .map_err(|e| e.to_string())
}

fn holds(holds: bool, what: &dyn std::fmt::Debug) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(format!("does not say what it is to say: {what:?}"))
    }
}

/// What people know of BOINC: 3 minutes without input, 25 % of load, no battery.
fn boinc(text: &str) -> Result<(), String> {
    let rules = owner(text)?;
    let input = &rules.input;
    let load = &rules.load;
    let battery = &rules.battery;
    let whole = load.of == worker::owner::rules::Whole::Host;
    let known = (load.busy_above, battery.charge_above) == (0.25, 1.0)
        && whole
        && input.idle.span() == Span::from_secs(180);
    holds(
        known && input.heed && load.heed && battery.heed && rules.patience().is_none(),
        &rules,
    )
}

/// What people know of HTCondor's desktop policy: 15 minutes, load of 0.5 and 0.3, 5 minutes, 10
/// minutes.
fn htcondor(text: &str) -> Result<(), String> {
    let rules = owner(text)?;
    let input = &rules.input;
    let load = &rules.load;
    let times = [input.idle, input.resume, rules.evict_after]
        == [900, 300, 600].map(ConfigDuration::from_secs);
    let of = load.of == worker::owner::rules::Whole::Processor;
    holds(
        times && of && (load.busy_above, load.free_below) == (0.5, 0.3) && input.heed && load.heed,
        &rules,
    )
}

/// Only switches and hours; the same rules as the program's own.
fn dedicated(text: &str) -> Result<(), String> {
    let rules = owner(text)?;
    holds(
        rules == worker::owner::rules::OwnerRules::dedicated(),
        &rules,
    )
}

#[test]
fn every_config_loads() {
    let shipped: BTreeSet<String> = files("configs", "toml")
        .iter()
        .map(|p| p.to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = CONFIGS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(
        shipped, listed,
        "files in configs/ and the table of this test"
    );
    for (path, load) in CONFIGS {
        load(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}
