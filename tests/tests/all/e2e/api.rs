//! The API over HTTP, at a gateway and at the master: what programs and browsers see, and what
//! those see that must not come in.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use ::api as schema;
use serde_json::{Value, json};
use tests::{Coming, Gateway, Grid, Http, eventually};

/// The master, for a program that speaks for this user.
fn master(grid: &Grid, who: &str, role: &str) -> Http {
    let token = grid.bearer(who, role);
    Http::tcp(grid.http()).with("Authorization", &format!("Bearer {token}"))
}

#[test]
fn the_command_line_and_the_api_say_the_same_byte_for_byte() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let good = grid.submit([
        "--label", "sweep7", "--array", "1-3", "--wait", "--", "true",
    ]);
    let bad = grid.submit(["--", "sh", "-c", "echo broken >&2; exit 4"]);
    grid.deskgrid(["job", "wait", &bad]).expect_code(3);

    let gateway = grid.gateway("user");
    let ways = [gateway.programs(), master(&grid, "user", "client")];
    let pairs = [
        (vec!["job", "info", &good], format!("jobs/{good}")),
        (vec!["job", "info", &bad], format!("jobs/{bad}")),
        (vec!["job", "info", "last"], "jobs/last".to_owned()),
        (
            vec!["job", "explain", &good],
            format!("jobs/{good}/explain"),
        ),
        (
            vec!["job", "predict", &good],
            format!("jobs/{good}/forecast"),
        ),
        (vec!["host", "info", "h1"], "hosts/h1".to_owned()),
        (vec!["host", "explain", "h1"], "hosts/h1/explain".to_owned()),
        (vec!["host", "list"], "hosts".to_owned()),
        (
            vec!["predict", "wait", "--width", "1"],
            "predict/wait?hosts=1".to_owned(),
        ),
        (vec!["task", "list", &good], format!("jobs/{good}/tasks")),
    ];
    for way in &ways {
        for (words, path) in &pairs {
            // A host is heard of between two looks now and then.
            eventually(path, Duration::from_secs(30), || {
                let words = ["--output", "json"].iter().chain(words);
                let said = grid.text(words);
                let served = way.get(&format!("/api/v1/{path}")).expect(200);
                (served.text() == said).then_some(())
            });
        }
        let task = format!("{good}.2");
        let said = grid.deskgrid(["--output", "json", "task", "info", &task]);
        let served = way.get(&format!("/api/v1/jobs/{good}/tasks/2")).expect(200);
        assert_eq!(served.text(), said.expect_code(0).stdout);
        let by_name = way.get(&format!("/api/v1/jobs/{good}/tasks/{task}"));
        assert_eq!(by_name.expect(200).text(), served.text());
        for missing in ["null", "0", "9.1", "-1", "4294967296"] {
            way.get(&format!("/api/v1/jobs/{good}/tasks/{missing}"))
                .expect(404);
            way.get(&format!("/api/v1/jobs/{missing}")).expect(404);
        }
    }
    let failed = ways[0].get(&format!("/api/v1/jobs/{bad}")).json();
    assert_eq!(failed["failures"][0]["stderr"][0], "broken");
}

/// Every verb and path of the document, with values for the parameters in the path.
fn operations() -> Vec<(String, String)> {
    let document = schema::openapi();
    let paths = document["paths"].as_object().expect("paths");
    let mut all = Vec::new();
    for (path, verbs) in paths {
        let path = path
            .replace("{job}", "1")
            .replace("{task}", "1")
            .replace("{token}", "1")
            .replace("{hash}", &"0".repeat(64))
            .replace("{path}", "out.txt")
            .replace("{host}", "h1")
            .replace("{identity}", "user");
        assert!(!path.contains('{'), "{path}: a parameter without a value");
        for verb in verbs.as_object().expect("verbs").keys() {
            all.push((verb.to_ascii_uppercase(), path.clone()));
        }
    }
    all
}

