//! The text form of a policy: `NAME`, or `NAME:parameter=value:parameter=value`, in upper or lower
//! case. The parameters of a policy are those of its row in the `catalogue`.

use super::{Policy, catalogue};

/// The reason why a text names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    /// The catalogue has no row of this name.
    #[error("there is no policy `{0}`")]
    Unknown(String),
    /// The row has no such parameter.
    #[error("the policy {policy} has no parameter `{parameter}`; it has {has}")]
    NoSuchParameter {
        /// The row.
        policy: &'static str,
        /// The parameter asked for.
        parameter: String,
        /// The parameters that the row has.
        has: String,
    },
    /// A parameter is given twice.
    #[error("`{parameter}` is said twice")]
    Twice {
        /// The parameter.
        parameter: &'static str,
    },
    /// The value cannot be read, or is out of range.
    #[error("`{value}` is not a value for `{parameter}`: {wanted}")]
    BadValue {
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        value: String,
        /// The values that can be given.
        wanted: &'static str,
    },
}

/// Returns the policy that this text names.
///
/// # Errors
/// If there is no policy of this name, or it has no such parameters or values.
pub fn parse(text: &str) -> Result<Policy, BadPolicy> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let row = catalogue()
        .iter()
        .find(|row| row.name.eq_ignore_ascii_case(name));
    let mut policy = *row.ok_or_else(|| BadPolicy::Unknown(name.to_owned()))?;
    let parameters = policy.parameters();
    let mut said: Vec<&str> = Vec::new();

    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let Some(parameter) = parameters.iter().find(|parameter| parameter.name == key) else {
            let names: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
            let has = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            return Err(BadPolicy::NoSuchParameter {
                policy: policy.name,
                parameter: key.to_owned(),
                has,
            });
        };

        let name = parameter.name;
        if said.contains(&name) {
            return Err(BadPolicy::Twice { parameter: name });
        }
        said.push(name);
        policy
            .set(name, value)
            .map_err(|wanted| BadPolicy::BadValue {
                parameter: name,
                value: value.to_owned(),
                wanted,
            })?;
    }

    Ok(policy)
}
