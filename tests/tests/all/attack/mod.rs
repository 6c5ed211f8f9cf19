//! What attackers from outside tried, each trial with the answer that it gets now.

mod confine;