#[test]
fn no_verb_at_any_path_answers_strangers_other_sites_or_other_names() {
    let grid = Grid::start();
    let mut gateway = grid.gateway("user");
    let link = gateway.link();
    let browser = gateway.browser(&link);
    let all = operations();
    assert!(all.len() > 30, "{}", all.len());

    let doors = [
        (Http::tcp(&gateway.address()), browser),
        (Http::tcp(grid.http()), master(&grid, "user", "client")),
    ];
    for (stranger, known) in &doors {
        for (verb, path) in &all {
            let send = |http: &Http| http.send(verb, path, Some(b"{}")).status;
            assert_eq!(send(stranger), 401, "{verb} {path}");
            let rebound = known.clone().with("Host", "evil.example");
            assert_eq!(send(&rebound), 421, "{verb} {path}");
            for (name, value) in [
                ("Origin", "http://evil.example"),
                ("Origin", "null"),
                ("Sec-Fetch-Site", "cross-site"),
                ("Sec-Fetch-Site", "same-site"),
            ] {
                let foreign = known.clone().with(name, value);
                assert_eq!(send(&foreign), 403, "{verb} {path} {name}: {value}");
            }
        }
    }

    // What is refused says what to do, and no answer is ever taken for a page of another site's.
    let refused = doors[0].0.get("/api/v1/jobs").expect(401);
    assert_eq!(refused.headers["content-type"], "application/problem+json");
    assert!(
        refused.json()["try"]
            .as_str()
            .is_some_and(|hint| hint.contains("deskgrid dashboard"))
    );
    for answer in [refused, doors[0].1.get("/api/v1/jobs").expect(200)] {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff");
        assert!(answer.headers["content-security-policy"].contains("frame-ancestors 'none'"));
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
    gateway.kill();
}

#[test]
fn a_ticket_lets_one_browser_in_and_the_socket_is_its_users_alone() {
    let grid = Grid::start();
    let mut gateway = grid.gateway("user");
    let link = gateway.link();
    let browser = gateway.browser(&link);
    assert_eq!(browser.get("/api/v1/whoami").json()["user"], "user");

    let (_, ticket) = link.split_once('#').expect("a ticket");
    let page = Http::tcp(&gateway.address()).with("Sec-Fetch-Site", "same-origin");
    page.send("POST", "/in", Some(ticket.as_bytes()))
        .expect(401);
    page.send("POST", "/in", Some(b"made up")).expect(401);
    let next = gateway.another_link();
    assert_ne!(next, link);
    gateway.browser(&next).get("/api/v1/whoami").expect(200);

    // A cookie alone is sent by whatever page asks: it needs the word of the browser beside it.
    let cookie_only = browser.clone().with("Sec-Fetch-Site", "cross-site");
    cookie_only
        .post("/api/v1/jobs", &json!({"command": ["true"]}))
        .expect(403);
    let mode = std::fs::metadata(gateway.socket())
        .expect("a socket")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let socket = gateway.socket();
    gateway.process().terminate();
    eventually("the socket is removed", Duration::from_secs(30), || {
        (!socket.exists()).then_some(())
    });
}

#[test]
fn a_submission_that_is_sent_twice_with_one_key_is_one_job() {
    let grid = Grid::with_worker();
    let gateway = grid.gateway("user");
    let programs = gateway.programs();
    let key = "7f2c1c1e-7f0e-4b6e-9d4e-6d3f3b1d9a10";
    let body = json!({
        "command": ["sh", "-c", "cat word; echo %{ITEM} > out.txt"],
        "items": ["a", "b"],
        "label": ["sweep7"],
        "output-file": ["out.txt"],
        "input": [{
            "name": "word",
            "blake3": blake3::hash(b"hello\n").to_string(),
            "bytes": 6,
        }],
    });
    let keyed = programs.clone().with("Idempotency-Key", key);
    // Content that was not sent is not taken on trust.
    keyed.post("/api/v1/jobs", &body).expect(409);
    let content = format!("/api/v1/content/{}", blake3::hash(b"hello\n"));
    programs.send("PUT", &content, Some(b"other\n")).expect(409);
    programs.send("PUT", &content, Some(b"hello\n")).expect(204);

    let dry = keyed
        .post("/api/v1/jobs?dry-run=true", &body)
        .expect(200)
        .json();
    assert_eq!((&dry["job"], &dry["tasks"]), (&Value::Null, &json!(2)));
    let first = keyed.post("/api/v1/jobs", &body).expect(201).json();
    let again = keyed.post("/api/v1/jobs", &body).expect(200).json();
    assert_eq!(
        (&again["job"], &again["again"]),
        (&first["job"], &json!(true))
    );
    keyed
        .post("/api/v1/jobs", &json!({"command": ["false"]}))
        .expect(409);
    programs
        .clone()
        .with("Idempotency-Key", "no-uuid")
        .post("/api/v1/jobs", &body)
        .expect(400);

    let job = first["job"].to_string();
    grid.wait(&job);
    let task = format!("/api/v1/jobs/{job}/tasks/2");
    let stdout = programs.get(&format!("{task}/stdout")).expect(200);
    assert_eq!(stdout.text(), "hello\n");
    assert_eq!(stdout.headers["content-type"], "text/plain; charset=utf-8");
    assert!(stdout.headers["content-disposition"].starts_with("attachment"));
    let part = programs.clone().with("Range", "bytes=1-2");
    let part = part.get(&format!("{task}/stdout")).expect(206);
    assert_eq!(
        (part.text(), &*part.headers["content-range"]),
        ("el", "bytes 1-2/6")
    );
    let beyond = programs.clone().with("Range", "bytes=6-");
    beyond.get(&format!("{task}/stdout")).expect(416);

    let files = programs.get(&format!("{task}/files")).json();
    assert_eq!(files["files"][0]["path"], "out.txt");
    assert_eq!(programs.get(&format!("{task}/files/out.txt")).text(), "b\n");
    programs
        .get(&format!("{task}/files/..%2f..%2fetc%2fpasswd"))
        .expect(404);
    let refused = programs.post("/api/v1/jobs", &json!({"command": ["x"], "comand": 1}));
    assert!(refused.expect(400).text().contains("comand"));
    for (body, status) in [
        (json!([]), 400),
        (json!({"command": ["x"], "input": [["a", "b", 1]]}), 400),
        (json!({"command": ["x"], "retries": -1}), 400),
        (json!({"command": ["x"], "retries": 1.5}), 400),
        (json!({"command": ["true"], "retries": 1.0}), 201),
        (json!({"command": ["x"], "timeout": "soon"}), 422),
        (json!({"command": ["%{ITEM}"]}), 422),
        (
            json!({"command": ["x"], "items": ["/a"], "stdout": "%{ITEM}"}),
            422,
        ),
        (json!({"noop": true, "output-file": ["out.txt"]}), 422),
        (json!({}), 422),
    ] {
        programs.post("/api/v1/jobs", &body).expect(status);
    }
}

#[test]
fn lists_come_in_pages_and_cursors_made_up_are_refused() {
    let grid = Grid::with_worker();
    let bag = grid.submit(["--array", "1-25", "--wait", "--", "true"]);
    for _ in 0..4 {
        grid.submit(["--noop"]);
    }
    let gateway = grid.gateway("user");
    for way in [gateway.programs(), master(&grid, "user", "client")] {
        way.get("/api/v1/events?job=1&label=sweep").expect(422);
        for (path, field, count) in [
            (format!("/api/v1/jobs/{bag}/tasks"), "tasks", 25),
            ("/api/v1/jobs".to_owned(), "jobs", 5),
        ] {
            let mut seen = Vec::new();
            let mut next = Some(String::new());
            while let Some(after) = next {
                let after = match after.as_str() {
                    "" => String::new(),
                    cursor => format!("&after={cursor}"),
                };
                let page = way
                    .get(&format!("{path}?limit=2{after}"))
                    .expect(200)
                    .json();
                let entries = page[field].as_array().expect("entries");
                assert!((1..=2).contains(&entries.len()), "{page}");
                seen.extend(entries.clone());
                next = page["next"].as_str().map(str::to_owned);
            }
            assert_eq!(seen.len(), count, "{path}");
            let names: BTreeSet<String> = seen
                .iter()
                .map(|entry| format!("{}{}", entry["job"], entry["task"]))
                .collect();
            assert_eq!(names.len(), count, "{path}: none twice");

            for wrong in [
                "7",
                "",
                "%00",
                "zzzzzzzzzzzzzzzz",
                "0000000112345678&after=7",
            ] {
                way.get(&format!("{path}?after={wrong}")).expect(400);
            }
            way.get(&format!("{path}?after=0000000112345678"))
                .expect(404);
            for limit in ["0", "1001", "-1", "x"] {
                way.get(&format!("{path}?limit={limit}")).expect(400);
            }
        }
    }
}

#[test]
fn filters_with_an_empty_part_between_their_commas_are_refused() {
    let grid = Grid::start();
    let own = master(&grid, "user", "client");
    let bag = grid.submit(["--noop"]);
    let tasks = format!("/api/v1/jobs/{bag}/tasks");
    for (path, filter, one) in [
        ("/api/v1/jobs", "label", "lab3"),
        ("/api/v1/jobs", "state", "finished"),
        (&tasks, "state", "waiting"),
    ] {
        for right in ["", one, &format!("{one},{one}")] {
            own.get(&format!("{path}?{filter}={right}")).expect(200);
        }
        for wrong in ["%2C", &format!("{one},"), &format!(",{one}")] {
            let refused = own.get(&format!("{path}?{filter}={wrong}")).expect(400);
            assert!(refused.text().contains("comma"), "{}", refused.text());
        }
    }
}

/// Collects the numbers of the events on a stream until the job is settled, or the stream ends.
fn numbers(coming: &mut Coming, job: &str, seen: &mut Vec<u64>) -> bool {
    let mut id = 0;
    while let Some(line) = coming.line() {
        if let Some(number) = line.strip_prefix("id: ") {
            id = number.parse().expect("a number");
        }
        if let Some(data) = line.strip_prefix("data: ") {
            let event: Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(event["seq"], id, "the id is the number");
            seen.push(id);
            if event["event"] == "job-settled" && event["job"].as_u64() == job.parse().ok() {
                return true;
            }
        }
    }
    false
}

#[test]
fn a_stream_of_events_goes_on_through_a_killed_master_and_a_killed_gateway() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let mut gateway = grid.gateway("user");
    let bag = grid.submit(["--array", "1-40", "--", "sleep", "0.1"]);

    // The master goes and comes back: the stream stays.
    let (_, mut stream) = gateway
        .programs()
        .open("GET", "/api/v1/events?after=0", None)
        .expect("a stream");
    let reading = std::thread::spawn({
        let bag = bag.clone();
        move || {
            let mut seen = Vec::new();
            let settled = numbers(&mut stream, &bag, &mut seen);
            (seen, settled)
        }
    });
    let some = |j: &Value| j["tasks"]["finished"].as_u64().filter(|n| *n >= 8);
    grid.until("eight tasks are finished", &["job", "info", &bag], some);
    grid.kill_master();
    grid.start_master();
    let some = |j: &Value| j["tasks"]["finished"].as_u64().filter(|n| *n >= 20);
    grid.until("twenty tasks are finished", &["job", "info", &bag], some);

    // The gateway goes: the reader comes back to another one, and says what it had.
    gateway.kill();
    let (mut seen, settled) = reading.join().expect("the reader ends");
    assert!(!settled && !seen.is_empty());
    let last = seen.last().expect("some").to_string();
    let gateway = grid.gateway("user");
    let (_, mut stream) = gateway
        .programs()
        .with("Last-Event-ID", &last)
        .open("GET", "/api/v1/events", None)
        .expect("a stream");
    assert!(numbers(&mut stream, &bag, &mut seen), "the job is settled");

    let all = grid.text(["--output", "quiet", "events", "--past", "--after", "0"]);
    let end = *seen.last().expect("some");
    let all: Vec<u64> = all.lines().map(|n| n.parse().expect("a number")).collect();
    let all: Vec<u64> = all.into_iter().filter(|number| *number <= end).collect();
    assert_eq!(seen, all, "none missed, none twice");

    let odd = gateway.programs().with("Last-Event-ID", "made up");
    odd.get("/api/v1/events").expect(400);
    let future = gateway.programs().with("Last-Event-ID", "99999999");
    future.get("/api/v1/events").expect(422);
}

