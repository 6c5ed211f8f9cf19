//! The plan for the worker as a service of systemd: the files, their content, and the commands.
//! `commands::service` carries it out.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The name of the service's unit.
pub(crate) const UNIT: &str = "deskgrid-worker.service";
/// The slice of the service, which gives all of its processes together the lowest weight on the
/// host.
pub(crate) const SLICE: &str = "deskgrid.slice";
/// The account that the system's service runs as, made by `systemd-sysusers`.
const ACCOUNT: &str = "deskgrid";
/// The name of the desktop's entry.
const ENTRY: &str = "deskgrid-worker.desktop";
/// The comment in the unit that names the state directory, which `uninstall` reads.
const DIR_NOTE: &str = "# state-directory: ";

/// The owner of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    /// The host: the service starts with it, as an account of its own.
    System,
    /// A person: the service runs as that person, who may have no other rights.
    User {
        /// The directory of the person's settings.
        config: PathBuf,
        /// The directory of the person's programs.
        data: PathBuf,
    },
}

/// The paths of the service's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServicePaths {
    /// The owner of the service.
    pub scope: Scope,
    /// The state directory, which holds the subdirectory `worker`.
    pub dir: PathBuf,
}

/// The flags of the service's worker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServiceFlags {
    /// The number of slots, if it is given.
    pub slots: Option<u32>,
    /// Whether a copy of the owner's settings is installed.
    pub settings: bool,
    /// Whether the host computes at any time.
    pub dedicated: bool,
    /// Whether the program has the owner's page.
    pub page: bool,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceFile {
    /// The path.
    pub path: PathBuf,
    /// The content.
    pub text: String,
}

/// One command with its arguments, the program first.
pub(crate) type Words = Vec<String>;

impl ServicePaths {
    /// The path of the unit.
    pub(crate) fn unit(&self) -> PathBuf {
        self.units().join(UNIT)
    }

    fn units(&self) -> PathBuf {
        match &self.scope {
            Scope::System => "/etc/systemd/system".into(),
            Scope::User { config, .. } => config.join("systemd/user"),
        }
    }

    fn slice(&self) -> PathBuf {
        self.units().join(SLICE)
    }

    /// The path of the program's copy.
    pub(crate) fn program(&self) -> PathBuf {
        match &self.scope {
            Scope::System => "/usr/local/lib/deskgrid/deskgrid".into(),
            Scope::User { data, .. } => data.join("deskgrid/bin/deskgrid"),
        }
    }

    /// The path of the copy of the owner's settings.
    pub(crate) fn settings(&self) -> PathBuf {
        match &self.scope {
            Scope::System => "/etc/deskgrid/worker.toml".into(),
            Scope::User { config, .. } => config.join("deskgrid/worker.toml"),
        }
    }

    /// The path of the entry that opens the owner's page: for a person's own service, since only
    /// the worker's account may speak with the worker.
    fn entry(&self) -> Option<PathBuf> {
        match &self.scope {
            Scope::System => None,
            Scope::User { data, .. } => Some(data.join("applications").join(ENTRY)),
        }
    }

    fn accounts(&self) -> Option<PathBuf> {
        (self.scope == Scope::System).then(|| "/etc/sysusers.d/deskgrid.conf".into())
    }

