//! README.md, followed word by word: its blocks are run in their order, each on the machine that
//! its step names, with nothing of deskgrid set but a home directory.
//!
//! `REPLACED` has all that is changed in a block before it runs, `NOT_RUN` the blocks that are not
//! run. A block that is neither run nor listed fails the test.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use common::settings::ConfigDuration;
use tempfile::TempDir;
use tests::{Output, Started, eventually, free_addresses, program};

const README: &str = include_str!("../../../../README.md");

/// The longest time that a server may take until it is there, or has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// The replacements for words of the blocks, in this order. `LISTEN` and `HTTP` are addresses on
/// loopback that are free.
const REPLACED: [(&str, &str); 6] = [
    // It has been built: the program under test is the first `deskgrid` in PATH.
    ("cargo build --release && ", ""),
    ("target/release/deskgrid", "deskgrid"),
    // A debug build computes the whole picture in more than a minute.
    (
        "deskgrid demo",
        "deskgrid demo --width-px 192 --height-px 120",
    ),
    // All machines are this one, where other tests and grids run as well.
    ("0.0.0.0:7411", "LISTEN"),
    ("MASTER:7411", "LISTEN"),
    ("master start", "master start --http HTTP"),
];

/// The blocks that are not run, whole, each with the reason.
const NOT_RUN: [(&str, &str); 2] = [
    (
        "   users                        master                            office PCs
  deskgrid submit  ──QUIC──▶  queue, scheduler,  ◀──QUIC──  worker: watches for the owner,
  deskgrid job …              store, predictions             confines, runs and freezes tasks
",
        "a picture",
    ),
    ("./test\n", "it runs all tests, and so this one"),
];

/// The blocks of a document that are still to come.
struct Guide {
    blocks: VecDeque<(usize, String)>,
}

impl Guide {
    /// Reads the blocks of a document, with the numbers of their first lines.
    fn of(document: &str) -> Self {
        let mut blocks = VecDeque::new();
        let mut open: Option<(usize, String)> = None;
        for (number, line) in (1..).zip(document.lines()) {
            if line.trim_start().starts_with("```") {
                match open.take() {
                    Some(block) => blocks.push_back(block),
                    None => open = Some((number + 1, String::new())),
                }
            } else if let Some((_, text)) = &mut open {
                text.push_str(line);
                text.push('\n');
            }
        }

        assert!(open.is_none(), "a block is not closed");
        Self { blocks }
    }

    /// Passes over blocks that are not run, and returns the next one.
    fn peek(&mut self) -> Option<&(usize, String)> {
        let listed = |text: &str| NOT_RUN.iter().any(|(block, _)| *block == text);
        while self.blocks.front().is_some_and(|(_, text)| listed(text)) {
            self.blocks.pop_front();
        }
        self.blocks.front()
    }

    /// Takes the next block, which has to begin with these words.
    ///
    /// # Panics
    /// If it does not: then the next block is one that is neither run nor listed.
    #[track_caller]
    fn take(&mut self, opening: &str) -> String {
        let found = self.peek();
        assert!(
            found.is_some_and(|(_, text)| text.starts_with(opening)),
            "README.md should go on with `{opening}`; a new block is to be run or listed here: {found:?}"
        );
        self.blocks.pop_front().expect("there is one").1
    }
}

/// A person's machine, as far as a test needs it: a home directory, and the grid's addresses.
struct Machine {
    home: PathBuf,
    listen: String,
    http: String,
}

impl Machine {
    /// Returns the keys of somebody who copies a block.
    fn typed(&self, block: &str) -> String {
        let words = REPLACED
            .iter()
            .fold(block.to_owned(), |text, (from, to)| text.replace(from, to));
        words
            .replace("LISTEN", &self.listen)
            .replace("HTTP", &self.http)
    }

    /// A command at this machine with nothing in its environment but what everybody has.
    fn command(&self, name: &str) -> Command {
        let ours = program("deskgrid");
        let usual = std::env::var("PATH").expect("a PATH");
        let path = format!("{}:{usual}", ours.parent().expect("a directory").display());

        let mut command = Command::new(name);
        command
            .current_dir(&self.home)
            .env_clear()
            .envs([("PATH", path.as_str()), ("SHELL", "/bin/sh")])
            .envs([("TERM", "dumb"), ("USER", "ann")])
            .env("HOME", &self.home);
        command
    }

