//! Defines the flags of the commands that run deskgrid itself and let machines join: master,
//! worker, token, login, host, demo.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};
use common::needs::Label;
use common::platform::PlatformName;
use common::token::Role;
use common::update::ProgramVersion;

#[cfg(windows)]
use super::scm::ServiceArgs;
use super::value::{Dur, JoinWord};
#[cfg(feature = "whole")]
use crate::demo::{Size, Tile};

/// `deskgrid demo`.
#[cfg(feature = "whole")]
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    /// Number of worker processes
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub hosts: u32,
    /// Number of tiles that the picture is computed in
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub tasks: u32,
    /// File for the picture
    #[arg(long, value_name = "F.png", default_value = "demo.png")]
    pub out: PathBuf,
    /// Width of the picture
    #[arg(long, value_name = "PIXELS", default_value_t = 1_920, value_parser = clap::value_parser!(u32).range(16..=16_384))]
    pub width_px: u32,
    /// Height of the picture
    #[arg(long, value_name = "PIXELS", default_value_t = 1_200, value_parser = clap::value_parser!(u32).range(16..=16_384))]
    pub height_px: u32,
}

/// `deskgrid demo-tile`, the program of the demo's tasks.
#[cfg(feature = "whole")]
#[derive(Debug, Clone, Args)]
pub(crate) struct TileArgs {
    /// Size of the whole picture
    #[arg(value_name = "WIDTHxHEIGHT")]
    pub picture: Size,
    /// The tile within the picture
    #[arg(value_name = "WIDTHxHEIGHT+LEFT+TOP")]
    pub tile: Tile,
    /// The file to write
    #[arg(value_name = "F.png")]
    pub file: PathBuf,
}

/// `deskgrid master`.
#[derive(Debug, Subcommand)]
pub(crate) enum MasterCommand {
    /// Run the master in the foreground
    #[command(after_help = "\
Examples:
  deskgrid master start
  deskgrid --dir /srv/deskgrid master start --http none --config master.toml
`deskgrid master config` prints all settings, to begin a file with.
The first start makes the grid's own CA, and an admin identity in the same state directory:
commands with the same --dir on this machine may do everything at once.")]
    Start(MasterArgs),
    /// Return once the master answers
    #[command(
        after_help = "Example:\n  deskgrid master start & deskgrid master wait --timeout 30s"
    )]
    Wait {
        /// Give up after this long (exit code 4) [default: never]
        #[arg(long, value_name = "DUR")]
        timeout: Option<Dur>,
    },
    /// Show which masters the grid has, which one is active and since when, and which stand by
    #[command(after_help = "\
Examples:
  deskgrid master status
  deskgrid --output json master status
Asks each master whose address this machine knows, and the active one for the others. Exit code 7: none is active.")]
    Status,
    /// Give the store to a master that stands by, in order, and return once that one answers
    #[command(after_help = "\
Example:
  deskgrid master hand-over
For an upgrade or a restart of the active master's machine. Running tasks go on; whoever waits is reconnected, if it \
knows the address of the other master. The master that was active stands by from then on.")]
    HandOver,
    /// Print every setting of a master, with its meaning, unit and default
    #[command(after_help = "Example:\n  deskgrid master config > master.toml")]
    Config,
    /// Make a new CA; the present one is trusted until every machine has renewed its certificate.
    /// Stop the master first
    #[command(
        after_help = "Examples:\n  deskgrid master rotate-ca\n  deskgrid master rotate-ca --overlap 90d"
    )]
    RotateCa {
        /// Time for which the present CA stays trusted: longer than any machine stays switched off
        #[arg(long, value_name = "DUR", default_value = "45d")]
        overlap: Dur,
    },
    /// Copy the master's store, the files that it names and its keys to a directory or a .tar,
    /// while it runs
    #[command(after_help = "\
Examples:
  deskgrid master backup /backup/deskgrid-monday
  deskgrid --dir /srv/deskgrid master backup /backup/deskgrid.tar
  deskgrid master backup --config master.toml /backup/deskgrid.tar
