//! Work on files that is not done on the runtime: whoever waits there holds up heartbeats, and the order to freeze
//! for the owner. What is much work for a task also yields to the owner's programs.

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::{io, thread};

use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::os;

thread_local! {
    /// The runtime that a thread of [`yielded`] works for.
    static HOME: RefCell<Option<Handle>> = const { RefCell::new(None) };
    /// Whether this is such a thread.
    static YIELDS: Cell<bool> = const { Cell::new(false) };
}

/// Runs work on files on another thread, and waits for it without holding up the runtime.
///
/// # Errors
/// If it panics.
pub(crate) async fn off<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)
}

/// Runs work on files that nobody waits for: on another thread where there is a runtime.
pub(crate) fn behind(work: impl FnOnce() + Send + 'static) {
    // A thread that yields would pass its priority on to one that it starts for the runtime: the runtime has to start it.
    if let Some(home) = HOME.with_borrow(Clone::clone) {
        home.spawn(async move {
            spawn_blocking(work);
        });
        return;
    }

    match Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

/// Copies, unpacks or hashes as [`yielded`], and waits for it without holding up the runtime.
///
/// # Errors
/// If it panics.
pub(crate) async fn yielding<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    off(move || yielded(work)).await
}

/// Copies, unpacks or hashes for a task, and waits for it on this thread. On Linux that yields to everything else on
/// the host, whether its owner is there or not. It has a thread of its own: a priority that was lowered cannot be
/// raised again, and those of the runtime go on to other work. Where the system has no thread for it now, the work is
/// done on this one, at the usual priority: that is no fault of the task's.
///
/// The work takes no lock that others need: where the processors are busy, they would wait for it.
pub(crate) fn yielded<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    let thread = thread::Builder::new().name("files".to_owned());
    yielded_on(thread, work)
}

fn yielded_on<T: Send>(thread: thread::Builder, work: impl FnOnce() -> T + Send) -> T {
    if !os::THREADS_YIELD || YIELDS.get() {
        return work();
    }

    let home = Handle::try_current().ok();
    let mut work = Some(work);
    let done = thread::scope(|scope| {
        let work = &mut work;
        let yields = move || {
            os::yield_thread();
            YIELDS.set(true);
            HOME.set(home);
            work.take().map(|work| work())
        };
        match thread.spawn_scoped(scope, yields) {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            Err(error) => {
                tracing::debug!(%error, "files are worked on at the usual priority");
                None
            }
        }
    });

    done.or_else(|| work.map(|work| work()))
        .expect("one of the threads did the work")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// The priority of the calling thread.
    fn nice() -> i32 {
        rustix::process::getpriority_process(Some(rustix::thread::gettid())).expect("it is there")
    }

    #[tokio::test]
    async fn copies_for_a_task_yield_and_what_they_leave_to_others_does_not() {
        let usual = nice();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = move || {
            behind(move || tell.send(nice()).unwrap());
            nice()
        };

        assert_eq!(yielding(work).await.unwrap(), 19);
        assert_eq!(told.await.unwrap(), usual);
        // Nor does the runtime keep a thread that yields.
        assert_eq!(off(nice).await.unwrap(), usual);
        assert_eq!(nice(), usual);
    }

    #[tokio::test]
    async fn work_that_has_begun_to_yield_goes_on_there() {
        let usual = nice();
        let (tell, told) = tokio::sync::oneshot::channel();
        let work = move || {
            let outer = rustix::thread::gettid();
            yielded(move || {
                behind(move || tell.send(nice()).unwrap());
                (outer == rustix::thread::gettid(), nice())
            })
        };

        assert_eq!(yielding(work).await.unwrap(), (true, 19));
        assert_eq!(told.await.unwrap(), usual);
    }

    #[test]
    fn work_that_the_system_has_no_thread_for_is_done_here() {
        // No address space is as large as this stack.
        let thread = thread::Builder::new().stack_size(1 << 60);
        let usual = nice();
        assert_eq!(yielded_on(thread, nice), usual);
    }

    #[tokio::test]
    async fn a_panic_in_what_yields_is_an_error_with_its_words() {
        let failed = yielding::<()>(|| panic!("no such block")).await;
        let error = failed.unwrap_err().to_string();
        assert!(error.contains("no such block"), "{error}");
    }
}
