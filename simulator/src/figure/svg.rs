//! Draws a figure as SVG: axes with round numbers, lines or grouped bars with their confidence
//! intervals, and a legend.

use std::fmt::Write;

use super::{Bar, Body, Figure, Points};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 440.0;
/// The left, right, top and bottom edge of the drawing area.
const AREA: (f64, f64, f64, f64) = (70.0, 650.0, 44.0, 370.0);
/// Colours that colour-blind people can distinguish as well (after Okabe and Ito).
const COLORS: [&str; 8] = [
    "#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#7f7f7f", "#000000",
];
/// The dashes of lines once the colours are used up.
const DASHES: [&str; 3] = ["", "6 3", "2 3"];

/// Draws the figure as an SVG document.
pub fn draw(figure: &Figure) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
         height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let (left, right, top, bottom) = AREA;
    text(
        &mut out,
        ((left + right) / 2.0, top - 18.0),
        "middle",
        &figure.title,
        " font-size=\"14\"",
    );

    text(
        &mut out,
        ((left + right) / 2.0, HEIGHT - 14.0),
        "middle",
        &figure.x,
        "",
    );

    let turned = format!(" transform=\"rotate(-90 18 {})\"", (top + bottom) / 2.0);
    text(
        &mut out,
        (18.0, (top + bottom) / 2.0),
        "middle",
        &figure.y,
        &turned,
    );

    let vertical = Scale::over(&heights(figure), figure.log, (bottom, top));
    for tick in vertical.ticks() {
        let y = vertical.at(tick);
        line(&mut out, (left, y), (right, y), "#dddddd", "");
        text(&mut out, (left - 6.0, y + 4.0), "end", &label(tick), "");
    }

    match &figure.body {
        Body::Lines(lines) => draw_lines(&mut out, lines, &vertical),
        Body::Spread(lines) => draw_spread(&mut out, lines, &vertical),
        Body::Cloud { points, lines } => draw_cloud(&mut out, points, lines, &vertical),
        Body::Bars { groups, series } => draw_bars(&mut out, groups, series, &vertical),
    }

    line(&mut out, (left, bottom), (right, bottom), "black", "");
    line(&mut out, (left, top), (left, bottom), "black", "");
    out.push_str("</svg>\n");
    out
}

/// The numbers that the vertical axis must cover.
fn heights(figure: &Figure) -> Vec<f64> {
    match &figure.body {
        Body::Lines(lines) => lines
            .iter()
            .flat_map(|(_, points)| points.iter().map(|(_, y)| *y))
            .collect(),
        Body::Spread(lines) => lines
            .iter()
            .flat_map(|(_, points)| points.iter().map(|(_, y, sd)| y + sd))
            .collect(),
        Body::Cloud { points, lines } => points
            .iter()
            .chain(lines.iter().flat_map(|(_, points)| points))
            .map(|(_, y)| *y)
            .collect(),
        Body::Bars { series, .. } => {
            let bars = series.iter().flat_map(|(_, bars)| bars);
            bars.flat_map(|bar| [bar.value, bar.ci.map_or(bar.value, |(_, high)| high)])
                .collect()
        }
    }
}

/// Draws lines, with a bar at each point that reaches as far up as down.
fn draw_spread(out: &mut String, lines: &[(String, Points)], vertical: &Scale) {
    let plain: Vec<(String, Vec<(f64, f64)>)> = lines
        .iter()
        .map(|(name, points)| {
            (
                name.clone(),
                points.iter().map(|(x, y, _)| (*x, *y)).collect(),
            )
        })
        .collect();
    draw_lines(out, &plain, vertical);

    let horizontal = across(&plain);
    for (number, (_, points)) in lines.iter().enumerate() {
        for (x, y, sd) in points
            .iter()
            .filter(|(x, y, sd)| (x + y + sd).is_finite() && *sd > 0.0)
        {
            let x = horizontal.at(*x);
            line(
                out,
                (x, vertical.at(y - sd)),
                (x, vertical.at(y + sd)),
                COLORS[number % COLORS.len()],
                "",
            );
        }
    }
}

