//! Runs work on several threads and returns the results in the order of the work.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Calls `work` for each item and returns the results in order. The thread that does an item
/// depends on timing; the results do not.
pub fn in_parallel<I: Sync, T: Send>(
    threads: usize,
    items: &[I],
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { return };
                    let result = work(item);
                    done.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((at, result));
                }
            });
        }
    });

    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_work() {
        let items: Vec<u32> = (0..100).collect();
        for threads in [1, 2, 7] {
            assert_eq!(
                in_parallel(threads, &items, |item| item * 2),
                items.iter().map(|i| i * 2).collect::<Vec<_>>()
            );
        }
        assert!(in_parallel(2, &[] as &[u32], |item| *item).is_empty());
    }
}