Where the store is in PostgreSQL, name it by --config, or by --store and --content. Reads the master's own directory, as its user; the backup is read back before it gets its name. It holds the \
grid's CA key: keep it as safe as the master. Exit code 1: something that the store names was missing or damaged.")]
    Backup {
        /// Directory to make, or one file if the name ends in .tar; must not exist
        #[arg(value_name = "DIR|FILE.tar")]
        to: PathBuf,
        /// Where store and content are.
        #[command(flatten)]
        places: PlaceArgs,
    },
    /// Check whether the master's files are sound: store, content, keys. Changes nothing; the master
    /// may run
    #[command(after_help = "\
Examples:
  deskgrid master check
  deskgrid --dir /backup/deskgrid-monday master check
Exit code 0: all is well; 1: something is wrong, and what to do is printed beside it.")]
    Check {
        /// Check only whether files of content exist; do not read them
        #[arg(long)]
        no_content: bool,
        /// Where store and content are.
        #[command(flatten)]
        places: PlaceArgs,
    },
    /// Put a backup in place, on this machine or another
    #[command(after_help = "\
Example:
  deskgrid --dir /srv/deskgrid master restore /backup/deskgrid.tar
Then start the master there, at the address that workers know. Tokens made before the backup no \
longer work, neither those to join with nor those for HTTP.")]
    Restore {
        /// The backup, as `master backup` made it
        #[arg(value_name = "DIR|FILE.tar")]
        from: PathBuf,
    },
    /// Move the store from its file into a PostgreSQL database, or back. Stop the master first
    #[command(after_help = "\
Examples:
  deskgrid master move --to postgres://deskgrid@127.0.0.1/grid
  deskgrid master move --from postgres://deskgrid@127.0.0.1/grid
Every row is copied and compared; content and keys stay in the master's directory. The old store is put aside under \
another name, which is printed: remove it once the grid runs on the new one.")]
    #[command(group = clap::ArgGroup::new("direction").required(true))]
    Move {
        /// The database to move the store into: one without a store
        #[arg(long, value_name = "URL", group = "direction")]
        to: Option<String>,
        /// The database to move the store out of, into a file in the master's directory
        #[arg(long, value_name = "URL", group = "direction")]
        from: Option<String>,
    },
}

/// The settings that say where store and content of a master are, unless both are in its directory.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlaceArgs {
    /// The database that has the store, as in `master start --store`
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The directory or bucket that has the content of files, as in `master start --content`
    #[arg(long, value_name = "DIR|s3://BUCKET[/PREFIX]")]
    pub content: Option<String>,
    /// The master's settings file, which may name both; flags override it
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
}

/// `deskgrid master start`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MasterArgs {
    /// Address to listen at, with UDP and TCP [default: 0.0.0.0:7411]
    #[arg(long, value_name = "ADDR:PORT")]
    pub listen: Option<std::net::SocketAddr>,
    /// Address of the API, the dashboard, /healthz and /metrics, or `none` [default: 127.0.0.1:7412]
    #[arg(long, value_name = "ADDR:PORT|none")]
    pub http: Option<Http>,
    /// A TOML file with more settings; flags override it
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Keep the store in this PostgreSQL database instead of a file; every start of this grid names it
    /// [example: postgres://deskgrid@127.0.0.1/grid]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// Keep the content of files in this bucket of S3-compatible storage, or in a directory which all
    /// masters on the same database share [examples: s3://deskgrid/grid, /mnt/deskgrid-content]
    #[arg(long, value_name = "DIR|s3://BUCKET[/PREFIX]")]
    pub content: Option<String>,
    /// Write every event and decision of the scheduler to a file, for replay; an existing
    /// file is appended to
    #[arg(long, value_name = "F")]
    pub record: Option<PathBuf>,
    /// Start this once although the store is older than the master left it, or changed since: what
    /// is missing stays missing
    #[arg(long)]
    pub accept_store: bool,
    /// Start this once although the clock shows an earlier time than when the master was last up, or
    /// a much later one: the clock is right
    #[arg(long)]
    pub accept_clock: bool,
    /// Shut down when standard input ends, so that nothing outlives whoever started it.
    #[arg(long, hide = true)]
    pub tied: bool,
}

/// An address for HTTP, or `none`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Http {
    /// Serve there.
    At(std::net::SocketAddr),
    /// Do not serve.
    Off,
}

