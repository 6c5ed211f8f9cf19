//! Known answers as they lie in `tests/vectors`, and numbers that look random, for tests of pure
//! functions.

use serde_json::Value;

pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    let found = value[name]
        .as_array()
        .unwrap_or_else(|| panic!("{name} is no list in {value}"));
    assert!(!found.is_empty(), "{name} is empty");
    found
}

pub(crate) fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Numbers between 0 and 1 that look random (SplitMix64).
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
