//! Jobs that programs submit over HTTP: with inputs of every kind, several ranks, and tasks that are
//! added later.

use serde_json::{Value, json};
use tests::{Grid, Http};

/// Sends content and returns how a job names it.
fn sent(programs: &Http, text: &str) -> Value {
    let answer = programs.send("POST", "/api/v1/content", Some(text.as_bytes()));
    let answer = answer.expect(200).json();
    assert_eq!(
        answer["blake3"],
        blake3::hash(text.as_bytes()).to_string(),
        "{text}"
    );
    json!({ "blake3": answer["blake3"], "bytes": answer["bytes"] })
}

fn submitted(programs: &Http, body: &Value) -> String {
    let answer = programs.post("/api/v1/jobs", body).expect(201);
    answer.json()["job"].to_string()
}

/// Waits for a job and returns what its tasks printed.
fn printed(grid: &Grid, job: &str) -> String {
    grid.wait(job);
    let printed = grid.deskgrid(["job", "cat", job, "stdout"]);
    printed.expect_code(0).stdout
}

#[test]
fn inputs_of_every_kind_are_named_by_the_hashes_of_content_that_was_sent() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    grid.file("env/lib/text", "from the tree\n");
    let tree = grid.dir().join("env");
    let tree = tree.to_str().expect("UTF-8");
    let tree = grid.json(["content", "send", "--tree", tree]);
    let tree = &tree["content"][0];
    let program = grid.file("say.sh", "#!/bin/sh\ncat own build env/lib/text\n");
    let program = program.to_str().expect("UTF-8");
    let program = grid.json(["content", "send", program]);
    let program = &program["content"][0];
    assert_eq!(program["parts"], Value::Null);

    let gateway = grid.gateway("user");
    let programs = gateway.programs();
    let body = json!({
        "command": ["./say"],
        "array": "1-2",
        "input": [
            {"name": "say", "blake3": program["blake3"], "bytes": program["bytes"], "executable": true},
            {"name": "own", "per-task": [sent(&programs, "first "), sent(&programs, "second ")]},
            {"name": "build", "per-platform": {"linux-x86_64": sent(&programs, "for Linux ")}},
            {"name": "env", "blake3": tree["blake3"], "bytes": tree["bytes"], "parts": tree["parts"]},
        ],
    });
    let job = submitted(&programs, &body);
    assert_eq!(
        printed(&grid, &job),
        "first for Linux from the tree\nsecond for Linux from the tree\n"
    );

    let blob = sent(&programs, "x");
    let not_there = json!({ "blake3": "0".repeat(64), "bytes": 1 });
    for (input, status) in [
        (json!({"name": "a"}), 422),
        (json!({"name": "a", "blake3": blob["blake3"]}), 422),
        (
            json!({"name": "a", "blake3": blob["blake3"], "bytes": 1, "per-task": [blob]}),
            422,
        ),
        (json!({"name": "a", "per-task": [blob]}), 422),
        (json!({"name": "a", "per-task": [["0", 1], ["0", 1]]}), 400),
        (json!({"name": "a", "per-platform": {}}), 422),
        (
            json!({"name": "a", "per-platform": {"no platform": blob}}),
            422,
        ),
        (json!({"name": "a", "per-task": [blob, not_there]}), 409),
        (
            json!({"name": "a", "blake3": blob["blake3"], "bytes": 1, "parts": [not_there]}),
            409,
        ),
        (
            json!({"name": "../a", "blake3": blob["blake3"], "bytes": 1}),
            422,
        ),
    ] {
        let body = json!({ "command": ["true"], "array": "1-2", "input": [input] });
        let refused = programs.post("/api/v1/jobs", &body);
        assert_eq!(refused.status, status, "{input}: {}", refused.text());
    }
}

#[test]
fn tasks_are_added_over_http_to_a_job_that_is_open() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let gateway = grid.gateway("user");
    let programs = gateway.programs();
    let body = json!({ "command": ["echo", "%{ITEM}"], "items": ["a"], "open": true });
    let job = submitted(&programs, &body);
    let tasks = format!("/api/v1/jobs/{job}/tasks");

    let key = "7f2c1c1e-7f0e-4b6e-9d4e-6d3f3b1d9a11";
    let keyed = programs.clone().with("Idempotency-Key", key);
    let more = json!({ "items": ["b", "c"] });
    let added = keyed.post(&tasks, &more).expect(201).json();
    assert_eq!(
        (&added["first"], &added["last"], &added["tasks"]),
        (&json!(2), &json!(3), &json!(3))
    );
    let again = keyed.post(&tasks, &more).expect(200).json();
    assert_eq!(
        (&again["again"], &again["tasks"]),
        (&json!(true), &json!(3))
    );
    let dry = format!("{tasks}?dry-run=true");
    programs.post(&dry, &json!({ "items": ["d"] })).expect(200);

    for (more, status) in [
        (json!({}), 422),
        (json!({ "array": "7" }), 422),
        (json!({ "array": "seven" }), 422),
        (json!({ "array": "7", "items": ["x"] }), 422),
        (json!({ "items": ["\0"] }), 422),
        (json!(["x"]), 400),
    ] {
        let refused = programs.post(&tasks, &more);
        assert_eq!(refused.status, status, "{more}: {}", refused.text());
    }
    let close = format!("/api/v1/jobs/{job}/close");
    programs.post(&close, &json!({})).expect(200);
    programs.post(&tasks, &more).expect(409);
    assert_eq!(printed(&grid, &job), "a\nb\nc\n");
}