impl FromStr for Http {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "none" => Ok(Http::Off),
            address => address
                .parse()
                .map(Http::At)
                .map_err(|_| format!("`{s}` is neither ADDR:PORT nor `none`")),
        }
    }
}

/// `deskgrid worker`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerCommand {
    /// Run a worker in the foreground; it joins once and needs no token later
    #[command(after_help = "\
Examples:
  deskgrid worker start --master HOST:7411   # asks for the token
  deskgrid worker start --master HOST:7411 --join @token
  deskgrid worker start                      # later: it knows the master
  deskgrid worker start --dedicated          # on a PC that nobody sits at
  deskgrid worker start --slots 2 --config worker.toml
  deskgrid worker start --first-start join.toml      # for packages and images
Without --dedicated a PC computes only while nobody uses it: 3 minutes after the last input, and \
not while other programs are busy. `deskgrid worker status --why` says what it waits for.
`deskgrid worker config` prints all settings, to begin a file with.")]
    Start(WorkerArgs),
    /// Print the state of the worker on this machine and of its tasks; needs no master
    #[command(after_help = "\
Examples:
  deskgrid worker status
  deskgrid worker status --why              # also what each sensor sees
  deskgrid --output json worker status      # everything
Exit code 1 says that no worker runs here.")]
    Status {
        /// Also print every reason not to run tasks, and what each sensor sees
        #[arg(long)]
        why: bool,
    },
    /// Freeze every task on this machine and take no more, also after a restart; needs no master
    #[command(after_help = "\
Examples:
  deskgrid worker pause
  deskgrid worker pause --for 2h
Works by a file in the worker's directory, so also while no worker runs.")]
    Pause {
        /// End the pause by itself after this long [default: until `deskgrid worker resume`]
        #[arg(long = "for", value_name = "DUR")]
        lasts: Option<Dur>,
    },
    /// End a pause; needs no master
    #[command(after_help = "Example:\n  deskgrid worker resume")]
    Resume,
    /// Show in a browser what the worker does on this PC, with buttons to say no; needs no master
    #[command(after_help = "\
Examples:
  deskgrid worker page              # opens a browser; Enter: another address
  deskgrid worker page --no-open --port 8080
  sudo deskgrid --dir /var/lib/deskgrid worker page --no-open
It ends with its terminal. The address lets one browser in, within a minute; other accounts are refused.")]
    Page(PageArgs),
    /// Print every setting of a worker, with its meaning, unit and default
    #[command(after_help = "\
Examples:
  deskgrid worker config > worker.toml
  deskgrid worker config --like htcondor > worker.toml")]
    Config {
        /// Print only the owner's rules, like those of BOINC (3 minutes without input, load below a
        /// quarter, no battery) or HTCondor (15 minutes, load of 0.5 and 0.3), or for a PC that nobody
        /// sits at
        #[arg(long, value_name = "KIND")]
        like: Option<Like>,
    },
    #[cfg_attr(
        not(target_os = "macos"),
        doc = "Make the worker a service of systemd, which starts with the PC; shows what it would do"
    )]
    #[cfg_attr(
        target_os = "macos",
        doc = "Make the worker a daemon of launchd, which starts with the PC; shows what it would do"
    )]
    /// unless --yes
    #[cfg(unix)]
    #[command(after_help = "\
Examples:
  deskgrid worker install          # shows the unit, changes nothing
  sudo deskgrid worker install --master HOST:7411 --join @token --yes
  deskgrid worker install --user --master HOST:7411 --join - --yes < token
  sudo deskgrid worker install --dedicated --config worker.toml --yes
--dedicated is for PCs that nobody sits at, as for `deskgrid worker start`.
The same command on every PC: a token made with --uses 100 lets a hundred of them join.")]
    Install(Box<InstallArgs>),
    /// Remove the service with all that the worker keeps; shows what it would do unless --yes
    #[cfg(unix)]
    #[command(
        after_help = "Examples:\n  deskgrid worker uninstall\n  sudo deskgrid worker uninstall --yes"
    )]
    Uninstall(ServiceArgs),
    /// Make the worker a service of Windows, which starts with the PC; shows what it would do
    /// unless --yes
    #[cfg(windows)]
    #[command(after_help = "\
Examples:
  deskgrid worker install          # shows what it would do
  deskgrid worker install --master HOST:7411 --join @token --yes
  deskgrid worker install --dedicated --config worker.toml --yes
