//! Malleable jobs: gangs that can run on more or fewer hosts, held from start to end (Downey,
//! "Using Queue Time Predictions for Processor Allocation", 1997): their speedup, the remaining
//! life of running jobs, the wait for a number of free hosts, and the errors of such predictions.
//! The choice of a width lives in `policy::width`.

mod accuracy;
mod fit;
mod lifetime;
mod line;
mod lives;
mod solve;
mod speedup;
mod wait;

pub(crate) use accuracy::corrected_s;
pub use accuracy::{Accuracy, Bias, Margin, Pending};
pub use fit::{Guess, fit};
pub use lifetime::{Lifetime, Paced, UniformLog, Within};
pub use line::{WaitingJob, starts_s};
pub use lives::{LearnedLives, Lives};
pub use speedup::{Malleable, Speedup};
pub use wait::{HostHolder, MachineState, Wait};
