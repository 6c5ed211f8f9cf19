//! A bounded crowd of peers that have not proved their identity, counted by address: a maximum for
//! one address, and one for all. When there are too many, the one with the oldest place loses it:
//! an honest peer needs a place only for a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Returns the address that counts: one end can have as many addresses of an IPv6 /64 as it likes,
/// so these count as one.
pub fn place_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
    }
}

/// A bounded number of places.
#[derive(Debug, Clone)]
pub struct BoundedPlaces {
    most: usize,
    of_one: usize,
    inner: Arc<Mutex<PlacesTaken>>,
}

#[derive(Debug, Default)]
struct PlacesTaken {
    next: u64,
    all: BTreeMap<u64, (IpAddr, oneshot::Sender<()>)>,
    by: BTreeMap<IpAddr, BTreeSet<u64>>,
}

/// One place, until it is dropped.
#[derive(Debug)]
pub struct TakenPlace {
    number: u64,
    inner: Arc<Mutex<PlacesTaken>>,
    lost: oneshot::Receiver<()>,
}

fn lock(inner: &Mutex<PlacesTaken>) -> MutexGuard<'_, PlacesTaken> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PlacesTaken {
    /// Removes the holder of a place; its receiver is notified.
    fn remove(&mut self, number: u64) {
        let Some((from, _)) = self.all.remove(&number) else {
            return;
        };
        if let Some(of_it) = self.by.get_mut(&from) {
            of_it.remove(&number);
            if of_it.is_empty() {
                self.by.remove(&from);
            }
        }
    }
}

impl BoundedPlaces {
    /// With so many places, of which one address has no more than `of_one`.
    pub fn new(most: usize, of_one: usize) -> Self {
        Self {
            most: most.max(1),
            of_one: of_one.max(1),
            inner: Arc::default(),
        }
    }

    /// Takes a place; if there is none, the oldest of the same address, or of all, loses its own.
    pub fn enter(&self, from: IpAddr) -> TakenPlace {
        let from = place_of(from);
        let mut inner = lock(&self.inner);
        while let Some(oldest) = inner
            .by
            .get(&from)
            .filter(|of_it| of_it.len() >= self.of_one)
            .and_then(BTreeSet::first)
        {
            let oldest = *oldest;
            inner.remove(oldest);
        }
        while inner.all.len() >= self.most {
            let Some(oldest) = inner.all.keys().next().copied() else {
                break;
            };
            inner.remove(oldest);
        }

        let number = inner.next;
        inner.next += 1;

        let (tell, lost) = oneshot::channel();
        inner.all.insert(number, (from, tell));
        inner.by.entry(from).or_default().insert(number);
        TakenPlace {
            number,
            inner: Arc::clone(&self.inner),
            lost,
        }
    }

    /// Returns the number of places that are taken.
    pub fn len(&self) -> usize {
        lock(&self.inner).all.len()
    }

    /// Whether no place is taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the oldest place of all; returns false if there is none.
    pub fn oust(&self) -> bool {
        let mut inner = lock(&self.inner);
        let oldest = inner.all.keys().next().copied();
        oldest.inspect(|oldest| inner.remove(*oldest)).is_some()
    }
}

impl TakenPlace {
    /// Resolves once the place was given to somebody else.
    pub async fn lost(&mut self) {
        // Nothing is ever sent: the other half is dropped.
        let _ = (&mut self.lost).await;
    }
}

impl Drop for TakenPlace {
    fn drop(&mut self) {
        lock(&self.inner).remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, n])
    }

    fn is_lost(place: &mut TakenPlace) -> bool {
        place.lost.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    #[test]
    fn the_oldest_of_an_address_goes_first_and_others_keep_their_places() {
        let crowd = BoundedPlaces::new(5, 2);
        let mut other = crowd.enter(address(2));
        let mut first: Vec<TakenPlace> = (0..2).map(|_| crowd.enter(address(1))).collect();
        let mut third = crowd.enter(address(1));
        assert_eq!(
            first.iter_mut().map(is_lost).collect::<Vec<_>>(),
            [true, false]
        );
        assert!(!is_lost(&mut other) && !is_lost(&mut third));
        drop(first);
        assert_eq!(crowd.len(), 2);
    }

    #[test]
    fn when_all_places_are_taken_the_oldest_of_all_goes() {
        let crowd = BoundedPlaces::new(3, 2);
        let mut places: Vec<TakenPlace> = (1..=4).map(|n| crowd.enter(address(n))).collect();
        assert_eq!(
            places.iter_mut().map(is_lost).collect::<Vec<_>>(),
            [true, false, false, false]
        );
        assert!(crowd.oust());
        assert!(is_lost(&mut places[1]) && crowd.len() == 2);
        drop(places);
        assert!(crowd.is_empty() && !crowd.oust() && lock(&crowd.inner).by.is_empty());
    }

    #[test]
    fn one_network_of_ipv6_is_one_address() {
        let crowd = BoundedPlaces::new(10, 1);
        let mut first = crowd.enter("2001:db8::1".parse().unwrap());
        let mut mapped = crowd.enter("::ffff:192.0.2.1".parse().unwrap());
        let _second = crowd.enter("2001:db8::2".parse().unwrap());
        let _same = crowd.enter(address(1));
        assert!(is_lost(&mut first) && is_lost(&mut mapped));
    }
}
