//! Makes a trace from the master's records. A host counts as down where it was known and has no
//! record.

use common::Time;
use common::availability::AvailabilityInterval;
use common::units::REFERENCE_MHZ;
use common::view::AvailabilityView;
use common::wire::client::{Reply, Request};
use simulator::trace::{Note, Segment, Trace, TracedHost};

use super::super::Context;
use crate::args::trace::PartArgs;
use crate::failure::Failure;
use crate::output::when;
use crate::session::{Session, answer};

/// Asks the master for its records, and makes a trace of them.
pub(super) async fn trace(context: &Context, part: &PartArgs) -> Result<Trace, Failure> {
    let (since, until) = super::window(part)?;
    let session = Session::open(&context.state).await?;
    let request = Request::Availability {
        hosts: part.hosts.clone(),
        since,
        until,
    };
    let mut views: Vec<AvailabilityView> = Vec::new();

    let mut replies = session.client().stream(&request).await?;
    while let Some(reply) = replies.next().await? {
        let view = answer!(reply, Reply::Availability)?;
        match views.last_mut() {
            Some(last) if last.host == view.host => last.stretches.extend(view.stretches),
            _ => views.push(view),
        }
    }

    session.close().await;
    made(&views, (since, until.min(when::now()))).ok_or_else(|| {
        let hint = "workers send what they record within five minutes, unless record_limit is 0 in their configuration \
                    or availability_days in the master's";
        Failure::error("not-found", "nothing is recorded of these hosts in that time", hint)
    })
}

/// Makes the trace from the records of each host; `None` if there are none.
fn made(views: &[AvailabilityView], (since, until): (Time, Time)) -> Option<Trace> {
    let begin = |view: &AvailabilityView| {
        view.known_since
            .map(|known| known.max(since))
            .filter(|from| *from < until)
    };
    let recorded: Vec<(&AvailabilityView, Time)> = views
        .iter()
        .filter_map(|view| Some((view, begin(view)?)))
        .collect();
    let first = recorded.iter().map(|(_, from)| *from).min()?;
    let origin_s = i64::try_from(first.0 / 1_000_000).unwrap_or(0);
    let hosts = recorded
        .into_iter()
        .map(|(view, from)| host(view, (from, until), origin_s));
    let hosts: Vec<TracedHost> = hosts.filter(|host| !host.segments.is_empty()).collect();

    (!hosts.is_empty()).then_some(Trace { origin_s, hosts })
}

fn host(view: &AvailabilityView, (from, until): (Time, Time), origin_s: i64) -> TracedHost {
    let mut host = TracedHost::new(
        view.host.clone(),
        view.speed.factor() * REFERENCE_MHZ,
        Vec::new(),
    );
    let second = |time: Time| (time.0 as i64 - origin_s * 1_000_000) as f64 / 1e6;
    let mut add = |start: Time, end: Time, known: Option<&AvailabilityInterval>| {
        if start >= end {
            return;
        }

        let cpu = known.map_or(0.0, |stretch| decimal(stretch.cpu));
        host.segments.push(Segment {
            start_s: second(start),
            end_s: second(end),
            up: known.is_some(),
            cpu,
        });

        let reason = known.and_then(|stretch| stretch.reason.as_deref().map(Into::into));
        host.notes.push(Note {
            owner_active: known.and_then(|stretch| stretch.owner_active),
            reason,
        });
    };

    let mut at = from;
    for stretch in &view.stretches {
        add(at, stretch.start, None);
        add(stretch.start.max(at), stretch.end, Some(stretch));
        at = at.max(stretch.end);
    }

    // A connected worker has not sent its latest records yet.
    if !view.connected {
        add(at, until, None);
    }

    host
}

/// Converts a part of the processor to the 64-bit number with the same decimal digits, so that no
/// further digits appear.
fn decimal(cpu: f32) -> f64 {
    cpu.to_string().parse().unwrap_or_else(|_| f64::from(cpu))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::Speed;
    use common::host::{OwnerState, YieldReason};

    fn at(s: u64) -> Time {
        Time((1_700_000_000 + s) * 1_000_000)
    }

    fn view(connected: bool, stretches: Vec<AvailabilityInterval>) -> AvailabilityView {
        let known_since = stretches.first().map(|first| first.start);
        AvailabilityView {
            host: "pc".into(),
            speed: Speed::new(2.0).unwrap(),
            known_since,
            connected,
            stretches,
        }
    }

    #[test]
    fn gaps_in_a_recording_are_exported_as_down() {
        let paused = AvailabilityInterval::of(
            at(60),
            at(70),
            OwnerState::Present(YieldReason::PausedByOwner),
            1.0,
        );
        let stretches = vec![
            AvailabilityInterval::of(at(0), at(50), OwnerState::Away, 0.3),
            paused,
        ];
        let trace = made(&[view(false, stretches.clone())], (Time(0), at(100))).unwrap();
        let host = &trace.hosts[0];
        let found: Vec<_> = host
            .segments
            .iter()
            .map(|s| (s.start_s, s.end_s, s.up, s.cpu))
            .collect();
        let down = |from, to| (from, to, false, 0.0);

        assert_eq!(
            found,
            [
                (0.0, 50.0, true, 0.3),
                down(50.0, 60.0),
                (60.0, 70.0, true, 0.0),
                down(70.0, 100.0)
            ]
        );

        assert_eq!((trace.origin_s, host.clock_mhz), (1_700_000_000, 3_000.0));
        assert_eq!(host.notes[2].reason.as_deref(), Some("paused-by-owner"));

        let connected = made(&[view(true, stretches)], (Time(0), at(100))).unwrap();
        assert_eq!(
            connected.hosts[0].segments.last().map(|s| s.end_s),
            Some(70.0),
            "the rest is on its way"
        );
    }

    #[test]
    fn the_time_before_the_first_sample_is_not_down() {
        let late = view(
            false,
            vec![AvailabilityInterval::of(
                at(40),
                at(50),
                OwnerState::Away,
                1.0,
            )],
        );
        let trace = made(
            &[
                view(
                    false,
                    vec![AvailabilityInterval::of(
                        at(0),
                        at(50),
                        OwnerState::Away,
                        1.0,
                    )],
                ),
                late,
            ],
            (Time(0), at(50)),
        );
        assert_eq!(trace.unwrap().hosts[1].segments[0].start_s, 40.0);
        assert_eq!(made(&[view(false, Vec::new())], (Time(0), at(50))), None);

        // Recorded before the interval that is asked for, and gone since.
        let mut gone = view(false, Vec::new());
        gone.known_since = Some(at(0));

        let trace = made(&[gone], (at(10), at(50))).unwrap();
        assert_eq!(
            trace.hosts[0].segments,
            [Segment {
                start_s: 0.0,
                end_s: 40.0,
                up: false,
                cpu: 0.0
            }]
        );
    }
}
