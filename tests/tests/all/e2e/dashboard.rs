//! The dashboard as people use it: a real grid, and a real browser that looks at it ([`browser`]).

use std::path::{Path, PathBuf};

use tests::{Gateway, Grid, Http, Started};

use super::browser;

/// A grid with a browser's way in.
struct Scene {
    grid: Grid,
    gateway: Gateway,
    chromium: PathBuf,
}

/// Returns the grid of these PCs and what a browser needs; `None` where there is none.
fn scene(pcs: &[&str]) -> Option<Scene> {
    let chromium = browser::chromium()?;

    // The usual times: a browser takes more of a small machine than those of other tests allow for.
    let mut grid = Grid::with_master("");
    for pc in pcs {
        // Tasks wait for files of the test.
        grid.worker(pc).slots(2).unconfined().start();
    }
    let gateway = grid.gateway("admin");
    Some(Scene {
        grid,
        gateway,
        chromium,
    })
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
        let grid = &mut self.grid;
        browser::browse(&self.chromium, &link, scenario, arguments, |what| {
            help(grid, what)
        })
    }
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
fn output_is_followed_from_the_start_of_a_task_to_its_end_though_the_page_changes_and_a_stream_breaks()
 {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    let gates = ["second", "third"].map(|gate| scene.grid.dir().join(gate));
    let third = behind(&gates[1], "echo third");
    let task = format!(
        "echo first; {}",
        behind(&gates[0], &format!("echo second; {third}"))
    );
    let job = scene.grid.submit(["--", "sh", "-c", &task]);
    scene.browse("followsOutput", &[&job], |grid, what| match what {
        "start" => {
            grid.worker("pc").unconfined().start();
            "done".to_owned()
        }
        "second" => let_go(&gates[0]),
        _ => let_go(&gates[1]),
    });
}

#[test]
fn a_page_is_renewed_after_somebody_was_in_a_field_and_says_that_it_is_gone() {
    let Some(mut scene) = scene(&["pc"]) else {
        return;
    };
    let job = scene.grid.submit(["--", "true"]);
    scene.grid.json(["job", "wait", &job]);
    scene.browse("types", &[&job], |grid, what| match what {
        "submit" => grid.submit(["--needs", "gpu=1", "--name", "waits-for-ever", "--", "true"]),
        _ => grid.json(["job", "forget", &job]).to_string(),
    });
}

fn submit_named(grid: &Grid, name: &str) -> String {
    grid.submit(["--name", name, "--", "true"])
}

#[test]
fn a_list_that_changes_leaves_focus_and_selection_where_they_are() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    let job = submit_named(&scene.grid, "stays-here");
    scene.browse("keeps", &[&job], |grid, what| match what {
        "submit" => submit_named(grid, "comes-later"),
        job => {
            grid.deskgrid(["job", "cancel", job]).expect_code(0);
            "done".to_owned()
        }
    });
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
        let info = grid.job(&job);
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
        "/admin/token".to_owned(),
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
fn a_token_is_revoked_after_a_question() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    let make = ["token", "create", "--role", "client", "--name", "lab-4"];
    scene.grid.admin(make).expect_code(0);
    scene.browse("revokes", &["lab-4"], |grid, _| {
        let list = ["--output", "json", "token", "list"];
        let listed = grid.admin(list).expect_code(0).json();
        let all = listed["tokens"].as_array().expect("a list").iter();
        let ours: Vec<_> = all.filter(|token| token["name"] == "lab-4").collect();
        ours[0]["revoked"].to_string()
    });
}

#[test]
fn a_refusal_is_shown_until_somebody_goes_on() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    let job = scene.grid.submit(["--", "true"]);
    scene.browse("refuses", &[&job], nothing);
}

#[test]
fn a_link_of_another_site_leads_to_what_it_names_also_for_who_gets_in_later() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    let job = scene.grid.submit(["--", "true"]);
    let second = scene.gateway.another_link();
    scene.browse("linked", &[&job, &second], nothing);
}

