//! What workers record of their hosts: kept once, shown whole, and to admins only.

use common::Time;
use common::availability::AvailabilityInterval;
use common::host::YieldReason;
use common::view::AvailabilityView;

use super::*;

impl Worker {
    /// Says how its host was available and waits until that is kept.
    async fn record(&mut self, last: u64, stretches: Vec<AvailabilityInterval>) {
        self.tell(ToMaster::Recorded { last, stretches }).await;
        while self.next().await != (ToWorker::Kept { last }) {}
    }
}

/// What the admin is shown of what was recorded.
async fn recorded(master: &Master) -> Vec<AvailabilityView> {
    let request = Request::Availability {
        hosts: Vec::new(),
        since: Time(0),
        until: Time(u64::MAX),
    };
    let replies = master.admin().await.ask(&request).await.unwrap();
    let views = replies.into_iter().map(|reply| match reply {
        Reply::Availability(view) => view,
        other => panic!("{other:?}"),
    });
    views.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn availability_is_kept_once_over_a_restart_and_shown_to_admins_only() {
    let mut master = Master::start().await;
    let mut worker = master.host("pc").await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let ago = |s: u64| Time(Span::from(now).0) - Span::from_secs(s);
    let away = AvailabilityInterval::of(ago(600), ago(300), OwnerState::Away, 0.75);

    let paused = AvailabilityInterval::of(
        ago(300),
        ago(200),
        OwnerState::Present(YieldReason::PausedByOwner),
        1.0,
    );
    worker.record(2, vec![away.clone(), paused.clone()]).await;

    // Said again, with one that follows, one that is to come only next year, and one that cannot
    // be.
    let later = AvailabilityInterval::of(ago(100), ago(50), OwnerState::Away, 0.5);
    let future = AvailabilityInterval {
        end: ago(0) + Span::from_secs(31_536_000),
        ..later.clone()
    };
    let broken = AvailabilityInterval {
        cpu: f32::NAN,
        start: ago(40),
        end: ago(30),
        ..later.clone()
    };
    worker
        .record(
            5,
            vec![away.clone(), paused.clone(), future, later.clone(), broken],
        )
        .await;

    let expected = vec![away, paused, later];
    let views = recorded(&master).await;
    assert_eq!(
        (
            views[0].host.as_str(),
            views[0].connected,
            views[0].known_since
        ),
        ("pc", true, Some(ago(600)))
    );

    assert_eq!(views[0].stretches, expected);
    master.restart().await;

    let views = recorded(&master).await;
    assert_eq!(
        (&views[0].stretches, views[0].connected),
        (&expected, false)
    );

    let user = master.user("user").await;
    let request = Request::Availability {
        hosts: Vec::new(),
        since: Time(0),
        until: Time(1),
    };
    assert_eq!(
        code(&user.ask(&request).await.unwrap_err()),
        RefusalCode::NotAuthorised
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_record_comes_in_portions_and_whole() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let at = |s: u64| Time(Span::from(now).0) - Span::from_secs(30_000 - s);
    let stretch = |n: u64| {
        AvailabilityInterval::of(
            at(10 * n),
            at(10 * n + 10),
            OwnerState::Away,
            if n.is_multiple_of(2) { 0.25 } else { 1.0 },
        )
    };
    for batch in 0..3 {
        worker
            .record(batch, (0..900).map(|n| stretch(batch * 900 + n)).collect())
            .await;
    }

    let views = recorded(&master).await;
    assert!(views.len() > 1, "more than a message holds");

    let all: Vec<AvailabilityInterval> =
        views.into_iter().flat_map(|view| view.stretches).collect();
    assert_eq!(all, (0..2_700).map(stretch).collect::<Vec<_>>());
}
