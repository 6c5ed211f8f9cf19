//! Hosts that lie, with the scheduler's independent model plugged in.

use papers::liars::{self, Crowd, JobSeries, Lie, Scheme};

use crate::observer::Checked;

#[test]
fn the_model_agrees_with_every_step_of_runs_with_unchecked_liars() {
    let crowd = Crowd::new(20, 0.2, Lie::Now, 7);
    let scheme = Scheme {
        name: "",
        size: 1,
        adaptive: false,
    };
    let load = JobSeries { jobs: 3, tasks: 60 };
    let mut checked = Checked::default();
    let outcomes = liars::run_watched(&crowd, scheme, load, &mut checked);
    assert_eq!(outcomes, liars::run(&crowd, scheme, load));
    checked.saw(180, 180);
}
