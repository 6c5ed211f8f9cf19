//! The entrance of a gateway, which is one user's: a browser gets in with a ticket that counts
//! once and for a short time, and keeps a cookie; programs come over a socket that only their user
//! can open. Nothing of it outlives the process.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::HeaderMap;

use crate::door::{Coming, Entrance, Who};
use crate::way_in::cookies;

/// The time for which a ticket counts.
pub const TICKET_LIFE: Duration = Duration::from_secs(60);
/// The time for which a cookie counts.
const COOKIE_LIFE: Duration = Duration::from_secs(12 * 3_600);
/// The most tickets, and the most cookies, at a time; beyond them the oldest go.
const MOST: usize = 32;

/// Secrets that count until a time, known by their hashes: so how long a look-up takes tells
/// nothing of them.
#[derive(Debug, Default)]
struct Secrets(BTreeMap<[u8; 32], Instant>);

impl Secrets {
    /// Makes a secret of 256 bits.
    fn make(&mut self, life: Duration) -> String {
        let now = Instant::now();
        self.0.retain(|_, until| *until > now);
        while self.0.len() >= MOST {
            let oldest = self.0.iter().min_by_key(|(_, until)| **until);
            let Some(oldest) = oldest.map(|(hash, _)| *hash) else {
                break;
            };
            self.0.remove(&oldest);
        }

        let secret = common::token::hex(&rand::random::<[u8; 32]>());
        self.0.insert(hash(&secret), now + life);
        secret
    }

    fn counts(&self, secret: &str) -> bool {
        let until = self.0.get(&hash(secret));
        until.is_some_and(|until| *until > Instant::now())
    }

    /// Whether it counts; it does not any more afterwards.
    fn take(&mut self, secret: &str) -> bool {
        let until = self.0.remove(&hash(secret));
        until.is_some_and(|until| until > Instant::now())
    }
}

fn hash(secret: &str) -> [u8; 32] {
    *blake3::hash(secret.as_bytes()).as_bytes()
}

/// The entrance of a gateway on a port of this machine.
#[derive(Debug)]
pub struct Tickets {
    who: Who,
    /// The names of this server, with its port.
    names: [String; 2],
    /// Says where the address with the ticket is printed.
    way_in: &'static str,
    cookie: String,
    tickets: Mutex<Secrets>,
    cookies: Mutex<Secrets>,
}

fn lock(secrets: &Mutex<Secrets>) -> MutexGuard<'_, Secrets> {
    secrets.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tickets {
    /// The entrance of a gateway for `who` on this port of the loopback address.
    pub fn new(who: Who, port: u16) -> Self {
        Self {
            who,
            names: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
            way_in: "open the address that deskgrid dashboard printed; press Enter there for a new one",
            cookie: format!("deskgrid-{port}"),
            tickets: Mutex::default(),
            cookies: Mutex::default(),
        }
    }

    /// Says something else to those who were not let in.
    #[must_use]
    pub fn saying(self, way_in: &'static str) -> Self {
        Self { way_in, ..self }
    }

    /// Returns an address that lets one browser in, once and soon. The ticket is in the fragment,
    /// which browsers do not send.
    pub fn link(&self) -> String {
        let ticket = lock(&self.tickets).make(TICKET_LIFE);
        format!("http://{}/in#{ticket}", self.names[0])
    }
}

impl Entrance for Tickets {
    fn is_ours(&self, host: &str) -> bool {
        self.names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(host))
    }

    fn admit<'a>(&'a self, headers: &'a HeaderMap) -> Coming<'a, Option<Who>> {
        let mut ours = cookies(headers).filter(|(name, _)| *name == self.cookie);
        let known = ours.any(|(_, value)| lock(&self.cookies).counts(value));
        Box::pin(std::future::ready(known.then(|| self.who.clone())))
    }

    fn exchange(&self, ticket: &str) -> Option<String> {
        if !lock(&self.tickets).take(ticket) {
            return None;
        }
        let value = lock(&self.cookies).make(COOKIE_LIFE);
        Some(format!(
            "{}={value}; HttpOnly; SameSite=Strict; Path=/",
            self.cookie
        ))
    }

    fn way_in(&self) -> &'static str {
        self.way_in
    }
}

/// The entrance of a gateway on a socket that only its user can open.
#[derive(Debug)]
pub struct OwnSocket(pub Who);

impl Entrance for OwnSocket {
    fn is_ours(&self, _: &str) -> bool {
        true
    }

    fn is_private(&self) -> bool {
        true
    }

    fn admit<'a>(&'a self, _: &'a HeaderMap) -> Coming<'a, Option<Who>> {
        Box::pin(std::future::ready(Some(self.0.clone())))
    }

    fn way_in(&self) -> &'static str {
        "run this as the user who started the gateway"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tickets() -> Tickets {
        let who = Who {
            user: "ann".into(),
            role: common::token::Role::Client,
            id: uuid::Uuid::nil(),
            token: None,
        };
        Tickets::new(who, 7000)
    }

    #[test]
    fn a_ticket_counts_once_and_only_its_cookie_lets_in() {
        let tickets = tickets();
        let link = tickets.link();
        let ticket = link.strip_prefix("http://127.0.0.1:7000/in#").unwrap();
        assert_eq!(tickets.exchange("made-up"), None);
        let cookie = tickets.exchange(ticket).unwrap();
        assert_eq!(tickets.exchange(ticket), None);
        assert!(cookie.contains("; HttpOnly; SameSite=Strict;"));

        let pair = cookie.split(';').next().unwrap();
        let value = pair.strip_prefix("deskgrid-7000=").unwrap();
        assert!(lock(&tickets.cookies).counts(value));
        assert!(!lock(&tickets.cookies).counts(ticket));
        assert!(!lock(&tickets.cookies).counts(""));
    }

    #[test]
    fn old_tickets_do_not_count_and_the_oldest_goes_when_there_are_many() {
        let mut secrets = Secrets::default();
        let late = secrets.make(Duration::ZERO);
        assert!(!secrets.counts(&late) && !secrets.take(&late));

        let first = secrets.make(Duration::from_secs(1_000));
        let rest: Vec<String> = (0..MOST)
            .map(|n| secrets.make(Duration::from_secs(2_000 + n as u64)))
            .collect();
        assert!(!secrets.counts(&first));
        assert!(rest.iter().all(|secret| secrets.counts(secret)));
        assert_eq!(secrets.0.len(), MOST);
    }
}
