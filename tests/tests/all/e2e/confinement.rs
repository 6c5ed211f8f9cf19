//! Levels of confinement from end to end: what a job asks for, who gets it, and what is said where
//! nobody does.

use tests::Grid;

#[test]
fn a_job_goes_only_to_hosts_that_offer_its_level_and_explain_names_the_others() {
    let mut grid = Grid::start();
    grid.worker("plain")
        .config("confinement = \"process\"\nnetwork = \"never\"")
        .start();

    let plain = grid.json(["host", "info", "plain"]);
    assert_eq!(
        (&plain["confinement"], &plain["network"]),
        (&"process".into(), &false.into())
    );

    // No worker of this test has an account for tasks.
    grid.submit(["--confinement", "account", "--", "true"]);
    let waits = |job: &serde_json::Value| (job["tasks"]["waiting"] == 1).then_some(());
    grid.until("it waits", &["job", "info", "last"], waits);

    let explained = grid.deskgrid(["job", "explain", "last"]).expect_code(0);
    assert!(
        explained.stdout.contains("the job needs `account`"),
        "{}",
        explained.stdout
    );
    grid.submit(["--network", "--", "true"]);

    let explained = grid.deskgrid(["job", "explain", "last"]).expect_code(0);
    assert!(
        explained.stdout.contains("no task the network"),
        "{}",
        explained.stdout
    );
    grid.worker("open").start();
    grid.wait("last");
    assert_eq!(grid.attempts("2.1")[0]["host"], "open");
    assert_eq!(grid.job("1")["tasks"]["waiting"], 1);
}

#[test]
fn a_worker_that_lacks_a_demanded_ability_refuses_to_start() {
    let grid = Grid::start();
    let file = grid.file("strict.toml", "confinement = \"account\"");
    let file = file.to_str().expect("UTF-8");
    let token = grid.token("worker");
    let words = [
        "worker",
        "start",
        "--slots",
        "1",
        "--master",
        grid.listen(),
        "--join",
        &token,
        "--config",
        file,
    ];
    let said = grid.as_user("strict", words).stderr;
    assert!(
        said.contains("confinement = \"account\"") && said.contains("no account for tasks"),
        "{said}"
    );
}
