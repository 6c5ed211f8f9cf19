//! The dashboard as people use it: a real grid, and a real browser that looks at it. Where there is
//! no Chromium, or its driver was not fetched (`./test` does both), this says so and looks at
//! nothing.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tests::{Gateway, Grid, Http, Started};

/// A grid with a browser's way in.
struct Scene {
    grid: Grid,
    gateway: Gateway,
    chromium: PathBuf,
}

/// Returns the grid of one PC and what a browser needs; `None`, with a word, where there is none.
fn scene(pcs: &[&str]) -> Option<Scene> {
    let chromium = find("chromium").or_else(|| find("google-chrome"));
    let driver = browser_dir().join("node_modules/playwright-core").is_dir();
    let (Some(chromium), true, Some(_)) = (chromium, driver, find("node")) else {
        eprintln!("skipped: no chromium, no node, or no driver (npm ci in tests/browser)");
        return None;
    };

    // The usual times: a browser takes more of a small machine than those of other tests allow for.
    let mut grid = Grid::with_master("");
    for pc in pcs {
        // Tasks wait for files of the test.
        grid.worker(pc)
            .slots(2)
            .config("confinement = \"process\"")
            .start();
    }
    let gateway = grid.gateway("admin");
    Some(Scene {
        grid,
        gateway,
        chromium,
    })
}

fn browser_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("browser")
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

impl Scene {
    /// Runs a scenario of `browser.mjs`; `help` does what it asks for, and returns what it says.
    /// Returns the other lines that it printed.
    #[track_caller]
    fn browse(
        &mut self,
        scenario: &str,
        arguments: &[&str],
        mut help: impl FnMut(&mut Grid, &str) -> String,
    ) -> Vec<String> {
        let link = self.gateway.another_link();
        let mut child = Command::new("node")
            .arg(browser_dir().join("browser.mjs"))
            .args([scenario, &link])
            .arg(&self.chromium)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("node runs");

        let mut said = Vec::new();
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        for line in lines.map_while(Result::ok) {
            match line.strip_prefix("ask ") {
                Some(what) => answer(&mut child, &help(&mut self.grid, what)),
                None => said.push(line),
            }
        }

        let ended = child.wait_with_output().expect("it ends");
        let why = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{scenario}: {why}");
        said
    }
}

fn answer(child: &mut Child, words: &str) {
    let to = child.stdin.as_mut().expect("piped");
    writeln!(to, "{words}").expect("it reads");
}

fn nothing(_: &mut Grid, what: &str) -> String {
    panic!("nobody does {what} here")
}

/// Lets the tasks of a job go on that wait for this file.
fn let_go(file: &Path) -> String {
    std::fs::write(file, "").expect("a file");
    "done".to_owned()
}

/// A command that waits for a file, and then goes on with `rest`.
fn behind(gate: &Path, rest: &str) -> String {
    let wait = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.display());
    format!("{wait}; {rest}")
}

#[test]
fn the_page_of_a_job_follows_it_to_its_end_and_shows_why_tasks_failed() {
    let Some(mut scene) = scene(&["pc"]) else {
        return;
    };
    let gate = scene.grid.dir().join("gate");
    let fails = "[ %{TASK_ID} != 7 ] || { echo 'ValueError: beta out of range' >&2; exit 3; }";
    let task = behind(&gate, fails);
    let job = scene
        .grid
        .submit(["--array", "1-8", "--", "sh", "-c", &task]);
    scene.browse("follows", &[&job], |_, _| let_go(&gate));
}

#[test]
fn a_page_says_why_a_job_waits_host_by_host() {
    let hosts = ["pc-1", "pc-2", "pc-3", "pc-4"];
    let Some(mut scene) = scene(&hosts) else {
        return;
    };
    let job = scene.grid.submit(["--needs", "gpu=1", "--", "true"]);
    let words = [&[job.as_str()], &hosts[..]].concat();
    scene.browse("why", &words, nothing);
}

#[test]
fn output_grows_on_the_page_of_a_task_and_acts_on_nothing() {
    let Some(mut scene) = scene(&["pc"]) else {
        return;
    };
    let gate = scene.grid.dir().join("gate");
    let hostile = r"printf 'first <script>window.acted = 1</script> \033[2J \342\200\256\n'";
    let task = format!("{hostile}; {}", behind(&gate, "echo second"));
    let job = scene.grid.submit(["--", "sh", "-c", &task]);
    scene.browse("output", &[&job], |_, _| let_go(&gate));
}

#[test]
fn a_job_is_cancelled_with_the_keyboard_alone_after_a_question() {
    let Some(mut scene) = scene(&["pc"]) else {
        return;
    };
    let job = scene.grid.submit(["--", "sleep", &super::long_sleep()]);
    scene.grid.until("it runs", &["job", "info", &job], |info| {
        (info["state"] == "running").then_some(())
    });
    scene.browse("cancels", &[&job], |grid, _| {
        let info = grid.json(["job", "info", &job]);
        info["state"].as_str().expect("a state").to_owned()
    });
}

