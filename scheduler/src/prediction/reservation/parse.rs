//! The text form of a law: `truncnorm:0,20,8,2`, the support first, then the parameters. The laws
//! live in `law`.

use std::fmt;
use std::str::FromStr;

use super::law::{BadLaw, Family, NamedLaw, RunTimes};

/// The names of the laws, each with its text form.
const LAWS: [(&str, &str); 8] = [
    ("truncnorm", "truncnorm:FROM,TO,MEAN,SD"),
    ("exponential", "exponential:FROM,TO,RATE"),
    ("beta", "beta:FROM,TO,ALPHA,BETA"),
    ("pareto", "pareto:FROM,TO,ALPHA"),
    ("lognormal", "lognormal:FROM,TO,MU,SIGMA"),
    ("weibull", "weibull:FROM,TO,SHAPE,SCALE"),
    ("gamma", "gamma:FROM,TO,SHAPE,SCALE"),
    ("uniform", "uniform:FROM,TO"),
];

impl FromStr for NamedLaw {
    type Err = BadLaw;

    fn from_str(text: &str) -> Result<Self, BadLaw> {
        let (asked, numbers) = text.split_once(':').unwrap_or((text, ""));
        let known = LAWS
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(asked.trim()));
        let (name, form) = known
            .copied()
            .ok_or_else(|| BadLaw::Unknown(asked.trim().to_owned()))?;
        let number = |part: &str| {
            part.trim()
                .parse::<f64>()
                .map_err(|_| BadLaw::NotANumber(part.trim().to_owned()))
        };
        let parts = numbers.split(',').filter(|part| !part.trim().is_empty());
        let numbers = parts.map(number).collect::<Result<Vec<_>, _>>()?;
        let family = match (name, &*numbers) {
            ("truncnorm", &[_, _, mean, sd]) => Family::TruncatedNormal { mean, sd },
            ("exponential", &[_, _, rate]) => Family::Exponential { rate },
            ("beta", &[_, _, alpha, beta]) => Family::Beta { alpha, beta },
            ("pareto", &[_, _, alpha]) => Family::BoundedPareto { alpha },
            ("lognormal", &[_, _, mu, sigma]) => Family::LogNormal { mu, sigma },
            ("weibull", &[_, _, shape, scale]) => Family::Weibull { shape, scale },
            ("gamma", &[_, _, shape, scale]) => Family::Gamma { shape, scale },
            ("uniform", &[_, _]) => Family::Uniform,
            _ => {
                return Err(BadLaw::Count {
                    name,
                    form,
                    wanted: form.matches(',').count() + 1,
                    found: numbers.len(),
                });
            }
        };

        NamedLaw::new(family, numbers[0], numbers[1])
    }
}

impl fmt::Display for NamedLaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = self.support();
        match self.family() {
            Family::TruncatedNormal { mean, sd } => write!(f, "truncnorm:{low},{high},{mean},{sd}"),
            Family::Exponential { rate } => write!(f, "exponential:{low},{high},{rate}"),
            Family::Beta { alpha, beta } => write!(f, "beta:{low},{high},{alpha},{beta}"),
            Family::BoundedPareto { alpha } => write!(f, "pareto:{low},{high},{alpha}"),
            Family::LogNormal { mu, sigma } => write!(f, "lognormal:{low},{high},{mu},{sigma}"),
            Family::Weibull { shape, scale } => write!(f, "weibull:{low},{high},{shape},{scale}"),
            Family::Gamma { shape, scale } => write!(f, "gamma:{low},{high},{shape},{scale}"),
            Family::Uniform => write!(f, "uniform:{low},{high}"),
        }
    }
}
