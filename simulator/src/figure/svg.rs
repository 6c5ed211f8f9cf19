//! Draws a figure as SVG with the library `plotters`: axes, lines or grouped bars with their
//! confidence intervals, and a legend beside them.

use std::ops::Range;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{
    BLACK, Cartesian2d, ChartBuilder, Circle, Color, DashedLineSeries, DrawingArea,
    DrawingAreaErrorKind, IntoDrawingArea, IntoFont, LineSeries, PathElement, RGBColor, Ranged,
    Rectangle, SVGBackend, Text, WHITE,
};

use super::{Bar, Body, Figure, PlotLine, number};

/// The width and height of a figure, in pixels.
const SIZE: (u32, u32) = (860, 440);
/// The left edge of the legend, in pixels.
const LEGEND: i32 = 650;
/// The part of a group's width that its bars fill.
const FILLED: f64 = 0.84;
/// Colours that colour-blind people can distinguish as well (after Okabe and Ito).
const COLORS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x7f, 0x7f, 0x7f),
    BLACK,
];
/// The ticks of logarithmic axes.
const LOG_TICKS: [f64; 14] = [
    0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0,
];

type DrawError = DrawingAreaErrorKind<std::io::Error>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<TickedAxis, TickedAxis>>;

/// Draws the figure as an SVG document.
///
/// # Panics
/// Never: text can always be written into a string.
pub fn draw(figure: &Figure) -> String {
    let mut out = String::new();
    let root = SVGBackend::with_string(&mut out, SIZE).into_drawing_area();
    paint(figure, &root).expect("a figure can be written into a string");
    drop(root);
    out
}

fn paint(figure: &Figure, root: &Area<'_>) -> Result<(), DrawError> {
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(LEGEND);
    let names = names(&figure.body);
    legend(&right, &names)?;

    let up = up(figure);
    let foot = up.span.start.max(0.0);
    let mut chart = ChartBuilder::on(&left)
        .caption(&figure.title, ("sans-serif", 14).into_font())
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(across(&figure.body), up)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(WHITE)
        .x_desc(&figure.x)
        .y_desc(&figure.y)
        .draw()?;

    match &figure.body {
        Body::Lines(lines) => draw_lines(&mut chart, lines),
        Body::Cloud { points, lines } => {
            let dots = finite(points).map(|point| Circle::new(point, 1, COLORS[6].filled()));
            chart.draw_series(dots)?;
            draw_lines(&mut chart, lines)
        }
        Body::Spread(lines) => {
            for (place, (_, points)) in lines.iter().enumerate() {
                let line: Vec<(f64, f64)> = points.iter().map(|(x, y, _)| (*x, *y)).collect();
                draw_line(&mut chart, place, &line)?;
                let bars = points
                    .iter()
                    .filter(|(x, y, sd)| (x + y + sd).is_finite() && *sd > 0.0)
                    .map(|(x, y, sd)| {
                        PathElement::new(vec![(*x, y - sd), (*x, y + sd)], color(place))
                    });
                chart.draw_series(bars)?;
            }
            Ok(())
        }
        Body::Bars { series, .. } => {
            for (place, (_, bars)) in series.iter().enumerate() {
                let width = FILLED / series.len() as f64;
                let left = (1.0 - FILLED) / 2.0 + width * place as f64;
                draw_bars(&mut chart, place, bars, left..left + 0.92 * width, foot)?;
            }
            Ok(())
        }
    }
}

fn draw_lines(chart: &mut Chart<'_, '_>, lines: &[PlotLine]) -> Result<(), DrawError> {
    for (place, (_, points)) in lines.iter().enumerate() {
        draw_line(chart, place, points)?;
    }
    Ok(())
}

/// Draws the line of this place in the legend: dashed once the colours are used up.
fn draw_line(
    chart: &mut Chart<'_, '_>,
    place: usize,
    points: &[(f64, f64)],
) -> Result<(), DrawError> {
    let style = color(place).stroke_width(2);
    if place < COLORS.len() {
        chart.draw_series(LineSeries::new(finite(points), style))?;
    } else {
        chart.draw_series(DashedLineSeries::new(finite(points), 6, 3, style))?;
    }
    Ok(())
}

/// Draws one bar of each group, with its confidence interval. `part` is the part of the group's
/// width that the bar takes.
fn draw_bars(
    chart: &mut Chart<'_, '_>,
    place: usize,
    bars: &[Bar],
    part: Range<f64>,
    foot: f64,
) -> Result<(), DrawError> {
    for (group, bar) in bars.iter().enumerate() {
        if !bar.value.is_finite() {
            continue;
        }

        let left = group as f64 + part.start;
        let right = group as f64 + part.end;
        let top = bar.value.max(foot);
        let filled = Rectangle::new([(left, foot), (right, top)], color(place).filled());
        chart.draw_series([filled])?;
        if let Some((low, high)) = bar.ci {
            let middle = f64::midpoint(left, right);
            let ends = vec![(middle, low.max(foot)), (middle, high)];
            chart.draw_series([PathElement::new(ends, BLACK)])?;
        }
    }
    Ok(())
}

/// Draws the name of each series beside its colour.
fn legend(area: &Area<'_>, names: &[&str]) -> Result<(), DrawError> {
    for (place, name) in names.iter().enumerate() {
        let y = 48 + 18 * i32::try_from(place).unwrap_or(0);
        let style = color(place).stroke_width(4);
        // Dashed lines have a gap here, too.
        let ends = if place < COLORS.len() { 28 } else { 16 };
        area.draw(&PathElement::new(vec![(6, y), (ends, y)], style))?;
        area.draw(&Text::new(
            (*name).to_owned(),
            (34, y - 5),
            ("sans-serif", 12).into_font(),
        ))?;
    }
    Ok(())
}

