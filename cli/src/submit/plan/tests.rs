//! Tests the plans made of command lines and job files.

use super::*;
use crate::args::{Cli, Commands, Deferred};
use crate::failure::{Exit, Failure};
use clap::Parser;
use common::host::Confinement;
use common::job::InputSource;
use common::template::TemplateValues;
use common::{AttemptId, Incarnation, JobId, TaskId};

/// Plans the words of `deskgrid submit` in a temporary directory with some files.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Self {
        let desk = Desk(tempfile::tempdir().unwrap());
        for name in ["a.dat", "b.dat", "c d.dat"] {
            desk.file(name, name);
        }
        desk
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    fn submit(&self, words: &[&str]) -> Result<SubmitPlan, Failure> {
        let words = ["deskgrid", "submit"].iter().chain(words);
        let Commands::Submit(Deferred(args)) = Cli::try_parse_from(words).unwrap().command else {
            panic!("not a submission")
        };
        Ok(plan(&crate::submit::options(&args)?)?)
    }

    fn job(&self, words: &[&str]) -> JobSpec {
        self.submit(words).unwrap().spec(hashed)
    }

    fn wrong(&self, words: &[&str]) -> String {
        let failure = self.submit(words).unwrap_err();
        assert_eq!(failure.exit, Exit::Usage);
        failure.text()
    }
}

/// The content of a local file; of a tree nothing but its kind matters here.
fn hashed(local: Local<&Path>) -> LocalContent {
    let blob = match local {
        Local::File(path) => link::content::hash_file(path).unwrap(),
        Local::Tree(path) => link::content::hash_bytes(path.as_os_str().as_encoded_bytes()),
    };
    LocalContent {
        blob,
        parts: Vec::new(),
    }
}

fn command(job: &JobSpec) -> &CommandSpec {
    let Some(command) = job.work.command() else {
        panic!("not a command")
    };
    command
}

#[test]
fn standard_input_is_one_list_alone() {
    let desk = Desk::new();
    let listed = desk.file("listed.toml", "each-line = \"-\"\n");

    for (words, named) in [
        (
            &["--job-file", "-", "--each-line", "-"][..],
            "--job-file and as --each-line",
        ),
        (
            &["--each-line", "-", "--estimates", "-"],
            "--each-line and as --estimates",
        ),
        (
            &["--from-json", "/dev/stdin", "--estimates", "-"],
            "--from-json and as --estimates",
        ),
        (
            &["--job-file", &listed, "--estimates", "-"],
            "--each-line and as --estimates",
        ),
    ] {
        let said = desk.wrong(&[words, &["--", "x"]].concat());
        assert!(said.contains("standard input is given twice"), "{said}");
        assert!(said.contains(named), "{words:?}: {said}");
    }
}

#[test]
fn a_bare_command_is_one_task_with_the_usual_rules() {
    let job = Desk::new().job(&["--", "/usr/bin/render", "--fast", "50%"]);
    assert_eq!(
        (job.name.as_str(), job.tasks.ids.to_string().as_str()),
        ("render", "1")
    );
    assert_eq!(
        command(&job)
            .argv
            .iter()
            .map(Template::as_str)
            .collect::<Vec<_>>(),
        ["/usr/bin/render", "--fast", "50%"]
    );

    assert_eq!(job.rules, Rules::default());
    // Flags after the program are the program's.
    assert_eq!(
        command(&Desk::new().job(&["echo", "--name", "x"]))
            .argv
            .len(),
        3
    );
}

