//! Defines the command line with `clap`: the names, meanings and help texts of commands and flags.
//! Their execution lives in `commands`.

#[cfg(feature = "whole")]
pub(crate) mod account;
#[cfg(feature = "whole")]
pub(crate) mod bridge;
#[cfg(feature = "whole")]
pub(crate) mod content;
#[cfg(feature = "whole")]
pub(crate) mod dashboard;
#[cfg(feature = "whole")]
mod deferred;
#[cfg(feature = "whole")]
pub(crate) mod events;
#[cfg(feature = "whole")]
pub(crate) mod job;
#[cfg(feature = "whole")]
pub(crate) mod package;
#[cfg(feature = "whole")]
pub(crate) mod predict;
#[cfg(windows)]
pub(crate) mod scm;
pub(crate) mod serve;
#[cfg(feature = "whole")]
pub(crate) mod simulate;
#[cfg(feature = "whole")]
pub(crate) mod speculation;
#[cfg(feature = "whole")]
pub(crate) mod submit;
#[cfg(feature = "whole")]
pub(crate) mod top;
#[cfg(feature = "whole")]
pub(crate) mod trace;
pub(crate) mod value;

use std::path::PathBuf;

use clap::builder::styling::{AnsiColor, Styles};
use clap::{Args, Parser, Subcommand, ValueEnum};

#[cfg(feature = "whole")]
pub(crate) use self::bridge::BridgeCommand;
#[cfg(feature = "whole")]
pub(crate) use account::AccountArgs;
#[cfg(feature = "whole")]
pub(crate) use deferred::Deferred;
#[cfg(feature = "whole")]
pub(crate) use job::{JobCommand, TaskCommand};
#[cfg(feature = "whole")]
pub(crate) use serve::GatewayCommand;
pub(crate) use serve::{
    EnrolArgs, HostCommand, IdentityCommand, MasterCommand, TokenCommand, WorkerCommand,
};
#[cfg(feature = "whole")]
pub(crate) use submit::SubmitArgs;
#[cfg(feature = "whole")]
pub(crate) use trace::TraceCommand;

/// The colours of help texts and usage errors.
pub const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

#[cfg(feature = "whole")]
const TOUR: &str = "\
Start here:
  deskgrid demo                             # the five-minute tour, on this PC
  deskgrid master start                     # on the machine that keeps the jobs
  deskgrid token create --role worker       # a token with which PCs join
  deskgrid worker start --master HOST:7411
  deskgrid submit --array 1-100 --input ./sim --wait -- ./sim %{TASK_ID}

Exit codes:
  0  all well                               4  timed out
  1  own error, or not as things stand      5  refused: no promise of the deadline
  2  usage                                  6  not authorised
  3  some tasks failed or were cancelled    7  master unreachable";

const WORKER_TOUR: &str = "\
This program is for PCs that only work. The whole deskgrid also has the master, and all that users need.

Examples:
  deskgrid-worker start --master HOST:7411
  deskgrid-worker status --why
The whole program's form, `deskgrid-worker worker start`, is taken as well.";

/// Put idle office PCs to work on bags of tasks
#[cfg(feature = "whole")]
#[derive(Debug, Parser)]
#[command(name = "deskgrid", version = common::update::program_version(), styles = STYLES, after_help = TOUR)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    infer_subcommands = false
)]
pub(crate) struct Cli {
    /// The flags that hold for every command.
    #[command(flatten)]
    pub global: Global,
    /// The command to run.
    #[command(subcommand)]
    pub command: Commands,
}

/// Put this PC to work on bags of tasks
#[derive(Debug, Parser)]
#[command(name = "deskgrid-worker", version = common::update::program_version(), styles = STYLES, after_help = WORKER_TOUR)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct WorkerCli {
    /// The flags that hold for every command.
    #[command(flatten)]
    pub global: Global,
    /// The command to run.
    #[command(subcommand)]
    pub command: WorkerOnly,
}