/// Draws points, and lines over them. The lines reach as far as the points do.
fn draw_cloud(
    out: &mut String,
    points: &[(f64, f64)],
    lines: &[(String, Vec<(f64, f64)>)],
    vertical: &Scale,
) {
    let horizontal = across(lines);
    for (x, y) in points
        .iter()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
    {
        let x = horizontal.at(*x);
        let y = vertical.at(*y);
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.2\" fill=\"#999999\"/>"
        );
    }

    draw_lines(out, lines, vertical);
}

/// The horizontal scale that covers these lines.
fn across(lines: &[(String, Vec<(f64, f64)>)]) -> Scale {
    let all: Vec<f64> = lines
        .iter()
        .flat_map(|(_, points)| points.iter().map(|(x, _)| *x))
        .collect();
    Scale::over(&all, false, (AREA.0, AREA.1))
}

fn draw_lines(out: &mut String, lines: &[(String, Vec<(f64, f64)>)], vertical: &Scale) {
    let bottom = AREA.3;
    let horizontal = across(lines);
    for tick in horizontal.ticks() {
        let x = horizontal.at(tick);
        line(out, (x, bottom), (x, bottom + 4.0), "black", "");
        text(out, (x, bottom + 18.0), "middle", &label(tick), "");
    }

    for (number, (name, points)) in lines.iter().enumerate() {
        let finite = points
            .iter()
            .filter(|(x, y)| x.is_finite() && y.is_finite());
        let path: Vec<String> = finite
            .map(|(x, y)| format!("{:.1},{:.1}", horizontal.at(*x), vertical.at(*y)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-dasharray=\"{}\"/>",
            path.join(" "),
            COLORS[number % COLORS.len()],
            DASHES[number / COLORS.len() % DASHES.len()]
        );

        legend(out, number, name);
    }
}

fn draw_bars(out: &mut String, groups: &[String], series: &[(String, Vec<Bar>)], vertical: &Scale) {
    let (left, right, _, bottom) = AREA;
    let group = (right - left) / groups.len().max(1) as f64;
    let wide = group * 0.84 / series.len().max(1) as f64;

    for (at, name) in groups.iter().enumerate() {
        text(
            out,
            (left + group * (at as f64 + 0.5), bottom + 18.0),
            "middle",
            name,
            " font-size=\"11\"",
        );
    }

    for (number, (name, bars)) in series.iter().enumerate() {
        for (at, bar) in bars
            .iter()
            .enumerate()
            .filter(|(_, bar)| bar.value.is_finite())
        {
            let x = left + group * (at as f64 + 0.08) + wide * number as f64;
            let y = vertical.at(bar.value);
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
                wide * 0.92,
                (bottom - y).max(0.0),
                COLORS[number % COLORS.len()]
            );

            if let Some((low, high)) = bar.ci {
                let middle = x + wide * 0.46;
                line(
                    out,
                    (middle, vertical.at(low)),
                    (middle, vertical.at(high)),
                    "#333333",
                    "",
                );
            }
        }

        legend(out, number, name);
    }
}

fn legend(out: &mut String, number: usize, name: &str) {
    let (_, right, top, _) = AREA;
    let y = top + 8.0 + 18.0 * number as f64;
    let dash = DASHES[number / COLORS.len() % DASHES.len()];
    let style = format!(" stroke-width=\"4\" stroke-dasharray=\"{dash}\"");
    line(
        out,
        (right + 14.0, y),
        (right + 36.0, y),
        COLORS[number % COLORS.len()],
        &style,
    );
    text(out, (right + 42.0, y + 4.0), "start", name, "");
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), color: &str, more: &str) {
    let ((x1, y1), (x2, y2)) = (from, to);
    let _ = writeln!(
        out,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\"{more}/>"
    );
}

fn text(out: &mut String, at: (f64, f64), anchor: &str, words: &str, more: &str) {
    let safe = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\"{more}>{safe}</text>",
        at.0, at.1
    );
}

/// Formats a tick's number as short as possible.
fn label(value: f64) -> String {
    super::number(value)
}

/// A scale that maps numbers to coordinates.
struct Scale {
    low: f64,
    high: f64,
    /// The distance between two ticks; unused on a logarithmic scale.
    step: f64,
    log: bool,
    places: (f64, f64),
}

