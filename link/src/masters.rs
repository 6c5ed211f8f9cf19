//! Several masters of one grid: one is active, the others stand by. Their addresses are one text,
//! `HOST:PORT,HOST:PORT`, in identities and on command lines; which of them is active is found out
//! each time.

use std::future::Future;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use crate::error::LinkError;

/// The time for which a master may be silent before `first` tries the next one beside it.
const PAUSE: Duration = Duration::from_millis(300);

/// Returns the addresses in a text such as `a:7411,b:7411`, in their order.
pub fn addresses(masters: &str) -> impl Iterator<Item = &str> {
    masters
        .split(',')
        .map(str::trim)
        .filter(|master| !master.is_empty())
}

/// Whether a text names more than one master.
pub fn are_several(masters: &str) -> bool {
    addresses(masters).nth(1).is_some()
}

/// Returns the same addresses, the ones before and with `behind` at the end.
pub fn beginning_after(masters: &str, behind: &str) -> String {
    let all: Vec<&str> = addresses(masters).collect();
    let at = all.iter().position(|master| *master == behind);
    let (before, after) = all.split_at(at.map_or(0, |at| at + 1));
    [after, before].concat().join(",")
}

/// The time that silent masters have left once one has said that it stands by: the active one would
/// have answered.
const GIVE_UP: Duration = Duration::from_secs(1);

/// One of several tries for [`first`].
pub type Trying<'a, T> = Pin<Box<dyn Future<Output = Result<T, LinkError>> + Send + 'a>>;

/// Returns the first success of tries that begin one after the other: the next one when one has
/// failed, or is silent for a while.
///
/// # Errors
/// With the errors of all, in the order in which they came.
pub async fn first<T>(tries: Vec<Trying<'_, T>>) -> Result<T, Vec<LinkError>> {
    let mut waiting = tries.into_iter();
    let mut running: Vec<Trying<'_, T>> = waiting.next().into_iter().collect();
    let mut errors = Vec::new();
    let mut stands_by: Option<tokio::time::Instant> = None;

    while !running.is_empty() {
        let gives_up = stands_by.filter(|_| waiting.len() == 0);
        let silence = gives_up.map_or_else(tokio::time::Instant::now, |at| at + GIVE_UP);
        tokio::select! {
            (at, done) = any(&mut running) => match done {
                Ok(done) => return Ok(done),
                Err(error) => {
                    if matches!(error, LinkError::StandsBy { .. }) {
                        stands_by.get_or_insert_with(tokio::time::Instant::now);
                    }
                    errors.push(error);
                    drop(running.swap_remove(at));
                    running.extend(waiting.next());
                }
            },
            () = tokio::time::sleep_until(silence), if gives_up.is_some() => break,
            () = tokio::time::sleep(PAUSE), if waiting.len() > 0 => running.extend(waiting.next()),
        }
    }
    Err(errors)
}

/// Resolves with the place and the outcome of the first that ends.
async fn any<T>(running: &mut [Trying<'_, T>]) -> (usize, Result<T, LinkError>) {
    std::future::poll_fn(|context| {
        for (at, one) in running.iter_mut().enumerate() {
            if let Poll::Ready(done) = one.as_mut().poll(context) {
                return Poll::Ready((at, done));
            }
        }
        Poll::Pending
    })
    .await
}

/// Merges the errors of all masters into the one that helps most: a refusal of the active one, or one
/// that stands by, or that none answers.
pub(crate) fn merged(masters: &str, mut errors: Vec<LinkError>) -> LinkError {
    let silent = |error: &LinkError| matches!(error, LinkError::Unreachable { .. });
    let stands_by = |error: &LinkError| matches!(error, LinkError::StandsBy { .. });
    let helps = errors
        .iter()
        .position(|error| !silent(error) && !stands_by(error))
        .or_else(|| errors.iter().position(stands_by));
    if let Some(at) = helps {
        return errors.swap_remove(at);
    }
    if errors.len() == 1 {
        return errors.swap_remove(0);
    }

    let why = errors.iter().map(|error| match error {
        LinkError::Unreachable { master, why } => format!("{master}: {why}"),
        other => other.to_string(),
    });
    LinkError::Unreachable {
        master: masters.to_owned(),
        why: why.collect::<Vec<_>>().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn silent(master: &str) -> LinkError {
        LinkError::Unreachable {
            master: master.to_owned(),
            why: "no answer".to_owned(),
        }
    }

    #[test]
    fn addresses_are_split_at_commas_and_begin_anew_behind_the_one_that_failed() {
        let some = " a:7411,b:7411 ,,c:1";
        assert_eq!(
            addresses(some).collect::<Vec<_>>(),
            ["a:7411", "b:7411", "c:1"]
        );
        assert!(are_several(some) && !are_several("a:7411,"));
        assert_eq!(beginning_after(some, "a:7411"), "b:7411,c:1,a:7411");
        assert_eq!(beginning_after(some, "c:1"), "a:7411,b:7411,c:1");
        assert_eq!(beginning_after(some, "unknown"), "a:7411,b:7411,c:1");
    }

    #[tokio::test(start_paused = true)]
    async fn the_next_master_is_tried_when_one_fails_or_is_silent_and_the_first_answer_counts() {
        let begun = Mutex::new(Vec::new());
        let one = |name: &'static str, after: u64, well: bool| -> Trying<'_, &'static str> {
            let begun = &begun;
            Box::pin(async move {
                begun.lock().unwrap().push(name);
                tokio::time::sleep(Duration::from_millis(after)).await;
                if well { Ok(name) } else { Err(silent(name)) }
            })
        };

        let from = tokio::time::Instant::now();
        let tries = vec![
            one("refuses", 1, false),
            one("active", 5, true),
            one("third", 1, true),
        ];
        let found = first(tries);
        assert_eq!(found.await.unwrap(), "active");
        assert_eq!(from.elapsed(), Duration::from_millis(6));
        assert_eq!(*begun.lock().unwrap(), ["refuses", "active"]);

        let from = tokio::time::Instant::now();
        let found = first(vec![one("silent", 5_000, true), one("active", 5, true)]);
        assert_eq!(found.await.unwrap(), "active");
        assert_eq!(from.elapsed(), PAUSE + Duration::from_millis(5));

        let stands_by: Trying<'_, &'static str> = Box::pin(async {
            Err(LinkError::StandsBy {
                master: "b".to_owned(),
                active: None,
            })
        });
        let from = tokio::time::Instant::now();
        let none = first(vec![stands_by, one("dead", 60_000, false)]).await;
        assert_eq!((none.unwrap_err().len(), from.elapsed()), (1, GIVE_UP));

        let none = first(vec![one("a", 1, false), one("b", 1, false)]).await;
        let told = merged("a,b", none.unwrap_err()).to_string();
        assert!(told.contains("a: no answer; b: no answer"), "{told}");
    }

    #[test]
    fn of_all_errors_a_refusal_is_told_before_a_standby_and_that_before_silence() {
        let stands_by = || LinkError::StandsBy {
            master: "b".to_owned(),
            active: Some("a".to_owned()),
        };
        let refused = || LinkError::NotAccepted("revoked".to_owned());
        let told = |errors| merged("a,b", errors).to_string();
        assert!(told(vec![silent("a"), stands_by()]).contains("stands by"));
        assert!(told(vec![stands_by(), refused(), silent("c")]).contains("revoked"));
    }
}
