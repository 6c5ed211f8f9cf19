//! Answers about the masters of a grid: which there are, and that another one takes the store.

use common::view::MastersView;
use common::wire::RefusalCode;
use common::{Incarnation, Span, Time};

use super::{Answered, Asker, refuse};
use crate::core::ask::UpkeepAsk;
use crate::store::Reader;

/// The time after its last word in which a master that stands by can be counted upon.
const LATELY: Span = Span::from_secs(5);

impl Asker {
    /// The masters of this grid.
    pub(in crate::sessions) async fn masters(&self) -> Answered<MastersView> {
        let (incarnation, _): (Incarnation, Time) = self.core(UpkeepAsk::Present).await?;
        let standbys = self.read(Reader::standbys).await?;
        let state = self.state();
        Ok(MastersView {
            address: state.known_as.clone(),
            incarnation,
            since: state.since,
            store: state.store_name.clone(),
            standbys: standbys.unwrap_or_default(),
        })
    }

    /// Gives the store to a master that stands by.
    pub(in crate::sessions) async fn hand_over(&self) -> Answered<MastersView> {
        let masters = self.masters().await?;
        if self.read(Reader::standbys).await?.is_none() {
            return Err(refuse(
                RefusalCode::Conflict,
                "the store is a file of this master's: no other one can have it",
                "docs/operations.md says how several masters share a database",
            ));
        }
        if !masters.standbys.iter().any(|one| one.said <= LATELY) {
            return Err(refuse(
                RefusalCode::Conflict,
                "no other master stands by",
                "start one on the same database first; deskgrid master status lists them",
            ));
        }

        self.core::<()>(UpkeepAsk::HandOver(self.user.clone()))
            .await?;
        Ok(masters)
    }
}
