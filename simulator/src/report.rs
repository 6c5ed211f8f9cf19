//! Reports of experiments, for people to read. What is not here: measuring.

pub mod downey;
pub mod figure;
pub mod gainaru;
pub mod kondo;
mod markdown;
pub mod petrou;
pub mod rows;
pub mod svg;
pub mod wozniak;
