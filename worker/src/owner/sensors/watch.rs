//! Runs sensors, each on its own thread, so that one that hangs delays neither the others, nor the
//! worker, nor its end. A sight is reported when it is new; a sensor that takes too long is
//! reported as unknown.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;

use super::Sensor;
use super::words::words;
use crate::owner::sight::{Reading, Sight, Topic};

/// A sensor's stack, in bytes; only what it touches takes memory.
const STACK: usize = 256 * 1024;
/// The number of checks for overdue sensors within `Timeouts::patience`.
const LOOKS: u32 = 4;

/// A sensor's new sight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sighted {
    /// The sensor's number, in the order in which they were given.
    pub sensor: usize,
    /// The sight.
    pub sight: Sight,
}

/// The times that drive the sensors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    /// The time between two looks of a sensor that has no wish of its own.
    pub pause: Duration,
    /// The longest time that a look may take.
    pub patience: Duration,
}

/// The state shared by one sensor's thread and the thread that checks for overdue looks.
struct SharedSight {
    /// The start of the present look, if it is looking.
    since: Option<Instant>,
    /// The last reported sight.
    told: Sight,
}

fn lock(desk: &Mutex<SharedSight>) -> MutexGuard<'_, SharedSight> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end of sensors that are being watched. They go on where it is dropped.
#[derive(Debug, Clone, Default)]
pub(crate) struct SensorStop(Arc<AtomicBool>);

impl SensorStop {
    /// Has the sensors look no more, and tell nothing of a look that they are at.
    pub(crate) fn stop(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Starts a thread for each sensor, numbered from `first` on, that looks now, and again after each
/// wait, until `tell` is closed or they are told to stop. Returns at once; what none has looked at is
/// unknown.
///
/// If a thread cannot be started: then the others have been told to stop.
pub(crate) fn watch<T: From<Sighted> + Send + 'static>(
    first: usize,
    sensors: Vec<Box<dyn Sensor>>,
    timeouts: Timeouts,
    tell: &UnboundedSender<T>,
) -> io::Result<SensorStop> {
    let stop = SensorStop::default();
    let started = start(first, sensors, timeouts, (tell, &stop));
    started.inspect_err(|_| stop.stop())?;
    Ok(stop)
}

fn start<T: From<Sighted> + Send + 'static>(
    first: usize,
    sensors: Vec<Box<dyn Sensor>>,
    timeouts: Timeouts,
    (tell, stop): (&UnboundedSender<T>, &SensorStop),
) -> io::Result<()> {
    let unseen = Sight::Unknown("it has not looked yet".to_owned());
    let mut desks = Vec::new();

    for (sensor, mut eyes) in (first..).zip(sensors) {
        let desk = Arc::new(Mutex::new(SharedSight {
            since: None,
            told: unseen.clone(),
        }));
        desks.push(Arc::clone(&desk));

        let tell = tell.clone();
        let stop = stop.clone();
        let watch = move || {
            while !tell.is_closed() && !stop.is_set() {
                lock(&desk).since = Some(Instant::now());
                let sight = eyes.sense();
                let mut desk = lock(&desk);
                desk.since = None;
                if stop.is_set() {
                    return;
                }
                news(&mut desk, sight, sensor, eyes.name(), &tell);
                drop(desk);
                eyes.wait(timeouts.pause);
            }
        };
        thread::Builder::new()
            .name(format!("sensor-{sensor}"))
            .stack_size(STACK)
            .spawn(watch)?;
    }

    let tell = tell.clone();
    let stop = stop.clone();
    let look_after = move || {
        loop {
            thread::sleep(timeouts.patience / LOOKS);
            if tell.is_closed() || stop.is_set() {
                return;
            }
            for (sensor, desk) in (first..).zip(&desks) {
                let mut desk = lock(desk);
                if desk
                    .since
                    .is_some_and(|since| since.elapsed() > timeouts.patience)
                {
                    news(
                        &mut desk,
                        overdue(timeouts.patience),
                        sensor,
                        "overdue",
                        &tell,
                    );
                }
            }
        }
    };
    thread::Builder::new()
        .name("sensors".to_owned())
        .stack_size(STACK)
        .spawn(look_after)?;

    Ok(())
}

fn overdue(patience: Duration) -> Sight {
    Sight::Unknown(format!(
        "it has not answered for {} s",
        patience.as_secs_f64()
    ))
}

fn news<T: From<Sighted>>(
    desk: &mut SharedSight,
    sight: Sight,
    sensor: usize,
    name: &str,
    tell: &UnboundedSender<T>,
) {
    // An idle time counts from now: the same number at a later look means another touch.
    if sight == desk.told && !matches!(sight, Sight::Seen(Reading::Idle(_))) {
        return;
    }
    if std::mem::discriminant(&sight) != std::mem::discriminant(&desk.told) {
        tracing::info!(name, sees = words(&sight), "a sensor");
    }

    desk.told = sight.clone();
    // A closed channel means that the listener is gone and needs no news.
    let _ = tell.send(Sighted { sensor, sight }.into());
}

/// The sight of one sensor at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct SensorSight {
    /// The sensor's name.
    pub name: &'static str,
    /// The topic that it looks at.
    pub topic: Topic,
    /// The sight.
    pub sight: Sight,
}

