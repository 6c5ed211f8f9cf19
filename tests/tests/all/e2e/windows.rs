//! Time that an owner's hours lend a host: what should not be done by their end waits, is told why,
//! and is started there once earlier runs say that it may be done after all.

use std::process::Command;

use tests::Grid;

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY: u32 = 24 * 60;

/// Minutes since Monday, midnight, as the clock of this machine shows them.
fn minute_of_week() -> u32 {
    let said = Command::new("date")
        .arg("+%u %H %M")
        .output()
        .expect("there is `date`")
        .stdout;
    let said = String::from_utf8(said).expect("text");
    let numbers: Vec<u32> = said
        .split_whitespace()
        .map(|number| number.parse().expect("a number"))
        .collect();
    (numbers[0] - 1) * DAY + numbers[1] * 60 + numbers[2]
}

/// Hours that began half an hour ago and end in forty minutes, and a whole day in some days.
fn hours() -> String {
    let now = minute_of_week();
    let week = 7 * DAY;
    let from = (now + week - 30) % week;
    let to = (now + 40) % week;
    let clock = |minute: u32| format!("{:02}:{:02}", minute % DAY / 60, minute % 60);
    let today = DAYS[(from / DAY) as usize];
    let later = DAYS[((now / DAY + 3) % 7) as usize];
    format!(
        "hours = [\"{today} {}-{}\", \"{later}\"]",
        clock(from),
        clock(to)
    )
}

#[test]
fn a_task_waits_where_hours_end_too_soon_for_it_and_starts_there_when_runs_say_that_it_may_be_done()
{
    let mut grid = Grid::start();
    let dedicated = include_str!("../../../../configs/worker-dedicated.toml");
    let config = dedicated.replace("[owner]\n", &format!("speed = 1.0\n[owner]\n{}\n", hours()));
    grid.worker("lent").config(&config).start();

    grid.until_ready();

    let long = grid.submit(["--estimate", "2h", "--", "sh", "-c", "sleep 0.2"]);
    let told = grid.text(["job", "explain", &long]);
    assert!(
        told.contains("owner's hours lend it for") && told.contains("a task should take 2h00m"),
        "{told}"
    );
    assert_eq!(grid.attempts(&format!("{long}.1")).len(), 0, "{told}");

    // What takes as long as nobody says starts there, and teaches how long runs of the program are.
    let short = grid.submit(["--array", "1-6", "--wait", "--", "sh", "-c", "sleep 0.2"]);
    assert_eq!(grid.attempts(&format!("{short}.6")).len(), 1);
    grid.wait(&long);

    let tried = grid.attempts(&format!("{long}.1"));
    let why = tried[0]["reason"].as_str().unwrap_or_default();
    assert!(
        why.contains("makes the most of the") && why.contains("done by then with 100 %"),
        "{tried:?}"
    );
    assert!(
        why.contains("killed if it takes longer than"),
        "its limit is the end of the hours: {tried:?}"
    );
    assert_eq!(
        (tried.len(), &tried[0]["host"]),
        (1, &"lent".into()),
        "{tried:?}"
    );
}
