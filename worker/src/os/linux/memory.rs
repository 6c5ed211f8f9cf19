//! The memory that processes hold, as `/proc` tells it: what several of them share counts once, and what the system could
//! drop, since it lies in files, does not count. What of it is swapped out counts, too. That of a control group is
//! told by [`super::cgroup`]. And the pages of its own code that this program gives back.

use std::ops::Range;
use std::{fs, io};

use super::sys;
use super::tree::Member;

/// Takes this program's code out of its resident memory: a start runs through most of it once, and an idle worker needs little
/// of it again. The pages stay in the system's cache of files, and the next call of code on one maps it again.
pub(crate) fn give_back_code() {
    for code in own_code() {
        if let Err(error) = sys::unmap_code(code) {
            tracing::debug!(%error, "code stays in memory");
        }
    }
}

/// Returns the addresses at which this program's code is mapped: private mappings of its file that can be run and not written.
fn own_code() -> Vec<Range<usize>> {
    let (Ok(maps), Ok(program)) = (
        fs::read_to_string("/proc/self/maps"),
        fs::read_link("/proc/self/exe"),
    ) else {
        return Vec::new();
    };
    let address = |text: &str| usize::from_str_radix(text, 16).ok();
    let code = |line: &str| -> Option<Range<usize>> {
        let (range, rest) = line.split_once(" r-xp ")?;
        let (start, end) = range.split_once('-')?;
        let is_own = rest.ends_with(&format!(" {}", program.display()));
        is_own.then_some(address(start)?..address(end)?)
    };
    maps.lines().filter_map(code).collect()
}

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

    /// Returns the KiB of this program's code that are resident.
    fn resident_code() -> u64 {
        let of_start = |code: &Range<usize>| format!("{:x}-{:x} r-xp", code.start, code.end);
        let starts: Vec<String> = own_code().iter().map(of_start).collect();
        assert!(!starts.is_empty());

        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_code = false;
        let mut sum = 0;
        for line in maps.lines() {
            let range = line.split_once(' ').map_or("", |(range, _)| range);
            if range.contains('-') {
                is_code = starts.iter().any(|start| line.starts_with(start));
            } else if let Some(size) = line.strip_prefix("Rss:").filter(|_| is_code) {
                sum += size.trim().trim_end_matches(" kB").parse::<u64>().unwrap();
            }
        }
        sum
    }

    #[test]
    fn code_that_was_given_back_is_not_resident_and_still_runs() {
        let before = resident_code();
        give_back_code();
        let after = resident_code();
        assert!(after < before, "{after} KiB of {before}");

        let again: Vec<u32> = (0..100).rev().collect();
        assert_eq!(again.iter().sum::<u32>(), 4950);
    }

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
