//! Formats parts and amounts for people, who say none where there is none.

/// Formats a part: `none`, `under 1 %`, `37 %`.
pub(crate) fn percent(part: f64) -> String {
    match 100.0 * part {
        none if none <= 0.0 => "none".to_owned(),
        few if few < 1.0 => "under 1 %".to_owned(),
        some => format!("{some:.0} %"),
    }
}

/// Formats an amount with one decimal digit and its unit, which may be empty: `none`, `under 0.1s`,
/// `12.5s`.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match value {
        none if none <= 0.0 => "none".to_owned(),
        few if few < 0.1 => format!("under 0.1{unit}"),
        some => format!("{some:.1}{unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_nearly_nothing_are_said_in_words() {
        let percents = [0.0, 0.001, 0.01, 0.374, 1.0].map(percent);
        assert_eq!(percents, ["none", "under 1 %", "1 %", "37 %", "100 %"]);
        let amounts = [-0.0, 0.04, 0.1, 12.52].map(|value| amount(value, "s"));
        assert_eq!(amounts, ["none", "under 0.1s", "0.1s", "12.5s"]);
    }
}
