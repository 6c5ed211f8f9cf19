//! The pages of a grid in memory: their size, their cost to the master, and what hostile names do.

mod door;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use common::IdSet;
use common::text::acts;
use common::token::Role;
use common::view::PromiseState;
use common::wire::client::Submission;
use tower::ServiceExt;
use uuid::Uuid;

use door::{Memory, PAGES, Size, fetch, pages, pages_for};

/// A large office: a million tasks in 200 jobs, and 10,000 hosts.
const LARGE: Size = Size {
    hosts: 10_000,
    jobs: 200,
    tasks: 5_000,
    mark: "",
};
/// A small office without a job.
const SMALL: Size = Size {
    hosts: 3,
    jobs: 0,
    tasks: 0,
    mark: "",
};
/// The largest page, in bytes.
const LARGEST: usize = 120 * 1024;

#[tokio::test]
async fn no_page_of_a_large_grid_is_large() {
    let pages = pages(&Memory::new(LARGE));
    for path in PAGES.iter().chain(&["/hosts/desk-00001"]) {
        let (status, _, text) = fetch(&pages, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert!(text.len() <= LARGEST, "{path} has {} bytes", text.len());
    }
}

#[tokio::test]
async fn a_large_job_is_drawn_with_the_tasks_that_began_last_whatever_its_numbers() {
    let every_tenth = (0..12_000).map(|place| 1 + 10 * place).collect();
    let mut one_far_off = IdSet::from_range(20_001, 31_999);
    one_far_off.insert(1_000_000);
    for (numbers, said) in [
        (IdSet::from_range(1, 12_000), "Of tasks 4004 to 9003"),
        (IdSet::from_range(0, 11_999), "Of tasks 4004 to 9003"),
        (
            IdSet::from_range(100_001, 112_000),
            "Of tasks 104004 to 109003",
        ),
        (every_tenth, "Of tasks 40031 to 90021"),
        // There is no telling which began last.
        (one_far_off, "Of tasks 20001 to 25000"),
    ] {
        let size = Size {
            hosts: 30,
            jobs: 5,
            tasks: 12_000,
            mark: "",
        };
        let pages = pages(&Memory::with(size, 0, numbers));

        for path in ["/jobs/1", "/jobs/5", "/jobs/1/why"] {
            let (status, _, text) = fetch(&pages, path, "").await;
            assert_eq!(status, StatusCode::OK, "{path}: {text}");
        }
        let (_, _, text) = fetch(&pages, "/jobs/1", "").await;
        assert!(text.contains("Where it ran"), "{said}: {text}");
        assert!(text.contains(said), "{said}: {text}");
    }
}

#[tokio::test]
async fn a_hundred_viewers_cost_the_master_what_one_does() {
    let grid = Memory::new(LARGE);
    let pages = pages(&grid);
    for _ in 0..100 {
        fetch(&pages, "/hosts", "").await;
    }
    let asked = grid.asked.lock().unwrap()["hosts"];
    // Once for each second that they take, and no machine takes a second for one.
    assert!(asked < 50, "the master was asked {asked} times");
}

#[tokio::test]
async fn who_is_not_let_in_any_more_is_told_what_helps_at_a_master_and_at_a_gateway() {
    let pages = pages(&Memory::new(SMALL));
    let (_, _, text) = fetch(&pages, "/hosts", "").await;
    let (_, out) = text.split_once("data-out=\"").expect("words for it");
    let (out, _) = out.split_once('"').expect("their end");
    assert!(out.contains("load this page again"), "{out}");
    assert!(!out.contains("deskgrid dashboard"), "{out}");
}

#[tokio::test]
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let pages = pages(&Memory::new(SMALL));
    let (_, mark, text) = fetch(&pages, "/hosts", "").await;
    assert!(!mark.is_empty() && !text.is_empty());
    let (status, same, text) = fetch(&pages, "/hosts", &mark).await;
    assert_eq!((status, same), (StatusCode::NOT_MODIFIED, mark));
    assert_eq!(text, "");
}

