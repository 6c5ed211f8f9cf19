//! The memory that processes hold, as `/proc` tells it: what several of them share counts once, and what the system could
//! drop, since it lies in files, does not count. What of it is swapped out counts, too. That of a control group is
//! told by [`super::cgroup`].

use std::{fs, io};

use super::tree::Member;

/// Returns the bytes that these processes hold; `None` if one of them does not let this one look. It waits
/// for as long as one of them changes its memory map.
pub(super) fn held_by(processes: &[Member]) -> Option<u64> {
    let living = processes.iter().filter(|process| !process.ended());
    living.map(|process| held_by_one(*process)).sum()
}

fn held_by_one(process: Member) -> Option<u64> {
    let number = process.pid.as_raw_nonzero();
    match fs::read_to_string(format!("/proc/{number}/smaps_rollup")) {
        Ok(rollup) => held(&rollup),
        // It has ended meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(0),
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Some(0),
        Err(_) => None,
    }
}

/// Reads the bytes that a process holds from its `smaps_rollup`.
fn held(rollup: &str) -> Option<u64> {
    let kibibytes = |name: &str| -> Option<u64> {
        let value = rollup
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.split_whitespace().next()?.parse().ok()
    };

    // Linux before 5.4 does not tell files apart.
    let present = match kibibytes("Pss_Anon") {
        Some(own) => own + kibibytes("Pss_Shmem")?,
        None => kibibytes("Pss")?,
    };
    Some((present + kibibytes("SwapPss")?) << 10)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use rustix::process::Pid;

    use super::super::tree;
    use super::*;

    const HELD: u64 = 64 << 20;

    #[test]
    fn a_process_holds_what_it_has_written_and_not_its_program() {
        let script =
            format!("x=$(head -c {HELD} /dev/zero | tr '\\0' x); echo there; read -r word");
        for (script, least, most) in [
            (script.as_str(), HELD, 2 * HELD),
            ("echo there; read -r word", 1, HELD / 8),
        ] {
            let mut child = Command::new("sh")
                .args(["-c", script])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut said = String::new();
            let stdout = child.stdout.take().unwrap();
            BufReader::new(stdout).read_line(&mut said).unwrap();
            assert_eq!(said, "there\n");

            let this = Pid::from_child(&child);
            let mut found = tree::members(&|_| false);
            found.retain(|member| member.pid == this);
            let held = held_by(&found).unwrap();
            assert!((least..most).contains(&held), "{held}");

            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(held_by(&found), Some(0), "it has ended");
        }
    }

    #[test]
    fn what_lies_in_files_does_not_count_and_what_is_swapped_out_does() {
        let old = "00400000-7ffd78e47000 ---p 00000000 00:00 0    [rollup]\nRss: 900 kB\nPss: 300 kB\nSwap: 90 kB\nSwapPss: 40 kB\n";
        assert_eq!(held(old), Some(340 << 10));
        let new = format!("{old}Pss_Anon: 112 kB\nPss_File: 186 kB\nPss_Shmem: 2 kB\n");
        assert_eq!(held(&new), Some(154 << 10));
        assert_eq!(held("Rss: 900 kB\n"), None);
    }
}
