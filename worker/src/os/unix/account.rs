//! The accounts of this system: the user and group ids of a name. Only those in `/etc/passwd`: a
//! name that only a directory server knows can be given as a number.

use std::fs;
use std::io;
use std::sync::OnceLock;

/// The account of tasks if a worker of root's has none configured: the one that owns nothing, by
/// its name and by its number.
const NOBODY: &str = "nobody";
const NOBODY_IDS: (u32, u32) = if cfg!(target_os = "macos") {
    (4_294_967_294, 4_294_967_294)
} else {
    (65_534, 65_534)
};

/// Returns user and group id of nobody. `None` if this system has no such id: root is then the root
/// of a container that knows no other account, and has no rights outside it. Looked at once: neither
/// changes while a process lives.
pub(crate) fn of_nobody() -> Option<(u32, u32)> {
    static KNOWN: OnceLock<Option<(u32, u32)>> = OnceLock::new();
    *KNOWN.get_or_init(look_for_nobody)
}

fn look_for_nobody() -> Option<(u32, u32)> {
    let (user, group) = find(NOBODY).unwrap_or(NOBODY_IDS);
    if cfg!(target_os = "macos") {
        return Some((user, group));
    }

    let maps = [("/proc/self/uid_map", user), ("/proc/self/gid_map", group)];
    let known = maps
        .into_iter()
        .all(|(map, id)| fs::read_to_string(map).is_ok_and(|map| maps_id(&map, id)));
    known.then_some((user, group))
}

fn maps_id(map: &str, id: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(id)))
    })
}

/// Reads the list of accounts. The name of a person in it may be no UTF-8.
fn accounts() -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read("/etc/passwd")?).into_owned())
}

/// Returns the name of the account with this id, with the id.
pub(crate) fn name_of(user: u32) -> String {
    let known = accounts().unwrap_or_default();
    let name = known.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then_some(name)
    });
    name.map_or_else(|| user.to_string(), |name| format!("{name} ({user})"))
}

/// Returns the name of the account of this process.
pub(crate) fn own() -> String {
    name_of(rustix::process::geteuid().as_raw())
}

/// Returns user and group id of an account, by its name or by its number. The error is for people.
pub(crate) fn find(name: &str) -> Result<(u32, u32), String> {
    let known = accounts().map_err(|error| format!("/etc/passwd cannot be read: {error}"))?;
    match search(&known, name) {
        Some((0, _)) => Err(format!(
            "the account `{name}` is root's: tasks need one that may do nothing"
        )),
        Some(ids) => Ok(ids),
        None if cfg!(target_os = "macos") => Err(format!(
            "/etc/passwd of this Mac names no account `{name}`: give its number, which `id -u {name}` prints"
        )),
        None => Err(format!(
            "there is no account `{name}` on this host: make one with `useradd --system {name}`"
        )),
    }
}

fn search(known: &str, name: &str) -> Option<(u32, u32)> {
    let number = name.parse::<u32>().ok();
    let entries = known.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let mut ids = fields.skip(1);
        Some((
            name,
            (
                ids.next()?.parse::<u32>().ok()?,
                ids.next()?.parse::<u32>().ok()?,
            ),
        ))
    });
    let found = entries
        .into_iter()
        .find(|(known, (user, _))| *known == name || Some(*user) == number);

    // A number is valid whether or not it has a name.
    found.map(|(_, ids)| ids).or(number.map(|id| (id, id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_by_number() {
        let known =
            "root:x:0:0:root:/root:/bin/bash\n# a comment\ntask:x:990:985::/:/usr/sbin/nologin\n";
        assert_eq!(search(known, "task"), Some((990, 985)));
        assert_eq!(search(known, "990"), Some((990, 985)));
        assert_eq!(search(known, "4000"), Some((4_000, 4_000)));
        assert_eq!(search(known, "nobody-here"), None);
        assert_eq!(name_of(0), "root (0)");
        assert!(maps_id("0 1000 1\n1 100000 65536\n", 65_534) && !maps_id("0 1000 1\n", 65_534));
        assert!(find("root").unwrap_err().contains("root's"));
        assert!(find("no-such-account").unwrap_err().contains("useradd"));
    }
}
