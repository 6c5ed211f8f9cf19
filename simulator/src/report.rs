//! Reports of experiments, as Markdown, CSV and SVG.

pub mod downey;
pub mod figure;
pub mod gainaru;
pub mod kondo;
mod markdown;
pub mod petrou;
pub mod rows;
pub mod svg;
pub mod wozniak;