    /// Returns the files to write, apart from the copies of program and settings.
    ///
    /// # Errors
    /// If a path cannot be written in a unit, or the host's service could not reach its state directory.
    pub(crate) fn files(&self, start: ServiceFlags) -> Result<Vec<ServiceFile>, Failure> {
        let hidden = HIDDEN.iter().find(|hidden| self.dir.starts_with(hidden));
        if let (Scope::System, Some(hidden)) = (&self.scope, hidden) {
            let dir = self.dir.display();
            let what = format!("{dir} cannot be used by the service: its unit hides {hidden}");
            let hint = "leave --dir and DESKGRID_DIR out, which stands for /var/lib/deskgrid, or name another \
                        place, such as /srv/deskgrid; --user installs a service that runs as you";
            return Err(Failure::usage(what, hint));
        }

        let mut files = vec![
            ServiceFile {
                path: self.unit(),
                text: self.unit_text(start)?,
            },
            ServiceFile {
                path: self.slice(),
                text: format!("{HEAD}{SLICE_TEXT}"),
            },
        ];
        files.extend(self.accounts().map(|path| ServiceFile {
            path,
            text: account_text(&self.dir),
        }));
        if let Some(path) = self.entry().filter(|_| start.page) {
            let text = self.entry_text()?;
            files.push(ServiceFile { path, text });
        }

        Ok(files)
    }

    fn entry_text(&self) -> Result<String, Failure> {
        Ok(format!(
            "{HEAD}[Desktop Entry]\nType=Application\nName=My PC in the grid\n\
             Comment=See what deskgrid does on this PC, and pause it\n\
             Exec={} --dir {} worker page --unused 10m\nIcon=computer\nTerminal=false\n\
             Categories=System;Monitor;\n",
            entry_word(&self.program())?,
            entry_word(&self.dir)?
        ))
    }

    fn unit_text(&self, flags: ServiceFlags) -> Result<String, Failure> {
        let mut start = format!(
            "{} --dir {} worker start",
            quoted(&self.program())?,
            quoted(&self.dir)?
        );
        if flags.settings {
            write!(start, " --config {}", quoted(&self.settings())?).expect("text takes text");
        }
        if let Some(slots) = flags.slots {
            write!(start, " --slots {slots}").expect("text takes text");
        }
        if flags.dedicated {
            start.push_str(" --dedicated");
        }

        let dir = quoted(&self.dir)?;
        let (own, target, after) = match self.scope {
            Scope::System => (
                format!("\n{SYSTEM}ReadWritePaths={dir}\n"),
                "multi-user.target",
                ONLINE,
            ),
            Scope::User { .. } => (String::new(), "default.target", ""),
        };

        let times = if flags.dedicated {
            "at any time"
        } else {
            "while nobody needs this PC"
        };
        Ok(format!(
            "{HEAD}{DIR_NOTE}{}\n[Unit]\nDescription=deskgrid worker: computes tasks {times}\n{UNIT_TEXT}{after}\n[Service]\nExecStart={start}\n{SERVICE}{own}\n[Install]\nWantedBy={target}\n",
            self.dir.display()
        ))
    }

    /// Returns a command of the manager of the host's services, or of the person's.
    fn systemctl(&self, args: &[&str]) -> Words {
        let user = (self.scope != Scope::System).then_some("--user");
        words(&[&["systemctl"][..], user.as_slice(), args].concat())
    }

    /// Returns the commands to run once the files are written.
    pub(crate) fn start(&self) -> Vec<Words> {
        let worker = self.dir.join("worker").display().to_string();
        match &self.scope {
            Scope::System => vec![
                words(&["systemd-sysusers", "/etc/sysusers.d/deskgrid.conf"]),
                words(&["chown", "-R", &format!("{ACCOUNT}:{ACCOUNT}"), &worker]),
                self.systemctl(&["daemon-reload"]),
                self.systemctl(&["enable", UNIT]),
                self.systemctl(&["restart", UNIT]),
            ],
            Scope::User { .. } => vec![
                self.systemctl(&["daemon-reload"]),
                self.systemctl(&["enable", UNIT]),
                self.systemctl(&["restart", UNIT]),
                words(&["loginctl", "enable-linger"]),
            ],
        }
    }

    /// Returns the commands to run before the files are removed. A worker that is stopped in order
    /// tells its master that it leaves.
    pub(crate) fn stop(&self) -> Vec<Words> {
        vec![self.systemctl(&["disable", "--now", UNIT])]
    }

