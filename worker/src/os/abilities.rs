//! The abilities of this host that protect its owner: freezers and levels of confinement, and the
//! reasons for missing ones. They are found by trials with a command that does nothing.
//! `confinement` chooses among them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::host::Confinement;
use tokio::io::AsyncReadExt;

use super::{
    AttemptLimits, Confines, Freezer, Launch, Launcher, NOTHING, ProcessStatus, Survey,
    WatcherReport, account, files, is_root,
};

/// The longest time that a command that does nothing may take. It is long, because the command gets
/// no processor that others want.
const PATIENCE: Duration = Duration::from_secs(10);
/// The bytes that are read of its output.
const WORDS: u64 = 1_000;
/// The first versions of Landlock that keep tasks from TCP ports, and from signals to other
/// processes.
const RULES_TCP: u32 = 4;
const RULES_SIGNALS: u32 = 6;

/// An ability that a host may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ability<T> {
    /// The ability.
    pub what: T,
    /// The reason why it is missing; `None` if the host has it.
    pub missing: Option<String>,
    /// A gap in its protection on this host, and the reason.
    pub gap: Option<String>,
}

/// The abilities of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Abilities {
    /// The freezers, the best first.
    pub freezers: Vec<Ability<Freezer>>,
    /// The levels of confinement, the weakest first.
    pub levels: Vec<Ability<Confinement>>,
    /// The reason why the memory of an attempt cannot be limited as a whole; `None` if it can.
    pub no_memory_limit: Option<String>,
    /// The reason why the processes of an attempt cannot be counted; `None` if they can.
    pub no_process_limit: Option<String>,
    /// The reason why tasks cannot be given just the processor time that nobody else wants; `None`
    /// if they can.
    pub no_processor_group: Option<String>,
}

/// The settings of confinement.
#[derive(Debug, Clone, Default)]
pub struct Means {
    /// The account of tasks, by name or number. Empty: none at the highest level, and at the others
    /// that of nobody if the worker runs as root.
    pub account: String,
    /// The files and directories that tasks may read and execute beside the system's.
    pub readable: Vec<String>,
    /// Whether tasks at the first level run under the worker's own account even if that is root,
    /// because the owner says so.
    pub root_at_process: bool,
}

impl Abilities {
    /// Returns the ability for this freezer.
    pub fn freezer(&self, freezer: Freezer) -> Option<&Ability<Freezer>> {
        self.freezers.iter().find(|ability| ability.what == freezer)
    }

    /// Returns the ability for this level.
    pub fn level(&self, level: Confinement) -> Option<&Ability<Confinement>> {
        self.levels.iter().find(|ability| ability.what == level)
    }

    /// Returns the reason why the host lacks this level, if it was tried in vain.
    pub(crate) fn missing(&self, level: Confinement) -> Option<&str> {
        self.level(level)?.missing.as_deref()
    }

    /// Tries everything, with directories below `dir` and commands from `launcher`.
    pub(crate) async fn find(
        survey: &Survey,
        launcher: &Launcher,
        dir: &Path,
        means: &Means,
    ) -> Self {
        let freezers = Freezer::ALL.map(|what| Ability {
            what,
            missing: survey.grounds(what).err(),
            gap: None,
        });
        let mut levels = Vec::new();
        for what in Confinement::ALL {
            let missing = match means.confines(what) {
                Ok(confines) => try_level(launcher, dir, confines).await.err(),
                Err(why) => Some(why),
            };
            levels.push(Ability {
                what,
                missing,
                gap: gap(what),
            });
        }

        Self {
            freezers: freezers.into(),
            levels,
            no_memory_limit: survey.why_no_memory(),
            no_process_limit: survey.why_no_processes(),
            no_processor_group: survey.why_no_processor(),
        }
    }
}

impl Means {
    /// Returns the confinement of an attempt at this level. The error says why the account is not
    /// available.
    pub(crate) fn confines(&self, level: Confinement) -> Result<Confines, String> {
        let account = match level {
            Confinement::Account => Some(self.ids()?),
            Confinement::Process if self.root_at_process => None,
            _ if !is_root() => None,
            _ if self.account.is_empty() => account::of_nobody(),
            _ => Some(self.ids()?),
        };

        Ok(Confines {
            level,
            network: false,
            readable: self.readable.clone(),
            account,
            shown: Vec::new(),
        })
    }

    /// Returns the account of tasks at this level, in words.
    pub(crate) fn tasks_as(&self, level: Confinement) -> String {
        match self
            .confines(level)
            .ok()
            .and_then(|confines| confines.account)
        {
            Some((user, _)) => account::name_of(user),
            None => account::own(),
        }
    }

