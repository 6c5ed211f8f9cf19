//! What orderings of disclosed tasks gain over SRPTxFCFS, on some points of the paper's grid: mean, median, quantiles. What is
//! not here: the report.
//!
//! Run with `cargo run --release -p simulator --example need -- STRIDE POLICY...`.

use common::Time;
use simulator::report::petrou::grid;
use simulator::users::{Audience, Fate, Parameters, Random, Which, run};

const DAY: u64 = 86_400_000_000;

#[derive(Default)]
struct Mean(f64, u64);

impl Audience for Mean {
    fn finished(&mut self, at: Time, _which: Which, fate: &Fate) {
        if let Some(response) = fate.entry().visible_response().filter(|_| at.0 >= 2 * DAY) {
            (self.0, self.1) = (self.0 + response.secs(), self.1 + 1);
        }
    }
}

fn response_s(seed: u64, point: Parameters, policy: &str) -> f64 {
    let mut mean = Mean::default();
    run(&Random::new(seed, point), policy, 1, Time(16 * DAY), &mut mean);
    mean.0 / mean.1 as f64
}

fn main() {
    let mut words = std::env::args().skip(1);
    let stride = words.next().and_then(|word| word.parse().ok()).unwrap_or(13);
    let policies: Vec<String> = words.collect();
    let points: Vec<(u64, Parameters)> =
        (1..).zip(grid()).skip(stride / 2).step_by(stride).filter(|(_, point)| point.tasks_max > 1).collect();
    let base: Vec<f64> = points.iter().map(|(seed, point)| response_s(*seed, *point, "SRPTxFCFS")).collect();
    for policy in &policies {
        let each = points.iter().zip(&base).map(|((seed, point), base)| base / response_s(*seed, *point, policy));
        let mut gains: Vec<f64> = each.filter(|gain| gain.is_finite()).collect();
        gains.sort_by(f64::total_cmp);
        let at = |part: f64| gains[(part * (gains.len() - 1) as f64) as usize];
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        println!(
            "{policy}: {} points, mean {mean:.3}, worst {:.3}, p5 {:.3}, median {:.3}, p90 {:.3}, best {:.2}",
            gains.len(),
            at(0.0),
            at(0.05),
            at(0.5),
            at(0.9),
            at(1.0)
        );
    }
}