/// The commands of a program for PCs that only work.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerOnly {
    /// A command without the word `worker` before it.
    #[command(flatten)]
    Plain(WorkerCommand),
    /// Compute tasks on this machine while its owner does not need it
    #[command(
        subcommand,
        hide = true,
        after_help = "Examples:\n  deskgrid worker start --master grid.example.org:7411\n  deskgrid worker status --why\n  deskgrid worker pause --for 2h"
    )]
    Worker(WorkerCommand),
}

/// Returns the command line of `deskgrid` with every part of it, for man pages and completions.
#[cfg(feature = "whole")]
pub fn whole_command() -> clap::Command {
    crate::usage::complete(<Cli as clap::CommandFactory>::command())
}

/// Returns the command line of `deskgrid-worker`, for man pages and completions.
pub fn worker_command() -> clap::Command {
    crate::usage::complete(<WorkerCli as clap::CommandFactory>::command())
}

/// The flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Global {
    /// State directory [default: $XDG_STATE_HOME/deskgrid or ~/.local/state/deskgrid]
    #[arg(
        long,
        global = true,
        env = "DESKGRID_DIR",
        hide_env_values = true,
        value_name = "DIR"
    )]
    pub dir: Option<PathBuf>,
    /// The flags that say how to print.
    #[command(flatten)]
    pub printing: Printing,
}

/// The flags that say how to print and to log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub struct Printing {
    /// cli: for people; json: exactly one JSON value; quiet: only ids
    #[arg(
        long,
        global = true,
        env = "DESKGRID_OUTPUT",
        hide_env_values = true,
        value_name = "MODE"
    )]
    #[arg(default_value = "cli", hide_possible_values = true)]
    pub output: OutputMode,
    /// Log more to standard error (-v: what happens, -vv: every step)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Log as JSON lines
    #[arg(long, global = true)]
    pub log_json: bool,
    /// Use of colours; NO_COLOR is honoured
    #[arg(long, global = true, default_value = "auto", value_name = "WHEN")]
    pub color: clap::ColorChoice,
}

/// The form in which a command prints its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputMode {
    /// Text for people.
    Cli,
    /// One JSON value, for scripts.
    Json,
    /// Ids only, one on a line, for scripts.
    Quiet,
}

/// The commands: nouns with verbs of their own, and verbs that stand alone.
#[cfg(feature = "whole")]
#[derive(Debug, Subcommand)]
pub(crate) enum Commands {
    /// Take the five-minute tour: a real master, real workers and one real bag of tasks, all removed
    /// at the end
    #[command(after_help = "\
Examples:
  deskgrid demo
  deskgrid demo --hosts 2 --tasks 60 --out picture.png
Worker processes on this machine compute a picture in tiles. Meanwhile one host's pretended owner \
comes back, so that you see what deskgrid does then. All of it runs in a temporary directory, and \
only the picture stays.")]
    Demo(Deferred<serve::DemoArgs>),
    /// Render one tile of the demo's picture: what the tasks of the demo run
    #[command(
        hide = true,
        after_help = "Example:\n  deskgrid demo-tile 320x200 320x200+0+0 whole.png"
    )]
    DemoTile(Deferred<serve::TileArgs>),
    /// Run the master: the machine that keeps jobs and hands out tasks
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid master start\n  deskgrid master backup /backup/deskgrid-monday"
    )]
    Master(Deferred<MasterCommand>),
    /// Run a worker: this PC computes tasks while its owner does not need it
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid worker start --master grid.example.org:7411\n  deskgrid worker status --why\n  deskgrid worker pause --for 2h"
    )]
    Worker(Deferred<WorkerCommand>),
    /// Run a gateway: it takes the connections of many workers, and passes them on to the master
    #[command(
        subcommand,
        after_help = "Example:\n  deskgrid gateway start --master grid.example.org:7411 --join @token"
    )]
    Gateway(Deferred<GatewayCommand>),
    /// Run a bridge: it has tasks of one grid computed by another one
    #[command(
        subcommand,
        after_help = "Example:\n  deskgrid bridge start --slots 20 --master a.example.org:7411 --join @token"
    )]
    Bridge(Deferred<BridgeCommand>),
    /// Make, list and revoke the tokens with which machines join
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid token create --role worker --uses 20 --ttl 1d\n  deskgrid token list"
    )]
    Token(Deferred<TokenCommand>),
    /// Make an installer of the worker for many PCs, with a join token and your settings inside
    #[command(after_help = package::PACKAGE)]
    Package(Deferred<Box<package::PackageArgs>>),
    /// List the users and hosts that have joined; let them in, or shut them out for good
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid identity list\n  deskgrid identity approve ann"
    )]
    Identity(Deferred<IdentityCommand>),
    /// Print the audit log: who came in, who did not and why, and what admins changed (admins only)
    #[command(
        after_help = "Examples:\n  deskgrid audit\n  deskgrid --output json audit --last 1000"
    )]
    Audit(Deferred<serve::AuditArgs>),
    /// Give this machine the identity of a user, so that it can submit
    #[command(after_help = "\
