//! The paper's numbers, those of an independent simulation of the same model, and ours. Verdicts
//! are computed from the numbers, not typed.

use super::found::DrawResults;
use super::trial::SELF_FITTED;
use crate::report::Spread;

/// A number of the paper beside ours.
pub(super) struct PaperNumber {
    pub(super) claim: String,
    /// The number as the paper prints it.
    pub(super) paper: &'static str,
    /// The value of an independent simulation of the same model: the mean over five draws, and the
    /// standard deviation where it is known.
    pub(super) reference: Option<Reference>,
    pub(super) ours: Spread,
    /// The unit in which its numbers are written.
    pub(super) unit: NumberFormat,
}

type Reference = (f64, Option<f64>);

/// The format of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberFormat {
    /// A part, as percent.
    Percent,
    /// A change, as percent with its sign.
    Change,
    /// Seconds.
    Seconds,
    /// A plain number.
    Plain,
}

impl NumberFormat {
    pub(super) fn write(self, value: f64) -> String {
        match self {
            NumberFormat::Percent => format!("{:.1} %", 100.0 * value),
            NumberFormat::Change => format!("{:+.1} %", 100.0 * value),
            NumberFormat::Seconds => format!("{value:.0} s"),
            NumberFormat::Plain => format!("{value:.2}"),
        }
    }

    pub(super) fn spread(self, of: Spread) -> String {
        let sd = match self {
            NumberFormat::Percent | NumberFormat::Change => format!("{:.1}", 100.0 * of.sd),
            NumberFormat::Seconds => format!("{:.0}", of.sd),
            NumberFormat::Plain => format!("{:.2}", of.sd),
        };
        format!("{} ± {sd}", self.write(of.mean))
    }
}

impl PaperNumber {
    /// Whether ours is as near to the reference as draws are to each other: within two standard
    /// deviations, the larger of its and ours, or within the last digit that the reference is given
    /// with.
    pub(super) fn near(&self) -> Option<bool> {
        let (mean, sd) = self.reference?;
        let digit = match self.unit {
            NumberFormat::Percent | NumberFormat::Change => 0.001,
            NumberFormat::Seconds => 1.0,
            NumberFormat::Plain => 0.1,
        };
        let sd = sd.unwrap_or(0.0).max(self.ours.sd);
        Some((self.ours.mean - mean).abs() <= (2.0 * sd).max(digit))
    }

    pub(super) fn verdict(&self) -> &'static str {
        match self.near() {
            None => "",
            Some(true) => "within",
            Some(false) => "beyond",
        }
    }
}

/// A row of Table 1: rebels, minutes saved per job, and rebels who lose, as the paper has them and
/// in the reference. All but the minutes are in percent.
type PaperRow = (&'static str, [&'static str; 3], [Reference; 3]);
const TABLE_1: [PaperRow; 4] = [
    (
        "OPT",
        ["14 %", "13.8", "0 %"],
        [(14.0, Some(0.4)), (14.1, Some(0.7)), (0.0, None)],
    ),
    (
        "PRED",
        ["8 %", "12.8", "8 %"],
        [(8.2, Some(0.4)), (13.2, Some(0.6)), (7.5, None)],
    ),
    (
        "BIAS",
        ["10 %", "13.5", "8 %"],
        [(10.6, Some(0.4)), (13.9, Some(0.7)), (8.2, None)],
    ),
    (
        "HEUR",
        ["37 %", "12.8", "68 %"],
        [(36.0, Some(0.9)), (13.2, Some(0.6)), (72.0, None)],
    ),
];

/// The rows of Table 2: changes of turnaround and utilisation against AVG, in percent.
const TABLE_2: [(&str, [&str; 2], [Reference; 2]); 6] = [
    ("OPT", ["+9 %", "+0.1 %"], [(9.1, Some(1.2)), (1.7, None)]),
    ("PRED", ["-3 %", "+2.4 %"], [(-3.1, Some(0.7)), (3.5, None)]),
    ("BIAS", ["+5 %", "+1.0 %"], [(6.9, Some(1.1)), (1.9, None)]),
    (
        "BIAS, lock-in",
        ["+4.5 %", ""],
        [(6.0, Some(1.0)), (2.0, None)],
    ),
    (
        "BIAS, lock-in, risk 20 %",
        ["-0.3 %", ""],
        [(-1.0, Some(0.8)), (3.2, None)],
    ),
    ("HEUR", ["+37 %", "-5 %"], [(37.0, Some(5.2)), (-3.9, None)]),
];