The same command, as administrator, on every PC: a token made with --uses 100 lets a hundred of them join.")]
    Install(Box<InstallArgs>),
    /// Remove the service with all that the worker keeps; shows what it would do unless --yes
    #[cfg(windows)]
    #[command(
        after_help = "Examples:\n  deskgrid worker uninstall\n  deskgrid worker uninstall --yes"
    )]
    Uninstall(ServiceArgs),
    /// Be the service; for nobody but the service manager
    #[cfg(windows)]
    #[command(
        hide = true,
        after_help = "Example:\n  deskgrid worker install makes a service that calls this"
    )]
    Service(super::scm::RunArgs),
}

/// Whose rules a worker's settings are to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Like {
    /// BOINC's: 3 minutes without input, load below a quarter, no battery.
    Boinc,
    /// HTCondor's desktop policy: 15 minutes, load of 0.5 and 0.3.
    Htcondor,
    /// Of a PC that nobody sits at: only the switches and hours count.
    Dedicated,
}

/// `deskgrid worker install`.
#[derive(Debug, Clone, Args)]
pub(crate) struct InstallArgs {
    /// How to join, unless this PC has joined before.
    #[command(flatten)]
    pub enrol: EnrolArgs,
    /// Number of tasks at a time [default: that of the settings]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub slots: Option<u32>,
    /// A TOML file with the owner's settings; a copy of it is installed
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Compute at any time: nobody sits at this PC. Input, load, memory, battery and other programs
    /// are not watched, and nothing of [owner] in --config counts, its hours neither; `worker pause`
    /// and settings from the master still do
    #[arg(long)]
    pub dedicated: bool,
    /// Which service.
    #[command(flatten)]
    pub service: ServiceArgs,
}

/// Whose service it is, and whether to touch it.
#[cfg(unix)]
#[derive(Debug, Clone, Args)]
pub(crate) struct ServiceArgs {
    /// For your account alone, without root's rights, instead of for the whole PC
    #[arg(long)]
    pub user: bool,
    /// Do it, instead of showing what would be done
    #[arg(long)]
    pub yes: bool,
    /// Put everything below this directory, and run no command.
    #[arg(long, value_name = "DIR", hide = true, requires = "yes")]
    pub root: Option<PathBuf>,
}

/// `deskgrid doctor`.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct DoctorArgs {
    /// The worker's settings file, which names its sensors
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Check a worker that computes whether somebody is at the PC or not, as `worker start --dedicated`
    #[arg(long)]
    pub dedicated: bool,
    /// The master's settings file, which names the disk space that it keeps for results
    #[cfg(unix)]
    #[arg(long, value_name = "F")]
    pub master_config: Option<PathBuf>,
    /// The address of the database that has the master's store, or is to have it, as in `master start
    /// --store`; the settings file may name it, too
    #[cfg(unix)]
    #[arg(long, value_name = "URL")]
    pub store: Option<String>,
    /// The bucket for the content of files, as in `master start --content`; the settings file may name it,
    /// too
    #[cfg(unix)]
    #[arg(long, value_name = "s3://BUCKET[/PREFIX]")]
    pub content: Option<String>,
}

/// `deskgrid worker start`.
#[derive(Debug, Clone, Args)]
pub(crate) struct WorkerArgs {
    /// How to join, for the first start.
    #[command(flatten)]
    pub enrol: EnrolArgs,
    /// Number of tasks at a time [default: one for each logical processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub slots: Option<u32>,
    /// A TOML file with more settings; flags override it
    #[arg(long, value_name = "F")]
    pub config: Option<PathBuf>,
    /// Compute at any time: nobody sits at this PC. Input, load, memory, battery and other programs
    /// are not watched, and nothing of [owner] in --config counts, its hours neither; `worker pause`
    /// and settings from the master still do
    #[arg(long)]
    pub dedicated: bool,
    /// On a PC that has not joined, join by this TOML file (`master`, `token`, perhaps `name`): try
    /// until the master lets it in, then remove the file
    #[arg(long, value_name = "F", conflicts_with_all = ["master", "name"])]
    pub first_start: Option<PathBuf>,
    /// Shut down when standard input ends, so that nothing outlives whoever started it.
    #[arg(long, hide = true)]
    pub tied: bool,
}