#[test]
fn a_way_in_says_that_nothing_answers() {
    let Some(mut scene) = scene(&[]) else {
        return;
    };
    scene.browse("knocks", &[], nothing);
}

#[test]
fn a_token_lets_a_browser_in_at_the_master_and_a_revoked_one_does_not() {
    let grid = Grid::start();
    let visitor = Http::tcp(grid.http()).with("Accept", "text/html");
    let led = visitor.get("/").expect(303);
    assert_eq!(led.headers["location"], "/in?to=/");
    let led = visitor.get("/jobs?state=open").expect(303);
    let way_in = led.headers["location"].clone();
    let page = visitor.get(&way_in).expect(200);
    assert!(page.text().contains("Access token"), "{}", page.text());

    let token = grid.bearer("user", "client");
    let page = Http::tcp(grid.http())
        .with("Sec-Fetch-Site", "same-origin")
        .with("Content-Type", "application/x-www-form-urlencoded");
    let give_at = |place: &str, token: &str| {
        let form = format!("token={token}");
        page.send("POST", place, Some(form.as_bytes()))
    };
    let give = |token: &str| give_at(&way_in, token);
    give("made-up").expect(401);
    give("a%0d%0ab").expect(401);
    give(&grid.token("client")).expect(401);

    let answer = give(&token).expect(303);
    assert_eq!(answer.headers["location"], "/jobs?state=open");
    let elsewhere = give_at("/in?to=//evil.example/", &token).expect(303);
    assert_eq!(elsewhere.headers["location"], "/");
    let cookie = answer.headers["set-cookie"].clone();
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    let pair = cookie.split(';').next().expect("a pair").to_owned();
    let browser = Http::tcp(grid.http()).with("Cookie", &pair);
    let now = browser.get("/").expect(200);
    assert!(now.text().contains("No PC has joined"), "{}", now.text());
    browser.get("/admin").expect(403);
    browser.get("/admin/token").expect(403);
    // The cookie of a page of another site changes nothing.
    browser
        .send("POST", "/jobs/1/cancel", Some(b""))
        .expect(403);

    let tokens = grid.admin(["--output", "json", "token", "list"]);
    let tokens = tokens.expect_code(0).json();
    let last = tokens["tokens"].as_array().expect("a list");
    let number = last.iter().find(|made| made["speaks_for"] == "user");
    let number = number.unwrap_or_else(|| panic!("{tokens}"))["id"].to_string();
    grid.admin(["token", "revoke", &number]).expect_code(0);
    browser.with("Accept", "text/html").get("/").expect(303);
}

/// The size of the pictures of the documentation.
const PICTURE: (u32, u32) = (1120, 700);

