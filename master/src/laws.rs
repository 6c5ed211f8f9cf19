//! The rules of the master that make crashes harmless, by name. The program keeps all of them; only
//! a simulated world that drives [`crate::engine`] can break one, to show that its absence would be
//! noticed.

/// The set of rules that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SafetyRules {
    /// Nothing is acknowledged, sent or answered before what it says is durable.
    pub acknowledge_after_commit: bool,
    /// A token's use is durable before the certificate that it buys is returned.
    pub token_before_certificate: bool,
    /// Each start of the master gives its attempts a number of its own, so that nothing from before
    /// it is taken for something newer.
    pub fence_by_incarnation: bool,
}

impl SafetyRules {
    /// All rules, as the program keeps them.
    pub const KEPT: Self = Self {
        acknowledge_after_commit: true,
        token_before_certificate: true,
        fence_by_incarnation: true,
    };
}