#[test]
fn every_flag_reaches_the_job() {
    let desk = Desk::new();
    let a = format!("{}:in", desk.path("a.dat"));
    let words = "--name n --array 1-9:2 --output-file *.csv --stdin in --stdout out/%{TASK_ID} --stderr none --env K=v=%{HOST} \
                 --retries 2 --max-losses 3 --timeout 90s --max-fails 4 --priority -5 --policy fcfs --estimate 1h --checkpoint 30s --confinement namespace --network --input";
    let words: Vec<_> = words
        .split_whitespace()
        .chain([a.as_str(), "--", "run"])
        .collect();
    let job = desk.job(&words);
    assert_eq!((job.name.as_str(), job.tasks.ids.len()), ("n", 5));

    let c = command(&job);
    assert_eq!(
        (c.checkpoint, job.rules.checkpoint),
        (Some(common::Span::from_secs(30)), true)
    );
    assert_eq!(
        job.rules.needs,
        Needs {
            confinement: Some(Confinement::Namespace),
            network: true,
            ..Needs::default()
        }
    );

    assert_eq!(
        c.inputs[0].source,
        InputSource::Shared(link::content::hash_bytes(b"a.dat"))
    );
    assert_eq!(
        (c.outputs[0].as_str(), c.stdin.as_ref().unwrap().as_str()),
        ("*.csv", "in")
    );
    assert_eq!(
        (&c.stdout, &c.stderr),
        (
            &Capture::File("out/%{TASK_ID}".parse().unwrap()),
            &Capture::Discard
        )
    );

    assert_eq!(
        (c.env[0].0.as_str(), c.env[0].1.as_str()),
        ("K", "v=%{HOST}")
    );

    let q = desk
        .job(&[
            "--quorum",
            "3",
            "--adaptive",
            "--compare",
            "float:1e-6",
            "run",
        ])
        .rules
        .quorum;
    assert_eq!(
        (q.size, q.adaptive, q.compare),
        (3, true, "float:1e-6".parse().unwrap())
    );

    let r = &job.rules;
    assert_eq!(
        (r.retries, r.max_losses, r.max_fails, r.priority),
        (2, 3, Some(4), -5)
    );
    assert_eq!(
        (
            r.timeout.unwrap().secs(),
            r.estimate.unwrap().secs(),
            r.policy.as_str()
        ),
        (90.0, 3600.0, "FCFS")
    );
}

#[test]
fn a_disclosed_job_has_neither_deadline_nor_quorum() {
    let desk = Desk::new();
    let file = desk.file(
        "job.toml",
        "disclose = true\ndeadline = \"2h\"\ncommand = [\"run\"]\n",
    );
    let told = desk.wrong(&["--job-file", &file]);
    assert!(
        told.contains("disclosed (--disclose), or has a deadline"),
        "{told}"
    );

    let file = desk.file("quorum.toml", "quorum = 2\ncommand = [\"run\"]\n");
    let told = desk.wrong(&["--job-file", &file, "--disclose"]);
    assert!(told.contains("or has a quorum"), "{told}");
}

#[test]
fn a_job_that_does_nothing_has_nothing_to_do_it_with() {
    let desk = Desk::new();
    let a = desk.path("a.dat");
    for (words, other) in [
        (["--input", &a], "input files"),
        (["--input-tree", &a], "input files"),
        (["--output-file", "o"], "output files"),
        (["--stdin", "in"], "standard input"),
        (["--stdout", "o"], "files for what it prints"),
        (["--stderr", "e"], "files for what it prints"),
        (["--env", "A=b"], "an environment"),
        (["--checkpoint", "1m"], "checkpoints"),
    ] {
        let told = desk.wrong(&[&words[..], &["--noop"]].concat());
        let whole = format!("do nothing (--noop), or have {other}: not both");
        assert!(told.contains(&whole), "{words:?}: {told}");
    }

    let job = desk.job(&["--stdout", "none", "--stderr", "none", "--noop"]);
    assert_eq!(job.work, Work::Noop);

    let work = "output-file = [\"o\"]\ncheckpoint = \"1m\"\ncommand = [\"run\"]\n";
    let both = desk.file("both.toml", &format!("noop = true\n{work}"));
    let told = desk.wrong(&["--job-file", &both]);
    assert!(told.contains("or have a command: not both"), "{told}");

    // On the command line it takes the place of the file's work, and a command that of `noop`.
    let file = desk.file("job.toml", work);
    let job = desk.job(&["--job-file", &file, "--noop"]);
    assert_eq!((job.work, job.rules.checkpoint), (Work::Noop, false));
    let job = desk.job(&["--job-file", &both, "other"]);
    assert_eq!(command(&job).argv[0].as_str(), "other");
}