#[test]
fn a_job_of_several_ranks_is_submitted_over_http() {
    let mut grid = Grid::with_worker();
    grid.worker("h2").start();
    let gateway = grid.gateway("user");
    let programs = gateway.programs();
    let job = submitted(
        &programs,
        &json!({ "command": ["echo", "%{RANK} of %{WIDTH}"], "width": "2" }),
    );
    assert_eq!(printed(&grid, &job), "0 of 2\n1 of 2\n");

    for body in [
        json!({ "command": ["true"], "width": "0" }),
        json!({ "command": ["true"], "work": "1h" }),
        json!({ "command": ["true"], "width": "2", "items": ["a"] }),
        json!({ "command": ["true"], "width": "2", "parallelism": "0.5" }),
        json!({ "command": ["true"], "width": "2", "deadline": "1h" }),
    ] {
        programs.post("/api/v1/jobs", &body).expect(422);
    }
}

#[test]
fn a_timeline_and_the_quality_of_predictions_are_served() {
    let mut grid = Grid::start();
    grid.worker("h1").slots(2).start();
    let bag = [
        "--array",
        "1-6",
        "--estimate",
        "300ms",
        "--wait",
        "--",
        "sleep",
        "0.3",
    ];
    let job = grid.submit(bag);
    let gateway = grid.gateway("user");
    let programs = gateway.programs();

    let path = format!("/api/v1/jobs/{job}/timeline");
    let drawn = programs
        .get(&format!("{path}?columns=12"))
        .expect(200)
        .json();
    assert_eq!(
        (&drawn["columns"], &drawn["tasks"]),
        (&json!(12), &Value::Null)
    );
    let row = &drawn["hosts"][0];
    assert_eq!((&row["host"], &row["attempts"]), (&json!("h1"), &json!(6)));
    let spans = row["spans"].as_array().expect("spans");
    let ran = |span: &&Value| span["did"] == "finished" || span["did"] == "running";
    let columns = spans.iter().filter(ran).map(|span| {
        span["to"].as_u64().expect("a column") - span["from"].as_u64().expect("a column")
    });
    assert!((6..=12).contains(&columns.sum::<u64>()), "{drawn}");
    let never = programs
        .get(&format!("{path}?to=2020-01-01T00:00:00Z"))
        .expect(200);
    assert_eq!(never.json()["hosts"], json!([]));
    for wrong in [
        "columns=0",
        "columns=1001",
        "from=soon",
        "from=2027-01-01&to=2026-01-01",
    ] {
        programs.get(&format!("{path}?{wrong}")).expect(422);
    }

    let accuracy = programs.get("/api/v1/predict/accuracy").expect(200).json();
    let ends = &accuracy["ends"];
    assert_eq!(
        (&ends["judged"], &accuracy["open"]),
        (&json!(1), &json!(0)),
        "{accuracy}"
    );
    let one = &ends["predictions"][0];
    let seconds = |name: &str| one[name].as_f64().expect("seconds");
    assert!(seconds("low_s") <= seconds("wait_s") && seconds("wait_s") <= seconds("high_s"));
    assert!(seconds("came_s") > 0.0, "{accuracy}");
    let told = grid.json(["predict", "accuracy"]);
    assert_eq!(told["predictors"][0]["name"], "job's end", "{told}");

    // Nor was there anything to predict of a job that takes no time.
    let taking_none = ["--noop", "--wait"];
    let counted = grid.until("it is left out", &["predict", "accuracy"], |told| {
        let is_counted = told["left_out"].as_u64()? > 0;
        if !is_counted {
            grid.submit(taking_none);
        }
        is_counted.then(|| told.clone())
    });
    assert_eq!(
        (&counted["judged"], &counted["open"]),
        (&json!(1), &json!(0))
    );
    let said = grid.text(["predict", "accuracy"]);
    // On a busy machine one more may have been submitted before the first was counted.
    let words = [
        "1 more does not count: it came at once",
        "more do not count: they came at once",
    ];
    assert!(words.iter().any(|words| said.contains(words)), "{said}");
    let accuracy = programs.get("/api/v1/predict/accuracy").json();
    assert_eq!(accuracy["ends"]["judged"], json!(1), "{accuracy}");
    assert!(accuracy["left_out"].as_u64() > Some(0), "{accuracy}");

    // The end of a job that was cancelled says nothing about predictions.
    let cut = grid.submit(["--array", "1-50", "--", "sleep", "0.2"]);
    grid.until("a first task", &["job", "info", &cut], |info| {
        (info["tasks"]["finished"].as_u64()? > 0).then_some(())
    });
    grid.deskgrid(["job", "cancel", &cut]).expect_code(0);
    grid.deskgrid(["job", "wait", &cut]).expect_code(3);
    let accuracy = programs.get("/api/v1/predict/accuracy").json();
    assert_eq!(
        (&accuracy["ends"]["judged"], &accuracy["open"]),
        (&json!(1), &json!(0))
    );
}