#[tokio::test]
async fn looks_of_a_script_are_answered_from_the_page_that_was_made_last() {
    let grid = Memory::new(LARGE);
    let pages = pages(&grid);
    let asked = || grid.asked.lock().unwrap().values().sum::<u64>();
    let (_, mark, _) = fetch(&pages, "/jobs/1/why", "").await;
    fetch(&pages, "/jobs/1/why", &mark).await;
    let before = asked();
    for _ in 0..50 {
        let (status, ..) = fetch(&pages, "/jobs/1/why", &mark).await;
        assert!(matches!(status, StatusCode::OK | StatusCode::NOT_MODIFIED));
    }
    let looks = asked() - before;

    // Whoever opens the page gets it as it is now.
    let before = asked();
    for _ in 0..50 {
        fetch(&pages, "/jobs/1/why", "").await;
    }
    let opened = asked() - before;
    assert!(
        opened >= 50 && looks < opened,
        "{looks} requests for looks, {opened} for pages that were opened"
    );
}

#[tokio::test]
async fn a_page_of_long_texts_is_whole_and_shows_the_beginnings_of_items() {
    let mark: &'static str = "m".repeat(30_000).leak();
    let pages = pages(&Memory::new(Size {
        hosts: 60,
        jobs: 6,
        tasks: 80,
        mark,
    }));
    for path in PAGES {
        // The script that looks again is told that it is as it was, and else gets all of it, too.
        let (status, known, text) = fetch(&pages, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}");
        assert!(text.ends_with("</html>"), "{path} has {} bytes", text.len());
        let (status, _, text) = fetch(&pages, path, &known).await;
        let whole = status == StatusCode::OK && text.ends_with("</html>");
        assert!(whole || status == StatusCode::NOT_MODIFIED, "{path}");
    }

    for path in ["/jobs/1", "/jobs/1/tasks/7"] {
        let (_, _, text) = fetch(&pages, path, "").await;
        let item = format!("item-7{}", &mark[..100]);
        assert!(text.contains(&item), "{path}");
        assert!(!text.contains(&format!("item-7{mark}")), "{path}");
    }
}

#[tokio::test]
async fn hostile_names_and_outputs_are_text_on_every_page() {
    let grid = Memory::new(Size {
        hosts: 5,
        jobs: 6,
        tasks: 20,
        mark: "<script src=//x></script>\"'&\u{1b}[2J\u{202e}\u{9b}31m",
    });
    let pages = pages(&grid);
    for path in PAGES {
        let (status, _, text) = fetch(&pages, path, "").await;
        assert_eq!(status, StatusCode::OK, "{path}: {text}");
        assert!(!text.contains("<script src=//x"), "{path}: {text}");
        let odd = text.chars().find(|c| acts(*c) && !"\n\t".contains(*c));
        assert_eq!(odd, None, "{path}");
    }
}

#[tokio::test]
async fn a_withdrawn_promise_is_not_drawn_as_one_that_stands() {
    for (state, stands) in [
        (PromiseState::OnTime, true),
        (PromiseState::Broken, true),
        (PromiseState::Withdrawn, false),
    ] {
        let grid = Memory::new(Size {
            hosts: 1,
            jobs: 1,
            tasks: 20,
            mark: "",
        });
        *grid.promised.lock().unwrap() = Some(state);
        let (_, _, text) = fetch(&pages(&grid), "/jobs/1", "").await;
        assert!(text.contains(&format!("</time>: {state}")), "{text}");
        assert_eq!(text.contains("swatch deadline"), stands, "{text}");
        assert_eq!(text.contains("<line class=\"deadline"), stands, "{text}");
    }
}

#[tokio::test]
async fn what_a_task_shows_of_a_result_that_others_did_not_confirm_is_said_to_be_that() {
    let pages = pages(&Memory::new(LARGE));
    for (task, open) in [(1, false), (2, true)] {
        let (status, _, text) = fetch(&pages, &format!("/jobs/1/tasks/{task}"), "").await;
        assert_eq!(status, StatusCode::OK, "{text}");
        let says = text.contains("with which not enough others agreed");
        assert_eq!(says, open, "{text}");
    }
}

