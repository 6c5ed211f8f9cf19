//! Accounts of this system: which user and group ids a name stands for. Only those in `/etc/passwd`: a name that only a
//! server on the network knows can be given as a number.

use std::fs;

/// User and group id of an account, by its name or by its number. The error is for people.
pub(crate) fn find(name: &str) -> Result<(u32, u32), String> {
    let known = fs::read_to_string("/etc/passwd").map_err(|error| format!("/etc/passwd cannot be read: {error}"))?;
    match search(&known, name) {
        Some((0, _)) => Err(format!("the account `{name}` is root's: tasks need one that may do nothing")),
        Some(ids) => Ok(ids),
        None => Err(format!("there is no account `{name}` on this host: make one with `useradd --system {name}`")),
    }
}

fn search(known: &str, name: &str) -> Option<(u32, u32)> {
    let number = name.parse::<u32>().ok();
    let entries = known.lines().filter_map(|line| {
        let mut fields = line.split(':');
        let (name, mut ids) = (fields.next()?, fields.skip(1));
        Some((name, (ids.next()?.parse::<u32>().ok()?, ids.next()?.parse::<u32>().ok()?)))
    });
    let found = entries.into_iter().find(|(known, (user, _))| *known == name || Some(*user) == number);
    // A number stands for itself, whether or not it has a name.
    found.map(|(_, ids)| ids).or(number.map(|id| (id, id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_name_and_by_number() {
        let known = "root:x:0:0:root:/root:/bin/bash\n# a comment\ntask:x:990:985::/:/usr/sbin/nologin\n";
        assert_eq!(search(known, "task"), Some((990, 985)));
        assert_eq!(search(known, "990"), Some((990, 985)));
        assert_eq!(search(known, "4000"), Some((4_000, 4_000)));
        assert_eq!(search(known, "nobody-here"), None);
        assert!(find("root").unwrap_err().contains("root's"));
        assert!(find("no-such-account").unwrap_err().contains("useradd"));
    }
}