    /// Runs a block to its end; the first command that fails ends it.
    fn run(&self, block: &str) -> Output {
        let mut shell = self.command("sh");
        Started::new(shell.args(["-e", "-c", &self.typed(block)])).finish()
    }

    /// Runs a block at a terminal, where somebody may type.
    fn at_terminal(&self, block: &str) -> Terminal {
        let screen = self.home.join(format!("{}.screen", rand::random::<u32>()));
        let mut script = self.command("script");
        script.args(["--quiet", "--return", "--flush", "--command"]);
        script.arg(self.typed(block)).arg("/dev/null");

        let session = Started::server(&mut script, &screen);
        Terminal { session, screen }
    }
}

/// A terminal in which something runs. Whatever runs there is hung up with it.
struct Terminal {
    session: Started,
    screen: PathBuf,
}

impl Terminal {
    /// All that was shown so far.
    fn shown(&self) -> String {
        fs::read_to_string(&self.screen).unwrap_or_default()
    }

    /// Answers a question once it is asked.
    #[track_caller]
    fn answer(&mut self, question: &str, line: &str) {
        eventually(question, PATIENCE, || {
            self.shown().contains(question).then_some(())
        });
        self.session.write(&format!("{line}\n"));
    }

    /// Waits until what runs here has ended with one of these exit codes, and returns what it has
    /// shown.
    #[track_caller]
    fn end(mut self, well: &[i32]) -> String {
        let code = eventually("the end at a terminal", PATIENCE, || self.session.ended());
        assert!(well.contains(&code), "{code}: {}", self.shown());
        self.shown()
    }

    /// Ctrl-C, which has to end it in order. A shell that hears of it says 130 whatever its command
    /// says.
    #[track_caller]
    fn interrupt(mut self) -> String {
        self.session.write("\u{3}");
        self.end(&[0, 130])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- a terminal:\n{}", self.shown());
        }
    }
}

/// The tokens that a text shows, each once, in their order.
fn tokens(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = text
        .split_whitespace()
        .filter(|word| word.starts_with("dg1."))
        .collect();
    all.dedup();
    all
}

/// The names of what is in a directory, sorted.
fn names(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> = fs::read_dir(dir)
        .expect("is there")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    all.sort();
    all
}

/// Whether there is no way to type at a terminal here; says so.
fn no_terminal() -> bool {
    let none = Command::new("script").arg("--version").output().is_err();
    if none {
        println!("SKIPPED: there is no `script` to type at a terminal (Debian: bsdutils)");
    }
    none
}

/// The machines of the quick start, which may be one and the same.
struct Machines {
    /// Where all of them lie.
    dir: TempDir,
    /// The one that keeps the jobs.
    keeper: Machine,
    /// The one that works.
    pc: Machine,
    /// The user's.
    user: Machine,
}

impl Machines {
    /// Machines of these names.
    fn new([keeper, pc, user]: [&str; 3]) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("deskgrid-test-")
            .tempdir()
            .expect("a temporary directory");
        let (listen, http) = free_addresses();
        let [keeper, pc, user] = [keeper, pc, user].map(|name| {
            let home = dir.path().join(name);
            fs::create_dir_all(&home).expect("a directory can be made");
            let (listen, http) = (listen.clone(), http.clone());
            Machine { home, listen, http }
        });