    /// Returns the commands to run once the files are removed.
    pub(crate) fn forget(&self) -> Vec<Words> {
        let mut commands = vec![self.systemctl(&["daemon-reload"])];
        if self.scope == Scope::System {
            commands.push(words(&["userdel", ACCOUNT]));
        }
        commands
    }

    /// Returns every path to remove: files, and directories with their content.
    pub(crate) fn all(&self) -> Vec<PathBuf> {
        let copies = [self.program(), self.settings()];
        let mut all = vec![self.unit(), self.slice()];
        all.extend(self.accounts());
        all.extend(self.entry());
        all.extend(copies);
        // Not the state directory itself: a master or a user may have state there, too.
        all.push(self.dir.join("worker"));
        all
    }
}

/// Returns the files of the service as packages of a distribution install them: the unit of the
/// host, for the program and the settings at the places of a package. The unit waits for a file to
/// join by.
pub(crate) fn packaged_files() -> Vec<ServiceFile> {
    let file = |path: &str, text: String| ServiceFile {
        path: path.into(),
        text: format!("{PACKAGED_HEAD}{text}"),
    };
    let account =
        format!("u {ACCOUNT} - \"deskgrid worker\" /var/lib/deskgrid\nm {ACCOUNT} input\n");

    vec![
        file(
            "usr/lib/systemd/system/deskgrid-worker.service",
            format!(
                "{PACKAGED_UNIT}{UNIT_TEXT}{ONLINE}\n[Service]\n{PACKAGED_START}{SERVICE}\n{SYSTEM}\n[Install]\nWantedBy=multi-user.target\n"
            ),
        ),
        file(
            "usr/lib/systemd/system/deskgrid.slice",
            SLICE_TEXT.to_owned(),
        ),
        file("usr/lib/sysusers.d/deskgrid-worker.conf", account),
    ]
}

