//! The task: works for some seconds at the speed that its host's directory says, and hangs or pauses
//! when that says so. The directory is the first of `PATH`.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_millis(20);

/// Whether this process is a task: it was started under that name.
pub(crate) fn is_asked(args: &[String]) -> bool {
    let name = std::env::args().next().unwrap_or_default();
    name.rsplit('/').next() == Some("paced") && args.len() == 1
}

pub(crate) fn run(args: &[String]) {
    let work_s: f64 = args[0].parse().expect("the work in seconds");
    let path = std::env::var("PATH").unwrap_or_default();
    let dir = PathBuf::from(path.split(':').next().unwrap_or_default());
    let mut done_s = 0.0;
    let mut last = Instant::now();

    while done_s < work_s {
        let left = Duration::from_secs_f64(work_s - done_s);
        std::thread::sleep(STEP.min(left));
        if fs::remove_file(dir.join("hang")).is_ok() {
            loop {
                std::thread::park();
            }
        }

        let speed = fs::read_to_string(dir.join("speed"));
        let speed = speed.ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
        // A process that was stopped did nothing meanwhile.
        let step_s = last.elapsed().min(2 * STEP).as_secs_f64();
        last = Instant::now();
        if !dir.join("pause").exists() {
            done_s += speed * step_s;
        }
    }
}
