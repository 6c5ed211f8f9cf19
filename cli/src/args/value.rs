//! Parses the values that people write on a command line or in a job file, with the same syntax in
//! both.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use common::date::date;
use common::needs::{Label, Needs};
use common::selector::{BadSelector, Selector, parse_ids};
use common::{EndCondition, IdSet, JobId, Span, Time};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A duration such as `90s` or `1h30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct Dur(pub Duration);

/// The value given as a join token: `@FILE` for the content of a file, `-` for one line of standard
/// input, or the token itself. It is never printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct JoinWord(pub String);

impl From<String> for JoinWord {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for JoinWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinWord(hidden)")
    }
}

/// A time limit: a duration, or `auto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) enum Limit {
    /// A limit of this length.
    Fixed(Duration),
    /// The limits that past runs suggest, where limits pay.
    Auto,
}

/// Task indices such as `1-100`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Array(pub IdSet);

/// The rule by which two results agree: `bytes` or `float:1e-6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Agree(pub common::job::Compare);

/// Needs of tasks, such as `mem=4G,cpus=2`: a text that makes sense by itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct NeedsText(pub String);

/// An environment variable, written `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct EnvPair(pub String, pub String);

/// Exactly one job: its number, or `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OneJob {
    /// The job with this number.
    Id(JobId),
    /// The job submitted last.
    Last,
}

/// Exactly one task: `7.3` or `last.3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OneTask {
    /// Its job.
    pub job: OneJob,
    /// Its index in the job.
    pub index: u32,
}

impl FromStr for OneTask {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parse = || {
            let (job, index) = text.split_once('.')?;
            Some(OneTask {
                job: job.parse().ok()?,
                index: index.parse().ok()?,
            })
        };
        parse().ok_or_else(|| format!("`{text}` is not a task such as 7.3 or last.3"))
    }
}

/// A selection of jobs, and whether it was named as one job. That, and not the number of jobs
/// found, decides the shape of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobSelection {
    /// The jobs.
    pub selector: Selector,
    /// Whether a single number or `last` was given.
    pub one: bool,
}

/// The jobs that a command is about: by number, or by label.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct JobsArg {
    /// The jobs: 7, 1-10, 1,3,5-8, all, last
    #[arg(required_unless_present = "label", conflicts_with = "label")]
    jobs: Option<JobSelection>,
    /// Instead: the jobs with this label (given several times: with all of these labels) [repeatable]
    #[arg(long, value_name = "LABEL")]
    label: Vec<Label>,
}

impl JobsArg {
    /// Returns the jobs.
    pub(crate) fn selection(self) -> JobSelection {
        self.jobs.unwrap_or(JobSelection {
            selector: labelled(self.label),
            one: false,
        })
    }
}

/// Returns the selector of the jobs with all of these labels.
pub(crate) fn labelled(labels: Vec<Label>) -> Selector {
    Selector::Labelled(labels.into_iter().collect())
}

/// A job that has to end before another one starts: `7`, `7:ok`, `7:any` or `last:any`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct AfterArg {
    /// The job that goes first.
    pub job: OneJob,
    /// The way in which it has to end.
    pub how: EndCondition,
}

impl FromStr for AfterArg {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let (job, how) = match s.trim().split_once(':') {
            Some((job, how)) => (job, how.parse()?),
            None => (s.trim(), EndCondition::default()),
        };
        let job = job.parse()?;
        Ok(AfterArg { job, how })
    }
}

/// A point in time: one of the calendar, or a duration ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimePoint {
    /// At this point in time.
    At(Time),
    /// This duration ago.
    Ago(Duration),
}

impl TimePoint {
    /// Converts to a `Time`; a duration is counted back from `now`.
    pub(crate) fn time(self, now: Time) -> Time {
        match self {
            TimePoint::At(time) => time,
            TimePoint::Ago(duration) => now - duration.into(),
        }
    }
}

impl FromStr for TimePoint {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        if let Some(time) = date(s) {
            return Ok(TimePoint::At(time));
        }

