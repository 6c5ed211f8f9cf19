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
    /// A group of changes is committed only under the master's own lease.
    pub fence_by_lease: bool,
    /// A commit that was in doubt and is found is told only after one more: only then it is known to
    /// be on the database's replica, too.
    pub barrier_before_telling: bool,
    /// A master that has not committed for a while commits an empty group before it says anything.
    pub sure_before_telling: bool,
    /// What a commit says of the lease holds from when it was sent: where its answer took as long as others
    /// wait, another one is committed before anything is said.
    pub silent_after_lease: bool,
    /// Groups that a replica lacks when it takes the database's place are written again.
    pub lost_groups_again: bool,
    /// The last numbers of jobs are kept with the group that uses them.
    pub numbers_by_core: bool,
    /// An object of a bucket is deleted only after it was condemned in a group that is durable.
    pub condemn_before_delete: bool,
    /// Whether somebody counts on content is looked at just before it is removed from a directory, after
    /// the store has said that no job needs it.
    pub use_before_removing: bool,
    /// Content is removed from a directory only because of changes that are durable: the store cannot go
    /// back to a state in which a job needs it.
    pub commit_before_removing: bool,
}

impl SafetyRules {
    /// All rules, as the program keeps them.
    pub const KEPT: Self = Self {
        acknowledge_after_commit: true,
        token_before_certificate: true,
        fence_by_incarnation: true,
        fence_by_lease: true,
        barrier_before_telling: true,
        sure_before_telling: true,
        silent_after_lease: true,
        lost_groups_again: true,
        numbers_by_core: true,
        condemn_before_delete: true,
        use_before_removing: true,
        commit_before_removing: true,
    };
}