#[test]
fn users_see_only_their_jobs_and_a_revoked_token_is_out() {
    let grid = Grid::with_worker();
    grid.login("eve");
    let job = grid.submit(["--wait", "--", "echo", "secret"]);
    let own = master(&grid, "user", "client");
    let eve = master(&grid, "eve", "client");
    let gateway = grid.gateway("eve");

    own.get(&format!("/api/v1/jobs/{job}")).expect(200);
    for other in [&eve, &gateway.programs()] {
        assert_eq!(other.get("/api/v1/jobs").json()["jobs"], json!([]));
        for path in [
            "",
            "/tasks",
            "/tasks/1",
            "/tasks/1/stdout",
            "/explain",
            "/forecast",
        ] {
            other.get(&format!("/api/v1/jobs/{job}{path}")).expect(404);
        }
        for verb in ["cancel", "retry", "request", "forget", "close"] {
            other
                .post(&format!("/api/v1/jobs/{job}/{verb}"), &json!({}))
                .expect(404);
        }
        for path in ["tokens", "identities", "audit"] {
            other.get(&format!("/api/v1/{path}")).expect(403);
        }
        other.post("/api/v1/hosts/h1/drain", &json!({})).expect(403);
    }
    own.post(
        &format!("/api/v1/jobs/{job}/share"),
        &json!({"user": "eve"}),
    )
    .expect(200);
    let shared = eve
        .get(&format!("/api/v1/jobs/{job}/tasks/1/stdout"))
        .expect(200);
    assert_eq!(shared.text(), "secret\n");
    eve.post(&format!("/api/v1/jobs/{job}/forget"), &json!({}))
        .expect(403);

    // A token of the role client does less than the admin for whom it speaks.
    let small = master(&grid, "admin", "client");
    small.get("/api/v1/tokens").expect(403);
    let large = master(&grid, "admin", "admin");
    let tokens = large.get("/api/v1/tokens").expect(200).json();
    let tokens = tokens["tokens"].as_array().expect("a list").clone();
    let of_eve = tokens
        .iter()
        .find(|token| token["speaks_for"] == "eve")
        .expect("eve's");
    large
        .post(
            &format!("/api/v1/tokens/{}/revoke", of_eve["id"]),
            &json!({}),
        )
        .expect(200);
    eve.get("/api/v1/jobs").expect(401);

    let wish = json!({"role": "client", "ttl": "1h", "for": "eve"});
    eve.post("/api/v1/tokens", &wish).expect(401);
    own.post("/api/v1/tokens", &wish).expect(403);
    let made = large.post("/api/v1/tokens", &wish).expect(201).json();
    let made = format!("Bearer {}", made["token"].as_str().expect("a token"));
    let other = Http::tcp(grid.http()).with("Authorization", &made);
    assert_eq!(other.get("/api/v1/whoami").json()["user"], "eve");

    // So is one whose user is put out.
    let again = master(&grid, "eve", "client");
    again.get("/api/v1/jobs").expect(200);
    large
        .post("/api/v1/identities/eve/revoke", &json!({}))
        .expect(200);
    again.get("/api/v1/jobs").expect(401);
    let audit = large.get("/api/v1/audit?limit=1000").text().to_owned();
    assert!(audit.contains("to speak for eve over HTTP"), "{audit}");
}

