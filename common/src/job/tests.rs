//! Tests of jobs: which ones make sense, and what they name.

use super::*;

fn job(work: Work) -> JobSpec {
    let tasks = TaskSet {
        ids: IdSet::from_range(1, 3),
        items: Vec::new(),
    };
    JobSpec {
        name: "j".into(),
        tasks,
        work,
        rules: Rules::default(),
    }
}

fn command() -> CommandSpec {
    CommandSpec::new(vec!["true".parse().unwrap()])
}

#[test]
fn a_plain_job_is_taken() {
    assert_eq!(job(Work::Noop).check(), Ok(()));
    assert_eq!(job(Work::Command(command())).check(), Ok(()));
}

#[test]
fn tasks_with_too_many_gaps_between_their_numbers_are_refused() {
    let odd = |count: u32| (0..count).map(|at| 2 * at + 1).collect();
    let checked = |ids: IdSet| {
        let items = Vec::new();
        let tasks = TaskSet { ids, items };
        JobSpec {
            tasks,
            ..job(Work::Noop)
        }
        .check()
    };

    let most = MAX_TASK_RANGES as u32;
    assert_eq!(checked(odd(most)), Ok(()));
    let one_more = Err(BadJob::TooManyRanges(MAX_TASK_RANGES + 1));
    assert_eq!(checked(odd(most + 1)), one_more);
}

#[test]
fn an_input_inside_a_tree_or_file_is_refused_wherever_it_stands_in_the_list() {
    let blob = BlobRef {
        hash: crate::content::BlobHash([1; 32]),
        size: 1,
    };
    let checked = |names: [&str; 3]| {
        let mut c = command();
        c.inputs.extend(names.iter().map(|name| Input {
            name: name.trim_end_matches('/').parse().unwrap(),
            kind: match name.ends_with('/') {
                true => InputKind::Tree { parts: Vec::new() },
                false => InputKind::File,
            },
            source: InputSource::Shared(blob),
        }));
        job(Work::Command(c)).check()
    };

    for apart in [
        ["Env/", "env-1/x", "env.txt"],
        ["a/", "b/", "aa"],
        ["env/", "%{ITEM}/x", "e/nv"],
    ] {
        assert_eq!(checked(apart), Ok(()), "{apart:?}");
    }
    for (inside, other, tree) in [
        (["Env/", "a", "eNV/x/y"], "eNV/x/y", "Env"),
        (["env/a/b", "a", "env/"], "env/a/b", "env"),
        (["env/", "env/x/", "a"], "env/x", "env"),
        (["x", "x.y", "X/sub/y"], "X/sub/y", "x"),
        (["%{ITEM}/y", "a", "%{ITEM}"], "%{ITEM}/y", "%{ITEM}"),
    ] {
        let refused = BadJob::InputInInput(other.to_owned(), tree.to_owned());
        assert_eq!(checked(inside), Err(refused), "{inside:?}");
    }
}

#[test]
fn content_that_is_named_several_times_is_listed_once() {
    let blob = |byte| BlobRef {
        hash: crate::content::BlobHash([byte; 32]),
        size: 1,
    };
    let mut c = command();
    c.inputs = vec![
        Input {
            name: "tree".parse().unwrap(),
            kind: InputKind::Tree {
                parts: vec![blob(2); 1_000],
            },
            source: InputSource::Shared(blob(3)),
        },
        Input {
            name: "file".parse().unwrap(),
            kind: InputKind::File,
            source: InputSource::PerTask(vec![blob(2), blob(1), blob(2)]),
        },
    ];

    let job = job(Work::Command(c));
    assert_eq!(job.content(), [blob(1), blob(2), blob(3)]);
}

#[test]
fn a_stream_has_a_file_of_its_own() {
    let checked = |stdout: &str, stderr: &str| {
        let mut c = command();
        c.outputs = vec!["result.txt".parse().unwrap(), "*.log".parse().unwrap()];
        c.stdout = Capture::File(stdout.parse().unwrap());
        c.stderr = Capture::File(stderr.parse().unwrap());
        job(Work::Command(c)).check()
    };

    assert_eq!(checked("out", "err"), Ok(()));
    let twice = |name: &str| Err(BadJob::StreamFileTwice(name.into()));
    assert_eq!(checked("%{ITEM}", "%{ITEM}"), twice("%{ITEM}"));
    assert_eq!(checked("result.txt", "err"), twice("result.txt"));
    assert_eq!(checked("out", "result.txt"), twice("result.txt"));
}

