//! The platform of this host and its graphics processors: read once, when the worker starts.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::host::{Gpu, MAX_GPU_NAME, MAX_GPUS};
use common::platform::HostPlatform;
use common::text::acts;

/// The time after which a program that is asked is given up.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);
/// The nodes of AMD's compute driver, and its device.
const KFD_NODES: &str = "/sys/class/kfd/kfd/topology/nodes";
const KFD: &str = "/dev/kfd";
/// The most that is read of what such a program says, in bytes.
const MOST: usize = 64 * 1024;

/// Returns the platform that tasks find: that of the system, which need not be what this program
/// was built for.
pub(crate) fn platform() -> HostPlatform {
    HostPlatform::new(
        std::env::consts::OS,
        std::env::consts::ARCH,
        &libc_of(Path::new("/")),
    )
}

/// Returns the C library of a Linux system with this root, by its program loader; empty elsewhere.
fn libc_of(root: &Path) -> String {
    if !cfg!(target_os = "linux") {
        return String::new();
    }
    let mut musl = false;
    for dir in ["lib64", "lib", "usr/lib64", "usr/lib"] {
        let Ok(entries) = std::fs::read_dir(root.join(dir)) else {
            continue;
        };
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        names.sort();

        let loader = |name: &&String| name.starts_with("ld-linux") && name.contains(".so");
        if let Some(name) = names.iter().find(loader) {
            let version = said(&root.join(dir).join(name), &["--version"]);
            return gnu(&version.unwrap_or_default());
        }
        musl |= names.iter().any(|name| name.starts_with("ld-musl-"));
    }

    if musl { "musl" } else { "" }.to_owned()
}

/// Returns the GNU C library's version in what its loader says of itself; older loaders say nothing.
fn gnu(said: &str) -> String {
    let first = said.lines().next().unwrap_or_default();
    let number =
        |word: &&str| word.contains('.') && word.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let words = first
        .split_whitespace()
        .rev()
        .map(|word| word.trim_end_matches('.'));
    match words.into_iter().find(number) {
        Some(version) => format!("gnu {version}"),
        None => "gnu".to_owned(),
    }
}

/// Returns the graphics processors that can compute: those that NVIDIA's program names, or else
/// AMD's compute devices that the kernel shows, where this process may use them.
pub(crate) fn gpus() -> Vec<Gpu> {
    let query = [
        "--query-gpu=name,memory.total",
        "--format=csv,noheader,nounits",
    ];
    let nvidia = said(Path::new("nvidia-smi"), &query).map(|list| listed(&list));
    let mut found = nvidia
        .filter(|gpus| !gpus.is_empty())
        .unwrap_or_else(|| usable(in_sysfs(Path::new(KFD_NODES)), Path::new(KFD)));
    found.truncate(MAX_GPUS);
    found
}

/// Returns these graphics processors of AMD's if their compute driver's `device` can be opened: the
/// kernel shows them to everybody, and a service may be kept from every device.
fn usable(gpus: Vec<Gpu>, device: &Path) -> Vec<Gpu> {
    if gpus.is_empty() {
        return gpus;
    }

    match std::fs::File::options().read(true).write(true).open(device) {
        Ok(_) => gpus,
        Err(error) => {
            let device = device.display();
            tracing::warn!(%error, %device, "its graphics processors are not offered: docs/needs.md says how a service may use them");
            Vec::new()
        }
    }
}

/// Parses lines of `NAME, MIB`.
fn listed(list: &str) -> Vec<Gpu> {
    let gpu = |line: &str| {
        let (name, memory) = line.rsplit_once(',')?;
        Some(Gpu {
            name: printable(name),
            memory_mib: memory.trim().parse().unwrap_or(0),
        })
    };
    list.lines().filter_map(gpu).collect()
}

/// Reads the nodes of AMD's compute driver: those with SIMD units are graphics processors.
fn in_sysfs(nodes: &Path) -> Vec<Gpu> {
    let Ok(entries) = std::fs::read_dir(nodes) else {
        return Vec::new();
    };
    let mut dirs: Vec<_> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    dirs.sort();

    let number = |text: &str, key: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse().ok()
    };
    let gpu = |dir: &Path| {
        let properties = std::fs::read_to_string(dir.join("properties")).ok()?;
        number(&properties, "simd_count ").filter(|simds| *simds > 0)?;

        let bank = std::fs::read_to_string(dir.join("mem_banks/0/properties")).unwrap_or_default();
        let bytes = number(&bank, "size_in_bytes ").unwrap_or(0);
        let name = std::fs::read_to_string(dir.join("name")).unwrap_or_default();
        Some(Gpu {
            name: printable(if name.trim().is_empty() { "AMD" } else { &name }),
            memory_mib: u32::try_from(bytes >> 20).unwrap_or(u32::MAX),
        })
    };
    dirs.iter().filter_map(|dir| gpu(dir)).collect()
}

/// Returns the text without control characters, cut to what a name may have.
fn printable(text: &str) -> String {
    let mut text: String = text.trim().chars().filter(|c| !acts(*c)).collect();
    while text.len() > MAX_GPU_NAME {
        text.pop();
    }
    text
}