#[test]
fn the_pictures_of_the_documentation_show_a_grid_at_work() {
    let hosts = ["desk-1", "desk-2", "desk-3", "desk-4", "desk-5"];
    let Some(mut scene) = scene(&hosts) else {
        return;
    };
    let grid = &mut scene.grid;
    grid.as_user("desk-5", ["worker", "pause", "--for", "1h"])
        .expect_code(0);
    let quick = [
        "--name",
        "calibrate",
        "--array",
        "1-12",
        "--wait",
        "--",
        "sleep",
        "0.3",
    ];
    grid.submit(quick);
    let odd = "case %{TASK_ID} in 4|9|11) echo \"no such photo: $((%{TASK_ID} * 7)).jpg\" >&2; exit 3;; esac; sleep 0.2";
    let odd = grid.submit([
        "--name",
        "thumbnails",
        "--array",
        "1-24",
        "--",
        "sh",
        "-c",
        odd,
    ]);
    grid.deskgrid(["job", "wait", &odd]).expect_code(3);
    let sweep = [
        "--name",
        "sweep-beta",
        "--label",
        "sweep7",
        "--array",
        "1-160",
        "--",
        "sleep",
        "1",
    ];
    let sweep = grid.submit(sweep);
    grid.submit([
        "--name",
        "nightly-fit",
        "--array",
        "1-40",
        "--priority",
        "-1",
        "--",
        "sleep",
        "2",
    ]);
    grid.until("a part is done", &["job", "info", &sweep], |job| {
        (job["tasks"]["finished"].as_u64()? >= 24 && !job["predicted_low"].is_null()).then_some(())
    });

    let taken = tempfile::tempdir().expect("a directory");
    let dir = taken.path().to_str().expect("UTF-8").to_owned();
    let pages = [
        "now=/".to_owned(),
        format!("job=/jobs/{sweep}"),
        format!("failures=/jobs/{odd}"),
        "calendar=/calendar".to_owned(),
    ];
    let words: Vec<&str> = std::iter::once(dir.as_str())
        .chain(pages.iter().map(String::as_str))
        .collect();
    scene.browse("pictures", &words, nothing);

    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    for page in &pages {
        let (name, _) = page.split_once('=').expect("a name");
        let file = format!("{name}.png");
        let bytes = std::fs::read(taken.path().join(&file)).expect("a picture");
        let number = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        assert_eq!((number(16), number(20)), PICTURE, "{name}");
        assert!(bytes.len() > 20_000, "{name} shows next to nothing");
        if std::env::var_os("DESKGRID_BLESS").is_some() {
            std::fs::write(kept.join(&file), bytes).expect("a picture is kept");
        }
        assert!(
            kept.join(&file).is_file(),
            "docs/pictures has no {file}: DESKGRID_BLESS=1 takes it"
        );
    }
}

#[test]
fn the_page_of_a_task_stays_small_whatever_it_wrote() {
    let grid = Grid::with_worker();
    let script = "head -c 65536 /dev/zero | tr '\\0' '<' | tee /dev/stderr";
    let job = grid.submit(["--wait", "--", "sh", "-c", script]);
    let bearer = grid.bearer("user", "client");
    let http = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {bearer}"));

    let page = http.get(&format!("/jobs/{job}/tasks/1")).expect(200);
    assert!(page.body.len() <= 120 * 1024, "{} bytes", page.body.len());
    assert!(page.text().contains("its end"), "says that it is a part");
    assert!(page.text().contains("&lt;&lt;&lt;"));
}

#[test]
fn cancelled_tasks_are_tried_again_from_the_page_of_their_job() {
    let mut grid = Grid::start();
    let job = grid.submit(["--array", "1-3", "--", "true"]);
    grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    let bearer = grid.bearer("user", "client");
    let http = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {bearer}"));
    let page = http.get(&format!("/jobs/{job}")).expect(200);
    assert!(page.text().contains("Try cancelled tasks again"));

    http.send("POST", &format!("/jobs/{job}/again"), Some(b""))
        .expect(303);
    grid.worker("h1").start();
    let done = |j: &serde_json::Value| (j["tasks"]["finished"] == 3).then_some(());
    grid.until("all are finished", &["job", "info", &job], done);
}

#[test]
fn a_look_after_a_page_was_opened_shows_nothing_older() {
    let grid = Grid::start();
    let job = grid.submit(["--", "true"]);
    let bearer = grid.bearer("user", "client");
    let http = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {bearer}"));
    let path = format!("/jobs/{job}");
    let looks = http.clone().with("If-None-Match", "\"an older page\"");
    let before = looks.get(&path).expect(200);
    assert!(!before.text().contains("% cancelled"));

    grid.deskgrid(["job", "cancel", &job]).expect_code(0);
    let opened = http.get(&path).expect(200);
    assert!(opened.text().contains("% cancelled"));
    let seen = looks.get(&path).expect(200);
    assert!(seen.text().contains("% cancelled"), "{}", seen.text());
}
