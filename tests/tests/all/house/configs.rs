//! Every shipped configuration file is listed here with the type that reads it, and loads.

use std::collections::BTreeSet;

use super::{files, text};

type Load = fn(&str) -> Result<(), String>;

/// Each file of `configs/` and what loads it.
const CONFIGS: [(&str, Load); 0] = [];

#[test]
fn every_config_loads() {
    let shipped: BTreeSet<String> = files("configs", "toml").iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let listed: BTreeSet<String> = CONFIGS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(shipped, listed, "files in configs/ and the table of this test");
    for (path, load) in CONFIGS {
        load(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
}