#[test]
fn the_file_of_a_stream_is_checked_with_each_item_in_its_name() {
    let checked = |stdout: &str, items: &[&str]| {
        let mut c = command();
        c.outputs = vec!["out.txt".parse().unwrap(), "%{ITEM}.png".parse().unwrap()];
        c.stdout = Capture::File(stdout.parse().unwrap());
        let mut job = job(Work::Command(c));
        job.tasks = TaskSet {
            ids: IdSet::from_range(1, items.len() as u32),
            items: items.iter().map(ToString::to_string).collect(),
        };
        job.check()
    };

    assert_eq!(checked("%{ITEM}.txt", &["a", "b/c", "d e"]), Ok(()));
    for item in ["/abs/b", "../b", "b:c", "b//c"] {
        let refused = checked("%{ITEM}.txt", &["a", item]).unwrap_err();
        let BadJob::StreamName { task, stream, .. } = refused else {
            panic!("{item}: {refused}");
        };
        assert_eq!((task, stream), (2, "standard output"), "{item}");
    }
    let twice = |name: &str| Err(BadJob::StreamFileTwice(name.into()));
    assert_eq!(checked("%{ITEM}.txt", &["a", "out"]), twice("out.txt"));
    assert_eq!(checked("a.png", &["b", "a"]), twice("a.png"));
    assert_eq!(checked("a[1].png", &["b", "a[1]"]), twice("a[1].png"));

    let mut c = command();
    c.stderr = Capture::File("COM%{TASK_ID}".parse().unwrap());
    let refused = job(Work::Command(c)).check().unwrap_err();
    assert!(refused.to_string().contains("reserved"), "{refused}");
}

#[test]
fn an_output_is_checked_with_each_item_in_its_name() {
    let checked = |output: &str, items: &[&str]| {
        let mut c = command();
        c.outputs = vec!["*.log".parse().unwrap(), output.parse().unwrap()];
        let mut job = job(Work::Command(c));
        job.tasks = TaskSet {
            ids: IdSet::from_range(1, items.len() as u32),
            items: items.iter().map(ToString::to_string).collect(),
        };
        job.check()
    };

    let fine = ["a", "b/c", "d e", "scan[1]", "a"];
    assert_eq!(checked("%{ITEM}.txt", &fine), Ok(()));
    for item in ["/abs/b", "../b", "b:c", "b//c", "why?"] {
        let refused = checked("%{ITEM}.txt", &["a", item]).unwrap_err();
        let BadJob::OutputName { task, .. } = refused else {
            panic!("{item}: {refused}");
        };
        assert_eq!(task, 2, "{item}");
    }
    // The files of a directory, and those that a pattern finds, are kept whatever they are called.
    for output in ["%{ITEM}/", "%{ITEM}/*.txt", "*-%{ITEM}"] {
        assert_eq!(checked(output, &["a", "b:c"]), Ok(()), "{output}");
        assert!(checked(output, &["a", "b//c"]).is_err(), "{output}");
    }

    let mut c = command();
    c.outputs = vec!["COM%{TASK_ID}".parse().unwrap()];
    let refused = job(Work::Command(c)).check().unwrap_err();
    assert!(refused.to_string().contains("reserved"), "{refused}");
}

#[test]
fn the_streams_of_tasks_that_are_added_are_checked_without_those_that_are_there() {
    let mut c = command();
    c.stdout = Capture::File("%{ITEM}".parse().unwrap());
    let mut job = job(Work::Command(c));
    job.tasks.items = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!(job.check(), Ok(()));

    let added = |item: &str| {
        job.check_files_of(&TaskSet {
            ids: IdSet::from_range(4, 4),
            items: vec![item.to_owned()],
        })
    };
    assert_eq!(added("d"), Ok(()));
    let refused = added("/d").unwrap_err();
    assert!(matches!(refused, BadJob::StreamName { task: 4, .. }));
}

#[test]
fn of_many_tasks_each_is_looked_at_only_where_its_item_matters() {
    let job = job(Work::Command(command()));
    let looked_at = |tasks: &TaskSet, items_matter| -> Vec<u32> {
        let values = job.looked_at(tasks, items_matter);
        values.map(|values| values.attempt.task.index).collect()
    };

    let few = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10_000_000];
    let unlisted = TaskSet {
        ids: IdSet::from_range(1, 10_000_000),
        items: Vec::new(),
    };
    assert_eq!(looked_at(&unlisted, false), few);
    assert_eq!(looked_at(&unlisted, true), few);

    let listed = TaskSet {
        ids: IdSet::from_range(1, 100),
        items: vec!["a".to_owned(); 100],
    };
    assert_eq!(looked_at(&listed, false).len(), 11);
    let all: Vec<u32> = (1..=100).chain([100]).collect();
    assert_eq!(looked_at(&listed, true), all);
}

