//! Jobs that can run on more or fewer hosts, held together from start to end (Downey, "Using Queue
//! Time Predictions for Processor Allocation", 1997): how fast they are on how many hosts, how long
//! what runs still lasts, when so many hosts will be free, and how good such predictions were. What
//! is not here: for how many hosts a job holds out (`policy::width`).

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
pub use line::{Waiting, starts_s};
pub use lives::{Learned, Lives};
pub use speedup::{Malleable, Speedup};
pub use wait::{Machine, Unit, Wait};
