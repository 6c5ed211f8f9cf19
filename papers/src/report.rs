//! The reports of the papers, as Markdown, CSV and SVG.

pub mod downey;
pub mod gainaru;
pub mod kondo;
mod markdown;
pub mod petrou;
pub mod wozniak;
