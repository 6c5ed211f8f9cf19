//! Finds where the store and the content of a master are, from its directory and the settings that it is
//! started with.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use common::BlobRef;
use common::content::BlobHash;
use link::{BlobStore, Contents, LinkError};

use super::source::Item;
use super::{HOME, OperationError, STORE, source};
use crate::clock::Clock;
use crate::content_place::{BucketPlace, ContentPlace, ContentSetting};
use crate::database::{self, WantedStore};
use crate::store::{Database, Reader};
use crate::sweep::listed_content;
use crate::{Accept, Config, MasterError};

/// The places of a master's store and content.
pub(super) struct MasterPlaces {
    /// The master's directory.
    pub(super) home: PathBuf,
    /// The database that has the store; `None`: the store is a file in `home`.
    pub(super) database: Option<Database>,
    content: ContentSetting,
}

impl MasterPlaces {
    /// Finds the places of the master in the state directory `dir`.
    ///
    /// # Errors
    /// If the store is in a database which `config` does not name, or a file though it names one.
    pub(super) fn of(dir: &Path, config: &Config) -> Result<Self, OperationError> {
        let home = dir.join(HOME);
        let database = database::place(config)?;
        if database.is_some() {
            database::not_in_a_file(&home)?;
        } else if !home.join(STORE).exists() {
            let hint = "name its address, which is not kept: --store postgres://...; or the settings file that has it: --config F";
            database::in_a_file(&home, hint)?;
        }

        let content = match config.content {
            Some(_) => config.content_in(&home)?,
            None => database::content_of(&home)?,
        };
        Ok(Self {
            home,
            database,
            content,
        })
    }

    /// A reader of the store.
    pub(super) fn reader(&self) -> Reader {
        match &self.database {
            Some(place) => Reader::of(place.clone()),
            None => Reader::new(&self.home),
        }
    }

    /// Whether the database is that of this master, and the place of the content too. Of a store in a
    /// file [`crate::whole`] says so.
    pub(super) fn compare(&self) -> Result<(), MasterError> {
        let Some(place) = self.database.clone() else {
            return Ok(());
        };
        let wanted = WantedStore {
            home: self.home.clone(),
            content: self.content.clone(),
            place,
            clock: Clock::start(),
            accept: Accept::default(),
        };
        database::look(&wanted, &self.reader())
    }

    /// The remedy for a store that is damaged or older than the master left it.
    pub(super) fn remedy(&self) -> &'static str {
        match self.database {
            Some(_) => {
                "bring the database back to its newest sound state by PostgreSQL's tools; or put a backup into another directory \
                 (deskgrid master restore) and from there into a new database (deskgrid master move --to)"
            }
            None => super::check::RESTORE,
        }
    }

    /// The bucket that has the content, if one has.
    pub(super) fn bucket(&self) -> Option<&BucketPlace> {
        match &self.content {
            ContentSetting::Bucket(place) => Some(place),
            ContentSetting::Directory(_) => None,
        }
    }

    /// The directory of the content, if it lies in one.
    pub(super) fn directory(&self) -> Option<&Path> {
        match &self.content {
            ContentSetting::Bucket(_) => None,
            ContentSetting::Directory(dir) => Some(dir),
        }
    }

    /// Adds the content of saved states, of which these are the lists of files, to what a store names. Nothing can start from
    /// one whose list is gone. None for a bucket.
    pub(super) fn add_states(
        &self,
        named: &mut BTreeSet<BlobHash>,
        lists: BTreeSet<BlobRef>,
    ) -> Result<(), LinkError> {
        let Some(dir) = self.directory().filter(|_| !lists.is_empty()) else {
            return Ok(());
        };
        let files = ContentPlace::Directory(BlobStore::open(dir)?);
        for list in lists.into_iter().filter(|list| files.has(list)) {
            let content = listed_content(&files, list);
            named.extend(content.map_err(LinkError::file("cannot read", dir))?);
        }
        Ok(())
    }

    /// The files of content that a store names, and the hashes of the missing ones; none for a bucket.
    pub(super) fn content(&self, named: &BTreeSet<BlobHash>) -> (Vec<Item>, Vec<BlobHash>) {
        let dir = self.directory();
        dir.map_or_else(Default::default, |dir| source::content(dir, named))
    }
}
