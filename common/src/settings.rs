//! Values in configuration files as people write them. It is not the place of the settings
//! themselves: each room has its own.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Span;

/// The longest duration that a file may name, a hundred years: any clock can be advanced by it.
const LONGEST: Duration = Duration::from_secs(100 * 31_557_600);

/// A duration in a configuration file, such as `90s` or `1h 30m`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigDuration(pub Duration);

impl ConfigDuration {
    /// No time at all, which some keys take for "no limit".
    pub const ZERO: Self = Self(Duration::ZERO);

    /// Makes a duration of whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(Duration::from_secs(s))
    }

    /// Makes a duration of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }

    /// Converts to a `Span`.
    pub fn span(self) -> Span {
        self.0.into()
    }
}

impl fmt::Display for ConfigDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl Serialize for ConfigDuration {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let said = humantime::parse_duration(&text).map_err(serde::de::Error::custom)?;
        if said > LONGEST {
            let why = format!("{text} is too long: at most 100 years are allowed");
            return Err(serde::de::Error::custom(why));
        }
        Ok(Self(said))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};

    use super::*;

    fn read(text: &str) -> Result<ConfigDuration, Error> {
        let text: StrDeserializer<'_, Error> = text.into_deserializer();
        ConfigDuration::deserialize(text)
    }

    #[test]
    fn durations_of_settings_read_as_they_print() {
        for (text, s) in [("0s", 0), ("90s", 90), ("1h 30m", 5_400), ("3m", 180)] {
            assert_eq!(read(text), Ok(ConfigDuration::from_secs(s)));
        }
        assert_eq!(read("100ms").unwrap().to_string(), "100ms");
        assert_eq!(read("90s").unwrap().to_string(), "1m 30s");
    }

    #[test]
    fn durations_of_settings_have_a_unit_and_an_end() {
        assert!(read("90").is_err() && read("-1s").is_err());
        assert!(read("100years").is_ok());
        let error = read("1000years").unwrap_err().to_string();
        assert!(error.contains("at most 100 years"), "{error}");
    }
}
