//! Settings of workers that admins keep at the master, and the answer of each host to those that hold for
//! it. What a text says is no affair of the store's.

use common::site::{SiteScope, SiteTextView};
use common::{HostId, Time};

use super::value::values;
use super::writer::Writer;
use super::{StoreResult, micros, time};

/// A host's last answer to settings from the master.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredAnswer {
    /// The number of the settings.
    pub(crate) digest: u64,
    /// The time of the answer.
    pub(crate) at: Time,
    /// The reason of a refusal.
    pub(crate) refused: Option<String>,
}

impl Writer {
    /// Stores settings instead of those that these hosts had.
    pub(crate) fn set_site_text(&mut self, view: &SiteTextView) -> StoreResult<()> {
        self.change(
            "INSERT INTO site_text (scope, body, who, at) VALUES ($1, $2, $3, $4)
             ON CONFLICT (scope) DO UPDATE SET body = excluded.body, who = excluded.who, at = excluded.at",
            values![view.scope, view.text, view.by, micros(view.at)],
        )
    }

    /// Removes the settings of these hosts.
    pub(crate) fn remove_site_text(&mut self, scope: &SiteScope) -> StoreResult<()> {
        let scope = scope.to_string();
        self.change("DELETE FROM site_text WHERE scope = $1", values![scope])
    }

    /// Returns all texts.
    pub(crate) fn site_texts(&self) -> StoreResult<Vec<SiteTextView>> {
        let sql = "SELECT scope, body, who, at FROM site_text ORDER BY scope";
        self.db().all(sql, &[], |row| {
            Ok(SiteTextView {
                scope: row.get(0)?,
                text: row.get(1)?,
                by: row.get(2)?,
                at: time(row.get(3)?),
            })
        })
    }

    /// Stores a host's answer.
    pub(crate) fn set_site_answer(
        &mut self,
        host: HostId,
        answer: &StoredAnswer,
    ) -> StoreResult<()> {
        let at = micros(answer.at);
        let refused = answer.refused.as_deref();
        self.change(
            "INSERT INTO site_answer (host, digest, at, refused) VALUES ($1, $2, $3, $4)
             ON CONFLICT (host) DO UPDATE SET digest = excluded.digest, at = excluded.at, refused = excluded.refused",
            values![host.0, answer.digest, at, refused],
        )
    }

    /// Returns the last answer of each host.
    pub(crate) fn site_answers(&self) -> StoreResult<Vec<(HostId, StoredAnswer)>> {
        let sql = "SELECT host, digest, at, refused FROM site_answer ORDER BY host";
        self.db().all(sql, &[], |row| {
            let answer = StoredAnswer {
                digest: row.get::<i64>(1)?.max(0).unsigned_abs(),
                at: time(row.get(2)?),
                refused: row.get(3)?,
            };
            Ok((HostId(row.get(0)?), answer))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_answers_outlive_the_master_and_are_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Writer::open(dir.path()).unwrap();
        let view = |text: &str| SiteTextView {
            scope: SiteScope::All.to_string(),
            text: text.to_owned(),
            by: "ann".to_owned(),
            at: Time(7),
        };
        let answer = |refused: Option<&str>| StoredAnswer {
            digest: i64::MAX.unsigned_abs(),
            at: Time(8),
            refused: refused.map(str::to_owned),
        };
        store.set_site_text(&view("slots = 1")).unwrap();
        store.set_site_text(&view("slots = 2\n")).unwrap();
        store.set_site_answer(HostId(3), &answer(None)).unwrap();
        store
            .set_site_answer(HostId(3), &answer(Some("no")))
            .unwrap();
        store.commit().unwrap();
        drop(store);

        let mut store = Writer::open(dir.path()).unwrap();
        assert_eq!(store.site_texts().unwrap(), [view("slots = 2\n")]);
        assert_eq!(
            store.site_answers().unwrap(),
            [(HostId(3), answer(Some("no")))]
        );
        store.remove_site_text(&SiteScope::All).unwrap();
        assert_eq!(store.site_texts().unwrap(), []);
    }
}
