//! The pages of a grid in memory: their size, their cost to the master, and what hostile names do.

mod door;

use axum::http::StatusCode;
use common::text::acts;

use door::{Memory, PAGES, Size, fetch, pages};

/// A large office: a million tasks in 200 jobs, and 10,000 hosts.
const LARGE: Size = Size {
    hosts: 10_000,
    jobs: 200,
    tasks: 5_000,
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
async fn a_page_that_has_not_changed_is_not_sent_again() {
    let pages = pages(&Memory::new(Size {
        hosts: 3,
        jobs: 0,
        tasks: 0,
        mark: "",
    }));
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
    ] {
        let (status, _, text) = fetch(&pages, path, "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}: {text}");
        assert!(
            text.contains("<h1>") && text.contains("Try: "),
            "{path}: {text}"
        );
    }
}