/// `deskgrid gateway`.
#[derive(Debug, Subcommand)]
pub(crate) enum GatewayCommand {
    /// Run a gateway in the foreground; it joins once and needs no token later
    #[command(after_help = "\
Examples:
  deskgrid token create --role gateway       # on the master's machine
  deskgrid gateway start --master a:7411,b:7411 --join @token
  deskgrid gateway start                     # later: it knows the masters
  deskgrid worker start --master gw1:7411,gw2:7411     # on the PCs
Nothing that a gateway has matters: its workers go to the next address when it dies, and lose nothing.")]
    Start(GatewayArgs),
}

/// `deskgrid gateway start`.
#[derive(Debug, Clone, Args)]
pub(crate) struct GatewayArgs {
    /// How to join, for the first start.
    #[command(flatten)]
    pub enrol: EnrolArgs,
    /// Address to listen at, with UDP
    #[arg(long, value_name = "ADDR:PORT", default_value = "0.0.0.0:7411")]
    pub listen: std::net::SocketAddr,
    /// Most space for inputs that are kept for the workers, in GiB; larger ones are passed through
    #[arg(long, value_name = "GIB", default_value_t = 20.0, value_parser = gibibytes)]
    pub cache: f64,
    /// Most workers at a time; more are sent to the next address that they know
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub most_workers: u32,
    /// Shut down when standard input ends, so that nothing outlives whoever started it.
    #[arg(long, hide = true)]
    pub tied: bool,
}

/// Parses an amount in GiB.
pub(super) fn gibibytes(given: &str) -> Result<f64, String> {
    let amount = given.parse().ok().filter(|gib| (0.0..=1e6).contains(gib));
    amount.ok_or_else(|| format!("`{given}` is no number of GiB, such as 20 or 0.5"))
}

/// `deskgrid worker page`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PageArgs {
    /// Only print the address, and open no browser
    #[arg(long)]
    pub no_open: bool,
    /// Listen on this port of the loopback address [default: a free one]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub port: u16,
    /// End once no browser has asked for the page for this long [default: never]
    #[arg(long, value_name = "DUR")]
    pub unused: Option<Dur>,
    /// Shut down when standard input ends, so that nothing outlives whoever started it.
    #[arg(long, hide = true)]
    pub tied: bool,
}

/// How a machine gets its identity.
#[derive(Debug, Clone, Args)]
pub(crate) struct EnrolArgs {
    /// The master's address: needed to join, later only to replace the known one. The port may be
    /// left out if it is 7411. Of a grid with several masters all of them: HOST:PORT,HOST:PORT
    #[arg(long, value_name = "HOST:PORT", value_parser = master_address)]
    pub master: Option<String>,
    /// The join token, which an admin makes with `deskgrid token create`: `@FILE` reads it from a
    /// file, `-` from standard input; DESKGRID_JOIN may hold it, too. The token itself is taken as
    /// well, but other accounts can read arguments for a moment, until deskgrid has erased them
    #[arg(
        long,
        value_name = "@FILE|-",
        requires = "master",
        allow_hyphen_values = true
    )]
    pub join: Option<JoinWord>,
    /// Read the join token from a file, as --join @FILE
    #[arg(
        long,
        value_name = "FILE",
        requires = "master",
        conflicts_with = "join"
    )]
    pub join_file: Option<PathBuf>,
    /// Name to join under [default: of a worker the host's, of a user the account's]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Join again, and replace the identity that is here
    #[arg(long, requires = "master")]
    pub rejoin: bool,
}

