//! Settings of workers that admins keep here: each host is sent the texts that hold for it, by
//! its name, its labels, or since they hold for all, and says whether it takes them. What they may
//! say is the workers' affair; only their length is bounded here.

use std::collections::{BTreeMap, BTreeSet};

use common::needs::Label;
use common::site::{
    HostSiteView, MAX_SCOPES, SiteAnswer, SiteScope, SiteSettings, SiteStanding, SiteText,
    SiteTextView,
};
use common::wire::{Refusal, RefusalCode, SITE_VERSION};
use common::{HostId, Span, Time};

use super::Core;
use crate::store::{StoreResult, StoredAnswer};

/// The shortest time between two refusals of one host's in the audit log.
const AUDIT_EVERY: Span = Span::from_secs(60);

/// The settings of workers, and what hosts said to them.
#[derive(Debug, Default)]
pub(super) struct SiteBook {
    texts: BTreeMap<SiteScope, SiteTextView>,
    answers: BTreeMap<HostId, StoredAnswer>,
    /// The time at which a refusal of each host's was entered in the audit log.
    audited: BTreeMap<HostId, Time>,
}

/// All settings, with the hosts for which any hold.
pub(crate) type SiteViews = (Vec<SiteTextView>, Vec<HostSiteView>);

/// The number of exactly these texts; 0 for none.
fn digest(texts: &[SiteText]) -> u64 {
    if texts.is_empty() {
        return 0;
    }

    let mut hasher = blake3::Hasher::new();
    for text in texts {
        for part in [&text.scope.to_string(), &text.text] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    // The store's numbers have a sign.
    (u64::from_le_bytes(first) >> 1).max(1)
}

/// Whether settings for these hosts hold for the one of this name, with these labels.
fn holds(scope: &SiteScope, name: &str, labels: &BTreeSet<Label>) -> bool {
    match scope {
        SiteScope::All => true,
        SiteScope::Label(label) => labels.contains(label),
        SiteScope::Host(host) => host == name,
    }
}

impl Core {
    /// Reads the settings and the answers from the store.
    pub(super) fn restore_site(&mut self) -> StoreResult<()> {
        for view in self.store.site_texts()? {
            match view.scope.parse() {
                Ok(scope) => drop(self.site.texts.insert(scope, view)),
                Err(bad) => tracing::warn!(%bad, "settings in the store are left out"),
            }
        }
        self.site.answers = self.store.site_answers()?.into_iter().collect();
        Ok(())
    }

    /// Returns the settings that hold for a host.
    pub(super) fn site_of(&self, id: HostId) -> SiteSettings {
        let Some((name, labels)) = self.host_words(id).filter(|_| !self.site.texts.is_empty())
        else {
            return SiteSettings::default();
        };
        let texts = self.site.texts.iter();
        let texts = texts.filter(|(scope, _)| holds(scope, &name, &labels));
        let texts: Vec<SiteText> = texts
            .map(|(scope, view)| SiteText {
                scope: scope.clone(),
                text: view.text.clone(),
            })
            .collect();

        SiteSettings {
            digest: digest(&texts),
            texts,
        }
    }

    /// Sends a host that has just connected its settings, if any hold for it. One that has others says so.
    pub(super) fn greet_site(&mut self, id: HostId, version: u16) {
        let settings = self.site_of(id);
        if version >= SITE_VERSION && settings.digest > 0 {
            self.mail(id).site = Some(settings);
        }
    }

    /// Sends a host its settings if they are not those before.
    pub(super) fn update_site(&mut self, id: HostId, before: &SiteSettings) {
        let settings = self.site_of(id);
        if settings != *before && self.version_of(id) >= Some(SITE_VERSION) && self.is_connected(id)
        {
            self.mail(id).site = Some(settings);
        }
    }

    /// The message version of a host's last session with this process.
    fn version_of(&self, id: HostId) -> Option<u16> {
        self.hosts.get(&id)?.version
    }

    /// Takes a host's answer to its settings.
    pub(super) fn on_site(&mut self, id: HostId, answer: SiteAnswer) -> StoreResult<()> {
        let SiteAnswer { digest, refused } = answer.sound();
        let due = self.site_of(id);
        if due.digest != digest {
            // Others are on their way, unless all were withdrawn while it was away.
            if due.digest == 0 {
                self.mail(id).site = Some(due);
            }
            return Ok(());
        }

        let before = self.site.answers.get(&id);
        if before.is_some_and(|before| before.digest == digest && before.refused == refused) {
            return Ok(());
        }
        let answer = StoredAnswer {
            digest,
            at: self.now,
            refused,
        };
        self.store.set_site_answer(id, &answer)?;
        // One host must not fill the log.
        let audited = self.site.audited.get(&id);
        let lately = audited.is_some_and(|at| self.now.since(*at) < AUDIT_EVERY);
        if let (Some(why), Some((name, _)), false) = (&answer.refused, self.host_words(id), lately)
        {
            self.audit(&name, "settings", "settings from the master", Err(why))?;
            self.site.audited.insert(id, self.now);
        }
        self.site.answers.insert(id, answer);
        Ok(())
    }

    /// Stores settings, or (`None`) withdraws them, and sends them to the hosts for which they
    /// hold.
    pub(super) fn change_site(
        &mut self,
        by: &str,
        scope: &SiteScope,
        text: Option<String>,
    ) -> StoreResult<Result<SiteViews, Refusal>> {
        let scope = &self.by_name(scope);
        if let Some(refusal) = self.refuses_site(scope, text.as_deref()) {
            return Ok(Err(refusal));
        }

        let ids: Vec<HostId> = self.hosts.keys().copied().collect();
        let before: Vec<SiteSettings> = ids.iter().map(|id| self.site_of(*id)).collect();
        let done = match text {
            Some(text) => {
                let view = SiteTextView {
                    scope: scope.to_string(),
                    text,
                    by: by.to_owned(),
                    at: self.now,
                };
                self.store.set_site_text(&view)?;
                self.site.texts.insert(scope.clone(), view);
                "stored"
            }
            None => {
                self.store.remove_site_text(scope)?;
                self.site.texts.remove(scope);
                "withdrawn"
            }
        };

        let hosts = self.site_hosts(scope);
        self.audit(by, "settings", &scope.to_string(), Ok(done))?;
        for (id, before) in ids.into_iter().zip(before) {
            self.update_site(id, &before);
        }
        Ok(Ok((self.site_texts(), hosts)))
    }

    /// Returns the hosts by name, also where one was named by its number (`host-N`).
    fn by_name(&self, scope: &SiteScope) -> SiteScope {
        let SiteScope::Host(host) = scope else {
            return scope.clone();
        };
        let found = self.find_host(host).and_then(|id| self.host_words(id));
        SiteScope::Host(found.map_or_else(|| host.clone(), |(name, _)| name))
    }

    fn refuses_site(&self, scope: &SiteScope, text: Option<&str>) -> Option<Refusal> {
        let there = self.site.texts.contains_key(scope);
        let Some(text) = text else {
            return (!there).then(|| {
                Refusal::new(
                    RefusalCode::NotFound,
                    format!("there are no settings for {scope}"),
                    "see `deskgrid host settings show`",
                )
            });
        };

        if let SiteScope::Host(name) = scope
            && self.find_host(name).is_none_or(|id| self.is_revoked(id))
        {
            let why = format!("there is no host `{name}`");
            return Some(Refusal::new(
                RefusalCode::NotFound,
                why,
                "see `deskgrid host list`",
            ));
        }
        if !there && self.site.texts.len() >= MAX_SCOPES {
            let why = format!("there are settings for {MAX_SCOPES} labels and hosts already");
            let hint = "withdraw some first: deskgrid host settings clear";
            return Some(Refusal::new(RefusalCode::Conflict, why, hint));
        }

        let text = SiteText {
            scope: scope.clone(),
            text: text.to_owned(),
        };
        let bad = text.check().err()?;
        let hint = "make them shorter, in plain text";
        Some(Refusal::new(RefusalCode::Invalid, bad.to_string(), hint))
    }

    /// Returns all settings, and the hosts for which any hold.
    pub(super) fn site_views(&self) -> SiteViews {
        let texts = self.site_texts();
        if texts.is_empty() {
            return (texts, Vec::new());
        }
        let known = self.hosts.keys().filter(|id| !self.is_revoked(**id));
        let hosts = known.filter_map(|id| self.site_view(*id)).collect();
        (texts, hosts)
    }

    /// Returns the hosts for which the settings of a scope hold.
    fn site_hosts(&self, scope: &SiteScope) -> Vec<HostSiteView> {
        let there = self.site.texts.contains_key(scope);
        let known = self
            .hosts
            .keys()
            .filter(|id| there && !self.is_revoked(**id));
        let named = known.filter(|id| {
            let words = self.host_words(**id);
            words.is_some_and(|(name, labels)| holds(scope, &name, &labels))
        });
        named.filter_map(|id| self.site_view(*id)).collect()
    }

    fn site_texts(&self) -> Vec<SiteTextView> {
        self.site.texts.values().cloned().collect()
    }

    fn site_view(&self, id: HostId) -> Option<HostSiteView> {
        let due = self.site_of(id).digest;
        let (host, _) = self.host_words(id).filter(|_| due > 0)?;
        let answer = self.site.answers.get(&id);
        let answer = answer.filter(|answer| answer.digest == due);
        let old = |version: u16| version < SITE_VERSION;

        let standing = match answer {
            Some(answer) if answer.refused.is_some() => SiteStanding::Refused,
            Some(_) => SiteStanding::Taken,
            None if self.version_of(id).is_some_and(old) => SiteStanding::TooOld,
            None if self.is_connected(id) => SiteStanding::Waiting,
            None => SiteStanding::Away,
        };
        Some(HostSiteView {
            host,
            standing,
            answered: answer.map(|answer| answer.at),
            why: answer.and_then(|answer| answer.refused.clone()),
        })
    }
}