#[test]
fn automatic_limits_are_asked_for_where_a_deadline_reserves_time_and_nowhere_else() {
    let desk = Desk::new();
    let file = desk.file(
        "job.toml",
        "timeout = \"auto\"\ndeadline = \"2h\"\ncommand = [\"run\"]\n",
    );
    for words in [
        &["--timeout", "auto", "--deadline", "2h", "run"][..],
        &["--job-file", &file],
    ] {
        let rules = desk.job(words).rules;
        assert_eq!(
            (rules.policy.as_str(), rules.timeout),
            ("PROMISE:limits=learned", None),
            "{words:?}"
        );
    }

    let plan = desk.submit(&["--timeout", "auto", "run"]).unwrap();
    assert_eq!(plan.spec.rules, Rules::default());
    assert!(
        plan.notes
            .iter()
            .any(|note| note.contains("pay only where time is reserved")),
        "{:?}",
        plan.notes
    );

    let notes = desk
        .submit(&["--timeout", "auto", "--policy", "toptimal", "run"])
        .unwrap()
        .notes;
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn lists_make_one_task_for_each_item() {
    let desk = Desk::new();
    let (lines, json) = (
        desk.file("l", "one\r\n\ntwo words\nthree"),
        desk.file("j", r#"["a", 1, {"x": [2]}]"#),
    );
    let items = |words: &[&str]| desk.job(words).tasks.items;
    assert_eq!(
        items(&["--each-line", &lines, "run", "%{ITEM}"]),
        ["one", "two words", "three"]
    );
    assert_eq!(
        items(&["--from-json", &json, "run"]),
        ["a", "1", r#"{"x":[2]}"#]
    );
    let lines_of_json = desk.file("jl", "{\"x\": 1}\n\"b\"\n\n[2]\n");
    assert_eq!(
        items(&["--from-json", &lines_of_json, "run"]),
        [r#"{"x":1}"#, "b", "[2]"]
    );
    let one = desk.file("one", "{\"x\": 1}\n");
    assert_eq!(items(&["--from-json", &one, "run"]), [r#"{"x":1}"#]);

    // Each byte that means something is passed on, also of numbers that no float holds.
    let exact = r#"[{"seed": 18446744073709551617, "b" : "a \" b\\ ", "a":1e400}, 1.10, 340282366920938463463374607431768211455]"#;
    let exact = desk.file("exact", exact);
    assert_eq!(
        items(&["--from-json", &exact, "run"]),
        [
            r#"{"seed":18446744073709551617,"b":"a \" b\\ ","a":1e400}"#,
            "1.10",
            "340282366920938463463374607431768211455"
        ]
    );
    let broken = desk.file("broken", "{\"x\": 1}\n{\"x\": \n");
    let broken = desk.wrong(&["--from-json", &broken, "run"]);
    assert!(broken.contains("line 3"), "{broken}");
    let empty = desk.file("none", "[]");
    let empty = desk.wrong(&["--from-json", &empty, "run"]);
    assert!(
        empty.contains("one value per task in a JSON array"),
        "{empty}"
    );

    assert!(
        desk.wrong(&["--each-line", &desk.file("e", "\n\n"), "run"])
            .contains("is empty")
    );
    let none = desk.wrong(&[
        "--array",
        "1-2",
        "--estimates",
        &desk.file("e", "\n"),
        "run",
    ]);
    assert!(none.contains("is empty"), "{none}");

    assert!(
        desk.wrong(&["--from-json", &lines, "run"])
            .contains("is neither a JSON array nor JSON Lines")
    );

    let binary = desk.path("bin");
    std::fs::write(&binary, b"ok\n\xff\n").unwrap();
    assert!(
        desk.wrong(&["--each-line", &binary, "run"])
            .contains("line 2 of")
    );
}

#[test]
fn each_task_may_have_an_estimate_of_its_own() {
    let desk = Desk::new();
    let secs = |words: &[&str]| -> Vec<f64> {
        desk.submit(words)
            .unwrap()
            .asked()
            .estimates
            .iter()
            .map(|estimate| estimate.secs())
            .collect()
    };

    let json = desk.file(
        "j",
        r#"[{"x": 1, "estimate": "90s"}, {"estimate": 0.5}, {"x": 2}, "c"]"#,
    );
    assert_eq!(
        secs(&["--from-json", &json, "--estimate", "1m", "run"]),
        [90.0, 0.5, 60.0, 60.0]
    );
    assert_eq!(
        desk.job(&["--from-json", &json, "--estimate", "1m", "run"])
            .tasks
            .items[1],
        r#"{"estimate":0.5}"#
    );

    assert!(
        desk.wrong(&["--from-json", &json, "run"])
            .contains("item 3 has no estimate")
    );

    let times = desk.file("t", "90s\n\n 2m \r\n");
    assert_eq!(
        secs(&["--array", "1-2", "--estimates", &times, "run"]),
        [90.0, 120.0]
    );
    assert!(
        desk.wrong(&["--array", "1-3", "--estimates", &times, "run"])
            .contains("3 tasks but 2 estimates")
    );

    let file = desk.file(
        "job.toml",
        "array = \"4-5\"\nestimates = [\"1s\", \"2s\"]\ncommand = [\"run\"]\n",
    );
    assert_eq!(secs(&["--job-file", &file]), [1.0, 2.0]);
    assert!(
        secs(&["--job-file", &file, "--array", "1-9"]).is_empty(),
        "another bag than the file's"
    );

    let file = desk.file(
        "job.toml",
        &format!("array = \"4-5\"\nestimates = {times:?}\ncommand = [\"run\"]\n"),
    );
    assert_eq!(secs(&["--job-file", &file]), [90.0, 120.0]);
    for (text, at) in [("1m\nsoon\n", "line 2"), ("0s", "line 1"), ("90", "line 1")] {
        let wrong = desk.wrong(&[
            "--array",
            "1-2",
            "--estimates",
            &desk.file("t", text),
            "run",
        ]);
        assert!(wrong.contains(at) && wrong.contains("90s"), "{wrong}");
    }

    for said in ["0", "-1", "1e10", "\"high\"", "[1]", "null"] {
        let json = desk.file(
            "j",
            &format!(r#"[{{"estimate": 1}}, {{"estimate": {said}}}]"#),
        );
        assert!(
            desk.wrong(&["--from-json", &json, "run"])
                .contains("item 2"),
            "{said}"
        );
    }
}

#[test]
fn a_deadline_that_is_a_date_stays_one() {
    let desk = Desk::new();
    let at = Some(Time(1_900_000_000_000_000));
    let toml = |line: &str| desk.file("job.toml", &format!("{line}\ncommand = [\"run\"]\n"));

    for words in [
        &["--deadline", "2030-03-17T17:46:40Z", "run"][..],
        &["--job-file", &toml("deadline = 2030-03-17T17:46:40Z")],
    ] {
        let plan = desk.submit(words).unwrap();
        assert_eq!(
            (plan.asked().deadline, plan.spec(hashed).rules.deadline),
            (at, Some(Span::ZERO)),
            "{words:?}"
        );
    }

    assert_eq!(
        desk.submit(&["--job-file", &toml("deadline = 2030-03-17")])
            .unwrap()
            .asked()
            .deadline
            .map(|at| at.0 % 1_000_000),
        Some(0)
    );

    let plan = desk
        .submit(&["--job-file", &toml("deadline = \"2h\"")])
        .unwrap();
    assert_eq!(*plan.asked(), SubmitOptions::default());

    let wrong = desk.wrong(&["--job-file", &toml("deadline = 5")]);
    assert!(
        wrong.contains("line 1") && wrong.contains("2026-03-01T09:30:00Z"),
        "{wrong}"
    );

    let wrong = desk.wrong(&["--policy", "fcfs", "--deadline", "2h", "run"]);
    assert!(
        wrong.contains("FCFS promises no deadlines") && wrong.contains("PROMISE"),
        "{wrong}"
    );
}

#[test]
fn inputs_are_chosen_for_each_task() {
    let desk = Desk::new();
    let list = desk.file(
        "l",
        &["a.dat", "c d.dat", "a.dat"]
            .map(|name| desk.path(name))
            .join("\n"),
    );
    let plan = desk
        .submit(&[
            "--each-line",
            &list,
            "--input",
            "%{ITEM}:in/%{TASK_ID}.dat",
            "run",
        ])
        .unwrap();
    assert_eq!(plan.locals().len(), 2, "each file is uploaded once");

    let job = plan.spec(hashed);
    let input = &command(&job).inputs[0];
    assert_eq!(
        input.blob(1, "linux-x86_64"),
        Some(link::content::hash_bytes(b"c d.dat"))
    );

    let attempt = AttemptId {
        task: TaskId::new(JobId(1), 2),
        number: 1,
        incarnation: Incarnation(1),
    };
    assert_eq!(
        input.name.expand(&TemplateValues {
            attempt,
            host: "h",
            platform: "p",
            item: "",
            width: None
        }),
        "in/2.dat"
    );

    // Absolute items cannot be names on the worker: the user is told to give one.
    let wrong = desk.wrong(&["--each-line", &list, "--input", "%{ITEM}", "run"]);
    assert!(
        wrong.contains("it is absolute") && wrong.contains("--input '%{ITEM}:in.dat'"),
        "{wrong}"
    );
}

#[test]
fn the_file_of_a_stream_is_checked_for_each_item() {
    let desk = Desk::new();
    let list = desk.file("l", "good\n/abs/b\n");
    for (flag, stream) in [("--stdout", "output"), ("--stderr", "error")] {
        let words = ["--each-line", &list, flag, "%{ITEM}.txt", "run"];
        let wrong = desk.wrong(&words);
        assert!(
            wrong.contains(&format!("the standard {stream} of task 2"))
                && wrong.contains("`/abs/b.txt`")
                && wrong.contains("%{TASK_ID}.txt"),
            "{wrong}"
        );
    }

    let list = desk.file("l", "good\nout\n");
    let words = "--stdout %{ITEM}.txt --output-file out.txt run".split(' ');
    let words: Vec<&str> = ["--each-line", &list].into_iter().chain(words).collect();
    let wrong = desk.wrong(&words);
    assert!(wrong.contains("`out.txt` is to be the file of"), "{wrong}");
}

#[test]
fn a_disclosed_job_says_when_its_tasks_run() {
    let desk = Desk::new();
    let said = |words: &[&str]| desk.submit(words).unwrap().proviso();
    assert_eq!(said(&["run"]), "");
    assert_eq!(said(&["--noop"]), "");

    let idle = said(&["--disclose", "--noop"]);
    assert!(
        idle.contains("while none that somebody waits for"),
        "{idle}"
    );
    let held = said(&["--disclose", "--policy", "INTERACTIVE-FCFS", "run"]);
    assert!(held.contains("start once they are requested"), "{held}");
}

#[test]
fn a_directory_for_each_task_is_said_to_be_one_whatever_its_name_is_to_be() {
    let desk = Desk::new();
    let dir = desk.path("data");
    std::fs::create_dir(&dir).unwrap();
    desk.file("data/in.dat", "in");
    let list = desk.file("dirs.txt", &format!("{dir}\n"));
    let bag = ["--each-line", &list];

    for input in ["%{ITEM}:D", "%{ITEM}/:D", "%{ITEM}/:D-%{ITEM}/"] {
        let told = desk.wrong(&[&bag[..], &["--input", input, "run"]].concat());
        assert!(
            told.contains("data") && told.contains("is a directory"),
            "{told}"
        );
        assert!(told.contains("try: --input-tree"), "{told}");
    }
    let for_one = format!("linux-x86_64={dir}:D");
    let told = desk.wrong(&["--input", &for_one, "run"]);
    assert!(told.contains("is a directory"), "{told}");

    let job = desk.job(&[&bag[..], &["--input-tree", "%{ITEM}:D", "run"]].concat());
    let inputs = &command(&job).inputs;
    assert!(
        matches!(inputs[0].source, InputSource::PerTask(_)),
        "{inputs:?}"
    );
}

#[test]
fn an_impossible_submission_is_refused_before_anything_is_sent() {
    let desk = Desk::new();
    let empty = desk.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let globbed = desk.path("**");
    let colon = desk.path("a:b.txt");
    std::fs::write(&colon, "").unwrap();
    let renamed = format!("--input '{colon}:in.dat'");
    let a = desk.path("a.dat");
    let missing = desk.path("missing");
    let file = format!("{a}:x");
    let below = format!("{a}:x/y");

    for (words, want) in [
        (
            vec!["--input", &missing, "run"],
            "cannot read the input file",
        ),
        (vec!["--input", "/dev/null", "run"], "is not a file"),
        (vec!["--input", &empty, "run"], "it has no files"),
        (vec!["--input", &globbed, "run"], "takes no patterns"),
        (vec!["--input", &colon, "run"], &renamed),
        (
            vec!["--input", &a, "--input", &a, "run"],
            "two inputs have the name",
        ),
        (
            vec!["--input", &file, "--input", &below, "run"],
            "the input `x/y` would lie in the input `x`",
        ),
        (
            vec!["--input", "%{HOST}", "run"],
            "is not known before the task runs",
        ),
        (vec!["--stdin", "x", "run"], "--input FILE:x --stdin x"),
        (vec!["run", "%{ITEM}"], "the job has no items"),
        (vec!["run", "%{TASK}"], "is not a placeholder"),
        (vec!["--policy", "PRICR", "run"], "try: PRI-CR?"),
        (vec!["--output-file", "a[", "run"], "is not a pattern"),
        (vec!["--stdout", "/abs", "run"], "it is absolute"),
        (
            vec!["--env", "A\n=x", "--name", "a\tb", "run"],
            "the job's name",
        ),
        (vec![], "there is nothing to run"),
    ] {
        let text = desk.wrong(&words);
        assert!(text.contains(want), "{words:?}: {text}");
    }
}

#[test]
fn an_output_outside_the_tasks_directory_is_refused_before_anything_is_sent() {
    let desk = Desk::new();
    for (glob, want) in [
        ("../x", "leads out of the task's directory"),
        ("a/../../x", "leads out of the task's directory"),
        ("/tmp/out.txt", "it is absolute"),
        ("./out.txt", "`.` as a name"),
        ("a//b", "an empty name"),
    ] {
        let text = desk.wrong(&["--output-file", glob, "run"]);
        let whole = text.contains(want) && text.contains(glob) && text.contains("\ntry: a path");
        assert!(whole, "{glob}: {text}");
    }

    let text = desk.wrong(&["--output-file", ".", "run"]);
    assert!(text.contains("'**' for all below"), "{text}");

    // A list of paths makes such names too.
    let list = desk.file("list", "fine\n/home/ann/photo\n");
    let each = ["--each-line", &list, "--output-file"];
    let text = desk.wrong(&[&each[..], &["%{ITEM}.txt", "run"]].concat());
    assert!(text.contains("`/home/ann/photo.txt`"), "{text}");

    // Neither does an item that Windows knows no file by.
    let list = desk.file("list", "fine\n12:30\n");
    let each = ["--each-line", &list, "--output-file"];
    let text = desk.wrong(&[&each[..], &["%{ITEM}.txt", "run"]].concat());
    let whole = text.contains("an output of task 2") && text.contains("`12:30.txt`");
    assert!(whole && text.contains("%{TASK_ID}.txt"), "{text}");
    desk.job(&[&each[..], &["%{ITEM}/", "run"]].concat());

    for glob in ["out.txt", "results/**", "..x/a..b", "%{TASK_ID}/*.csv"] {
        desk.job(&["--output-file", glob, "run"]);
    }
}

#[test]
fn job_files_have_the_names_of_the_flags_and_flags_go_before_them() {
    let desk = Desk::new();
    let text = "array = \"1-10\"\nretries = 3\npriority = 1\ntimeout = \"1m\"\nenv = [\"A=1\"]\ncommand = [\"run\", \"x\"]\n";
    let file = desk.file("job.toml", text);
    let job = desk.job(&["--job-file", &file]);
    assert_eq!(
        (job.tasks.ids.len(), job.rules.retries, job.name.as_str()),
        (10, 3, "run")
    );

    let job = desk.job(&[
        "--job-file",
        &file,
        "--array",
        "1-2",
        "--retries",
        "0",
        "--",
        "other",
    ]);
    assert_eq!(
        (
            job.tasks.ids.len(),
            job.rules.retries,
            job.rules.priority,
            job.name.as_str()
        ),
        (2, 0, 1, "other")
    );

    assert!(matches!(
        desk.job(&["--job-file", &file, "--noop"]).work,
        Work::Noop
    ));

    // A list on the command line takes the place of the file's array.
    let list = desk.file("l", "x\n");
    assert_eq!(
        desk.job(&["--job-file", &file, "--each-line", &list])
            .tasks
            .items,
        ["x"]
    );
}

#[test]
fn bad_job_files_name_the_line_and_the_key() {
    let desk = Desk::new();
    let wrong = |text: &str| desk.wrong(&["--job-file", &desk.file("job.toml", text)]);
    let text = wrong("name = \"x\"\nretires = 3\n");
    assert!(
        text.contains("line 2 of ") && text.contains("`retires`") && text.contains("`retries`"),
        "{text}"
    );

    let text = wrong("command = [\"x\"]\nretries = \"many\"\n");
    assert!(
        text.contains("line 2")
            && text.contains("retries = \"many\"")
            && text.contains("should be a whole number"),
        "{text}"
    );

    assert!(wrong("timeout = \"soon\"\n").contains("or `auto`"));
    assert!(wrong("array = \"1\"\neach-line = \"x\"\ncommand = [\"x\"]\n").contains("choose one"));
    assert!(
        desk.wrong(&["--job-file", &desk.path("none")])
            .contains("cannot read the job file")
    );
}

#[test]
fn a_program_that_stays_behind_is_pointed_out() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let program = dir.path().join("prog");
    std::fs::write(&program, "").unwrap();

    let program = program
        .strip_prefix(std::env::current_dir().unwrap())
        .unwrap()
        .display()
        .to_string();
    let notes = |words: &[&str]| Desk::new().submit(words).unwrap().notes.join(" ");
    assert!(notes(&["--", &program]).contains(&format!("add --input {program}")));
    assert!(notes(&["--input", &format!("{program}:p"), "--", "p"]).contains("write ./p"));
    assert!(notes(&["--input", &format!("{program}:p"), "--", "./p"]).contains("chmod +x"));
    assert_eq!(notes(&["--", "/bin/sh"]), "");
}

#[test]
fn a_file_named_without_a_slash_stays_behind_too() {
    // The tests run in the directory of this room, which has these files.
    let notes = |words: &[&str]| Desk::new().submit(words).unwrap().notes.join(" ");
    let behind = "`Cargo.toml` is a file here, but no input of the job";
    let told = notes(&["python3", "Cargo.toml"]);
    assert!(
        told.contains(behind) && told.contains("add --input Cargo.toml"),
        "{told}"
    );
    let told = notes(&["Cargo.toml"]);
    assert!(
        told.contains("try: deskgrid submit --job-file Cargo.toml"),
        "{told}"
    );

    for words in [
        &["python3", "src"][..],
        &["python3", "no-such-file"],
        &["--input", "Cargo.toml", "python3", "Cargo.toml"],
        &["--output-file", "Cargo.toml", "touch", "Cargo.toml"],
    ] {
        assert_eq!(notes(words), "", "{words:?}");
    }
}

#[test]
fn a_directory_as_an_input_stands_for_its_files_by_their_paths() {
    let desk = Desk::new();
    let dir = desk.path("tree");
    std::fs::create_dir_all(desk.0.path().join("tree/deep")).unwrap();
    for name in ["tree/top", "tree/deep/x%{y}"] {
        std::fs::write(desk.0.path().join(name), name).unwrap();
    }

    for (given, root) in [
        (dir.clone(), "tree"),
        (format!("{dir}/"), "tree"),
        (format!("{dir}/:data/set/"), "data/set"),
    ] {
        let plan = desk.submit(&["--input", &given, "run"]).unwrap();
        let job = plan.spec(hashed);
        let inputs = &job.work.command().unwrap().inputs;
        let names: Vec<_> = inputs.iter().map(|input| input.name.to_string()).collect();
        assert_eq!(
            names,
            [format!("{root}/deep/x%%{{y}}"), format!("{root}/top")]
        );
        let whole = link::content::hash_bytes(b"tree/top");
        assert_eq!(inputs[1].source, InputSource::Shared(whole));
    }
}

#[test]
fn the_name_of_a_directory_as_an_input_is_a_template_as_that_of_a_file_is() {
    let desk = Desk::new();
    std::fs::create_dir(desk.0.path().join("data")).unwrap();
    desk.file("data/50%{x}", "");
    let data = desk.path("data");
    let list = desk.file("l", "a\nb/c\n");

    let named = |words: &[&str], name: &str| {
        let given = format!("{data}:{name}");
        let words: Vec<&str> = (words.iter().copied())
            .chain(["--input", &given, "run"])
            .collect();
        desk.submit(&words).map(|plan| {
            let job = plan.spec(hashed);
            command(&job).inputs[0].name.to_string()
        })
    };
    let name = named(&["--array", "1-2"], "in-%{TASK_ID}/").unwrap();
    assert_eq!(name, "in-%{TASK_ID}/50%%{x}");
    let name = named(&["--each-line", &list], "%{ITEM}").unwrap();
    assert_eq!(name, "%{ITEM}/50%%{x}");

    let wrong = |words: &[&str], name: &str| named(words, name).unwrap_err().text();
    let unknown = wrong(&[], "in-%{TASK}");
    assert!(unknown.contains("is not a placeholder"), "{unknown}");
    let up = wrong(&["--array", "1-2"], "../%{TASK_ID}");
    assert!(up.contains("needs another name"), "{up}");
    let file = format!("{}:in-%{{ITEM}}", desk.path("a.dat"));
    for told in [
        wrong(&["--array", "1-2"], "in-%{ITEM}"),
        desk.wrong(&["--input", &file, "run"]),
    ] {
        assert!(told.contains("the job has no items"), "{told}");
    }
}

#[test]
fn names_below_a_directory_are_checked_with_the_longest_item() {
    let desk = Desk::new();
    std::fs::create_dir_all(desk.0.path().join("data")).unwrap();
    desk.file(&format!("data/{}", "n".repeat(200)), "");
    let given = format!("{}:%{{ITEM}}", desk.path("data"));
    let long = ["d", "e", "f", "g"].map(|name| name.repeat(240));
    for (item, why) in [
        (long.join("/"), "longer than 1024 bytes"),
        (["d"; 32].join("/"), "more than 32 names"),
    ] {
        let list = desk.file("l", &format!("a\n{item}\n{}\n", "b".repeat(100)));
        let told = desk.wrong(&["--each-line", &list, "--input", &given, "run"]);
        assert!(told.contains(why), "{told}");
    }
}

#[test]
fn a_directory_whose_names_are_too_long_together_is_refused_for_that() {
    let desk = Desk::new();
    std::fs::create_dir(desk.0.path().join("data")).unwrap();
    for number in 0..600 {
        desk.file(&format!("data/{number:0230}"), "");
    }
    let wrong = desk.wrong(&["--input", &desk.path("data"), "run"]);
    assert!(
        wrong.contains("the names of its files have more than 128 KiB")
            && wrong.contains("--input-tree"),
        "{wrong}"
    );
}

#[test]
fn trees_are_directories_and_archives_also_for_platforms() {
    let desk = Desk::new();
    std::fs::create_dir(desk.0.path().join("env")).unwrap();
    let (env, tar) = (desk.path("env"), desk.file("data.tar.gz", "x"));
    let job = desk.job(&["--input-tree", &env, "--input-tree", &tar, "run"]);
    let inputs = &command(&job).inputs;
    let names: Vec<_> = inputs.iter().map(|input| input.name.as_str()).collect();
    assert_eq!(
        names,
        ["env", "data"],
        "an archive's name without its ending"
    );
    assert!(inputs.iter().all(common::job::Input::is_tree));

    let builds = [
        format!("linux-x86_64={env}:t"),
        format!("windows-x86_64={tar}:t"),
    ];
    let job = desk.job(&[
        "--input-tree",
        &builds[0],
        "--input-tree",
        &builds[1],
        "run",
    ]);
    let inputs = &command(&job).inputs;
    let platforms = ["linux-x86_64", "windows-x86_64", "macos-aarch64"];
    let got = platforms.map(|platform| inputs[0].blob(0, platform).is_some());
    assert_eq!((inputs.len(), got), (1, [true, true, false]));

    let file = desk.file(
        "t.toml",
        &format!("input-tree = [\"{env}:t\"]\ncommand = [\"run\"]\n"),
    );
    assert!(command(&desk.job(&["--job-file", &file])).inputs[0].is_tree());
}

#[test]
fn a_platform_that_no_host_can_have_is_refused() {
    let desk = Desk::new();
    let data = desk.path("a.dat");
    for (flag, platform) in [
        ("--input", "linux-amd64"),
        ("--input", "win-x86_64"),
        ("--input-tree", "linux-amd64"),
    ] {
        let given = format!("{platform}={data}:t");
        let told = desk.wrong(&[flag, &given, "run"]);
        assert!(told.contains("names nothing that is known"), "{told}");
    }
}

#[test]
fn what_is_no_tree_is_refused_with_a_way_out() {
    let desk = Desk::new();
    std::fs::create_dir(desk.0.path().join("env")).unwrap();
    let (env, data) = (desk.path("env"), desk.path("a.dat"));
    let inside = format!("{data}:env/a.dat");
    let mixed = [
        format!("linux-x86_64={env}:t"),
        format!("windows-x86_64={data}:t"),
    ];
    for (words, said) in [
        (vec!["--input-tree", &data], [".tar.gz", "--input"]),
        (
            vec!["--input-tree", "/not/there"],
            ["cannot be read", "check the name"],
        ),
        (
            vec!["--input-tree", &env, "--input", &inside],
            ["would lie in the input `env`", "another name"],
        ),
        (
            vec!["--input-tree", &env, "--stdin", "env"],
            ["standard input", "tree"],
        ),
        (
            vec!["--input-tree", &mixed[0], "--input", &mixed[1]],
            ["a tree for others", "name"],
        ),
    ] {
        let words: Vec<_> = words.into_iter().chain(["run"]).collect();
        let refused = desk.wrong(&words);
        assert!(
            said.iter().all(|part| refused.contains(part)),
            "{words:?}: {refused}"
        );
    }
}

#[test]
fn a_build_needs_no_name_and_inputs_that_no_platform_has_together_are_refused() {
    let desk = Desk::new();
    let (data, other) = (desk.path("a.dat"), desk.file("b.dat", "b"));
    let [linux, windows] = [
        format!("linux-x86_64={data}"),
        format!("windows-x86_64={other}"),
    ];
    let job = desk.job(&["--input", &linux, "run"]);
    let inputs = &command(&job).inputs;
    assert_eq!(inputs[0].name.as_str(), "a.dat");
    assert!(inputs[0].blob(0, "linux-x86_64").is_some());

    let told = desk.wrong(&["--input", &linux, "--input", &windows, "run"]);
    for said in [
        "a.dat is for linux-x86_64, b.dat is for windows-x86_64",
        "PLATFORM=F:NAME",
    ] {
        assert!(told.contains(said), "{told}");
    }
    let both = format!("linux-x86_64={other}");
    desk.job(&["--input", &linux, "--input", &both, "run"]);
}
