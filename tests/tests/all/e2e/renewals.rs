//! Certificates of users that hold for less time than their commands last. The master runs in this process: a configuration
//! file names no life below ten minutes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::settings::ConfigDuration;
use link::{Identity, Validity, renewal};
use master::{Config, MasterError};
use tests::{Grid, Started, eventually};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The life of a certificate. A third of it is the time that a renewal may take.
const LIFE: Duration = Duration::from_secs(36);
/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(180);

/// A master in this process: what stops it once it is dropped, and its end.
type RunningMaster = (oneshot::Sender<()>, JoinHandle<Result<(), MasterError>>);

/// A grid whose certificates are short-lived.
struct ShortLived {
    grid: Grid,
    runtime: Runtime,
    master: Option<RunningMaster>,
}

impl ShortLived {
    /// The grid, with `user` logged in.
    fn start() -> Self {
        let mut short = Self {
            grid: Grid::prepared(""),
            runtime: Runtime::new().expect("a runtime"),
            master: None,
        };
        short.start_master();
        short.grid.login("user");
        short
    }

    /// Starts the master (again) and waits until it answers.
    fn start_master(&mut self) {
        let config = Config {
            listen: self.grid.listen().parse().expect("an address"),
            http: None,
            certificate_life: ConfigDuration(LIFE),
            ..Config::default()
        };
        let dir = self.grid.state("admin");
        let (stop, stopped) = oneshot::channel::<()>();
        let running = self
            .runtime
            .spawn(async move { master::run(dir, config, async { drop(stopped.await) }).await });
        self.master = Some((stop, running));

        let wait = ["master", "wait", "--timeout", "30s"];
        self.grid.admin(wait).expect_code(0);
    }

    /// Stops the master, and waits until it is gone.
    fn stop_master(&mut self) {
        let (stop, running) = self.master.take().expect("a running master");
        drop(stop);
        let ended = self.runtime.block_on(running).expect("it does not panic");
        ended.expect("it ends in order");
    }

    /// The validity of the certificate of `who`.
    fn validity(&self, who: &str) -> Validity {
        let known = Identity::load(&self.grid.state(who).join("client")).expect("an identity");
        Validity::of(&known.certificate).expect("a certificate")
    }

    /// Starts `deskgrid events` as the user; what it prints comes to the returned file.
    fn follow(&self) -> (Started, PathBuf) {
        let log = self.grid.file("followed", "");
        let mut command = self.grid.command("user");
        command.args(["events", "--after", "0"]);
        (Started::server(&mut command, &log), log)
    }

    /// Submits a job as the user, and waits until that stands in `log`.
    fn is_told_of_a_job(&self, log: &Path) {
        let said = self
            .grid
            .deskgrid(["--output", "quiet", "submit", "--", "true"]);
        let words = format!("job {} submitted", said.expect_code(0).stdout.trim());
        eventually("the job is told of", PATIENCE, || {
            let told = std::fs::read_to_string(log).ok()?;
            told.contains(&words).then_some(())
        });
    }
}

impl Drop for ShortLived {
    fn drop(&mut self) {
        if let Some((stop, running)) = self.master.take() {
            drop(stop);
            let _ = self.runtime.block_on(running);
        }
    }
}

#[test]
fn commands_that_outlast_a_certificate_renew_it_and_go_on() {
    let short = ShortLived::start();
    let began = ["admin", "user"].map(|who| (who, short.validity(who)));
    let gateway = short.grid.gateway("admin");
    let (mut follows, log) = short.follow();

    for (who, first) in began {
        eventually("another certificate outlasts the first", PATIENCE, || {
            let is_over = renewal::now_s() > first.until_s;
            (is_over && short.validity(who).from_s > first.from_s).then_some(())
        });
    }

    gateway.programs().get("/api/v1/jobs").expect(200);
    short.is_told_of_a_job(&log);
    assert_eq!(follows.ended(), None);
}

#[test]
fn a_follower_comes_back_though_its_certificate_expired_while_the_master_was_away() {
    let mut short = ShortLived::start();
    let (mut follows, log) = short.follow();
    short.is_told_of_a_job(&log);
    short.stop_master();

    let last = short.validity("user").until_s;
    eventually("the certificate expires", PATIENCE, || {
        (renewal::now_s() > last).then_some(())
    });
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(!said.contains("could not be renewed"), "{said}");
    short.start_master();

    // Nobody but the follower acts as the user meanwhile.
    eventually("the certificate is renewed", PATIENCE, || {
        (short.validity("user").until_s > last).then_some(())
    });
    short.is_told_of_a_job(&log);
    assert_eq!(follows.ended(), None);
}
