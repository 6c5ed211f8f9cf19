//! The scheduler's tests: behaviours one by one, properties over random and hostile events, a
//! golden for each policy. All of them go through one door, [`world::World`], which checks every
//! step against an independent [`model::Model`].

#![allow(
    clippy::disallowed_methods,
    reason = "tests read goldens and settings of the test run"
)]

mod blame;
mod crowded;
mod deadlines;
mod events;
mod explaining;
mod foreseen;
mod gangs;
mod gaps;
mod goldens;
mod holding;
mod hosts;
mod jobs;
mod keeping;
mod known;
mod kondo;
mod learned;
mod malleable;
mod model;
mod moving;
mod needs;
mod office;
mod order;
mod overruns;
mod placing;
mod promises;
mod properties;
mod queued;
mod quorum;
mod reported;
mod reservation;
mod retries;
mod several;
mod shares;
mod speculation;
mod spread;
mod starts;
mod stuck;
mod together;
mod waiting;
mod world;