#[test]
fn each_kind_of_nonsense_is_refused() {
    let with = |change: fn(&mut CommandSpec)| {
        let mut c = command();
        change(&mut c);
        job(Work::Command(c)).check().unwrap_err()
    };
    let input = |name: &str| Input {
        name: name.parse().unwrap(),
        kind: InputKind::File,
        source: InputSource::PerTask(Vec::new()),
    };
    assert_eq!(with(|c| c.argv.clear()), BadJob::NoCommand);
    assert_eq!(
        with(|c| c.env.push(("A=B".into(), "".parse().unwrap()))),
        BadJob::EnvName("A=B".into())
    );
    assert_eq!(
        with(|c| c.stdin = "x".parse().ok()),
        BadJob::Stdin("x".into())
    );

    let often = |c: &mut CommandSpec| c.checkpoint = Some(Span::from_millis(10));
    assert_eq!(
        with(often),
        BadJob::CheckpointInterval(Span::from_millis(10))
    );
    assert_eq!(
        with(|c| c.checkpoint = Some(Span::from_secs(9))),
        BadJob::CheckpointRule(false)
    );

    let mut c = command();
    c.inputs = vec![input("../up")];
    assert!(matches!(
        job(Work::Command(c.clone())).check(),
        Err(BadJob::InputName(_))
    ));
    c.inputs = vec![input("a")];
    assert!(matches!(
        job(Work::Command(c)).check(),
        Err(BadJob::Mismatch {
            tasks: 3,
            given: 0,
            ..
        })
    ));

    let mut empty = job(Work::Noop);
    empty.tasks.ids = IdSet::new();
    assert_eq!(empty.check(), Err(BadJob::NoTasks));
}

#[test]
fn estimates_are_one_for_each_task_and_a_deadline_is_one() {
    let second = Span::from_secs(1);
    let job = job(Work::Noop);
    let asked = |estimates: &[Span]| SubmitOptions {
        deadline: None,
        estimates: estimates.to_vec(),
        ..SubmitOptions::default()
    };

    assert_eq!(SubmitOptions::default().check(&job), Ok(()));
    let mut at_once = job.clone();
    at_once.rules.estimate = Some(Span::ZERO);
    let refused = SubmitOptions::default().check(&at_once);
    assert_eq!(refused, Err(BadJob::NoTimeForAll));
    assert_eq!(asked(&[second; 3]).check(&job), Ok(()));
    assert_eq!(
        asked(&[second; 2]).check(&job).unwrap_err().to_string(),
        "the job has 3 tasks but 2 estimates"
    );
    assert_eq!(
        asked(&[second]).check(&job).unwrap_err().to_string(),
        "the job has 3 tasks but 1 estimate"
    );
    assert_eq!(
        asked(&[second, Span::ZERO, second]).check(&job),
        Err(BadJob::NoTime(2))
    );

    let date = SubmitOptions {
        deadline: Some(Time(9)),
        estimates: Vec::new(),
        ..SubmitOptions::default()
    };
    assert_eq!(date.check(&job), Err(BadJob::TwoDeadlines));

    let rules = |span| Rules {
        deadline: Some(span),
        ..Rules::default()
    };
    assert_eq!(
        date.check(&JobSpec {
            rules: rules(second),
            ..job.clone()
        }),
        Err(BadJob::TwoDeadlines)
    );

    assert_eq!(
        date.check(&JobSpec {
            rules: rules(Span::ZERO),
            ..job
        }),
        Ok(())
    );
}