/// Returns a command of these words.
pub(crate) fn words(words: &[&str]) -> Words {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Returns the state directory that an installed unit names.
pub(crate) fn dir_of(unit: &str) -> Option<PathBuf> {
    unit.lines()
        .find_map(|line| line.strip_prefix(DIR_NOTE))
        .map(PathBuf::from)
}

/// Writes a path as one word of a unit.
fn quoted(path: &Path) -> Result<String, Failure> {
    let refused = |why: &str| {
        Failure::usage(
            format!("{} cannot be used by a service: {why}", path.display()),
            "choose another path",
        )
    };
    let text = path.to_str().ok_or_else(|| refused("it is not UTF-8"))?;
    if !path.is_absolute() {
        return Err(refused("it is not absolute"));
    }
    if text.chars().any(char::is_control) {
        return Err(refused("it has control characters"));
    }

    let text = text
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('%', "%%")
        .replace('$', "$$");
    let plain = text
        .chars()
        .all(|c| c.is_alphanumeric() || "/._-+@:%".contains(c));

    Ok(if plain { text } else { format!("\"{text}\"") })
}

/// Writes a path as one word of a desktop's entry: quoted, and escaped twice, once for the word and
/// once for the file.
fn entry_word(path: &Path) -> Result<String, Failure> {
    quoted(path)?;
    let mut word = String::new();
    for c in path.display().to_string().chars() {
        match c {
            '\\' => word.push_str("\\\\\\\\"),
            '"' | '`' | '$' => word.extend(["\\\\", &c.to_string()]),
            '%' => word.push_str("%%"),
            c => word.push(c),
        }
    }
    Ok(format!("\"{word}\""))
}

fn account_text(dir: &Path) -> String {
    let dir = dir.display().to_string();
    let dir = dir.replace('\\', "\\\\").replace('"', "\\\"");
    // Such a file knows `%` as a unit does, and no `$`.
    let dir = dir.replace('%', "%%");
    format!(
        "# Written by `deskgrid worker install`; `deskgrid worker uninstall` removes it.\n\
         # The account of the worker, and its access to input devices, of which it keeps only the time of the last event.\n\
         u {ACCOUNT} - \"deskgrid worker\" \"{dir}\"\nm {ACCOUNT} input\n"
    )
}

/// The first line of what is installed here.
pub(crate) const HEAD: &str =
    "# Written by `deskgrid worker install`; `deskgrid worker uninstall` removes it.\n";

const PACKAGED_HEAD: &str = "# Part of the package deskgrid-worker.\n";

const PACKAGED_UNIT: &str = "\
# `systemctl edit deskgrid-worker` changes it.
# state-directory: /var/lib/deskgrid
[Unit]
Description=deskgrid worker: computes tasks while nobody needs this PC
Documentation=man:deskgrid-worker(8)
# It starts once this PC has joined a grid, or has a file to join by.
ConditionPathExists=|/var/lib/deskgrid/worker/identity/link.toml
ConditionPathExists=|/var/lib/deskgrid/join.toml
ConditionPathExists=|/etc/deskgrid/join.toml
";

/// The commands of a packaged service. The file with the token becomes the worker's, which removes
/// it once it has joined. Root prepares it where nobody else writes and moves it as a whole (`-T`):
/// what the worker's account has put in its place is replaced, or refused, and not followed. A
/// worker that has joined needs no token, and is not kept from its start.
const PACKAGED_START: &str = r#"ExecStartPre=+/bin/sh -c 'test ! -e /etc/deskgrid/join.toml || { install -T -m 0600 -o deskgrid -g deskgrid /etc/deskgrid/join.toml /etc/deskgrid/join.toml.new && mv -fT /etc/deskgrid/join.toml.new /var/lib/deskgrid/join.toml && rm -f /etc/deskgrid/join.toml; } || { rm -f /etc/deskgrid/join.toml.new; echo "/etc/deskgrid/join.toml stays: it cannot be put in the place of /var/lib/deskgrid/join.toml" >&2; test -e /var/lib/deskgrid/worker/identity/link.toml; }'
ExecStart=/usr/bin/deskgrid-worker --dir /var/lib/deskgrid start --config /etc/deskgrid/worker.toml --first-start /var/lib/deskgrid/join.toml
StateDirectory=deskgrid
StateDirectoryMode=0750
"#;

const UNIT_TEXT: &str = "\
StartLimitIntervalSec=0
";

const ONLINE: &str =
    "Wants=network-online.target\nAfter=network-online.target systemd-logind.service\n";

const SLICE_TEXT: &str = "\
# The worker and all its tasks together weigh next to nothing against everything else on the host.
[Slice]
CPUWeight=1
IOWeight=1
";

/// The lines of every service: its start and end, and the restrictions that need no rights.
const SERVICE: &str = "\
Slice=deskgrid.slice
Restart=always
RestartSec=5
# Starting again does not help against a wrong command line. It does against a refusal: that may pass.
RestartPreventExitStatus=2
# The worker ends its tasks itself; what were left of them is killed.
KillMode=mixed
TimeoutStopSec=30
# The worker freezes and limits tasks in groups below its own.
Delegate=yes
OOMScoreAdjust=500
MemoryMax=75%
MemorySwapMax=0
TasksMax=8192
LimitCORE=0
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
SystemCallArchitectures=native
SystemCallFilter=~@clock @cpu-emulation @module @obsolete @raw-io @reboot @swap
SystemCallErrorNumber=EPERM
";

/// The directories of which the host's service sees nothing, by `ProtectHome` and `PrivateTmp`.
const HIDDEN: [&str; 5] = ["/tmp", "/var/tmp", "/home", "/root", "/run/user"];

/// The further lines of the host's service. Namespaces are not restricted, and nothing is mounted
/// over /proc: tasks that run in a namespace of their own (bubblewrap) need both.
const SYSTEM: &str = "\
User=deskgrid
Group=deskgrid
SupplementaryGroups=input
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
BindReadOnlyPaths=-/tmp/.X11-unix
DevicePolicy=closed
DeviceAllow=char-input r
ProtectClock=yes
ProtectKernelModules=yes
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::json::tests::golden;

    fn user() -> ServicePaths {
        let scope = Scope::User {
            config: "/home/o/.config".into(),
            data: "/home/o/.local/share".into(),
        };
        ServicePaths {
            scope,
            dir: "/home/o/my grid".into(),
        }
    }

    fn system() -> ServicePaths {
        ServicePaths {
            scope: Scope::System,
            dir: "/var/lib/deskgrid".into(),
        }
    }

    const FULL: ServiceFlags = ServiceFlags {
        slots: Some(2),
        settings: true,
        dedicated: false,
        page: true,
    };

    #[test]
    fn the_unit_of_each_kind_of_service_is_as_it_was() {
        let dedicated = ServiceFlags {
            dedicated: true,
            ..FULL
        };
        let units = [
            ("system", system().files(ServiceFlags::default())),
            ("dedicated", system().files(dedicated)),
            ("user", user().files(dedicated)),
        ];

        let documents: Vec<(&str, String)> = units
            .iter()
            .flat_map(|(name, files)| {
                let unit = &files.as_ref().unwrap()[0];
                unit.text.lines().map(|line| (*name, line.to_owned()))
            })
            .collect();
        golden("service-units", &documents);
    }

    #[test]
    fn a_package_installs_the_same_restrictions_and_a_file_to_join_by() {
        let files = packaged_files();
        let unit = &files[0].text;
        let installed = &system().files(FULL).unwrap()[0].text;
        let restricts = |line: &&str| {
            line.contains('=') && !line.starts_with("Exec") && !line.starts_with("Description")
        };
        for line in installed.lines().filter(restricts) {
            let state = line.starts_with("ReadWritePaths=");
            assert!(
                state || unit.lines().any(|l| l == line),
                "{line} is missing: {unit}"
            );
        }

        assert_eq!(unit.matches("join.toml").count(), 12, "{unit}");
        assert_eq!(
            dir_of(unit).as_deref(),
            Some(Path::new("/var/lib/deskgrid"))
        );
    }

    /// Runs the command that takes the file to join by, below a directory and without the account.
    #[cfg(target_os = "linux")]
    fn take_the_file_to_join_by(root: &Path) -> bool {
        let line = PACKAGED_START.lines().next().unwrap();
        let command = line.strip_prefix("ExecStartPre=+/bin/sh -c '").unwrap();
        let command = command
            .trim_end_matches('\'')
            .replace(" -o deskgrid -g deskgrid", "")
            .replace("/etc/", &format!("{}/etc/", root.display()))
            .replace("/var/", &format!("{}/var/", root.display()));

        let mut shell = std::process::Command::new("/bin/sh");
        shell.arg("-c").arg(command).status().unwrap().success()
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_packaged_service_follows_nothing_that_its_account_has_put_in_the_place_of_the_token() {
        let root = tempfile::tempdir().unwrap();
        let etc = root.path().join("etc/deskgrid");
        let state = root.path().join("var/lib/deskgrid");
        let others = root.path().join("others");
        for dir in [&etc, &state, &others] {
            std::fs::create_dir_all(dir).unwrap();
        }
        let given = etc.join("join.toml");
        let taken = state.join("join.toml");
        assert!(take_the_file_to_join_by(root.path()), "there is none");

        std::fs::write(&given, "token").unwrap();
        std::os::unix::fs::symlink(&others, &taken).unwrap();
        assert!(take_the_file_to_join_by(root.path()));
        assert!(taken.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&taken).unwrap(), "token");
        assert_eq!(std::fs::read_dir(&others).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(&etc).unwrap().count(), 0, "none is left");

        std::fs::remove_file(&taken).unwrap();
        std::fs::create_dir(&taken).unwrap();
        std::fs::write(&given, "token").unwrap();
        assert!(!take_the_file_to_join_by(root.path()), "a directory");
        let identity = state.join("worker/identity");
        std::fs::create_dir_all(&identity).unwrap();
        std::fs::write(identity.join("link.toml"), "").unwrap();
        assert!(take_the_file_to_join_by(root.path()), "it has joined");
        assert!(given.exists());
        assert_eq!(std::fs::read_dir(&etc).unwrap().count(), 1);
    }

    #[test]
    fn the_unit_names_everything_by_absolute_paths() {
        let text = &system().files(FULL).unwrap()[0].text;
        let start = "ExecStart=/usr/local/lib/deskgrid/deskgrid --dir /var/lib/deskgrid worker start --config /etc/deskgrid/worker.toml --slots 2\n";
        assert!(text.contains(start), "{text}");

        for line in [
            "Restart=always",
            "Delegate=yes",
            "NoNewPrivileges=yes",
            "DeviceAllow=char-input r",
            "ProtectHome=yes",
            "WantedBy=multi-user.target",
        ] {
            assert!(
                text.lines().any(|l| l == line),
                "{line} is missing:\n{text}"
            );
        }

        assert_eq!(
            dir_of(text).as_deref(),
            Some(Path::new("/var/lib/deskgrid"))
        );
    }

    #[test]
    fn a_persons_service_asks_for_no_rights_that_a_person_has_not() {
        let text = &user().files(ServiceFlags::default()).unwrap()[0].text;
        assert!(
            text.contains("--dir \"/home/o/my grid\" worker start\n"),
            "{text}"
        );
        assert!(
            !text.contains("User=")
                && !text.contains("Protect")
                && text.contains("WantedBy=default.target"),
            "{text}"
        );
        assert_eq!(dir_of(text).as_deref(), Some(Path::new("/home/o/my grid")));
    }

    #[test]
    fn paths_survive_the_units_own_language() {
        assert_eq!(
            quoted(Path::new("/a b/100%/$x\\")).unwrap(),
            "\"/a b/100%%/$$x\\\\\""
        );
        for bad in ["relative", "/a\nb"] {
            assert!(quoted(Path::new(bad)).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_directory_of_the_account_survives_the_language_of_its_file() {
        let text = account_text(Path::new("/srv/100%/a \"$b\\"));
        let dir = r#" "/srv/100%%/a \"$b\\""#;
        assert!(text.lines().any(|line| line.ends_with(dir)), "{text}");
    }

    #[test]
    fn a_desktop_opens_the_page_of_a_persons_own_worker() {
        let files = user().files(FULL).unwrap();
        let entry = files.last().unwrap();
        let path = "/home/o/.local/share/applications/deskgrid-worker.desktop";
        assert_eq!(entry.path, Path::new(path));
        let exec = "Exec=\"/home/o/.local/share/deskgrid/bin/deskgrid\" --dir \"/home/o/my grid\" worker page --unused 10m\n";
        assert!(entry.text.contains(exec), "{}", entry.text);
        let odd = entry_word(Path::new("/a$b\\c%")).unwrap();
        assert_eq!(odd, "\"/a\\\\$b\\\\\\\\c%%\"");

        let names =
            |files: Vec<ServiceFile>| files.into_iter().any(|file| file.path.ends_with(ENTRY));
        assert!(!names(system().files(FULL).unwrap()));
        let without = ServiceFlags {
            page: false,
            ..FULL
        };
        assert!(!names(user().files(without).unwrap()), "it has no page");
    }

    #[test]
    fn uninstall_removes_every_file_that_install_writes() {
        for places in [user(), system()] {
            let all = places.all();
            assert!(
                places
                    .files(FULL)
                    .unwrap()
                    .iter()
                    .all(|file| all.contains(&file.path))
            );
            assert!(all.contains(&places.program()) && all.contains(&places.settings()));
            assert!(!all.contains(&places.dir), "others may have state there");
        }
    }
}