/// Computes every number of the paper, in its order.
pub(super) fn claims(found: &DrawResults) -> Vec<PaperNumber> {
    let mut all = first(found);
    all.extend(asked(found));
    all.extend(followed(found));
    all.extend(scatter(found));
    all
}

fn first(found: &DrawResults) -> Vec<PaperNumber> {
    let avg = found.followed("AVG").map(|avg| avg.turnaround_s);
    let claim = |claim: &str, paper, reference, ours, unit| PaperNumber {
        claim: claim.into(),
        paper,
        reference,
        ours,
        unit,
    };
    let mut all = vec![
        claim(
            "jobs with all processors that they can use, under AVG",
            "63 %",
            Some((0.64, None)),
            found.spoiled,
            NumberFormat::Percent,
        ),
        claim(
            "median run time under AVG",
            "180 s",
            Some((179.0, None)),
            found.median_s,
            NumberFormat::Seconds,
        ),
        claim(
            "mean run time under AVG",
            "4680 s",
            Some((4317.0, None)),
            found.mean_s,
            NumberFormat::Seconds,
        ),
    ];
    all.extend(avg.map(|ours| {
        claim(
            "mean turnaround under AVG",
            "4795 s",
            Some((4499.0, Some(126.0))),
            ours,
            NumberFormat::Seconds,
        )
    }));

    if let Some(opt) = found.asked("OPT") {
        all.push(claim(
            "median saving of who should hold out",
            "900 s",
            None,
            opt.median_s,
            NumberFormat::Seconds,
        ));

        all.push(claim(
            "mean saving of who should hold out",
            "5760 s",
            None,
            opt.mean_s,
            NumberFormat::Seconds,
        ));
    }

    all
}

fn percent((mean, sd): Reference) -> Option<Reference> {
    Some((mean / 100.0, sd.map(|sd| sd / 100.0)))
}

fn asked(found: &DrawResults) -> Vec<PaperNumber> {
    let mut all = Vec::new();
    for (label, papers, references) in TABLE_1 {
        let Some(line) = found.asked(label) else {
            continue;
        };
        let claim = |what: &str, at: usize, reference, ours, unit| PaperNumber {
            claim: format!("Table 1, {label}: {what}"),
            paper: papers[at],
            reference,
            ours,
            unit,
        };
        all.extend([
            claim(
                "jobs that hold out",
                0,
                percent(references[0]),
                line.rebels,
                NumberFormat::Percent,
            ),
            claim(
                "minutes saved per job",
                1,
                Some(references[1]),
                line.minutes,
                NumberFormat::Plain,
            ),
            claim(
                "of them lose",
                2,
                percent(references[2]),
                line.lose,
                NumberFormat::Percent,
            ),
        ]);
    }

    all
}

fn followed(found: &DrawResults) -> Vec<PaperNumber> {
    let mut all = Vec::new();
    for (label, papers, references) in TABLE_2 {
        let Some(line) = found.followed(label) else {
            continue;
        };
        let claim = |what: &str, at: usize, ours| PaperNumber {
            claim: format!("Table 2, {label}: {what} against AVG"),
            paper: papers[at],
            reference: percent(references[at]),
            ours,
            unit: NumberFormat::Change,
        };
        all.extend([
            claim("turnaround", 0, line.slower),
            claim("utilisation", 1, line.utilised),
        ]);
    }

    all
}

fn scatter(found: &DrawResults) -> Vec<PaperNumber> {
    let mut all = Vec::new();
    let rows = [
        (
            "PRED",
            "Figure 5a",
            ["0.6", "1.7", "0.48"],
            [Some((0.76, None)), Some((0.05, None)), Some((0.49, None))],
        ),
        // The paper corrects by the fit of its own predictions.
        (
            SELF_FITTED,
            "Figure 5b",
            ["1.01", "-0.01", "0.59"],
            [Some((0.93, None)), None, Some((0.54, None))],
        ),
        (
            "BIAS",
            "Figure 5b, by the paper's line",
            ["", "", ""],
            [None, None, None],
        ),
    ];
    for (label, figure, papers, references) in rows {
        let Some([slope, intercept, correlation]) =
            found.followed(label).and_then(|line| line.trend)
        else {
            continue;
        };

        let ours = [
            ("slope", slope),
            ("intercept", intercept),
            ("correlation", correlation),
        ];
        all.extend(ours.into_iter().zip(papers).zip(references).map(
            |(((what, ours), paper), reference)| PaperNumber {
                claim: format!("{figure}: {what}"),
                paper,
                reference,
                ours,
                unit: NumberFormat::Plain,
            },
        ));
    }

    all
}