#[test]
fn a_quorum_of_nonsense_is_refused_and_ways_to_compare_are_read() {
    let with = |size, work| {
        let quorum = Quorum {
            size,
            ..Quorum::default()
        };
        JobSpec {
            rules: Rules {
                quorum,
                ..Rules::default()
            },
            ..job(work)
        }
    };
    assert_eq!(with(MAX_QUORUM, Work::Noop).check(), Ok(()));
    for size in [0, MAX_QUORUM + 1] {
        assert_eq!(
            with(size, Work::Noop).check(),
            Err(BadJob::QuorumSize(size))
        );
    }

    let saving = CommandSpec {
        checkpoint: Some(Span::from_secs(9)),
        ..command()
    };
    let mut both = with(2, Work::Command(saving));
    both.rules.checkpoint = true;
    assert_eq!(both.check(), Err(BadJob::QuorumOfStates));
    assert_eq!("bytes".parse(), Ok(Compare::Bytes));
    assert_eq!(
        "float:1e-6".parse(),
        Ok(Compare::Floats(Tolerance::new(1e-6).unwrap()))
    );

    for text in ["bytes", "program", "float:0.0", "float:0.05", "float:1e-6"] {
        let read: Compare = text.parse().unwrap();
        assert_eq!(read.to_string(), text);
    }

    for bad in [
        "",
        "float",
        "float:",
        "float:1",
        "float:-1",
        "float:nan",
        "bytes:1",
        "numbers",
    ] {
        assert!(bad.parse::<Compare>().is_err(), "{bad}");
    }
}

#[test]
fn a_tolerance_that_no_program_of_ours_sends_is_refused_when_it_comes_over_the_wire() {
    for part in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, 1.0] {
        let tolerance: Tolerance =
            postcard::from_bytes(&postcard::to_stdvec(&part.to_bits()).unwrap()).unwrap();

        let quorum = Quorum {
            size: 2,
            adaptive: false,
            compare: Compare::Floats(tolerance),
        };
        let job = JobSpec {
            rules: Rules {
                quorum,
                ..Rules::default()
            },
            ..job(Work::Noop)
        };
        let refused = job.check().expect_err("it compares nothing").to_string();
        assert!(
            refused.contains(&part.to_string()) && refused.contains("float:1e-6"),
            "{refused}"
        );
    }
}

#[test]
fn too_many_labels_and_jobs_to_wait_for_are_refused() {
    let job = job(Work::Noop);
    let label = |n: usize| format!("l{n}").parse::<Label>().unwrap();
    let labelled = |count: usize| SubmitOptions {
        labels: (0..count).map(label).collect(),
        ..SubmitOptions::default()
    };
    assert_eq!(labelled(MAX_LABELS).check(&job), Ok(()));
    let refused = labelled(MAX_LABELS + 1).check(&job).unwrap_err();
    assert!(refused.to_string().contains("32 at most"), "{refused}");

    let after = |ids: &mut dyn Iterator<Item = u32>| SubmitOptions {
        after: ids
            .map(|id| After {
                job: JobId(id),
                how: crate::EndCondition::Ok,
            })
            .collect(),
        ..SubmitOptions::default()
    };
    let many = MAX_AFTER as u32;
    assert_eq!(after(&mut (1..=many)).check(&job), Ok(()));
    assert_eq!(
        after(&mut (0..=many)).check(&job),
        Err(BadJob::AfterTooMany(MAX_AFTER + 1))
    );
    assert_eq!(
        after(&mut [7, 8, 7].into_iter()).check(&job),
        Err(BadJob::AfterTwice(JobId(7)))
    );
}

#[test]
fn an_open_job_has_nothing_that_later_tasks_could_not_have() {
    let open = SubmitOptions {
        open: true,
        ..SubmitOptions::default()
    };
    assert_eq!(open.check(&job(Work::Noop)), Ok(()));

    let mut due = job(Work::Noop);
    due.rules.deadline = Some(Span::from_secs(9));
    assert_eq!(open.check(&due), Err(BadJob::OpenWith("a deadline")));

    let estimated = SubmitOptions {
        estimates: vec![Span::from_secs(1); job(Work::Noop).tasks.ids.len() as usize],
        ..open.clone()
    };
    let why = BadJob::OpenWith("an estimate for each task");
    assert_eq!(estimated.check(&job(Work::Noop)), Err(why));

    let mut command = command();
    command.inputs.push(Input {
        name: "in".parse().unwrap(),
        kind: InputKind::File,
        source: InputSource::PerTask(Vec::new()),
    });
    let own_files = job(Work::Command(command));
    let why = BadJob::OpenWith("an input file for each task");
    assert_eq!(open.check(&own_files), Err(why));
}

#[test]
fn items_belong_to_tasks_in_order() {
    let tasks = TaskSet {
        ids: IdSet::from_iter([2, 5, 9]),
        items: vec!["a".into(), "b".into(), "c".into()],
    };
    assert_eq!(
        (tasks.item(2), tasks.item(5), tasks.item(9)),
        ("a", "b", "c")
    );
}