/// Parses `HOST:PORT`, or several of them with commas between; the default port is 7411.
pub(crate) fn master_address(given: &str) -> Result<String, String> {
    let each: Result<Vec<String>, String> = given.split(',').map(one_address).collect();
    let mut all: Vec<String> = Vec::new();
    for address in each? {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    Ok(all.join(","))
}

fn one_address(given: &str) -> Result<String, String> {
    const USUAL: u16 = 7411;
    let example = "write HOST:PORT, such as grid.example.org:7411";
    if given.contains("://") {
        return Err(format!("it is a URL; {example}"));
    }

    let (host, port) = match given.rsplit_once(':') {
        // An IPv6 address has brackets if a port follows it.
        Some((host, _)) if host.contains(':') && !host.ends_with(']') => (given, None),
        Some(_) if given.ends_with(']') => (given, None),
        Some((host, port)) => (host, Some(port)),
        None => (given, None),
    };
    if host.is_empty() {
        return Err(format!("it names no host; {example}"));
    }
    if !names_a_host(host) {
        return Err(format!(
            "`{host}` is no address, and no name that a host can have; {example}"
        ));
    }

    match port {
        Some(port) if port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(given.to_owned()),
        Some(port) => Err(format!("`{port}` is no port; {example}")),
        None if host.parse::<std::net::Ipv6Addr>().is_ok() => Ok(format!("[{host}]:{USUAL}")),
        None => Ok(format!("{host}:{USUAL}")),
    }
}

/// Whether this is an address, one of IPv6 perhaps in brackets, or a name of the DNS.
fn names_a_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']');
        return inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok());
    }
    if host.parse::<std::net::IpAddr>().is_ok() {
        return true;
    }

    let name = host.strip_suffix('.').unwrap_or(host);
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(fine)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // Numbers alone are an address of IPv4 with a mistake in it.
    let numbers = name.chars().all(|c| c.is_ascii_digit() || c == '.');
    name.len() <= 253 && name.split('.').all(label) && !numbers
}

/// `deskgrid token`.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token; its secret is shown this once
    #[command(after_help = "\
Examples:
  deskgrid token create --role worker --uses 100 --ttl 1d --name 'floor 3'
  deskgrid --output quiet token create --role client   # for scripts
  deskgrid token create --http --role client --for ann --ttl 30d")]
    Create {
        /// Role of those who join with it: worker, client, admin or gateway
        #[arg(long, value_name = "ROLE")]
        role: Role,
        /// How long it is valid
        #[arg(long, value_name = "DUR", default_value = "1h")]
        ttl: Dur,
        /// Number of times that it can be used
        #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        uses: u32,
        /// Name for lists and logs
        #[arg(long, value_name = "NAME", default_value = "")]
        name: String,
        /// Let those who join with it in only after `deskgrid identity approve NAME`
        #[arg(long)]
        approve: bool,
        /// Make a token with which a program speaks to the master over HTTP (docs/api.md); nobody
        /// joins with it
        #[arg(long, conflicts_with_all = ["uses", "approve"])]
        http: bool,
        /// The user for whom that program speaks, with at most this role [default: yourself]
        #[arg(long = "for", value_name = "USER", requires = "http")]
        speaks_for: Option<String>,
    },
    /// List the tokens, without their secrets
    #[command(after_help = "Example:\n  deskgrid token list")]
    List,
    /// Revoke a token; those who joined with it stay
    #[command(after_help = "Example:\n  deskgrid token revoke 3")]
    Revoke {
        /// Its number, as `token list` shows it
        id: u32,
    },
}

/// `deskgrid host`.
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// List the hosts, and what each one does
    #[command(
        after_help = "Examples:\n  deskgrid host list\n  deskgrid --output json host list --all"
    )]
    List {
        /// List also hosts that are not expected back: revoked, or not heard of for 30 days
        #[arg(long)]
        all: bool,
    },
    /// Print everything about one host
    #[command(after_help = "Example:\n  deskgrid host info desk-3")]
    Info {
        /// Its name, or host-N
        host: String,
    },
    /// Give a host no new tasks; those that it has may end
    #[command(after_help = "Example:\n  deskgrid host drain desk-3")]
    Drain {
        /// Its name, or host-N
        host: String,
    },
    /// Shut a host out for good: its connection is closed, and its tasks run elsewhere
    #[command(after_help = "Example:\n  deskgrid host revoke desk-3")]
    Revoke {
        /// Its name, or host-N
        host: String,
    },
    /// Leave a revoked host out of all lists from now on; attempts that it ran keep its name
    #[command(
        after_help = "Example:\n  deskgrid host revoke desk-3 && deskgrid host forget desk-3"
    )]
    Forget {
        /// Its name, or host-N
        host: String,
    },
    /// Set a host's owner: results from hosts of one owner never confirm each other (submit
    /// --quorum)
    #[command(after_help = "\