/// Has each sensor look once, all at the same time. The sight of one that takes longer than
/// `patience` is unknown; its thread is left behind.
pub fn look(sensors: Vec<Box<dyn Sensor>>, patience: Duration) -> Vec<SensorSight> {
    let (tell, heard) = mpsc::channel();
    let view = |eyes: &dyn Sensor| SensorSight {
        name: eyes.name(),
        topic: eyes.topic(),
        sight: overdue(patience),
    };
    let mut views: Vec<SensorSight> = sensors.iter().map(|eyes| view(&**eyes)).collect();

    for (sensor, mut eyes) in sensors.into_iter().enumerate() {
        let tell = tell.clone();
        let glance = move || drop(tell.send((sensor, eyes.sense())));
        if let Err(error) = thread::Builder::new().stack_size(STACK).spawn(glance) {
            views[sensor].sight =
                Sight::Unknown(format!("there is no room for another thread: {error}"));
        }
    }

    drop(tell);
    let deadline = Instant::now() + patience;
    while let Ok((sensor, sight)) =
        heard.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        views[sensor].sight = sight;
    }

    views
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

    /// Sees what it is told to see; hangs in the middle of a look when told nothing.
    struct Puppet(mpsc::Receiver<f64>);

    impl Sensor for Puppet {
        fn name(&self) -> &'static str {
            "puppet"
        }
        fn topic(&self) -> Topic {
            Topic::Load
        }
        fn sense(&mut self) -> Sight {
            self.0.recv().map_or_else(
                |gone| Sight::Absent(gone.to_string()),
                |load| Sight::Seen(Reading::Load(load)),
            )
        }
        fn wait(&mut self, _: Duration) {}
    }

    fn puppet() -> (mpsc::Sender<f64>, Box<dyn Sensor>) {
        let (strings, eyes) = mpsc::channel();
        (strings, Box::new(Puppet(eyes)))
    }

    fn next(heard: &mut UnboundedReceiver<Sighted>) -> Sighted {
        heard
            .blocking_recv()
            .expect("the watchers live as long as somebody listens")
    }

    #[test]
    fn only_news_is_told() {
        let (tell, mut heard) = unbounded_channel::<Sighted>();
        let (strings, eyes) = puppet();
        let times = Timeouts {
            pause: Duration::ZERO,
            patience: Duration::from_secs(600),
        };
        watch(0, vec![eyes], times, &tell).unwrap();
        [1.0, 1.0, 2.0, 2.0, 1.0]
            .iter()
            .for_each(|load| strings.send(*load).unwrap());

        for load in [1.0, 2.0, 1.0] {
            assert_eq!(
                next(&mut heard),
                Sighted {
                    sensor: 0,
                    sight: Sight::Seen(Reading::Load(load))
                }
            );
        }
    }

    #[test]
    fn one_that_is_told_to_stop_tells_nothing_more_and_is_gone() {
        let (tell, mut heard) = unbounded_channel::<Sighted>();
        let (strings, eyes) = puppet();
        let times = Timeouts {
            pause: Duration::ZERO,
            patience: Duration::from_secs(600),
        };
        let stop = watch(0, vec![eyes], times, &tell).unwrap();
        strings.send(1.0).unwrap();
        next(&mut heard);

        stop.stop();
        // It is at a look yet, and then its eyes are closed.
        while strings.send(rand_load()).is_ok() {
            thread::yield_now();
        }
        assert!(heard.try_recv().is_err());
    }

    #[test]
    fn a_touch_is_news_however_much_it_looks_like_the_one_before() {
        let (tell, mut heard) = unbounded_channel::<Sighted>();
        let mut desk = SharedSight {
            since: None,
            told: Sight::Unknown(String::new()),
        };
        for touch in 1..=3 {
            news(
                &mut desk,
                Sight::Seen(Reading::Idle(common::Span::ZERO)),
                0,
                "puppet",
                &tell,
            );
            assert!(heard.try_recv().is_ok(), "touch {touch}");
        }
    }

    #[test]
    fn one_that_hangs_is_not_known_and_holds_up_nobody() {
        let (tell, mut heard) = unbounded_channel::<Sighted>();
        let ((hanging, hangs), (strings, sees)) = (puppet(), puppet());
        let times = Timeouts {
            pause: Duration::ZERO,
            patience: Duration::from_millis(20),
        };
        watch(0, vec![hangs, sees], times, &tell).unwrap();

        let overdue = loop {
            strings.send(rand_load()).unwrap();
            let Sighted { sensor, sight } = next(&mut heard);
            if let (0, Sight::Unknown(why)) = (sensor, sight) {
                break why;
            }
        };
        assert_eq!(overdue, "it has not answered for 0.02 s");
        hanging.send(3.0).unwrap();

        let back = loop {
            let news = next(&mut heard);
            if news.sensor == 0 {
                break news.sight;
            }
        };
        assert_eq!(
            back,
            Sight::Seen(Reading::Load(3.0)),
            "it is believed again"
        );
    }

    /// Another number each time.
    fn rand_load() -> f64 {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        f64::from(COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    #[test]
    fn a_single_look_ends_although_one_hangs() {
        let ((_hanging, hangs), (strings, sees)) = (puppet(), puppet());
        strings.send(2.0).unwrap();
        let views = look(vec![hangs, sees], Duration::from_secs(5));
        assert!(matches!(views[0].sight, Sight::Unknown(_)), "{views:?}");
        assert_eq!(views[1].sight, Sight::Seen(Reading::Load(2.0)));
    }
}
