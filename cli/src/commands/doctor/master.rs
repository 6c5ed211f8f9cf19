//! Checks the identities on this machine, and the masters that they belong to.

use std::time::Duration;

use common::Time;
use common::wire::Versions;
use link::error::ONLY_A_RENEWAL;
use link::{Carrier, Identity, LinkError, Probe, Purpose, Validity};

use super::Finding;
use crate::failure::Failure;
use crate::output::when::{iso, now};
use crate::state::StateDir;

/// The name of the worker's identity in findings.
pub(super) const WORKER: &str = "worker";
/// The name of a user's identity in findings.
const USER: &str = "user";
/// The time within which a refusal of the worker's certificate arrives.
const REFUSAL: Duration = Duration::from_millis(500);
/// The words for a user's certificate that is to be renewed.
const NEXT_RENEWS: &str =
    "nothing: the next command renews it by itself, such as deskgrid job list";
/// The clock difference, in seconds, above which there is a note.
const OFF_NOTE_S: f64 = 5.0;
/// The clock difference, in seconds, above which something is wrong.
const OFF_WRONG_S: f64 = 60.0;

/// Returns the identities on this machine, or the error for one that cannot be read.
pub(super) fn identities(state: &StateDir) -> Vec<(&'static str, Result<Identity, LinkError>)> {
    let dirs = [
        (WORKER, state.worker().join("identity")),
        (USER, state.client()),
    ];
    dirs.into_iter()
        .filter(|(_, dir)| !matches!(Identity::found(dir), Ok(false)))
        .map(|(who, dir)| (who, Identity::load(&dir)))
        .collect()
}

/// Checks one identity and its master.
pub(super) async fn identity(who: &str, identity: &Result<Identity, LinkError>) -> Vec<Finding> {
    let check = |what: &str| format!("{who}: {what}");
    let identity = match identity {
        Ok(identity) => identity,
        Err(error @ LinkError::HiddenIdentity { .. }) => {
            let todo = "run deskgrid doctor as the account to which that belongs, or as root";
            return vec![Finding::wrong(check("identity"), error.to_string(), todo)];
        }
        Err(error) => {
            return vec![Finding::wrong(
                check("identity"),
                error.to_string(),
                rejoin(who),
            )];
        }
    };

    let mut findings = vec![certificate(check("certificate"), who, identity)];
    let (udp, tcp) = tokio::join!(
        link::probe(identity, Carrier::Udp),
        link::probe(identity, Carrier::Tcp)
    );
    let reached = udp.as_ref().or(tcp.as_ref()).ok().cloned();
    findings.extend([
        way(&check, identity, Carrier::Udp, udp, reached.is_some()),
        way(&check, identity, Carrier::Tcp, tcp, reached.is_some()),
    ]);

    if let Some(probe) = reached {
        findings.extend(told(&check, &probe));
        findings.push(accepted(check("accepted"), who, identity).await);
    }

    findings
}

fn rejoin(who: &str) -> String {
    let command = if who == WORKER {
        "worker start"
    } else {
        "login"
    };
    format!(
        "join again: deskgrid {command} --master HOST:PORT --rejoin, with a token from the admin"
    )
}

fn certificate(check: String, who: &str, identity: &Identity) -> Finding {
    match Validity::of(&identity.certificate) {
        Ok(validity) => {
            let now_s = i64::try_from(now().0 / 1_000_000).unwrap_or(i64::MAX);
            lasts(check, who, &identity.link.name, validity, now_s)
        }
        Err(error) => Finding::wrong(check, error.to_string(), rejoin(who)),
    }
}

