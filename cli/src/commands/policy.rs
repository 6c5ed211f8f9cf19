//! Executes `deskgrid policy`: prints the scheduler's catalogue.

use std::collections::BTreeMap;

use scheduler::Policy;
use scheduler::policy::Width;
use serde::Serialize;

use super::Context;
use crate::args::PolicyCommand;
use crate::failure::{Exit, Failure};
use crate::output::table::{Rows, facts};
use crate::submit::known_policy;

#[derive(Serialize)]
struct Rowset {
    policies: Vec<PolicyRow>,
}

#[derive(Serialize)]
struct PolicyRow {
    name: &'static str,
    source: &'static str,
    summary: &'static str,
    stages: BTreeMap<&'static str, &'static str>,
    parameters: Vec<ParameterRow>,
}

#[derive(Serialize)]
struct ParameterRow {
    name: &'static str,
    default: String,
    meaning: &'static str,
}

impl From<&Policy> for PolicyRow {
    fn from(policy: &Policy) -> Self {
        let parameters = policy.parameters().into_iter();
        PolicyRow {
            name: policy.name,
            source: policy.source,
            summary: policy.summary,
            stages: policy.answers().into_iter().collect(),
            parameters: parameters
                .map(|p| ParameterRow {
                    name: p.name,
                    default: p.default,
                    meaning: p.meaning,
                })
                .collect(),
        }
    }
}

/// Executes one verb of `deskgrid policy`.
pub(super) fn run(context: &Context, command: PolicyCommand) -> Result<Exit, Failure> {
    match command {
        PolicyCommand::List => list(context),
        PolicyCommand::Show { name } => show(context, &name),
    }
}

fn list(context: &Context) -> Result<Exit, Failure> {
    let policies = scheduler::catalogue();
    let text = || {
        let mut rows = Rows::new(&["POLICY", "WHAT IT DOES", "FROM"], context.out.color());
        for policy in policies {
            rows.add([policy.name, policy.summary, policy.source].map(str::to_owned));
        }
        rows.text("")
    };

    let document = Rowset {
        policies: policies.iter().map(PolicyRow::from).collect(),
    };
    context.show(&document, text, || {
        policies
            .iter()
            .map(|policy| policy.name.to_owned())
            .collect()
    })
}

fn show(context: &Context, name: &str) -> Result<Exit, Failure> {
    let wide = scheduler::policy::policy(name).is_some_and(|row| row.width != Width::Rigid);
    let known = known_policy(name, wide)?;
    let name = known.split(':').next().unwrap_or_default();
    let Some(policy) = scheduler::catalogue()
        .iter()
        .find(|policy| policy.name == name)
    else {
        return Err(Failure::usage(
            format!("there is no policy `{name}`"),
            "deskgrid policy list",
        ));
    };
    let row = PolicyRow::from(policy);
    let text = || {
        let mut pairs = vec![
            ("policy", row.name),
            ("what it does", row.summary),
            ("from", row.source),
        ];
        pairs.extend(policy.answers());

        let mut text = facts(
            &pairs
                .into_iter()
                .map(|(name, value)| (name, Some(value.to_owned())))
                .collect::<Vec<_>>(),
        );
        for parameter in &row.parameters {
            text += &format!(
                "parameter     {} = {}: {}\n",
                parameter.name, parameter.default, parameter.meaning
            );
        }

        text
    };
    context.show(&row, text, || vec![row.name.to_owned()])
}