#[tokio::test]
async fn hosts_that_are_gone_are_counted_nowhere_and_listed_apart() {
    let size = Size {
        hosts: 9,
        jobs: 1,
        tasks: 20,
        mark: "",
    };
    let grid = Memory::with_gone(size, 6);
    let pages = pages(&grid);
    let (_, _, now) = fetch(&pages, "/", "").await;
    assert!(now.contains(" of 3 PCs"), "{now}");
    assert!(!now.contains("desk-00008"), "{now}");

    let (_, _, hosts) = fetch(&pages, "/hosts", "").await;
    assert!(hosts.contains("<title>3 hosts"), "{hosts}");
    assert!(hosts.contains("desk-00002") && !hosts.contains("desk-00008"));
    assert!(hosts.contains("6 hosts are gone"), "{hosts}");
    let (_, _, named) = fetch(&pages, "/hosts?name=00008", "").await;
    assert!(named.contains("1 host is gone"), "{named}");
    let (_, _, gone) = fetch(&pages, "/hosts?state=gone&name=", "").await;
    assert!(gone.contains("desk-00008"), "{gone}");
    let (_, _, one) = fetch(&pages, "/hosts/desk-00008", "").await;
    assert!(one.contains("not expected back"), "{one}");
    assert!(
        one.contains("Why it takes no more tasks") && one.contains("reason of job 1"),
        "{one}"
    );

    // It is asked about one host, and about two together.
    fetch(&pages, "/calendar", "").await;
    assert_eq!(grid.asked.lock().unwrap()["waits"], 2);
}

#[tokio::test]
async fn what_is_not_there_is_told_with_what_to_do() {
    let pages = pages(&Memory::new(Size {
        hosts: 1,
        jobs: 1,
        tasks: 1,
        mark: "",
    }));
    for path in [
        "/jobs/7",
        "/jobs/x",
        "/jobs/1/tasks/9",
        "/jobs/1/tasks/x",
        "/jobs/1/explode",
        "/hosts/nobody",
        "/hosts/a/explode",
        "/admin/tokens/6/revoke",
        "/admin/tokens/x/revoke",
        "/admin/tokens/7/explode",
        "/admin/identities/nobody/approve",
    ] {
        let (status, _, text) = fetch(&pages, path, "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {text}");
        assert!(
            text.contains("<h1>") && text.contains("Try: "),
            "{path}: {text}"
        );
    }
}

/// Sends a form: the status of the answer, and its text.
async fn send(pages: &Router, path: &str, form: String) -> (StatusCode, String) {
    let request = Request::post(path)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(form))
        .expect("a request");
    let answer = pages.clone().oneshot(request).await.expect("an answer");
    let status = answer.status();
    let body = to_bytes(answer.into_body(), usize::MAX)
        .await
        .expect("a body");
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    (status, text)
}

/// Sends the form of a job.
async fn submit(pages: &Router, form: String) -> (StatusCode, String) {
    send(pages, "/submit", form).await
}

/// Whether the script of a page looks again, and whether the page is loaded again without it.
fn renewal(text: &str) -> (bool, bool) {
    (
        text.contains("data-every="),
        text.contains("http-equiv=\"refresh\""),
    )
}

#[tokio::test]
async fn answers_to_forms_and_forms_and_errors_stay_as_they_are() {
    let pages = pages(&Memory::new(Size {
        hosts: 3,
        jobs: 6,
        tasks: 20,
        mark: "",
    }));
    for (path, both) in [
        ("/", (true, true)),
        ("/jobs/1", (true, true)),
        ("/admin", (true, true)),
        // A load would wipe what is being typed into a filter.
        ("/jobs", (true, false)),
        ("/hosts", (true, false)),
        ("/submit", (false, false)),
        ("/jobs/1/cancel", (false, false)),
        ("/hosts/desk-00000/revoke", (false, false)),
        ("/admin/token", (false, false)),
        ("/admin/tokens/7/revoke", (false, false)),
        ("/admin/identities/new/approve", (false, false)),
        ("/jobs/99", (false, false)),
    ] {
        let (_, _, text) = fetch(&pages, path, "").await;
        assert!(text.contains("<h1"), "{path}: {text}");
        assert_eq!(renewal(&text), both, "{path}: {text}");
    }

    let token = "role=worker&name=lab&uses=1&hours=24";
    for (path, form, words) in [
        ("/submit", "command=true", "would be taken"),
        ("/admin/token", token, "This is the only time"),
        ("/admin/token", "role=admin", "a token is for"),
        // This grid refuses these.
        ("/jobs/1/cancel", "", "is nothing that a page asks here"),
        ("/hosts/a/revoke", "", "is nothing that a page asks here"),
    ] {
        let (_, text) = send(&pages, path, form.to_owned()).await;
        assert!(text.contains(words), "{path}: {text}");
        assert_eq!(renewal(&text), (false, false), "{path}: {text}");
    }
}

