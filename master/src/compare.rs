//! Compares results whose numbers need only be close to each other, beside the core. Both are read
//! word by word, so their length does not matter. The user's own comparison programs run elsewhere
//! (`deskgrid job judge`).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api::Gate;
use common::attempt::OutputFile;
use common::job::Tolerance;
use common::wire::RefusalCode;
use common::{AttemptId, BlobRef, Content};
use link::BlobStore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::content_place::HeldContent;
use crate::core::ask::{JobAsk, UpkeepAsk};
use crate::run::SessionContext;
use crate::store::{AttemptResult, Reader, StoreResult};

/// The bytes of the longest word. A longer one is compared in pieces of this length, byte by byte.
const LONGEST_WORD: usize = 4_096;
/// The comparisons of all users that are made at a time.
const AT_A_TIME: usize = 2;
/// The time after which storage that was away is asked again.
const AGAIN: Duration = Duration::from_secs(5);

/// A comparison of a result with others of its task. Many can wait, so it only names them: they are
/// read when it is made.
#[derive(Debug)]
pub(crate) struct Comparison {
    /// The user of its job.
    pub(crate) user: String,
    /// The attempt that has left the result.
    pub(crate) attempt: AttemptId,
    /// The attempts that have left the others.
    pub(crate) with: Vec<AttemptId>,
    /// The tolerated difference of numbers.
    pub(crate) tolerance: Tolerance,
}

/// The results of a comparison. There are no others if the result itself is gone.
#[derive(Debug, Default)]
struct ComparedResults {
    mine: AttemptResult,
    /// The others that are still there, with their attempts' numbers.
    others: Vec<(u32, AttemptResult)>,
}

impl ComparedResults {
    fn read(reader: &Reader, attempt: AttemptId, with: &[AttemptId]) -> StoreResult<Self> {
        let Some(mine) = reader.result_of(attempt)? else {
            return Ok(Self::default());
        };
        let mut others = Vec::new();
        for other in with {
            let result = reader.result_of(*other)?;
            others.extend(result.map(|result| (other.number, result)));
        }
        Ok(Self { mine, others })
    }
}

/// Makes the comparisons that the core asks for, until the core has ended: those of a user one after the
/// other, and of all users a few at a time, each user in turn.
pub(crate) async fn serve(state: Arc<SessionContext>, mut wanted: UnboundedReceiver<Comparison>) {
    let gate = Gate::new(AT_A_TIME, 1);
    let mut under_way = JoinSet::new();

    loop {
        tokio::select! {
            next = wanted.recv() => match next {
                None => return,
                Some(comparison) => {
                    under_way.spawn(answer(state.clone(), gate.clone(), comparison));
                }
            },
            Some(_) = under_way.join_next() => {}
        }
    }
}

/// Makes a comparison when it is its user's turn, and tells the core.
async fn answer(state: Arc<SessionContext>, gate: Gate, comparison: Comparison) {
    let user = blake3::hash(comparison.user.as_bytes());
    let _turn = gate
        .enter(Uuid::from_slice(&user.as_bytes()[..16]).unwrap_or_default())
        .await;
    // In a box, so that those that wait for their turn take little memory.
    Box::pin(compare(&state, comparison)).await;
}

async fn compare(state: &SessionContext, comparison: Comparison) {
    let Some(results) = read(state, &comparison).await else {
        return;
    };
    let Some(held) = hold(state, &results).await else {
        return;
    };

    let blobs = state.blobs.local().clone();
    let attempt = comparison.attempt;
    let part = comparison.tolerance.part();
    let agrees =
        tokio::task::spawn_blocking(move || agreeing(&blobs, attempt, &results, part)).await;
    drop(held);
    // A comparison that panicked, which the log says, would panic again.
    let compared = JobAsk::Compared(attempt, agrees.unwrap_or_default());
    // A core that has ended needs no answer.
    let _ = state.core.ask::<()>(compared).await;
}

