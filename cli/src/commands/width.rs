//! Describes in words the width of a job, held or predicted, and the reason.

use common::Time;
use common::text::plural;
use common::view::{WayView, WidthView};

use crate::output::when;

/// Describes the ways to run a job, or the hosts that it holds:
/// `start now on 4 hosts: done 14:20:05; wait about 9m00s for 13: done 13:47:10 (chosen); times are UTC`.
pub(super) fn width_in_words(view: &WidthView, now: Time) -> String {
    if let (Some(ranks), Some(_)) = (view.ranks, view.formed) {
        let waits = if view.begun.is_some() {
            ""
        } else {
            "; its ranks wait until all of them are ready"
        };
        return format!("{} at once{waits}", plural(u64::from(ranks), "host"));
    }

    let soonest = view.ways.iter().min_by_key(|way| (way.finish, way.hosts));
    let at_once = view.ways.iter().find(|way| way.start <= now);
    let mut shown: Vec<&WayView> = [at_once, view.chosen.as_ref(), soonest]
        .into_iter()
        .flatten()
        .collect();
    shown.sort_by_key(|way| way.hosts);
    shown.dedup_by_key(|way| way.hosts);

    let chosen = view.chosen.map(|way| way.hosts);
    let has_times = shown.iter().any(|way| way.finish.is_some());
    let mut words: Vec<String> = shown
        .into_iter()
        .map(|way| in_words(way, chosen == Some(way.hosts), now))
        .collect();
    words.extend(has_times.then(|| "times are UTC".to_owned()));
    words.extend(view.why.clone());

    if words.is_empty() {
        format!("{} at least", plural(u64::from(view.least), "host"))
    } else {
        words.join("; ")
    }
}

fn in_words(way: &WayView, chosen: bool, now: Time) -> String {
    let done = way.finish.map_or_else(String::new, |finish| {
        format!(": done {}", when::clock(finish, now))
    });
    let chosen = if chosen { " (chosen)" } else { "" };
    if way.start <= now {
        return format!(
            "start now on {}{done}{chosen}",
            plural(u64::from(way.hosts), "host")
        );
    }
    format!(
        "wait about {} for {}{done}{chosen}",
        way.start.since(now),
        way.hosts
    )
}

#[cfg(test)]
mod tests {
    use common::Span;

    use super::*;

    #[test]
    fn a_chosen_width_is_shown_beside_the_predicted_ones() {
        let now = Time(1_700_000_000_000_000);
        let way = |hosts, wait: u64, run: u64| WayView {
            hosts,
            start: now + Span::from_secs(wait),
            finish: Some(now + Span::from_secs(wait + run)),
        };
        let mut view = WidthView {
            least: 1,
            most: 13,
            ranks: None,
            formed: None,
            begun: None,
            free: 4,
            hosts: 20,
            behind: 0,
            scaling: None,
            ways: vec![way(4, 0, 7_200), way(8, 300, 4_000), way(13, 540, 2_700)],
            chosen: Some(way(13, 540, 2_700)),
            why: None,
        };
        let words = width_in_words(&view, now);
        assert_eq!(
            words,
            "start now on 4 hosts: done 00:13:20 on 2023-11-15; wait about 9m00s for 13: done 23:07:20 (chosen); times are UTC"
        );
        view.chosen = Some(way(8, 300, 4_000));

        assert!(
            width_in_words(&view, now)
                .contains("for 8: done 23:25:00 (chosen); wait about 9m00s for 13"),
            "{view:?}"
        );
        view.ranks = Some(13);
        view.formed = Some(now);
        assert_eq!(
            width_in_words(&view, now),
            "13 hosts at once; its ranks wait until all of them are ready"
        );
    }
}
