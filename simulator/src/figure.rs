//! Figures as data ([`Figure`]), and their CSV. They are drawn in `svg`.

mod svg;

use std::fmt::Write;

pub use svg::draw;

/// A figure of a report.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The name of its file, without extension.
    pub name: String,
    /// The title above it.
    pub title: String,
    /// The label of the horizontal axis, with its unit.
    pub x: String,
    /// The label of the vertical axis, with its unit.
    pub y: String,
    /// Whether the vertical axis is logarithmic.
    pub log: bool,
    /// The contents.
    pub body: Body,
}

/// The kinds of contents.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// Lines, each with a name.
    Lines(Vec<PlotLine>),
    /// Lines with error bars at each point, each with a name.
    Spread(Vec<(String, Points)>),
    /// Points, and lines through them, each with a name.
    Cloud {
        /// The points.
        points: Vec<(f64, f64)>,
        /// The lines.
        lines: Vec<PlotLine>,
    },
    /// Bars in groups.
    Bars {
        /// The groups' names.
        groups: Vec<String>,
        /// The series, each with its name and a bar for each group.
        series: Vec<(String, Vec<Bar>)>,
    },
}

/// A line with its name and its points.
pub type PlotLine = (String, Vec<(f64, f64)>);

/// The points of a line, each as (x, y, half the height of its error bar).
pub type Points = Vec<(f64, f64, f64)>;

/// A bar, with the ends of its confidence interval where there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// The height of the bar; NaN leaves it out.
    pub value: f64,
    /// The 95 % confidence interval of `value`.
    pub ci: Option<(f64, f64)>,
}

impl Figure {
    /// Creates a figure whose vertical axis is linear.
    pub fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        x: impl Into<String>,
        y: impl Into<String>,
        body: Body,
    ) -> Self {
        Figure {
            name: name.into(),
            title: title.into(),
            x: x.into(),
            y: y.into(),
            log: false,
            body,
        }
    }

    /// The numbers of the figure as CSV, one on a line.
    pub fn csv(&self) -> String {
        let mut out = String::new();
        match &self.body {
            Body::Lines(lines) | Body::Cloud { lines, .. } => {
                out.push_str("series,x,y\n");
                if let Body::Cloud { points, .. } = &self.body {
                    series(&mut out, "points", points);
                }
                for (name, points) in lines {
                    series(&mut out, name, points);
                }
            }
            Body::Spread(lines) => {
                out.push_str("series,x,y,sd\n");
                for (name, points) in lines {
                    for (x, y, sd) in points {
                        let _ = writeln!(
                            out,
                            "{},{},{},{}",
                            field(name),
                            number(*x),
                            number(*y),
                            number(*sd)
                        );
                    }
                }
            }
            Body::Bars { groups, series } => {
                out.push_str("group,series,value,low,high\n");
                for (name, bars) in series {
                    for (group, bar) in groups.iter().zip(bars) {
                        let ends = bar.ci.map(|(low, high)| (number(low), number(high)));
                        let (low, high) = ends.unwrap_or_default();
                        let _ = writeln!(
                            out,
                            "{},{},{},{low},{high}",
                            field(group),
                            field(name),
                            number(bar.value)
                        );
                    }
                }
            }
        }

        out
    }
}

fn series(out: &mut String, name: &str, points: &[(f64, f64)]) {
    for (x, y) in points {
        let _ = writeln!(out, "{},{},{}", field(name), number(*x), number(*y));
    }
}

/// Quotes a field of a CSV line if needed.
pub fn field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Formats a number of a CSV line with at most six decimals; empty if it is not finite.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return String::new();
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" {
        "0".to_owned()
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_has_a_line_for_each_number() {
        let bar = |value, ci| Bar { value, ci };
        let figure = Figure {
            name: "f".into(),
            title: "t".into(),
            x: "x".into(),
            y: "y".into(),
            log: false,
            body: Body::Bars {
                groups: vec!["a, b".into(), "c".into()],
                series: vec![(
                    "s".into(),
                    vec![bar(1.5, Some((1.0, 2.0))), bar(f64::NAN, None)],
                )],
            },
        };
        assert_eq!(
            figure.csv(),
            "group,series,value,low,high\n\"a, b\",s,1.5,1,2\nc,s,,,\n"
        );

        let lines = Figure {
            body: Body::Lines(vec![("s".into(), vec![(0.0, 1.0), (2.25, -0.0)])]),
            ..figure
        };
        assert_eq!(lines.csv(), "series,x,y\ns,0,1\ns,2.25,0\n");
    }
}