#[tokio::test]
async fn only_an_admin_sees_the_form_that_makes_a_token() {
    let grid = Memory::new(SMALL);
    let (status, _, text) = fetch(&pages_for(&grid, Role::Client), "/admin/token", "").await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{text}");
    assert!(text.contains("needs the role admin"), "{text}");
    assert!(!text.contains("<form"), "{text}");

    let (status, _, text) = fetch(&pages(&grid), "/admin/token", "").await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(text.contains("<form"), "{text}");
}

#[tokio::test]
async fn no_field_of_the_form_that_makes_a_token_is_sent_empty() {
    let (_, _, text) = fetch(&pages(&Memory::new(SMALL)), "/admin/token", "").await;
    for field in ["name", "uses", "hours"] {
        let name = format!("name=\"{field}\"");
        let (_, input) = text.split_once(&name).expect(field);
        let (input, _) = input.split_once('>').expect("the end of a field");
        assert!(input.contains(" required"), "{field}: {input}");
    }
}

#[tokio::test]
async fn who_may_come_in_is_changed_after_a_question() {
    let grid = Memory::new(SMALL);
    let pages = pages(&grid);
    let (_, _, admin) = fetch(&pages, "/admin", "").await;
    assert!(!admin.contains("<form"), "something acts at once: {admin}");

    for (path, subject, kind) in [
        ("/admin/tokens/7/revoke", "token 7 (lab)", "revocations"),
        ("/admin/tokens/8/revoke", "which acts as ada", "revocations"),
        ("/admin/identities/new/approve", "new (worker)", "approvals"),
    ] {
        assert!(admin.contains(&format!("href=\"{path}\"")), "{admin}");
        let done = || grid.asked.lock().unwrap().get(kind).copied().unwrap_or(0);
        let before = done();
        let (status, _, asked) = fetch(&pages, path, "").await;
        assert_eq!(status, StatusCode::OK, "{asked}");
        assert!(asked.contains(subject), "{asked}");
        assert_eq!(done(), before, "{path} acts before it is answered");

        let (status, text) = send(&pages, path, String::new()).await;
        assert_eq!(status, StatusCode::SEE_OTHER, "{text}");
        assert_eq!(done(), before + 1, "{path}");
    }
}

#[tokio::test]
async fn a_form_that_was_submitted_and_is_changed_is_another_job() {
    let grid = Memory::new(SMALL);
    let pages = pages(&grid);
    let form = |id: &str, command: &str| format!("id={id}&command={command}&go=true");
    let id = Uuid::from_u128(7).to_string();
    for _ in 0..2 {
        let (status, _) = submit(&pages, form(&id, "true")).await;
        assert_eq!(status, StatusCode::SEE_OTHER);
    }

    // Its user sees what would happen before it is submitted.
    let (status, text) = submit(&pages, form(&id, "false")).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    assert!(text.contains("would be taken"), "{text}");
    assert_eq!(grid.submitted.lock().unwrap().len(), 1);
    let (_, rest) = text.split_once("name=\"id\" value=\"").expect("an id");
    let fresh = &rest[..id.len()];
    assert_ne!(fresh, id);
    let (status, text) = submit(&pages, form(fresh, "false")).await;
    assert_eq!(status, StatusCode::SEE_OTHER, "{text}");
    assert_eq!(grid.submitted.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_form_with_very_many_items_is_sent_as_content() {
    let grid = Memory::new(SMALL);
    let pages = pages(&grid);
    let items = "some-item%0A".repeat(40_000);
    let form = format!("id={}&command=true&go=true&items={items}", Uuid::nil());
    let (status, text) = submit(&pages, form).await;
    assert_eq!(status, StatusCode::SEE_OTHER, "{text}");

    let sent = grid.sent.lock().unwrap();
    let submitted = grid.submitted.lock().unwrap();
    let [Submission::Blob(blob)] = submitted.values().collect::<Vec<_>>()[..] else {
        panic!("the job is no content");
    };
    assert!(sent.contains(blob) && blob.size > 256 * 1024, "{sent:?}");
}
