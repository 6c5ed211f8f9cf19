//! What comes from outside: licences, published security advisories, and nothing but registry
//! releases. Works offline; whether a version was yanked it cannot know.

use std::collections::BTreeSet;

use cargo_metadata::semver::{Version, VersionReq};
use cargo_metadata::{Metadata, MetadataCommand};
use serde::Deserialize;

use super::{ROOMS, root, text};

#[derive(Deserialize)]
struct Deny {
    licenses: Licences,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "where the facts come from, for people")]
struct Advisories {
    database_commit: String,
    database_date: String,
    looked_up: Vec<String>,
    advisory: Vec<Advisory>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Advisory {
    id: String,
    #[serde(rename = "crate")]
    name: String,
    safe: Vec<String>,
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: Version,
    source: Option<String>,
}

fn parse<T: serde::de::DeserializeOwned>(path: &str) -> T {
    toml::from_str(&text(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The packages of every platform where they have been fetched (`cargo fetch`), else those of this
/// one.
fn packages() -> Metadata {
    let mut command = MetadataCommand::new();
    command.manifest_path(root().join("Cargo.toml"));

    let exec = |command: &mut MetadataCommand, more: &[String]| {
        command
            .other_options([&["--offline".to_owned(), "--locked".to_owned()], more].concat())
            .exec()
    };
    exec(&mut command, &[]).unwrap_or_else(|_| {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        println!("not every platform's packages are here: looking at those of {target} only");
        exec(&mut command, &["--filter-platform".to_owned(), target])
            .expect("what was built is here")
    })
}

#[test]
fn every_licence_is_on_the_list() {
    let rules: Deny = parse("deny.toml");
    let known: Vec<_> = rules
        .licenses
        .allow
        .iter()
        .map(|l| spdx::license_id(l).expect("an SPDX name"))
        .collect();
    for package in packages().packages {
        let name = &package.name;
        let licence = package
            .license
            .as_ref()
            .unwrap_or_else(|| panic!("{name} states no licence"));
        let expression = spdx::Expression::parse_mode(licence, spdx::ParseMode::LAX)
            .unwrap_or_else(|e| panic!("{name}: licence `{licence}`: {e}"));
        let met = expression.evaluate(|want| {
            want.addition.is_none() && want.license.id().is_some_and(|id| known.contains(&id))
        });
        assert!(
            met,
            "{name} has the licence `{licence}`, which deny.toml does not allow"
        );
    }
}

/// What is locked for the program, and for fuzzing it.
fn locked() -> Vec<Locked> {
    ["Cargo.lock", "fuzz/Cargo.lock"]
        .into_iter()
        .flat_map(|path| parse::<Lock>(path).package)
        .collect()
}

/// The most packages of others that `Cargo.lock` may have.
const MOST_PACKAGES: usize = 445;
/// The most names that may be there in several versions.
const MOST_DUPLICATES: usize = 17;

#[test]
fn the_lock_file_grows_no_further() {
    let packages = parse::<Lock>("Cargo.lock").package;
    let names: BTreeSet<&str> = packages.iter().map(|package| &*package.name).collect();
    let count = |name: &str| {
        packages
            .iter()
            .filter(|package| package.name == name)
            .count()
    };
    let duplicates: Vec<&str> = names
        .iter()
        .copied()
        .filter(|name| count(name) > 1)
        .collect();

    let of_others = packages
        .iter()
        .filter(|package| !ROOMS.contains(&&*package.name))
        .count();
    println!("{of_others} packages; in several versions: {duplicates:?}");
    assert!(of_others <= MOST_PACKAGES, "{of_others} packages");
    assert!(duplicates.len() <= MOST_DUPLICATES, "{duplicates:?}");
}

#[test]
fn no_locked_version_has_a_known_advisory() {
    let table: Advisories = parse(".ci/advisories.toml");
    assert!(!table.advisory.is_empty());
    for Locked { name, version, .. } in &locked() {
        for advisory in table.advisory.iter().filter(|a| a.name == *name) {
            let safe = |range: &String| {
                VersionReq::parse(range)
                    .expect("a version range")
                    .matches(version)
            };
            assert!(
                advisory.safe.iter().any(safe),
                "{name} {version}: see {}; safe are {:?}",
                advisory.id,
                advisory.safe
            );
        }
    }
}

#[test]
fn every_locked_crate_was_looked_up() {
    let table: Advisories = parse(".ci/advisories.toml");
    for Locked { name, .. } in locked().iter().filter(|p| p.source.is_some()) {
        assert!(
            table.looked_up.contains(name),
            "{name} is new: run .ci/advisories (its head says how)"
        );
    }
}

#[test]
fn libraries_are_registry_releases() {
    for Locked { name, source, .. } in &locked() {
        let from = source.as_deref().unwrap_or("workspace");
        let fine = from == "registry+https://github.com/rust-lang/crates.io-index"
            || (from == "workspace" && (super::ROOMS.contains(&name.as_str()) || name == "fuzz"));
        assert!(fine, "{name} comes from {from}");
    }
}

#[test]
fn every_library_that_we_chose_has_its_reason_in_the_decisions() {
    let decisions = text("DECISIONS.md");
    let named: std::collections::BTreeSet<&str> = decisions
        .split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-'))
        .collect();
    for room in packages().workspace_packages() {
        for library in room.dependencies.iter().filter(|d| d.path.is_none()) {
            let name = &library.name;
            assert!(
                named.contains(name.as_str()),
                "{} uses {name}, and DECISIONS.md does not say why",
                room.name
            );
        }
    }
}
