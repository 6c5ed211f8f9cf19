//! Reference data of the comparison: figures of an independent measurement of the same model, the
//! readings chosen where the paper leaves something open, and the names of the contenders. Nothing
//! here is measured by us.

/// The paper's four platforms.
pub(super) const PLATFORMS: [&str; 4] = ["sdsc", "gimps", "lri-wisc", "homogeneous"];
/// The later platforms.
pub(super) const LATER_PLATFORMS: [&str; 2] = ["internet-2016", "lab"];

/// The label of the default policy; `OURS_KEPT` adds checkpoints.
pub(super) const OURS: &str = "deskgrid";
pub(super) const OURS_KEPT: &str = "deskgrid, checkpoints";
/// The label of the paper's best policy.
pub(super) const TIMEOUT: &str = "EXCL-PRED-TO";

/// The policy of the paper that is shown at equal copies, and its platform.
pub(super) const EQUAL: &str = "EXCL-PRED-DUP*";
pub(super) const ENTERPRISE: &str = "sdsc";

/// The contenders: name, policy, and whether tasks checkpoint.
pub(super) const CONTENDERS: [(&str, &str, bool); 16] = [
    ("FCFS", "FCFS", false),
    ("PRI-CR", "PRI-CR", false),
    ("PRI-CR-WAIT", "PRI-CR-WAIT", false),
    ("PRI-HISTORY", "PRI-HISTORY", false),
    ("EXCL-S1.5", "EXCL-S1.5", false),
    ("EXCL-S1", "EXCL-S1", false),
    ("EXCL-S.5", "EXCL-S.5", false),
    ("EXCL-S.25", "EXCL-S.25", false),
    ("EXCL-PRED", "EXCL-PRED", false),
    ("EXCL-PRED-DUP", "EXCL-PRED-DUP", false),
    (TIMEOUT, TIMEOUT, false),
    ("EXCL-PRED-TO@.25", "EXCL-PRED-TO:revert=0.25", false),
    ("EXCL-PRED-TO@.95", "EXCL-PRED-TO:revert=0.95", false),
    (OURS, OURS, false),
    ("PRI-CR, checkpoints", "PRI-CR", true),
    (OURS_KEPT, OURS, true),
];

/// Geometric means over the nine sizes of jobs in an independent simulation of the same model, by
/// platform.
pub(super) const REFERENCE: [(&str, [f64; 4]); 8] = [
    ("FCFS", [3.250, 9.386, 2.130, 2.647]),
    ("PRI-CR", [2.600, 5.556, 1.872, 2.632]),
    ("EXCL-S.5", [1.856, 1.921, 1.885, 2.836]),
    ("EXCL-PRED", [1.943, 1.825, 1.848, 2.664]),
    (TIMEOUT, [1.373, 1.346, 1.445, 1.799]),
    ("EXCL-PRED-TO@.25", [1.319, 1.326, 1.399, 1.697]),
    ("EXCL-PRED-TO@.95", [1.363, 1.399, 1.393, 1.616]),
    ("PRI-CR, checkpoints", [2.563, 5.647, 1.745, 2.392]),
];
