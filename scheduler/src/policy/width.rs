//! How many hosts should a job hold out for?

/// Whether a job waits until it can have more hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Width {
    /// It takes what there is.
    Rigid,
}

impl Width {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Width::Rigid => "takes every slot it can get, at once",
        }
    }
}