Examples:
  deskgrid login --master HOST:7411             # asks for the token
  deskgrid login --master HOST:7411 --join - < token
The admin makes the token with: deskgrid token create --role client")]
    Login(Deferred<EnrolArgs>),
    /// Submit a bag of tasks
    #[command(after_help = submit::EXAMPLES, override_usage = "deskgrid submit [OPTIONS] -- CMD ARG...")]
    Submit(Deferred<Box<SubmitArgs>>),
    /// Request the results of disclosed tasks: they are needed now
    #[command(after_help = speculation::REQUEST)]
    Request(Deferred<speculation::RequestArgs>),
    /// Look at jobs, wait for them, fetch their results, cancel and retry them
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid job list\n  deskgrid job wait last\n  deskgrid job explain last"
    )]
    Job(Deferred<JobCommand>),
    /// Look at single tasks and each of their attempts
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid task list last\n  deskgrid task info last.3"
    )]
    Task(Deferred<TaskCommand>),
    /// Print what happens to jobs, tasks and hosts, as it happens
    #[command(after_help = events::EXAMPLES)]
    Events(Deferred<events::EventsArgs>),
    /// Open the API, and pages for people, to programs and browsers of this machine
    #[command(after_help = dashboard::EXAMPLES)]
    Dashboard(Deferred<dashboard::DashboardArgs>),
    /// Watch jobs, tasks, hosts and events on this terminal, live
    #[command(after_help = top::EXAMPLES)]
    Top(Deferred<top::TopArgs>),
    /// Send files and directories that jobs submitted over the API will name
    #[command(
        subcommand,
        after_help = "Example:\n  deskgrid --output json content send sim"
    )]
    Content(Deferred<content::ContentCommand>),
    /// Look at hosts, and take them out of service
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid host list\n  deskgrid host info desk-3"
    )]
    Host(Deferred<HostCommand>),
    /// Print what was spent on your tasks, how much of it is billed, how long you waited for
    /// results, and how good estimates were
    #[command(after_help = account::EXAMPLES)]
    Account(Deferred<AccountArgs>),
    /// List the scheduling policies, and show what each one does
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid policy list\n  deskgrid policy show PRI-CR"
    )]
    Policy(Deferred<PolicyCommand>),
    /// Predict waits and limits from what is known
    #[command(subcommand, after_help = "Example:\n  deskgrid predict wait --help")]
    Predict(Deferred<predict::PredictCommand>),
    /// Simulate jobs on desktop grids, under any policy
    #[command(after_help = simulate::SIMULATE)]
    Simulate(Deferred<simulate::SimulateArgs>),
    /// Export, import and measure availability traces of hosts
    #[command(
        subcommand,
        after_help = "Examples:\n  deskgrid trace export --help\n  deskgrid trace stats"
    )]
    Trace(Deferred<TraceCommand>),
    /// Check whether anything is wrong with deskgrid on this machine, and say what to do about it
    #[command(after_help = "\