Examples:
  deskgrid host owner desk-3 ann
  deskgrid host owner desk-3 --nobody      # as at first")]
    Owner {
        /// Its name, or host-N
        host: String,
        /// The owner, in your words
        #[arg(required_unless_present = "nobody")]
        owner: Option<String>,
        /// Take its owner away: it belongs to nobody in particular
        #[arg(long, conflicts_with = "owner")]
        nobody: bool,
    },
    /// Give a host labels that jobs can ask for (submit --needs label=lab3), or take them away
    #[command(after_help = "\
Examples:
  deskgrid host label desk-3 lab3 fast
  deskgrid host label desk-3 --remove fast")]
    Label {
        /// Its name, or host-N
        host: String,
        /// Labels that it gets: letters, digits, dots, dashes and underscores
        #[arg(required_unless_present = "remove")]
        labels: Vec<Label>,
        /// A label that it has no more; those that its owner gave it stay [repeatable]
        #[arg(long, value_name = "LABEL")]
        remove: Vec<Label>,
    },
    /// Keep settings for workers at the master; they can only be stricter than an owner's
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid host settings set site.toml\n  deskgrid host settings show"
    )]
    Settings(HostSettingsCommand),
    /// Roll a new program out to the workers, signed with a key of yours; stage by stage
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid host update key update.key\n  deskgrid host update start --program deskgrid-worker --key update.key\n  deskgrid host update status"
    )]
    Update(HostUpdateCommand),
    /// Explain why a host computes no more than it does, job by job
    #[command(after_help = "Example:\n  deskgrid host explain desk-3")]
    Explain {
        /// Its name, or host-N
        host: String,
    },
    /// Give a drained or benched host tasks again
    #[command(after_help = "Example:\n  deskgrid host resume desk-3")]
    Resume {
        /// Its name, or host-N
        host: String,
    },
}

/// `deskgrid host settings`.
#[derive(Debug, Subcommand)]
pub(crate) enum HostSettingsCommand {
    /// Print all settings that can come from the master, to begin a file with
    #[command(after_help = "Example:\n  deskgrid host settings example > site.toml")]
    Example,
    /// Show the settings, and which hosts have taken or refused them; admins only
    #[command(
        after_help = "Examples:\n  deskgrid host settings show\n  deskgrid --output json host settings show"
    )]
    Show,
    /// Store settings, which workers get at once or when they connect; admins only
    #[command(after_help = "\
Examples:
  deskgrid host settings set site.toml                # for every host
  deskgrid host settings set lab3.toml --label lab3
  deskgrid host settings set quiet.toml --host desk-3

Of several that hold for a host, and its owner's own, the strictest counts.")]
    Set {
        /// The file, in TOML
        file: PathBuf,
        #[command(flatten)]
        scope: SettingsScope,
    },
    /// Withdraw settings: those that the flags name, or those for every host; admins only
    #[command(after_help = "\
Examples:
  deskgrid host settings clear
  deskgrid host settings clear --label lab3")]
    Clear {
        #[command(flatten)]
        scope: SettingsScope,
    },
}

/// `deskgrid host update`.
#[derive(Debug, Subcommand)]
pub(crate) enum HostUpdateCommand {
    /// Make the key that signs new programs, and let hosts that join from now on learn its public half; admins
    /// only
    #[command(after_help = "\
Examples:
  deskgrid host update key update.key       # makes it if it is not there

Keep the file away from the master: who has it can run programs as the worker's account on every PC.
Hosts that have joined before learn nothing: their worker.toml can name the key (update_key).")]
    Key {
        /// The file of the key, which is made if it is not there
        file: PathBuf,
    },
    /// Begin to roll a program out: to one host in a hundred, then to ten, then to all; admins only
    #[command(after_help = "\
Examples:
  deskgrid host update start --program deskgrid-worker --key u.key
  deskgrid host update start --program deskgrid-worker --key u.key --dry-run
  deskgrid host update start --program arm --key u.key --platform linux-aarch64

A stage begins once the hosts of the one before have run it for --settle.
The first failure stops it; in the last stage, more than two in a hundred.")]
    Start(UpdateStartArgs),
    /// Show how far each rollout is, what it waits for, and the hosts; admins only
    #[command(
        after_help = "Examples:\n  deskgrid host update status\n  deskgrid --output json host update status"
    )]
    Status,
    /// Stop a rollout: no more hosts get the program; those that have it keep it; admins only
    #[command(after_help = "Example:\n  deskgrid host update stop")]
    Stop {
        /// The platform [default: that of this machine]
        #[arg(long, value_name = "NAME")]
        platform: Option<PlatformName>,
    },
}