fn color(place: usize) -> RGBColor {
    COLORS[place % COLORS.len()]
}

fn finite(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> + Clone {
    points
        .iter()
        .copied()
        .filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// The names of the series, in their order.
fn names(body: &Body) -> Vec<&str> {
    match body {
        Body::Lines(lines) | Body::Cloud { lines, .. } => {
            lines.iter().map(|(name, _)| &**name).collect()
        }
        Body::Spread(lines) => lines.iter().map(|(name, _)| &**name).collect(),
        Body::Bars { series, .. } => series.iter().map(|(name, _)| &**name).collect(),
    }
}

/// An axis with its ticks.
struct TickedAxis {
    span: Range<f64>,
    log: bool,
    ticks: Vec<f64>,
    /// The words at the ticks, instead of numbers.
    words: Vec<String>,
}

impl TickedAxis {
    /// Makes a linear axis with ticks at round numbers.
    fn linear(span: Range<f64>) -> Self {
        TickedAxis {
            ticks: RangedCoordf64::from(span.clone()).key_points(TICKS),
            span,
            log: false,
            words: Vec::new(),
        }
    }
}

impl Ranged for TickedAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| if self.log { value.ln() } else { value };
        let Range { start, end } = self.span;
        let part = (place(*value) - place(start)) / (place(end) - place(start));
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.span.clone()
    }
}

impl ValueFormatter<f64> for TickedAxis {
    fn format_ext(&self, value: &f64) -> String {
        let word = self.words.get(*value as usize);
        word.cloned().unwrap_or_else(|| number(*value))
    }
}

/// The horizontal axis: a tick in the middle of each group of bars, else at round numbers.
fn across(body: &Body) -> TickedAxis {
    let values: Vec<f64> = match body {
        Body::Lines(lines) | Body::Cloud { lines, .. } => lines
            .iter()
            .flat_map(|(_, points)| points.iter().map(|(x, _)| *x))
            .collect(),
        Body::Spread(lines) => lines
            .iter()
            .flat_map(|(_, points)| points.iter().map(|(x, ..)| *x))
            .collect(),
        Body::Bars { groups, .. } => {
            return TickedAxis {
                span: 0.0..groups.len().max(1) as f64,
                log: false,
                ticks: (0..groups.len()).map(|group| group as f64 + 0.5).collect(),
                words: groups.clone(),
            };
        }
    };
    TickedAxis::linear(span(&values))
}

/// The vertical axis.
fn up(figure: &Figure) -> TickedAxis {
    let values: Vec<f64> = match &figure.body {
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
        Body::Bars { series, .. } => series
            .iter()
            .flat_map(|(_, bars)| bars)
            .flat_map(|bar| [bar.value, bar.ci.map_or(bar.value, |(_, high)| high)])
            .collect(),
    };
    if !figure.log {
        return TickedAxis::linear(span(&values));
    }

    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let least = finite().fold(1.0, f64::min).max(0.5);
    let most = finite().fold(2.0, f64::max);
    let span = least..most * 1.1;
    let ticks = LOG_TICKS.iter().copied();
    TickedAxis {
        ticks: ticks.filter(|tick| span.contains(tick)).collect(),
        span,
        log: true,
        words: Vec::new(),
    }
}

/// The span from 0 or the least value to a little beyond the largest one.
fn span(values: &[f64]) -> Range<f64> {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let least = finite().fold(0.0, f64::min);
    let most = finite().fold(0.0, f64::max);
    if most > least {
        least..most + 0.02 * (most - least)
    } else {
        least..least + 1.0
    }
}

/// The most ticks of an axis.
const TICKS: usize = 10;

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
        for filled in ["#0072B2", "#E69F00"] {
            let bar = format!("fill=\"{filled}\" stroke=\"none\"");
            assert_eq!(drawn.matches(&bar).count(), 2, "{filled}: {drawn}");
        }
        for word in ["one", "two", "g1", "g2", "a &lt; b &amp; c"] {
            assert!(drawn.contains(&format!("\n{word}\n")), "{word}: {drawn}");
        }

        let line = vec![("l".to_owned(), vec![(0.0, 0.0), (1.0, 1.0)])];
        let points = vec![(0.5, 1.0), (f64::NAN, 1.0)];
        let lines = line.clone();
        let cloud = draw(&figure(Body::Cloud { points, lines }, false));
        assert_eq!(cloud.matches("<circle").count(), 1, "{cloud}");
        let drawn = draw(&figure(Body::Lines(line), false));
        assert_eq!(
            drawn.matches("<polyline").count(),
            cloud.matches("<polyline").count()
        );
    }

    #[test]
    fn axes_begin_at_zero_and_hold_every_value() {
        assert_eq!(span(&[3.0, 50.0]), 0.0..51.0);
        assert_eq!(span(&[-1.0, 1.0]), -1.0..1.04);
        assert_eq!(span(&[f64::NAN]), 0.0..1.0);
    }

    #[test]
    fn a_figure_without_numbers_is_drawn_as_empty_axes() {
        for log in [false, true] {
            for values in [vec![], vec![(0.0, f64::NAN), (1.0, 2.0)]] {
                let body = Body::Lines(vec![("l".into(), values)]);
                let drawn = draw(&figure(body, log));
                assert!(!drawn.contains("NaN") && drawn.trim_end().ends_with("</svg>"));
            }
            let body = Body::Bars {
                groups: vec![],
                series: vec![],
            };
            assert!(draw(&figure(body, log)).trim_end().ends_with("</svg>"));
        }
    }
}