Examples:
  deskgrid doctor
  deskgrid --dir /var/lib/deskgrid doctor --config /etc/deskgrid/worker.toml
Looks at what the state directory holds: a worker, a user, a master. Exit code 0: nothing is wrong; 1: something is.")]
    Doctor(Deferred<serve::DoctorArgs>),
    /// Print the completion script for a shell
    #[command(after_help = "\
Examples:
  source <(deskgrid completions bash)      # in ~/.bashrc
  deskgrid completions fish > ~/.config/fish/completions/deskgrid.fish")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The verbs of `deskgrid policy`.
#[cfg(feature = "whole")]
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// List every policy, with its source
    #[command(after_help = "Example:\n  deskgrid policy list")]
    List,
    /// Show what a policy does at each stage
    #[command(after_help = "Example:\n  deskgrid policy show PRI-CR")]
    Show {
        /// The policy's name
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[cfg(feature = "whole")]
    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Returns each command below this one, with its whole name.
    #[cfg(feature = "whole")]
    fn all_below(command: &clap::Command, name: &str) -> Vec<(String, clap::Command)> {
        let name = format!("{name} {}", command.get_name());
        let below = command.get_subcommands();
        let below = below.flat_map(|sub| all_below(sub, &name));
        std::iter::once((name.clone(), command.clone()))
            .chain(below)
            .collect()
    }

    #[cfg(feature = "whole")]
    #[test]
    fn the_help_of_each_command_has_examples_and_whole_sentences() {
        let mut cli = Cli::command();
        cli.build();
        for (name, command) in all_below(&cli, "") {
            let visible = !command.is_hide_set() && !name.contains(" help");
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let examples = ["Example:", "Examples:", "Start here:"];
            assert!(
                !visible || examples.iter().any(|word| help.contains(word)),
                "{name} has no example"
            );

            // clap wraps each line by itself: a line that ends in mid-sentence stays short.
            let lines: Vec<&str> = help.lines().collect();
            for pair in lines.windows(2) {
                let prose = pair
                    .iter()
                    .all(|line| !line.is_empty() && !line.starts_with(' '));
                let ends = pair[0].ends_with(['.', ':', ';', '?', ')']);
                assert!(!prose || ends, "{name} breaks in mid-sentence: {}", pair[0]);
            }

            // Examples are pasted as they stand: a shell skips only what is behind a `#`.
            for line in lines.iter().filter(|line| line.contains("deskgrid ")) {
                let (_, behind) = line.trim_start().split_once("  ").unwrap_or_default();
                let behind = behind.trim_start();
                let skipped = behind.is_empty() || behind.starts_with("# ");
                assert!(skipped, "{name} has words behind an example: {line}");
            }
        }
    }

    #[test]
    fn the_worker_only_program_takes_the_workers_command_lines_alone() {
        WorkerCli::command().debug_assert();
        for start in [
            "deskgrid worker start --master grid",
            "deskgrid-worker start --master grid",
        ] {
            assert!(
                WorkerCli::try_parse_from(start.split(' ')).is_ok(),
                "{start}"
            );
        }
        assert!(WorkerCli::try_parse_from(["deskgrid", "submit", "--", "true"]).is_err());
    }

    #[cfg(feature = "whole")]
    #[test]
    fn every_command_has_an_example_and_every_flag_a_meaning() {
        fn visit(command: &clap::Command, path: &str) {
            let path = format!("{path} {}", command.get_name());
            assert!(command.get_about().is_some(), "{path} has no description");

            let help = command
                .get_after_help()
                .map(ToString::to_string)
                .unwrap_or_default();
            // Those of `help` have none of their own.
            let helps = path.contains(" help ");
            assert!(
                helps || command.has_subcommands() || help.contains("deskgrid "),
                "{path} has no example"
            );
            for arg in command.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{path}: {} has no help",
                    arg.get_id()
                );
            }

            command.get_subcommands().for_each(|sub| visit(sub, &path));
        }

        visit(&whole_command(), "");
    }
}