/// `deskgrid host update start`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UpdateStartArgs {
    /// The program: a deskgrid-worker or deskgrid
    #[arg(long, value_name = "F")]
    pub program: PathBuf,
    /// The file of the key that signs it
    #[arg(long, value_name = "F")]
    pub key: PathBuf,
    /// The platform that it is for, such as linux-x86_64 [default: that of this machine]
    #[arg(long, value_name = "NAME")]
    pub platform: Option<PlatformName>,
    /// Let it take the place of this newer version, and of no other
    #[arg(long, value_name = "VERSION")]
    pub downgrade: Option<ProgramVersion>,
    /// The time for which the hosts of a stage run it before the next stage begins
    #[arg(long, value_name = "DUR", default_value = "30m")]
    pub settle: Dur,
    /// The attempts that a host may have finished instead
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub settle_tasks: u64,
    /// The time after which a host that left to start it and is not back has failed
    #[arg(long, value_name = "DUR", default_value = "15m")]
    pub patience: Dur,
    /// Check and sign it, and begin nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The hosts for which settings hold.
#[derive(Debug, Clone, Args)]
pub(crate) struct SettingsScope {
    /// Only for hosts with this label
    #[arg(long, value_name = "LABEL", conflicts_with = "host")]
    pub label: Option<Label>,
    /// Only for this host
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
}

/// `deskgrid identity`.
#[derive(Debug, Subcommand)]
pub(crate) enum IdentityCommand {
    /// List all who have joined, and when their certificates expire; admins only
    #[command(
        after_help = "Examples:\n  deskgrid identity list\n  deskgrid --output json identity list"
    )]
    List,
    /// Let somebody in who joined with a token made with --approve; admins only
    #[command(after_help = "Example:\n  deskgrid identity approve desk-3")]
    Approve {
        /// The name that `identity list` shows
        name: String,
    },
    /// Shut somebody out for good, and close their connections; admins only
    #[command(
        after_help = "Example:\n  deskgrid identity revoke ann\nThe jobs of a user stay; cancel them if they are not to run."
    )]
    Revoke {
        /// The name that `identity list` shows
        name: String,
    },
}

/// `deskgrid audit`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditArgs {
    /// Number of entries to print, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub last: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_named_by_host_and_port_and_the_port_is_the_usual_one_where_it_is_missing() {
        for (given, read) in [
            ("127.0.0.1", "127.0.0.1:7411"),
            ("grid.example.org", "grid.example.org:7411"),
            ("grid:99", "grid:99"),
            ("[::1]:99", "[::1]:99"),
            ("[::1]", "[::1]:7411"),
            ("::1", "[::1]:7411"),
            ("pc_7.office-2.example.", "pc_7.office-2.example.:7411"),
            ("grid,10.0.0.7:99", "grid:7411,10.0.0.7:99"),
        ] {
            assert_eq!(master_address(given).as_deref(), Ok(read), "{given}");
        }

        for (given, why) in [
            ("http://grid:7411", "it is a URL"),
            ("grid:", "`` is no port"),
            ("grid:x", "`x` is no port"),
            ("grid:70000", "is no port"),
            (":7411", "names no host"),
            ("", "names no host"),
            ("grid,", "names no host"),
            ("not a host", "`not a host` is no address"),
            ("grid/x:7411", "`grid/x` is no address"),
            ("10.0.0.300", "`10.0.0.300` is no address"),
            ("[::x]:7411", "`[::x]` is no address"),
            ("-grid:7411", "`-grid` is no address"),
            ("grid..example", "`grid..example` is no address"),
            ("nons€nse", "`nons€nse` is no address"),
            ("user@grid", "`user@grid` is no address"),
        ] {
            let wrong = master_address(given).unwrap_err();
            let told = wrong.contains(why) && wrong.contains("such as grid.example.org:7411");
            assert!(told, "{given}: {wrong}");
        }
    }
}