/// Returns what a program prints; `None` if there is none, or it does not end well and soon.
fn said(program: &Path, args: &[&str]) -> Option<String> {
    said_within(PATIENCE, program, args)
}

/// Asks on a thread that is left behind where there is no answer in time: a program with a hung
/// driver dies of no signal, and what it has started may keep its pipe open.
fn said_within(patience: Duration, program: &Path, args: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());

    let (tell, told) = mpsc::channel();
    let ask = move || drop(tell.send(answer(command, patience)));
    std::thread::Builder::new()
        .name("asks".to_owned())
        .spawn(ask)
        .ok()?;
    told.recv_timeout(patience).unwrap_or_else(|_| {
        let program = program.display();
        tracing::warn!(%program, ?patience, "gave no answer in time, and is not waited for");
        None
    })
}

/// Runs a command, and returns what it prints if it ends well within this time.
fn answer(mut command: Command, patience: Duration) -> Option<String> {
    let mut child = command.spawn().ok()?;

    // Both programs print a few lines, which a pipe holds.
    let until = Instant::now() + patience;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status.success(),
            Ok(None) if Instant::now() < until => std::thread::sleep(PAUSE),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                break false;
            }
        }
    };
    if !ended {
        return None;
    }

    let mut text = Vec::new();
    let mut out = std::io::Read::take(child.stdout.take()?, MOST as u64);
    std::io::Read::read_to_end(&mut out, &mut text).ok()?;
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_c_library_is_read_from_what_its_loader_says() {
        let debian = "ld.so (Debian GLIBC 2.36-9+deb12u10) stable release version 2.36.\nCopyright";
        assert_eq!(gnu(debian), "gnu 2.36");
        assert_eq!(
            gnu("ld.so (GNU libc) stable release version 2.34."),
            "gnu 2.34"
        );
        assert_eq!(gnu(""), "gnu");
        assert_eq!(gnu("error while loading shared libraries"), "gnu");
        assert!(platform().is_sound(), "{:?}", platform());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_system_with_only_musl_is_known_by_its_loader() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(libc_of(root.path()), "");
        std::fs::create_dir(root.path().join("lib")).unwrap();
        std::fs::write(root.path().join("lib/ld-musl-x86_64.so.1"), "").unwrap();
        assert_eq!(libc_of(root.path()), "musl");
    }

    #[test]
    fn graphics_processors_are_read_from_a_list_or_from_the_kernel() {
        let list = "NVIDIA A100-SXM4-40GB, 40960\nTesla, T4, [N/A]\n\n";
        let gpu = |name: &str, memory_mib| Gpu {
            name: name.to_owned(),
            memory_mib,
        };
        assert_eq!(
            listed(list),
            [gpu("NVIDIA A100-SXM4-40GB", 40960), gpu("Tesla, T4", 0)]
        );

        let nodes = tempfile::tempdir().unwrap();
        for (node, simds) in [("0", 0), ("1", 256)] {
            let dir = nodes.path().join(node);
            std::fs::create_dir_all(dir.join("mem_banks/0")).unwrap();
            let properties = format!("cpu_cores_count 8\nsimd_count {simds}\n");
            std::fs::write(dir.join("properties"), properties).unwrap();
            std::fs::write(
                dir.join("mem_banks/0/properties"),
                "size_in_bytes 17163091968\n",
            )
            .unwrap();
            std::fs::write(dir.join("name"), "navi10\n").unwrap();
        }
        assert_eq!(in_sysfs(nodes.path()), [gpu("navi10", 16368)]);
        assert_eq!(in_sysfs(Path::new("/nowhere")), []);
    }

    #[test]
    fn graphics_processors_whose_device_cannot_be_opened_are_not_offered() {
        let place = tempfile::tempdir().unwrap();
        let device = place.path().join("kfd");
        let gpus = vec![Gpu {
            name: "navi10".to_owned(),
            memory_mib: 16_368,
        }];
        assert_eq!(usable(gpus.clone(), &device), []);
        assert!(!device.exists(), "it is only looked at");
        std::fs::write(&device, "").unwrap();
        assert_eq!(usable(gpus.clone(), &device), gpus);
        assert_eq!(usable(Vec::new(), &device), []);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_fails_or_is_not_there_says_nothing() {
        assert_eq!(said(Path::new("/bin/echo"), &["a"]), Some("a\n".to_owned()));
        assert_eq!(said(Path::new("/bin/false"), &[]), None);
        assert_eq!(said(Path::new("/no/such/program"), &[]), None);
    }

    #[cfg(unix)]
    #[test]
    fn nobody_waits_for_a_program_that_does_not_end_or_whose_pipe_stays_open() {
        let soon = Duration::from_millis(100);
        for script in ["exec sleep 20", "sleep 20 & echo a"] {
            let said = said_within(soon, Path::new("/bin/sh"), &["-c", script]);
            assert_eq!(said, None, "{script}");
        }
    }
}