    fn ids(&self) -> Result<(u32, u32), String> {
        match self.account.as_str() {
            "" => Err(
                "no account for tasks is configured (`account` in the worker's configuration)"
                    .to_owned(),
            ),
            _ if !is_root() => Err(
                "only a worker that runs as root can give tasks an account of their own".to_owned(),
            ),
            name => account::find(name),
        }
    }
}

/// Returns the gap that a level has on an old kernel.
fn gap(level: Confinement) -> Option<String> {
    let version = super::landlock_version();
    let open = match version {
        _ if level != Confinement::Landlock => return None,
        RULES_SIGNALS.. => return None,
        RULES_TCP.. => "tasks can send signals to other programs of the worker's account",
        _ => {
            "tasks can send signals to other programs of the worker's account, and a task with network can use any port"
        }
    };
    Some(format!(
        "this kernel has version {version} of Landlock: {open}"
    ))
}

/// Runs a command that does nothing at this confinement, and on Windows one that tries what a container holds.
async fn try_level(launcher: &Launcher, dir: &Path, confines: Confines) -> Result<(), String> {
    let dir = dir.join("probe");
    super::remove_tree(&dir)
        .and_then(|()| files::make_private_dir(&dir))
        .map_err(|error| untried(&error))?;

    let tried = try_in(launcher, &dir, confines).await;
    let _ = super::remove_tree(&dir);
    tried
}

/// Runs [`NOTHING`] in an empty directory, and then what tries a container.
async fn try_in(launcher: &Launcher, dir: &Path, confines: Confines) -> Result<(), String> {
    let (argv, path) = NOTHING;
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();

    let nothing = run(launcher, dir, confines.clone(), (argv, path));
    let (status, words) = tokio::time::timeout(PATIENCE, nothing)
        .await
        .map_err(|_| format!("a command that does nothing took longer than {PATIENCE:?}"))??;
    if status != ProcessStatus::Exited(0) {
        return Err(format!(
            "a command that does nothing ended with {status:?}: {words}"
        ));
    }

    #[cfg(windows)]
    if confines.level > Confinement::Process {
        use super::windows::probe;
        let trial = probe::ContainerTrial::prepare(dir).map_err(|error| untried(&error))?;
        let probing = run(launcher, dir, confines, (trial.argv.clone(), path));
        let (status, _) = tokio::time::timeout(probe::PATIENCE, probing)
            .await
            .map_err(|_| format!("its trial took longer than {:?}", probe::PATIENCE))??;
        probe::judge(status)?;
    }
    Ok(())
}

fn untried(error: &io::Error) -> String {
    format!("it cannot be tried: {error}")
}

/// Runs a command, found in this `PATH`, and returns its end and what it complained.
async fn run(
    launcher: &Launcher,
    dir: &Path,
    confines: Confines,
    (argv, path): (Vec<String>, &str),
) -> Result<(ProcessStatus, String), String> {
    let launch = Launch {
        argv,
        env: vec![("PATH".to_owned(), path.to_owned())],
        dir: dir.as_os_str().to_owned(),
        stdin: None,
        processors: Vec::new(),
        limits: AttemptLimits::default(),
        confines,
    };

    let mut process = launcher
        .launch(&launch, false, true)
        .await
        .map_err(|error| untried(&error))?;
    let mut words = Vec::new();
    if let Some(stderr) = process.stderr.take() {
        let _ = stderr.take(WORDS).read_to_end(&mut words).await;
    }

    loop {
        match process.report().await {
            WatcherReport::Frozen | WatcherReport::Restless | WatcherReport::Holds(_) => {}
            WatcherReport::NotStarted(why) => return Err(why),
            WatcherReport::Ended { status, .. } => {
                let words = String::from_utf8_lossy(&words);
                return Ok((status, words.trim().to_owned()));
            }
        }
    }
}

/// Finds the abilities of this host with directories below `dir`, independently of any worker that
/// runs here. `program` must call [`crate::spawner::main_if_asked`] first thing in its `main`.
///
/// # Errors
/// If nothing can be tried at all.
pub async fn abilities(program: PathBuf, dir: &Path, means: &Means) -> io::Result<Abilities> {
    fs::create_dir_all(dir)?;
    let survey = Survey::make(&format!("probe-{}", std::process::id()));
    let best = Freezer::ALL
        .into_iter()
        .find_map(|freezer| survey.grounds(freezer).ok())
        .unwrap_or_default();
    let found = match Launcher::start(program, best) {
        Ok(launcher) => Ok(Abilities::find(&survey, &launcher, dir, means).await),
        Err(error) => Err(error),
    };
    survey.remove();
    found
}