#[test]
fn open_streams_end_when_their_token_is_revoked() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let job = grid.submit(["--", "sh", "-c", "echo one; exec sleep 600"]);
    let large = master(&grid, "admin", "admin");
    let own = master(&grid, "user", "client");

    let output = format!("/api/v1/jobs/{job}/tasks/1/stdout?follow=1");
    let (answer, mut output) = own.open("GET", &output, None).expect("a stream");
    assert_eq!(answer.status, 200);
    assert_eq!(output.line().as_deref(), Some("one"));
    let (answer, mut events) = own
        .open("GET", "/api/v1/events?after=0", None)
        .expect("a stream");
    assert_eq!(answer.status, 200);
    assert!(events.line().is_some());

    let tokens = large.get("/api/v1/tokens").expect(200).json();
    let of_user = tokens["tokens"].as_array().expect("a list").iter();
    let of_user = of_user
        .filter(|token| token["speaks_for"] == "user")
        .map(|token| format!("/api/v1/tokens/{}/revoke", token["id"]));
    for revoke in of_user.collect::<Vec<_>>() {
        large.post(&revoke, &json!({})).expect(200);
    }
    while events.line().is_some() {}
    while output.line().is_some() {}

    // Streams of others go on: only the job's end ends this one.
    let path = format!("/api/v1/jobs/{job}/tasks/1/stdout?follow=1");
    let (_, mut output) = large.open("GET", &path, None).expect("a stream");
    assert_eq!(output.line().as_deref(), Some("one"));
    large
        .post(&format!("/api/v1/jobs/{job}/cancel"), &json!({}))
        .expect(200);
    while output.line().is_some() {}
    let audit = large.get("/api/v1/audit?limit=1000").text().to_owned();
    assert!(audit.contains("was revoked or has expired"), "{audit}");
}