        humantime::parse_duration(s.trim()).map(TimePoint::Ago).map_err(|_| {
            format!(
                "`{s}` is neither a date such as 2026-03-01T09:30:00Z nor a duration ago such as 7d"
            )
        })
    }
}

/// The estimates of the tasks, one for each: in a file, or (in a job file) listed in place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EstimatesArg {
    /// A file with a duration on each line.
    File(PathBuf),
    /// The estimates themselves.
    Each(Vec<Dur>),
}

impl From<&str> for EstimatesArg {
    /// Reads durations with commas between them; anything else is the name of a file.
    fn from(text: &str) -> Self {
        let each: Result<_, _> = text.split(',').map(str::parse).collect();
        each.map_or_else(|_| EstimatesArg::File(text.into()), EstimatesArg::Each)
    }
}

impl<'de> Deserialize<'de> for EstimatesArg {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = EstimatesArg;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "durations such as [\"90s\", \"2m\"], or the name of a file with one a line",
                )
            }
            fn visit_str<E: de::Error>(self, path: &str) -> Result<EstimatesArg, E> {
                Ok(path.into())
            }
            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<EstimatesArg, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(EstimatesArg::Each)
            }
        }

        deserializer.deserialize_any(Form)
    }
}

/// A deadline: a point in time, or a duration from now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// At this point in time.
    At(Time),
    /// After this duration, counted from now.
    In(Duration),
}

impl<'de> Deserialize<'de> for Deadline {
    /// Reads the form of the command line, or a date of TOML.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;
        impl<'de> Visitor<'de> for Form {
            type Value = Deadline;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a date such as 2026-03-01T09:30:00Z or a duration such as \"2h\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Deadline, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_map<A: MapAccess<'de>>(self, date: A) -> Result<Deadline, A::Error> {
                let date = toml::value::Datetime::deserialize(MapAccessDeserializer::new(date))?;
                date.to_string().parse().map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_any(Form)
    }
}

impl FromStr for Deadline {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s.parse() {
            Ok(TimePoint::At(time)) => Ok(Deadline::At(time)),
            Ok(TimePoint::Ago(duration)) => Ok(Deadline::In(duration)),
            Err(_) => Err(format!(
                "`{s}` is neither a date such as 2026-03-01T09:30:00Z nor a duration such as 2h"
            )),
        }
    }
}

impl From<OneJob> for Selector {
    fn from(job: OneJob) -> Selector {
        match job {
            OneJob::Id(id) => Selector::Ids(IdSet::from_range(id.0, id.0)),
            OneJob::Last => Selector::Last,
        }
    }
}

impl Dur {
    /// Converts to the `Span` that the other crates use.
    pub(crate) fn span(self) -> Span {
        self.0.into()
    }
}

impl FromStr for Dur {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        humantime::parse_duration(s.trim())
            .map(Dur)
            .map_err(|_| format!("`{s}` is not a duration such as 90s or 1h30m"))
    }
}

impl FromStr for NeedsText {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Needs::parse([s]).map_err(|why| why.to_string())?;
        Ok(Self(s.to_owned()))
    }
}

impl FromStr for Limit {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        if s.trim() == "auto" {
            return Ok(Limit::Auto);
        }
        let Dur(limit) = s.parse().map_err(|error| format!("{error}, or `auto`"))?;
        if limit.is_zero() {
            Err("a time limit must be longer than nothing".to_owned())
        } else {
            Ok(Limit::Fixed(limit))
        }
    }
}

impl FromStr for Array {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        parse_ids(s).map(Array).map_err(|error| match error {
            BadSelector::Part(part) => {
                format!(
                    "`{part}` is not a number or a range: write `7`, `1-10`, `1-10:2` or `1,3,5-8`"
                )
            }
            other => other.to_string(),
        })
    }
}

impl FromStr for Agree {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        s.trim()
            .parse()
            .map(Agree)
            .map_err(|error: common::job::BadCompare| error.to_string())
    }
}

impl FromStr for EnvPair {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(EnvPair(name.to_owned(), value.to_owned()))
            }
            _ => Err(format!("`{s}` is not NAME=VALUE")),
        }
    }
}

