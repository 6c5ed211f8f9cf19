//! What was found when the grid was attacked from outside, each held from then on: disks that change bytes, and peers that ask
//! for what is not theirs.

mod content;
