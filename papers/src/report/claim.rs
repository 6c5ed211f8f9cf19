//! The claims of a paper: each with what the paper has, the measured result, and a verdict that is
//! computed from the result.

use super::markdown::Markdown;

/// The verdict on a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimVerdict {
    Holds,
    InPart,
    Not,
}

impl ClaimVerdict {
    /// Decides by whether the whole claim holds, and whether a part of it does.
    pub(super) fn of(whole: bool, part: bool) -> Self {
        match (whole, part) {
            (true, _) => ClaimVerdict::Holds,
            (false, true) => ClaimVerdict::InPart,
            (false, false) => ClaimVerdict::Not,
        }
    }
}

/// A claim of a paper, in our words.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Claim {
    /// The number that the paper prints, or the place at which it makes the claim.
    pub(super) paper: &'static str,
    pub(super) claim: &'static str,
    pub(super) ours: String,
    pub(super) verdict: ClaimVerdict,
}

/// The look of a table of claims.
pub(super) struct ClaimColumns {
    pub(super) heads: [&'static str; 4],
    /// Whether [`Claim::paper`] stands before [`Claim::claim`].
    pub(super) paper_first: bool,
    /// The words for [`ClaimVerdict::Holds`], `InPart` and `Not`.
    pub(super) words: [&'static str; 3],
}

/// The columns of tables in which the paper's numbers stand beside ours.
pub(super) const NUMBERS: ClaimColumns = ClaimColumns {
    heads: ["claim", "paper", "here", "verdict"],
    paper_first: false,
    words: ["reproduced", "in part", "not reproduced"],
};

impl ClaimColumns {
    /// Appends the table with these claims.
    pub(super) fn table(&self, out: &mut String, claims: Vec<Claim>) {
        out.heading(&self.heads);
        for claim in claims {
            let (first, second) = if self.paper_first {
                (claim.paper, claim.claim)
            } else {
                (claim.claim, claim.paper)
            };
            let verdict = self.words[claim.verdict as usize];
            out.row([first, second, &claim.ours, verdict]);
        }
        out.line("");
    }
}

/// Formats changes as signed percentages.
pub(super) fn percents(parts: &[f64]) -> String {
    parts
        .iter()
        .map(|part| format!("{:+.0} %", 100.0 * part))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Counts the claims with this verdict.
pub(super) fn count(claims: &[Claim], verdict: ClaimVerdict) -> usize {
    claims
        .iter()
        .filter(|claim| claim.verdict == verdict)
        .count()
}
