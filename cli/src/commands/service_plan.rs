//! The plan of `deskgrid worker install` and `uninstall`, of any system, as it is shown.

use std::fmt::Write;

use serde::Serialize;

use super::Context;
use crate::failure::{Exit, Failure};

/// The changes that are made, or would be.
#[derive(Default, Serialize)]
pub(super) struct ServicePlan {
    /// Whether they are made.
    pub done: bool,
    /// The service's name, where it has one beside its files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// The files.
    pub writes: Vec<String>,
    pub removes: Vec<String>,
    /// The commands and other steps.
    pub commands: Vec<String>,
    /// The text of the unit.
    pub unit: Option<String>,
}

/// Prints the plan.
pub(super) fn show(context: &Context, plan: &ServicePlan) -> Result<Exit, Failure> {
    let text = || {
        let mut text = String::new();
        let mut list = |what: &str, items: &[String]| {
            if !items.is_empty() {
                let _ = writeln!(text, "{what}:\n  {}", items.join("\n  "));
            }
        };
        let (wrote, removed, ran) = if plan.done {
            ("written", "removed", "run")
        } else {
            ("to write", "to remove", "to run")
        };
        list(wrote, &plan.writes);
        list(removed, &plan.removes);
        list(ran, &plan.commands);

        if plan.writes.is_empty() && plan.removes.is_empty() {
            text.push_str("nothing of a worker is installed here\n");
        }
        if let Some(unit) = plan.unit.as_ref().filter(|_| !plan.done) {
            let _ = write!(text, "\nthe unit:\n\n{unit}\n");
        }
        if !plan.done {
            text.push_str("nothing was changed: do it with --yes\n");
        }

        text
    };
    context.show(plan, text, || match &plan.service {
        Some(service) => vec![service.clone()],
        None => [plan.writes.clone(), plan.removes.clone()].concat(),
    })
}