#[test]
fn many_who_follow_an_output_keep_no_results_on_its_host() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).unconfined().start();
    let job = grid.submit(["--", "sh", "-c", "echo one; exec sleep 600"]);
    grid.until_it_runs(&format!("{job}.1"));

    let own = master(&grid, "user", "client");
    let output = format!("/api/v1/jobs/{job}/tasks/1/stdout?follow=1");
    let open = || own.open("GET", &output, None).expect("a stream").1;
    let mut followers: Vec<_> = (0..24).map(|_| open()).collect();
    assert_eq!(followers[0].line().as_deref(), Some("one"));

    let write = "head -c 300000 /dev/zero > out.bin";
    let bag = grid.submit(["--output-file", "out.bin", "--", "sh", "-c", write]);
    grid.wait(&bag);

    // Those for whom there was no room come on as others leave.
    drop(followers.drain(..16));
    for mut follower in followers {
        assert_eq!(follower.line().as_deref(), Some("one"));
    }
}

#[test]
fn a_long_output_is_followed_from_its_first_byte_to_its_last() {
    let mut grid = Grid::start();
    grid.worker("h1")
        .config("confinement = \"process\"\nstream_limit_bytes = 33_554_432\n")
        .start();
    let write = "echo first; head -c 18000000 /dev/zero; echo last";
    let job = grid.submit(["--wait", "--", "sh", "-c", write]);

    let path = format!("/api/v1/jobs/{job}/tasks/1/stdout?follow=1");
    let answer = master(&grid, "user", "client").get(&path).expect(200);
    let text = answer.text();
    assert_eq!(text.len(), "first\nlast\n".len() + 18_000_000);
    assert!(text.starts_with("first\n") && text.ends_with("last\n"));
}