impl FromStr for OneJob {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        if s == "last" {
            Ok(OneJob::Last)
        } else {
            s.parse()
                .map(OneJob::Id)
                .map_err(|e| format!("{e}, or `last`"))
        }
    }
}

impl FromStr for JobSelection {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let selector = s
            .parse()
            .map_err(|e: common::selector::BadSelector| e.to_string())?;
        Ok(JobSelection {
            selector,
            one: s.trim().parse::<OneJob>().is_ok(),
        })
    }
}

macro_rules! from_text {
    ($($name:ident),+) => {$(
        impl TryFrom<String> for $name {
            type Error = String;
            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }
    )+};
}
from_text!(NeedsText, AfterArg, Agree, Dur, Limit, Array, EnvPair);

impl fmt::Display for OneJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OneJob::Id(id) => id.fmt(f),
            OneJob::Last => f.write_str("last"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_documented() {
        assert_eq!("1h30m".parse(), Ok(Dur(Duration::from_secs(5_400))));
        assert_eq!("1-3".parse(), Ok(Array(IdSet::from_range(1, 3))));
        assert_eq!("A=b=c".parse(), Ok(EnvPair("A".into(), "b=c".into())));
        assert_eq!("last".parse(), Ok(OneJob::Last));
        assert!(
            "7".parse::<JobSelection>().unwrap().one && "last".parse::<JobSelection>().unwrap().one
        );
        assert!(
            !"7-7".parse::<JobSelection>().unwrap().one
                && !"all".parse::<JobSelection>().unwrap().one
        );
    }

    #[test]
    fn a_job_that_goes_first_may_be_the_last_one() {
        let after = |job, how| Ok(AfterArg { job, how });
        assert_eq!("7".parse(), after(OneJob::Id(JobId(7)), EndCondition::Ok));
        assert_eq!("last:any".parse(), after(OneJob::Last, EndCondition::Any));
        assert!(
            "last:soon"
                .parse::<AfterArg>()
                .unwrap_err()
                .contains("`ok`")
        );
        assert!("x:ok".parse::<AfterArg>().unwrap_err().contains("`last`"));
    }

    #[test]
    fn times_are_of_the_calendar_or_ago() {
        let now = Time(1_700_000_000_000_000);
        let s = |text: &str| {
            text.parse::<TimePoint>()
                .map(|when| when.time(now).0 / 1_000_000)
        };
        assert_eq!(s("2023-11-14"), Ok(1_699_920_000));
        assert_eq!(s("2023-11-14T22:13:20+01:00"), Ok(1_699_996_400));
        assert_eq!(s("1h"), Ok(1_699_996_400));
        assert!(s("yesterday").unwrap_err().contains("2026-03-01T09:30:00Z"));
    }

    #[test]
    fn deadlines_are_of_the_calendar_or_from_now() {
        let s = |text: &str| text.parse::<Deadline>();
        let at = |s: u64| Ok(Deadline::At(Time(Span::from_secs(s).0)));
        assert_eq!(s("2h"), Ok(Deadline::In(Duration::from_secs(7_200))));
        assert_eq!(s("2023-11-14T22:14:20Z"), at(1_700_000_060));
        assert_eq!(s("2023-11-14"), at(1_699_920_000));
        assert!(s("soon").unwrap_err().contains("such as 2h"));
    }

    #[test]
    fn wrong_values_are_refused_with_the_right_form() {
        assert!("90".parse::<Dur>().unwrap_err().contains("90s"));
        assert_eq!("auto".parse::<Limit>(), Ok(Limit::Auto));
        assert!("soon".parse::<Limit>().unwrap_err().contains("or `auto`"));
        assert!(
            "0s".parse::<Limit>()
                .unwrap_err()
                .contains("longer than nothing")
        );
        assert!("=x".parse::<EnvPair>().is_err() && "x".parse::<EnvPair>().is_err());
        assert!("x".parse::<OneJob>().unwrap_err().contains("`last`"));
        assert!("5-1".parse::<Array>().unwrap_err().contains("ends before"));
    }
}