/// Reads the results, however many tries that takes. `None` if the core has ended.
async fn read(state: &SessionContext, comparison: &Comparison) -> Option<ComparedResults> {
    let attempt = comparison.attempt;
    loop {
        // The core asks for a comparison before the results are durable, and answers after it.
        state.core.ask::<()>(UpkeepAsk::Ping).await.ok()?;
        let reader = state.reader.clone();
        let with = comparison.with.clone();
        let read = move || ComparedResults::read(&reader, attempt, &with);
        match tokio::task::spawn_blocking(read).await {
            Ok(Ok(results)) => return Some(results),
            Ok(Err(error)) => tracing::warn!(%attempt, %error, "a comparison waits for the store"),
            // It does not show that the results differ, which would cost their hosts their trust.
            Err(error) => tracing::error!(%attempt, %error, "a comparison is tried again"),
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Brings all content of the results here, however many tries that takes. What is nowhere is left
/// out. `None` if the core has ended.
async fn hold(state: &SessionContext, results: &ComparedResults) -> Option<Vec<HeldContent>> {
    let others = results.others.iter().map(|(_, other)| other);
    let all = others.chain([&results.mine]);
    let blobs: BTreeSet<BlobRef> = all.flat_map(blobs_of).collect();

    let mut held = Vec::new();
    for blob in blobs {
        loop {
            match state.blobs.bring(&state.core, blob.hash).await {
                Ok(one) => held.push(one),
                Err(refusal) if refusal.code == RefusalCode::Unavailable => {
                    tracing::warn!(hash = %blob.hash, why = refusal.message, "a comparison waits");
                    tokio::time::sleep(AGAIN).await;
                    state.core.ask::<()>(UpkeepAsk::Ping).await.ok()?;
                    continue;
                }
                Err(_) => {}
            }
            break;
        }
    }
    Some(held)
}

/// The content of a result that is compared.
fn blobs_of(result: &AttemptResult) -> impl Iterator<Item = BlobRef> + '_ {
    let files = result.files.iter().map(|file| file.blob);
    result.stdout.content.blob().into_iter().chain(files)
}

/// The numbers of the attempts whose results agree with that of `attempt`.
fn agreeing(
    blobs: &BlobStore,
    attempt: AttemptId,
    results: &ComparedResults,
    part: f64,
) -> Vec<u32> {
    let agrees = |other: &AttemptResult| {
        agree(blobs, &results.mine, other, part).unwrap_or_else(|error| {
            tracing::warn!(%attempt, %error, "a result cannot be read, and so agrees with none");
            false
        })
    };
    results
        .others
        .iter()
        .filter(|(_, other)| agrees(other))
        .map(|(number, _)| *number)
        .collect()
}

fn agree(
    blobs: &BlobStore,
    one: &AttemptResult,
    two: &AttemptResult,
    part: f64,
) -> io::Result<bool> {
    let streams = one.stdout.dropped == two.stdout.dropped
        && close(
            open(blobs, &one.stdout.content)?,
            open(blobs, &two.stdout.content)?,
            part,
        )?;

    let sorted = |result: &AttemptResult| {
        let mut files = result.files.clone();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files
    };
    let ones = sorted(one);
    let twos = sorted(two);
    let names = |files: &[OutputFile]| -> Vec<_> {
        files
            .iter()
            .map(|f| (f.path.clone(), f.executable))
            .collect()
    };
    if !streams || names(&ones) != names(&twos) {
        return Ok(false);
    }

    for (one, two) in ones.iter().zip(&twos) {
        let path = |file: &OutputFile| -> PathBuf { blobs.path_of(&file.blob.hash) };
        if one.blob != two.blob && !close(File::open(path(one))?, File::open(path(two))?, part)? {
            return Ok(false);
        }
    }

    Ok(true)
}

fn open(blobs: &BlobStore, content: &Content) -> io::Result<Box<dyn Read>> {
    Ok(match content {
        Content::Inline(bytes) => Box::new(io::Cursor::new(bytes.clone())),
        Content::Blob(blob) => Box::new(File::open(blobs.path_of(&blob.hash))?),
    })
}

/// Whether two texts have the same words; numbers are the same if they are close. The separators
/// between words (white space, commas, semicolons, brackets) do not matter.
fn close(one: impl Read, two: impl Read, part: f64) -> io::Result<bool> {
    let mut one = BufReader::new(one);
    let mut two = BufReader::new(two);
    let mut left = Vec::new();
    let mut right = Vec::new();

    loop {
        let more = (
            next_word(&mut one, &mut left)?,
            next_word(&mut two, &mut right)?,
        );
        match more {
            (false, false) => return Ok(true),
            (true, true) if left == right || numbers_close(&left, &right, part) => {}
            _ => return Ok(false),
        }
    }
}

fn separates(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b',' | b';' | b'[' | b']' | b'(' | b')' | b'{' | b'}')
}

/// Reads the next word, or the next piece of a long one; false at the end.
fn next_word(from: &mut impl BufRead, word: &mut Vec<u8>) -> io::Result<bool> {
    word.clear();
    loop {
        let piece = from.fill_buf()?;
        let Some(first) = piece.first().copied() else {
            return Ok(!word.is_empty());
        };
        if separates(first) {
            if !word.is_empty() {
                return Ok(true);
            }
            let blank = piece.iter().take_while(|byte| separates(**byte)).count();
            from.consume(blank);
            continue;
        }

        let room = LONGEST_WORD - word.len();
        let taken = piece
            .iter()
            .take(room)
            .take_while(|byte| !separates(**byte))
            .count();
        word.extend_from_slice(&piece[..taken]);
        from.consume(taken);
        if word.len() == LONGEST_WORD {
            return Ok(true);
        }
    }
}

fn numbers_close(one: &[u8], two: &[u8], part: f64) -> bool {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<f64>().ok();
    let (Some(one), Some(two)) = (number(one), number(two)) else {
        return false;
    };
    let most = one.abs().max(two.abs());
    one == two
        || one.is_nan() && two.is_nan()
        || most < part
        || most.is_finite() && (one - two).abs() <= part * most
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts_close(one: &str, two: &str, part: f64) -> bool {
        close(one.as_bytes(), two.as_bytes(), part).unwrap()
    }

    #[test]
    fn numbers_may_differ_a_little_and_words_not_at_all() {
        let said = [
            ("energy = 1.0000001\n", "energy  =  1.0", true),
            ("energy = 1.0000001\n", "Energy = 1.0", false),
            ("1.0 2.0", "1.0", false),
            ("", " \n", true),
            ("[1e-9, 5]", "[-1e-9, 5]", true),
            ("[1e-3, 5]", "[-1e-3, 5]", false),
            ("1.5e300", "1.5000001e300", true),
            ("inf nan", "inf NaN", true),
            ("inf", "-inf", false),
            ("0x10", "0x11", false),
        ];
        for (one, two, want) in said {
            assert_eq!(texts_close(one, two, 1e-6), want, "{one:?} {two:?}");
        }
    }

    proptest! {
        #[test]
        fn results_within_the_tolerance_agree_and_others_do_not(
            values in prop::collection::vec(-1e12f64..1e12, 1..30), by in 0usize..30, part in 1e-9f64..0.01,
        ) {
            let text = |values: &[f64]| values.iter().map(|v| format!("{v:e}")).collect::<Vec<_>>().join(" ");
            let at = by % values.len();
            prop_assume!(values[at].abs() > 1.0);
            let changed = |factor: f64| {
                let mut changed = values.clone();
                changed[at] *= factor;
                changed
            };
            prop_assert!(texts_close(&text(&values), &text(&changed(1.0 + part * 0.9)), part));
            prop_assert!(!texts_close(&text(&values), &text(&changed(1.0 + part * 1.2)), part));
        }

        #[test]
        fn bytes_that_are_no_text_agree_only_with_themselves(
            bytes in prop::collection::vec(128u8..255, 1..20_000), at in 0usize..20_000,
        ) {
            let mut other = bytes.clone();
            let at = at % bytes.len();
            other[at] ^= 1;
            prop_assert!(close(&bytes[..], &bytes[..], 0.5).unwrap());
            prop_assert!(!close(&bytes[..], &other[..], 0.5).unwrap());
        }
    }
}