#[test]
fn pages_say_that_the_master_is_away_and_go_on_once_it_is_back() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    scene.browse("returns", &[], |grid, what| {
        match what {
            "kill" => grid.kill_master(),
            _ => grid.start_master(),
        }
        "done".to_owned()
    });
}

#[test]
fn every_page_is_accessible_and_fits_and_reads_without_script() {
    let Some(mut scene) = scene(&["pc"]) else {
        return;
    };
    let fails = "echo out; [ %{TASK_ID} != 2 ]";
    let label = ["--label", "sweep7", "--array", "1-4"];
    let ended = scene
        .grid
        .submit([&label[..], &["--", "sh", "-c", fails]].concat());
    scene
        .grid
        .deskgrid(["job", "wait", &ended, "--timeout", "60s"])
        .expect_code(3);
    let runs = scene.grid.submit([
        "--estimate",
        "1h",
        "--deadline",
        "9h",
        "--",
        "sleep",
        &super::long_sleep(),
    ]);
    scene.grid.submit(["--needs", "gpu=1", "--", "true"]);
    scene
        .grid
        .until("one runs", &["job", "info", &runs], |info| {
            (info["state"] == "running").then_some(())
        });

    let of = |job: &str, rest: &str| format!("/jobs/{job}{rest}");
    let pages = [
        "/".to_owned(),
        "/jobs".to_owned(),
        "/jobs?state=open&label=none".to_owned(),
        of(&ended, ""),
        of(&ended, "/tasks/2"),
        of(&ended, "/forget"),
        of(&runs, ""),
        of(&runs, "/tasks/1"),
        of(&runs, "/why"),
        "/hosts".to_owned(),
        "/hosts/pc".to_owned(),
        "/calendar".to_owned(),
        "/trust".to_owned(),
        "/submit".to_owned(),
        "/admin".to_owned(),
    ];
    let pages: Vec<&str> = pages.iter().map(String::as_str).collect();
    scene.browse("pages", &pages, nothing);
}

#[test]
fn a_form_says_what_would_come_of_a_job_before_it_submits_it() {
    let Some(mut scene) = scene(&["pc"]) else {
        return;
    };
    // A promise needs a host of known speed.
    scene
        .grid
        .until("the host is ready", &["host", "info", "pc"], |host| {
            (host["state"] == "ready").then_some(())
        });
    scene.browse("submits", &[], nothing);
}

#[test]
fn an_admin_makes_a_token_on_a_page_and_it_lets_a_pc_in() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    let said = scene.browse("admits", &[], nothing);
    let token = said[0].strip_prefix("token ").expect("a token").to_owned();
    let listen = scene.grid.listen().to_owned();
    let start = [
        "worker",
        "start",
        "--dedicated",
        "--slots",
        "1",
        "--name",
        "new",
    ];
    let way = ["--master", &listen, "--join", &token];
    let _worker: Started = scene.grid.background_as("new", [&start[..], &way].concat());
    scene.grid.until("the PC joins", &["host", "list"], |list| {
        (list["hosts"].as_array()?.len() == 1).then_some(())
    });
}

#[test]
fn a_token_lets_a_browser_in_at_the_master_and_a_revoked_one_does_not() {
    let grid = Grid::start();
    let visitor = Http::tcp(grid.http()).with("Accept", "text/html");
    let led = visitor.get("/").expect(303);
    assert_eq!(led.headers["location"], "/in");
    let page = visitor.get("/in").expect(200);
    assert!(page.text().contains("Access token"), "{}", page.text());

    let token = grid.bearer("user", "client");
    let page = Http::tcp(grid.http())
        .with("Sec-Fetch-Site", "same-origin")
        .with("Content-Type", "application/x-www-form-urlencoded");
    let give = |token: &str| page.send("POST", "/in", Some(format!("token={token}").as_bytes()));
    give("made-up").expect(401);
    give("a%0d%0ab").expect(401);
    give(&grid.token("client")).expect(401);

    let answer = give(&token).expect(303);
    let cookie = answer.headers["set-cookie"].clone();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    let browser = Http::tcp(grid.http()).with("Cookie", &pair);
    let now = browser.get("/").expect(200);
    assert!(now.text().contains("No PC has joined"), "{}", now.text());
    browser.get("/admin").expect(403);
    // The cookie of a page of another site changes nothing.
    browser
        .send("POST", "/jobs/1/cancel", Some(b""))
        .expect(403);

    let tokens = grid.as_user("admin", ["--output", "json", "token", "list"]);
    let tokens = tokens.expect_code(0).json();
    let last = tokens["tokens"].as_array().expect("a list");
    let number = last.iter().find(|made| made["speaks_for"] == "user");
    let number = number.unwrap_or_else(|| panic!("{tokens}"))["id"].to_string();
    grid.as_user("admin", ["token", "revoke", &number])
        .expect_code(0);
    browser.with("Accept", "text/html").get("/").expect(303);
}