/// Says until when a certificate holds. Whether its renewal is late depends on its own life, which an admin may have made short.
fn lasts(check: String, who: &str, name: &str, validity: Validity, now_s: i64) -> Finding {
    let day = |s: i64| {
        iso(Time(u64::try_from(s).unwrap_or(0) * 1_000_000))
            .split('T')
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    if now_s < validity.from_s {
        let what = format!("{name}: it holds from {} on only", day(validity.from_s));
        return Finding::wrong(
            check,
            what,
            "set this machine's clock; it seems to be far behind",
        );
    }

    if now_s > validity.until_s {
        let what = format!(
            "{name}: it has expired on {} by this machine's clock",
            day(validity.until_s)
        );
        let todo = match who {
            WORKER => {
                "nothing, where the clock is right: a worker that the master still knows renews it by itself".to_owned()
            }
            _ => {
                let again = rejoin(who);
                format!("if the master was away then, the next command renews it; else {again}")
            }
        };
        return Finding::wrong(check, what, todo);
    }

    let what = format!("{name}: valid until {}", day(validity.until_s));
    let late_s = validity.due_s() + (validity.until_s - validity.due_s()) / 2;
    match who {
        WORKER if now_s >= late_s => {
            let todo =
                "is the worker running? it renews it by itself; its log says why it could not";
            Finding::note(check, what, todo)
        }
        USER if validity.is_due(now_s) => Finding::note(check, what, NEXT_RENEWS),
        _ => Finding::ok(check, what),
    }
}

/// Reports the probe of the master over UDP or TCP. A failure is wrong only if the other one fails
/// too.
fn way(
    check: &impl Fn(&str) -> String,
    identity: &Identity,
    way: Carrier,
    probe: Result<Probe, LinkError>,
    spared: bool,
) -> Finding {
    let check = check(&format!("master over {way}"));

    match probe {
        Ok(probe) => Finding::ok(
            check,
            format!(
                "{} answers in {:.1} ms",
                identity.link.master,
                probe.took.as_secs_f64() * 1e3
            ),
        ),
        Err(error @ (LinkError::Unreachable { .. } | LinkError::Closed(_))) if spared => {
            let todo = match way {
                Carrier::Udp => "let UDP pass: TCP is for networks that block it",
                Carrier::Tcp => "nothing, as long as UDP passes: TCP is for where it does not",
            };
            Finding::note(check, error.to_string(), todo)
        }
        Err(error @ (LinkError::Unreachable { .. } | LinkError::Closed(_))) => {
            let todo = format!(
                "is the master running? UDP to {} must pass every firewall on the way, or else TCP to the same port",
                identity.link.master
            );
            Finding::wrong(check, error.to_string(), todo)
        }
        Err(error @ (LinkError::Protocol(_) | LinkError::Refused(_))) => Finding::wrong(
            check,
            error.to_string(),
            "is the master of another version? compare deskgrid --version",
        ),
        Err(error) => Finding::failed(check, &Failure::from(error)),
    }
}

/// Checks what the master told of itself in `probe`.
fn told(check: &impl Fn(&str) -> String, probe: &Probe) -> Vec<Finding> {
    let ours = Versions::ours();
    let version = match ours.agree(&probe.versions) {
        Ok(_) => Finding::ok(
            check("version"),
            format!(
                "deskgrid {} here, {} at the master",
                ours.program, probe.versions.program
            ),
        ),
        Err(refusal) => Finding::wrong(check("version"), refusal.message, refusal.hint),
    };
    vec![version, clock(check("clock"), probe)]
}

/// Compares the clocks, taking the master's as read in the middle of its answer.
fn clock(check: String, probe: &Probe) -> Finding {
    let off_s = probe.off_s();
    let way = if off_s < 0.0 { "behind" } else { "ahead of" };
    let todo = "have both clocks set by the network (on most systems: timedatectl set-ntp true)";

    match off_s.abs() {
        off if off > OFF_WRONG_S => {
            let what = format!("{off:.0} s ({}) {way} the master's", link::coarse(off));
            Finding::wrong(check, what, todo)
        }
        off if off > OFF_NOTE_S => {
            Finding::note(check, format!("{off:.1} s {way} the master's"), todo)
        }
        off => Finding::ok(
            check,
            format!(
                "within {:.2} s of the master's",
                off + probe.took.as_secs_f64() / 2.0
            ),
        ),
    }
}

/// The words for an identity behind a gateway, which looks at its certificate alone.
const THROUGH: &str = "a gateway takes its certificate; whether it was revoked only the master knows, and the worker once it runs";

/// Checks whether the master accepts this identity. A worker only shows its certificate: with more
/// it would replace the running worker.
async fn accepted(check: String, who: &str, identity: &Identity) -> Finding {
    let result = if who == WORKER {
        let connection = match link::connect(identity, Purpose::Worker).await {
            Ok(connection) => connection,
            Err(error) => return Finding::failed(check, &Failure::from(error)),
        };
        match tokio::time::timeout(REFUSAL, connection.closed()).await {
            Ok(error @ LinkError::NotAccepted(_)) => Err(error),
            Ok(error) if error.to_string().contains("revoked") => Err(error),
            _ => {
                let is_master = link::handshake::is_master(connection.quic());
                connection.close("only looking").await;
                if !is_master {
                    return Finding::note(check, THROUGH, "deskgrid worker status");
                }
                Ok(())
            }
        }
    } else {
        match crate::session::connect(identity).await {
            Ok(client) => {
                client.close().await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    };

    match result {
        Ok(()) => Finding::ok(check, format!("the master accepts {}", identity.link.name)),
        Err(LinkError::NotAccepted(why)) if why == ONLY_A_RENEWAL => {
            Finding::note(check, why, NEXT_RENEWS)
        }
        Err(error) => Finding {
            todo: Some(rejoin(who)),
            ..Finding::failed(check, &Failure::from(error))
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn nobody_is_told_to_join_again_while_a_certificate_is_renewed_by_itself() {
        let issued_s = 1_700_000_000;
        for life_s in [600, 86_400, 30 * 86_400] {
            let validity = Validity {
                from_s: issued_s - link::identity::EARLIER_S,
                until_s: issued_s + life_s,
            };
            for (who, parts, severity, todo) in [
                (USER, 7, Severity::Ok, ""),
                (USER, 9, Severity::Note, "the next command renews it"),
                (USER, 11, Severity::Note, "the next command renews it"),
                (USER, 13, Severity::Wrong, "login"),
                (WORKER, 7, Severity::Ok, ""),
                (WORKER, 9, Severity::Ok, ""),
                (WORKER, 11, Severity::Note, "is the worker running?"),
                (WORKER, 13, Severity::Wrong, "renews it by itself"),
            ] {
                let now_s = issued_s + life_s * parts / 12;
                let finding = lasts(String::new(), who, "ann", validity, now_s);
                let said = finding.todo.clone().unwrap_or_default();
                assert!(
                    finding.severity == severity && said.contains(todo),
                    "{who}, {parts}/12 of {life_s} s: {finding:?}"
                );
            }
        }
    }

    #[test]
    fn clocks_are_compared_at_the_middle_of_the_answer() {
        let at = |s: f64| Time((s * 1e6) as u64);
        for (now_s, severity, word) in [
            (1_001.0, Severity::Ok, "within 1.00 s"),
            (1_021.0, Severity::Note, "20.0 s ahead of"),
            (981.0, Severity::Note, "20.0 s behind"),
            (4_601.0, Severity::Wrong, "3600 s (60 minutes) ahead of"),
        ] {
            let probe = Probe {
                versions: Versions::ours(),
                now: at(1_000.0),
                took: Duration::from_secs(2),
                heard: at(now_s),
                incarnation: common::Incarnation(7),
                standby: None,
            };
            let finding = clock("clock".to_owned(), &probe);
            assert!(
                finding.severity == severity && finding.what.contains(word),
                "{now_s}: {finding:?}"
            );
        }
    }
}
