//! Values of settings from the master. Each type has a direction, and the only thing that can be done with
//! a value is to bound the owner's own value with it: so no such setting can give tasks more than
//! the owner does.

use serde::{Deserialize, Deserializer, de};

/// An upper bound: the smaller value is the stricter one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct AtMost<T>(T);

/// A lower bound: the larger value is the stricter one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(transparent)]
pub(super) struct AtLeast<T>(T);

/// An upper bound for a value of which none (0) means that there is no limit. It is never none itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cap<T>(T);

/// Something that can be switched off, and not on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Off;

impl<T: PartialOrd + Copy> AtMost<T> {
    /// Returns the stricter of both values; the bound itself where the owner has no such rule.
    pub(super) fn with(self, own: Option<T>) -> T {
        match own {
            Some(own) if own < self.0 => own,
            _ => self.0,
        }
    }

    /// Whether the bound is such a value.
    pub(super) fn is(self, sound: impl FnOnce(T) -> bool) -> bool {
        sound(self.0)
    }
}

impl<T: PartialOrd + Copy> AtLeast<T> {
    /// Returns the stricter of both values; the bound itself where the owner has no such rule.
    pub(super) fn with(self, own: Option<T>) -> T {
        match own {
            Some(own) if own > self.0 => own,
            _ => self.0,
        }
    }

    /// Whether the bound is such a value.
    pub(super) fn is(self, sound: impl FnOnce(T) -> bool) -> bool {
        sound(self.0)
    }
}

impl<T: PartialOrd + Copy + Default> Cap<T> {
    /// Returns the stricter of both values.
    pub(super) fn with(self, own: T) -> T {
        if own == T::default() || self.0 < own {
            self.0
        } else {
            own
        }
    }
}

impl Off {
    /// Returns the stricter of both values.
    pub(super) fn with(self, _own: bool) -> bool {
        false
    }
}

impl<'de, T: Deserialize<'de> + PartialOrd + Default> Deserialize<'de> for Cap<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = T::deserialize(from)?;
        if value > T::default() {
            Ok(Self(value))
        } else {
            let why = "none at all would be no limit: the settings from the master can only be stricter than the owner's";
            Err(de::Error::custom(why))
        }
    }
}

impl<'de> Deserialize<'de> for Off {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match bool::deserialize(from)? {
            false => Ok(Off),
            true => Err(de::Error::custom(
                "only `false` can come from the master: it cannot lend more than the owner does",
            )),
        }
    }
}
