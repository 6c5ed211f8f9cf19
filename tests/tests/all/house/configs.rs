//! Every shipped configuration file is listed here with the type that reads it, and loads.

use std::collections::BTreeSet;

use super::{files, text};

type Load = fn(&str) -> Result<(), String>;

/// Each file of `configs/` and what loads it.
const CONFIGS: [(&str, Load); 2] = [("configs/master.toml", master), ("configs/worker.toml", worker)];

/// The master's file shows the defaults.
fn master(text: &str) -> Result<(), String> {
    let shipped = master::Config::parse(text).map_err(|e| e.to_string())?;
    if shipped == master::Config::default() { Ok(()) } else { Err(format!("does not show the defaults: {shipped:?}")) }
}

/// So does the worker's.
fn worker(text: &str) -> Result<(), String> {
    let shipped: worker::Config = text.parse().map_err(|e| format!("{e}"))?;
    if shipped == worker::Config::default() { Ok(()) } else { Err(format!("does not show the defaults: {shipped:?}")) }
}

#[test]
fn every_config_loads() {
    let shipped: BTreeSet<String> = files("configs", "toml").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let listed: BTreeSet<String> = CONFIGS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(shipped, listed, "files in configs/ and the table of this test");
    for (path, load) in CONFIGS {
        load(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}