impl Scale {
    /// Creates a scale from 0 (1 if logarithmic) or less to a round number at or beyond the largest
    /// of `values`.
    fn over(values: &[f64], log: bool, places: (f64, f64)) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let most = finite().fold(f64::NEG_INFINITY, f64::max);
        let least = finite().fold(f64::INFINITY, f64::min);

        if log {
            let high = if most > 1.0 { most * 1.1 } else { 2.0 };
            return Scale {
                low: least.clamp(0.5, 1.0),
                high,
                step: 1.0,
                log,
                places,
            };
        }

        let low = least.min(0.0);
        let high = if most > 0.0 { most } else { 1.0 };
        let low = if low.is_finite() { low } else { 0.0 };
        let step = step(high - low);
        Scale {
            low: (low / step).floor() * step,
            high: (high / step).ceil() * step,
            step,
            log,
            places,
        }
    }

    fn at(&self, value: f64) -> f64 {
        let bend = |value: f64| {
            if self.log {
                value.max(self.low).ln()
            } else {
                value
            }
        };
        let part = (bend(value) - bend(self.low)) / (bend(self.high) - bend(self.low));
        self.places.0 + part.clamp(0.0, 1.0) * (self.places.1 - self.places.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let all = [
                0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0,
            ];
            return all
                .into_iter()
                .filter(|tick| (self.low..=self.high).contains(tick))
                .collect();
        }

        let number = ((self.high - self.low) / self.step).round() as u32;
        (0..=number)
            .map(|tick| self.low + f64::from(tick) * self.step)
            .collect()
    }
}

/// A round step that divides a span into four to ten parts.
fn step(span: f64) -> f64 {
    let power = 10_f64.powf((span / 4.0).log10().floor());
    let fits = [5.0, 2.0, 1.0]
        .into_iter()
        .find(|times| times * power <= span / 4.0 + 1e-12);
    fits.unwrap_or(1.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(body: Body, log: bool) -> Figure {
        Figure {
            name: "f".into(),
            title: "a < b & c".into(),
            x: "x".into(),
            y: "y".into(),
            log,
            body,
        }
    }

    #[test]
    fn axes_have_round_numbers_from_zero_on() {
        let scale = Scale::over(&[3.0, 79.0], false, (0.0, 100.0));
        assert_eq!(
            scale.ticks(),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]
        );
        assert!((scale.at(40.0) - 50.0).abs() < 1e-9);
        assert_eq!(
            Scale::over(&[], false, (0.0, 1.0)).ticks().first(),
            Some(&0.0)
        );
    }

    #[test]
    fn every_number_has_its_mark_and_every_series_its_name() {
        let bar = |value| Bar {
            value,
            ci: Some((value * 0.9, value * 1.1)),
        };
        let groups = vec!["g1".to_owned(), "g2".to_owned()];
        let series = vec![
            ("one".to_owned(), vec![bar(1.0), bar(2.0)]),
            ("two".to_owned(), vec![bar(3.0), bar(4.0)]),
        ];
        let drawn = draw(&figure(Body::Bars { groups, series }, true));
        assert_eq!(drawn.matches("<rect x=").count(), 4);

        for word in ["one", "two", "g1", "g2", "a &lt; b &amp; c"] {
            assert!(
                drawn.contains(&format!(">{word}</text>")),
                "{word}: {drawn}"
            );
        }

        let line = vec![("l".to_owned(), vec![(0.0, 0.0), (1.0, 1.0)])];
        let cloud = draw(&figure(
            Body::Cloud {
                points: vec![(0.5, 1.0), (f64::NAN, 1.0)],
                lines: line.clone(),
            },
            false,
        ));
        assert_eq!(
            cloud.matches("<circle cx=\"360.0\" cy=\"44.0\"").count(),
            1,
            "{cloud}"
        );
        assert_eq!(cloud.matches("<circle").count(), 1);

        let drawn = draw(&figure(Body::Lines(line), false));
        assert!(
            drawn.contains("points=\"70.0,370.0 650.0,44.0\""),
            "{drawn}"
        );
    }

    #[test]
    fn nothing_is_drawn_of_what_is_not_a_number() {
        let body = Body::Lines(vec![("l".into(), vec![(0.0, f64::NAN), (1.0, 2.0)])]);
        assert!(!draw(&figure(body, false)).contains("NaN"));
    }
}