#[test]
fn numbers_for_monitors_are_given_to_no_other_site() {
    let grid = Grid::start();
    for path in ["/metrics", "/healthz"] {
        Http::tcp(grid.http()).get(path).expect(200);
        let foreign = Http::tcp(grid.http()).with("Host", "evil.example");
        foreign.get(path).expect(421);
        let page = Http::tcp(grid.http()).with("Origin", "http://evil.example");
        page.get(path).expect(403);

        let place = grid.http();
        for odd in [
            format!("GET {path} HTTP/1.1\r\nHost: {place}\r\nHost: evil.example\r\n\r\n"),
            format!("GET http://evil.example{path} HTTP/1.1\r\nHost: {place}\r\n\r\n"),
        ] {
            let odd = odd.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
            let (answer, _) = raw(place, odd.as_bytes(), Duration::from_secs(60));
            assert!(!answer.contains(" 200 "), "{odd}: {answer}");
        }
    }
}

#[test]
fn refusals_of_bodies_and_names_say_where_the_mistake_is() {
    let grid = Grid::start();
    let admin = master(&grid, "admin", "admin");
    let odd = json!({"command": ["true"], "items": ["a", 7]});
    let refused = admin.post("/api/v1/jobs", &odd).expect(400);
    assert!(refused.text().contains("items[1]"), "{}", refused.text());

    let name = "a\u{1b}[31mb";
    let wish = json!({"role": "client", "ttl": "1h", "name": name});
    let refused = admin.post("/api/v1/tokens", &wish);
    assert!(refused.status >= 400, "{}", refused.text());
    assert!(
        refused.text().contains("control characters"),
        "{}",
        refused.text()
    );
}

#[test]
fn content_that_breaks_off_or_is_something_else_is_not_kept() {
    let grid = Grid::start();
    let own = master(&grid, "user", "client");
    let text = vec![b'x'; 300_000];
    let hash = blake3::hash(&text).to_hex().to_string();
    let path = format!("/api/v1/content/{hash}");

    let other = vec![b'y'; 300_000];
    let refused = own.send("PUT", &path, Some(&other)).expect(409);
    assert!(refused.text().contains(&hash), "{}", refused.text());
    let admin = master(&grid, "admin", "admin");
    admin.get(&path).expect(404);

    let half = own.clone().with("Content-Length", "300000");
    let mut stream = TcpStream::connect(grid.http()).expect("connects");
    let mut head = format!("PUT {path} HTTP/1.1\r\n");
    for (name, value) in half.headers() {
        head += &format!("{name}: {value}\r\n");
    }
    stream
        .write_all((head + "\r\nonly this").as_bytes())
        .expect("writes");
    drop(stream);
    admin.get(&path).expect(404);

    own.send("PUT", &path, Some(&text)).expect(204);
    assert_eq!(admin.get(&path).expect(200).body, text);
}

#[test]
fn large_content_is_taken_whatever_type_a_program_says() {
    let grid = Grid::start();
    let own = master(&grid, "user", "client");
    let text = vec![b'x'; 9 << 20];
    let hash = blake3::hash(&text).to_hex().to_string();
    // curl says so of all that it sends with --data-binary.
    let curl = own.with("Content-Type", "application/x-www-form-urlencoded");
    curl.send("PUT", &format!("/api/v1/content/{hash}"), Some(&text))
        .expect(204);
}

