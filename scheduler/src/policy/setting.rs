//! The parameters of answers: name and meaning of each, with its printer and its parser side by
//! side. An answer that has some lists its own; a policy has those of its answers.

/// The values that a parameter takes, for an error.
pub(crate) type ExpectedValues = &'static str;

/// A parameter of the answer `A`.
pub(crate) struct Setting<A: 'static> {
    /// Its name, as given behind a policy's name.
    pub(crate) name: &'static str,
    /// The meaning, as shown to users.
    pub(crate) meaning: &'static str,
    /// Prints the value, with its unit.
    pub(crate) get: fn(&A) -> String,
    /// Reads a value; the error tells the values that can be given.
    pub(crate) set: fn(&mut A, &str) -> Result<(), ExpectedValues>,
}

/// A parameter of a policy, as shown to users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its value in the catalogue, with its unit.
    pub default: String,
    /// The meaning.
    pub meaning: &'static str,
}

/// An answer with parameters.
pub(crate) trait HasSettings: Sized + 'static {
    /// Returns those that it has as it is now.
    fn settings(&self) -> &'static [Setting<Self>];
}

/// Any answer, as its policy sees it.
pub(crate) trait Parametric {
    /// Returns its parameters with their present values.
    fn parameters(&self) -> Vec<Parameter>;

    /// Sets the parameter of this name; `None` where it has none.
    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), ExpectedValues>>;
}

impl<A: HasSettings> Parametric for A {
    fn parameters(&self) -> Vec<Parameter> {
        let show = |setting: &Setting<A>| Parameter {
            name: setting.name,
            default: (setting.get)(self),
            meaning: setting.meaning,
        };
        self.settings().iter().map(show).collect()
    }

    fn set(&mut self, name: &str, value: &str) -> Option<Result<(), ExpectedValues>> {
        let mut settings = self.settings().iter();
        let setting = settings.find(|setting| setting.name == name)?;
        Some((setting.set)(self, value))
    }
}

/// Reads a number from `least` to `most`.
pub(crate) fn number(
    value: &str,
    least: f64,
    most: f64,
    wanted: ExpectedValues,
) -> Result<f64, ExpectedValues> {
    value
        .parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or(wanted)
}

/// Reads one of some named values.
pub(crate) fn one_of<T: Copy>(
    value: &str,
    choices: &[(&str, T)],
    wanted: ExpectedValues,
) -> Result<T, ExpectedValues> {
    choices
        .iter()
        .find(|(name, _)| *name == value)
        .map(|(_, choice)| *choice)
        .ok_or(wanted)
}

/// Prints one of some named values.
pub(crate) fn name_of<T: Copy + PartialEq>(value: T, choices: &[(&'static str, T)]) -> String {
    let named = choices.iter().find(|(_, choice)| *choice == value);
    named.map_or_else(String::new, |(name, _)| (*name).to_owned())
}

/// The names of a truth value.
pub(crate) const YES_OR_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

/// Reads `yes` or `no`.
pub(crate) fn yes_or_no(value: &str) -> Result<bool, ExpectedValues> {
    one_of(value, &YES_OR_NO, "`yes` or `no`")
}