        Self {
            dir,
            keeper,
            pc,
            user,
        }
    }

    /// Follows the quick start from its first step to its end, which is the document's last block.
    /// Where the user's machine has an identity, `login` asks for no token.
    fn follow(&self, guide: &mut Guide) {
        let master = self
            .keeper
            .at_terminal(&guide.take("deskgrid master start"));
        self.keeper
            .run("deskgrid master wait --timeout 60s")
            .expect_code(0);

        let made = guide.take("deskgrid token create --role worker");
        let made = self.keeper.run(&made).expect_code(0);
        let [for_pcs, for_user] = tokens(&made.stdout)[..] else {
            panic!("two tokens: {made:?}");
        };

        let worker = self.work(guide, for_pcs);
        let mut login = self.user.at_terminal(&guide.take("deskgrid login"));
        let name = if self.user.home == self.keeper.home {
            "you are admin (admin)"
        } else {
            login.answer("join token", for_user);
            "you are ann (client)"
        };
        let told = login.end(&[0]);
        assert!(told.contains(name), "{told}");

        self.submit_and_fetch(guide);
        self.user
            .run(&guide.take("deskgrid job list"))
            .expect_code(0);

        assert_eq!(guide.peek(), None, "a block that is neither run nor listed");
        worker.interrupt();
        master.interrupt();
        super::all_gone(&self.dir.path().to_string_lossy(), Duration::from_secs(30));
    }

    /// Has the PC join: it waits for its owner's absence, and then need not.
    fn work(&self, guide: &mut Guide, token: &str) -> Terminal {
        let start = guide.take("deskgrid worker start --master");
        let mut worker = self.pc.at_terminal(&start);
        worker.answer("join token", token);

        let why = guide.take("deskgrid worker status --why");
        let told = eventually("the worker is there", PATIENCE, || {
            let status = self.pc.run(&why);
            (status.code == 0).then_some(status.stdout)
        });
        let waits = told.contains("suspended") && told.contains("\nwhy ");
        assert!(waits, "it does not compute yet, and says why: {told}");

        let said = worker.interrupt();
        assert!(said.contains("the worker has left"), "{said}");
        self.pc
            .at_terminal(&guide.take("deskgrid worker start --dedicated"))
    }

    /// Computes something of each photo and fetches the results.
    fn submit_and_fetch(&self, guide: &mut Guide) {
        let home = &self.user.home;
        let photos = home.join("photos");
        fs::create_dir(&photos).expect("a directory can be made");
        for (name, text) in [("a.jpg", "first"), ("b c.jpg", "second"), ("d.jpg", "")] {
            fs::write(photos.join(name), text).expect("a file can be written");
        }

        for opening in ["find \"$PWD/photos\" -type f", "deskgrid job fetch last"] {
            self.user.run(&guide.take(opening)).expect_code(0);
        }

        let list = fs::read_to_string(home.join("list.txt")).expect("a list");
        for (number, photo) in (1..).zip(list.lines()) {
            let result = fs::read_to_string(home.join(format!("results/{number}/out.txt")));
            let mut sum = self.user.command("sh");
            let sum = Started::new(sum.args(["-c", "sha256sum < \"$1\"", "sh", photo])).finish();
            let sum = sum.expect_code(0).stdout;
            assert_eq!(result.expect("a result for each photo"), sum, "{photo}");
        }
        assert_eq!(names(&home.join("results")), ["1", "2", "3"]);
    }
}

#[test]
fn the_blocks_of_the_readme_work_word_by_word_in_their_order() {
    if no_terminal() {
        return;
    }
    let mut guide = Guide::of(README);

    let alone = Machines::new(["alone"; 3]);
    let demo = guide.take("cargo build --release && target/release/deskgrid demo");
    let told = alone.user.run(&demo).expect_code(0).stdout;
    let tells = told.contains("200") && told.contains("owner came");
    assert!(tells, "{told}");
    assert_eq!(
        names(&alone.user.home),
        ["demo.png"],
        "only the picture is left"
    );

    Machines::new(["keeper", "pc", "user"]).follow(&mut guide);
}

#[test]
fn the_quick_start_of_the_readme_works_on_one_machine_that_plays_all_parts() {
    if no_terminal() {
        return;
    }
    let mut guide = Guide::of(README);
    guide.take("cargo build --release && target/release/deskgrid demo");
    Machines::new(["one"; 3]).follow(&mut guide);
}

#[test]
fn every_block_that_is_listed_as_not_run_stands_in_the_readme() {
    let guide = Guide::of(README);
    for (listed, why) in NOT_RUN {
        assert!(
            guide.blocks.iter().any(|(_, text)| text == listed),
            "not in README.md any more ({why}): {listed}"
        );
    }
    for (from, _) in REPLACED {
        assert!(README.contains(from), "not in README.md any more: {from}");
    }
}

#[test]
#[should_panic(expected = "a new block is to be run or listed here")]
fn a_block_that_is_neither_run_nor_listed_is_found() {
    let mut guide = Guide::of("```sh\n./test\n```\n```sh\nnew\n```\n```sh\nold\n```\n");
    guide.take("old");
}

#[test]
fn the_quick_start_says_the_owners_rules_as_they_are_by_default() {
    let rules = worker::Config::default().owner;
    assert_eq!(
        [rules.first_watch, rules.input.idle],
        [10, 180].map(ConfigDuration::from_secs),
        "seconds after the start, and after the last input"
    );
    assert_eq!(
        (rules.load.busy_above, rules.battery.charge_above),
        (0.5, 1.0)
    );

    let prose = README.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "10 seconds after the worker's start at the earliest",
        "3 minutes after the last input",
        "less than half a processor",
        "not on battery",
    ] {
        assert!(prose.contains(said), "{said}");
    }
}