#[test]
fn a_join_token_does_not_speak_and_one_that_speaks_lets_nobody_join() {
    let grid = Grid::start();
    let join = grid.token("client");
    let shown = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {join}"));
    shown.get("/api/v1/jobs").expect(401);

    let bearer = grid.bearer("user", "client");
    let words = [
        "login",
        "--master",
        grid.listen(),
        "--join",
        &bearer,
        "--name",
        "eve",
    ];
    let refused = grid.as_user("eve", words);
    assert_ne!(refused.code, 0, "{}", refused.stderr);

    let unknown = [
        "token", "create", "--http", "--role", "client", "--for", "nobody",
    ];
    grid.admin(unknown).expect_code(1);
    let too_much = [
        "token", "create", "--http", "--role", "admin", "--for", "user",
    ];
    let refused = grid.admin(too_much);
    assert!(
        refused.stderr.contains("cannot speak for"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_new_token_for_http_comes_with_an_example_that_works() {
    let grid = Grid::start();
    let words = [
        "token", "create", "--http", "--role", "client", "--for", "user",
    ];
    let made = grid.admin(words).expect_code(0).stdout;
    let url = format!("http://{}/api/v1/jobs", grid.http());
    assert!(made.contains(&format!("curl -H @FILE {url} ")), "{made}");
    let token = made.lines().next().expect("the token");
    let shown = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {token}"));
    shown.get("/api/v1/jobs").expect(200);
}

/// Sends bytes as they are, and returns what comes back until the other end closes.
fn raw(address: &str, bytes: &[u8], patience: Duration) -> (String, bool) {
    let mut stream = TcpStream::connect(address).expect("connects");
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let closed = match stream.read_to_end(&mut answer) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    (String::from_utf8_lossy(&answer).into_owned(), closed)
}

#[test]
fn slow_large_and_broken_requests_are_bounded_and_others_are_served_meanwhile() {
    let grid = Grid::start();
    let gateway: Gateway = grid.gateway("user");
    let bearer = grid.bearer("user", "client");
    let known = Http::tcp(grid.http()).with("Authorization", &format!("Bearer {bearer}"));
    let addresses = [grid.http().to_owned(), gateway.address()];

    // A head that never ends, one that is too large, and what is no HTTP at all.
    let refused = |address: &str, bytes: &str| {
        let (answer, closed) = raw(address, bytes.as_bytes(), Duration::from_secs(60));
        assert!(closed && !answer.contains(" 200 "), "{bytes:.20}: {answer}");
    };
    std::thread::scope(|scope| {
        for address in &addresses {
            let named = format!("GET / HTTP/1.1\r\nHost: {address}\r\n");
            for bytes in [
                "GET / HTTP/1.1\r\nHost:".to_owned(),
                format!("{named}X: {}\r\n\r\n", "x".repeat(80_000)),
                format!("{named}{}\r\n", "X: y\r\n".repeat(1_000)),
                "\r\n\r\n".to_owned(),
                "GET\r\n\r\n".to_owned(),
                "\x16\x03\x01\x02\x00".to_owned(),
                "GET / HTTP/9.9\r\n\r\n".to_owned(),
            ] {
                scope.spawn(move || refused(address, &bytes));
            }
        }
    });

    // A body that is too large is refused, whatever its length was said to be.
    let large = vec![b' '; (8 << 20) + 1];
    let json = known.clone().with("Content-Type", "application/json");
    json.send("POST", "/api/v1/jobs", Some(&large)).expect(413);
    known
        .post("/api/v1/jobs", &json!({"command": ["x".repeat(1 << 20)]}))
        .expect(422);
    known.send("POST", "/api/v1/jobs", Some(b"{}")).expect(415);

    // Connections on which nothing comes take no place from those who ask.
    let idle: Vec<TcpStream> = (0..600)
        .map(|_| TcpStream::connect(grid.http()).expect("connects"))
        .collect();
    known.get("/api/v1/whoami").expect(200);
    drop(idle);
}

/// Whether the master's end of the connection from this port of the loopback address is open.
fn is_open_at_the_master(grid: &Grid, from: u16) -> bool {
    const ESTABLISHED: &str = "01";
    let master: SocketAddr = grid.http().parse().expect("an address");
    let ends = format!(":{:04X} 0100007F:{from:04X} {ESTABLISHED} ", master.port());
    let table = std::fs::read_to_string("/proc/net/tcp").expect("the table of connections");
    table.contains(&ends)
}

#[test]
fn a_reader_of_events_that_never_reads_loses_its_connection() {
    let mut grid = Grid::with_master("limits = { answer_patience = \"2s\" }");
    grid.worker("h1").slots(2).dedicated().start();
    let bearer = grid.bearer("user", "client");
    let mut stream = TcpStream::connect(grid.http()).expect("connects");
    let request = format!(
        "GET /api/v1/events?after=0&results=true HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {bearer}\r\n\r\n",
        grid.http()
    );
    stream.write_all(request.as_bytes()).expect("writes");

    let own = stream.local_addr().expect("an address").port();
    eventually("the connection is there", Duration::from_secs(60), || {
        is_open_at_the_master(&grid, own).then_some(())
    });

    let script = "head -c 60000 /dev/zero | tr '\\0' x";
    let bag = grid.submit(["--array", "1-120", "--", "sh", "-c", script]);
    grid.wait(&bag);

    // It begins to read when the master has given it up.
    eventually(
        "the connection is given up",
        Duration::from_secs(60),
        || (!is_open_at_the_master(&grid, own)).then_some(()),
    );
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a timeout");
    let begun = Instant::now();
    let mut bytes = Vec::new();
    let ended = match stream.read_to_end(&mut bytes) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    };
    assert!(ended, "{:?}, {} bytes", begun.elapsed(), bytes.len());
    assert!(
        !String::from_utf8_lossy(&bytes).contains("job-settled"),
        "it did not get all"
    );
}

#[test]
fn the_output_of_a_running_task_is_sent_as_it_comes() {
    let mut grid = Grid::start();
    grid.worker("h1").unconfined().start();
    let gate = grid.dir().join("gate");
    let script = format!(
        "echo one; until test -e {}; do sleep 0.1; done; echo two",
        gate.display()
    );
    let job = grid.submit(["--", "sh", "-c", &script]);
    let gateway = grid.gateway("user");
    for way in [gateway.programs(), master(&grid, "user", "client")] {
        let path = format!("/api/v1/jobs/{job}/tasks/1/stdout?follow=1");
        let (answer, mut coming) = way.open("GET", &path, None).expect("a stream");
        assert_eq!(answer.status, 200);
        assert_eq!(coming.line().as_deref(), Some("one"));
        if gate.exists() {
            continue;
        }
        std::fs::write(&gate, "").expect("a file");
        assert_eq!(coming.line().as_deref(), Some("two"));
        assert_eq!(coming.line(), None);
        let whole = way.get(&format!("/api/v1/jobs/{job}/tasks/1/stdout"));
        assert_eq!(whole.expect(200).text(), "one\ntwo\n");
    }
}

#[test]
fn http_beyond_this_machine_needs_tls_or_a_proxy() {
    let mut grid = Grid::prepared("");
    let listen = grid.listen().to_owned();
    let port = grid.http().rsplit(':').next().expect("a port").to_owned();
    grid.listen_at(&listen, &format!("0.0.0.0:{port}"));
    grid.launch_master();
    let code = eventually("the master gives up", Duration::from_secs(30), || {
        grid.master().ended()
    });
    assert_ne!(code, 0);
    let log = grid.logs();
    assert!(
        log.contains("http_certificate") && log.contains("http_behind_proxy"),
        "{log}"
    );

    std::fs::write(grid.dir().join("master.toml"), "http_behind_proxy = true\n").expect("a file");
    grid.start_master();
    let bearer = grid.bearer("admin", "client");
    let way = Http::tcp(&format!("127.0.0.1:{port}"));
    way.with("Authorization", &format!("Bearer {bearer}"))
        .get("/api/v1/whoami")
        .expect(200);
}

#[test]
fn a_master_with_a_certificate_for_http_speaks_tls() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let made = made.expect("a certificate");
    let mut grid = Grid::prepared("");
    let certificate = grid.file("http.pem", made.cert.pem());
    let key = grid.file("http.key", made.signing_key.serialize_pem());
    let config = format!(
        "http_certificate = \"{}\"\nhttp_key = \"{}\"\n",
        certificate.display(),
        key.display()
    );
    std::fs::write(grid.dir().join("master.toml"), config).expect("a file");
    grid.start_master();
    let bearer = grid.bearer("admin", "client");

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).expect("a certificate");
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = "127.0.0.1".try_into().expect("a name");
    let mut session =
        rustls::ClientConnection::new(std::sync::Arc::new(client), name).expect("a session");
    let mut stream = TcpStream::connect(grid.http()).expect("connects");
    let mut tls = rustls::Stream::new(&mut session, &mut stream);
    let request = format!(
        "GET /api/v1/whoami HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {bearer}\r\nConnection: close\r\n\r\n",
        grid.http()
    );
    tls.write_all(request.as_bytes()).expect("writes");
    let mut answer = String::new();
    // The other end may close without a last word of TLS.
    let _ = tls.read_to_string(&mut answer);
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.contains("\"user\":\"admin\""),
        "{answer}"
    );

    // Whoever speaks no TLS is not answered.
    let (plain, _) = raw(
        grid.http(),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        Duration::from_secs(60),
    );
    assert!(!plain.contains(" 200 "), "{plain}");
}
