//! The list of files that stands for a directory ([`Manifest`]): of a saved state, or of a tree that
//! tasks read. It is itself stored as content, so that messages stay short however many files there
//! are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::content::BlobRef;
use crate::path::{BadPath, PortablePath};
use crate::text::legible;

/// The most [entries](Manifest::entries) of a tree.
pub const MAX_ENTRIES: usize = 200_000;
/// The longest encoded [`Manifest`] of a tree, in bytes.
pub const MAX_TREE_LIST: u64 = 32 << 20;
/// The most content of a tree beside its list, counted in blobs.
pub const MAX_PARTS: usize = 20_000;
/// The longest target of a symbolic link, in bytes.
const MAX_TARGET: usize = 1_024;
/// The most other links on the way of a symbolic link, as Linux has it.
const MAX_LINKS: usize = 40;

/// The files below a directory, and where their content is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The files, each path once, in the order of their content.
    pub files: Vec<ListedFile>,
    /// The content that holds the files one after the other, in their order, without a gap; none:
    /// each file is content of its own.
    pub parts: Vec<BlobRef>,
    /// The symbolic links ([`ListedLink`]).
    pub links: Vec<ListedLink>,
    /// The directories that are empty.
    pub empty: Vec<PortablePath>,
}

/// A file of a [`Manifest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedFile {
    /// The path below the directory.
    pub path: PortablePath,
    /// Its hash and length, as a [`BlobRef`].
    pub blob: BlobRef,
    /// Whether it may be executed.
    pub executable: bool,
    /// The time of its last change, in seconds since 1970; `None` where that does not matter.
    pub modified: Option<u64>,
}

/// A symbolic link of a [`Manifest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedLink {
    /// The path below the directory.
    pub path: PortablePath,
    /// The path that it stands for, from the directory in which the link lies. It leads nowhere
    /// outside the tree.
    pub target: String,
}

/// The error for bytes that are no usable [`Manifest`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadManifest {
    /// The bytes are not a manifest.
    #[error("its list of files does not decode: {0}")]
    Malformed(#[from] crate::wire::frame::BadFrame),
    /// Two entries would have the same path on a system that ignores case.
    #[error("`{0}` is in it twice, or differs from another name only in upper and lower case")]
    Collision(String),
    /// A file or link is also the directory of another entry.
    #[error("`{0}` is both a directory and something else")]
    NoDirectory(String),
    /// A symbolic link that leads out of the tree, or nowhere.
    #[error("the symbolic link `{path}` leads to `{target}`, {why}")]
    Link {
        /// The path of the link.
        path: PortablePath,
        /// The target, shortened.
        target: String,
        /// The reason.
        why: &'static str,
    },
    /// There are too many entries.
    #[error("it has more than {MAX_ENTRIES} files, links and empty directories")]
    TooMany,
    /// The parts are too many, or not as long as the files together.
    #[error("its content is in {0} parts of {1} bytes, and its files have {2} bytes")]
    Parts(usize, u64, u64),
    /// A list of a state has links, empty directories or parts.
    #[error("it has links, empty directories or parts, which no saved state has")]
    NoState,
    /// A name that no file may have.
    #[error(transparent)]
    Path(#[from] BadPath),
}

impl ListedFile {
    /// Makes a file that cannot be executed, of no known time.
    pub fn new(path: PortablePath, blob: BlobRef) -> Self {
        Self {
            path,
            blob,
            executable: false,
            modified: None,
        }
    }
}

impl From<Vec<ListedFile>> for Manifest {
    fn from(files: Vec<ListedFile>) -> Self {
        Self {
            files,
            ..Self::default()
        }
    }
}

impl Manifest {
    /// Encodes the manifest as postcard.
    ///
    /// # Errors
    /// If postcard cannot encode it.
    pub fn to_bytes(&self) -> Result<Vec<u8>, postcard::Error> {
        postcard::to_stdvec(self)
    }

    /// Decodes the manifest of a tree and checks it.
    ///
    /// # Errors
    /// If the bytes are not exactly one manifest, or [`Manifest::check`] finds a fault.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BadManifest> {
        let manifest: Manifest = crate::wire::decode(bytes)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Decodes the manifest of a saved state, which has only files that are content of their own.
    ///
    /// # Errors
    /// As [`Manifest::from_bytes`].
    pub fn of_state(bytes: &[u8]) -> Result<Self, BadManifest> {
        let manifest = Self::from_bytes(bytes)?;
        let plain =
            manifest.parts.is_empty() && manifest.links.is_empty() && manifest.empty.is_empty();
        if plain {
            Ok(manifest)
        } else {
            Err(BadManifest::NoState)
        }
    }

    /// Checks that the entries can be made on every system, that none lies in another that is no
    /// directory, and that no link leads out.
    ///
    /// # Errors
    /// Names the first fault.
    pub fn check(&self) -> Result<(), BadManifest> {
        if self.entries() > MAX_ENTRIES {
            return Err(BadManifest::TooMany);
        }

        // What was seen under a name without its case: the name, and whether it is a directory that
        // may hold others.
        let mut seen = BTreeMap::<String, (&str, bool)>::new();
        let files = self.files.iter().map(|file| &file.path);
        let leaves = files.chain(self.links.iter().map(|link| &link.path));
        for path in leaves.chain(&self.empty) {
            let whole = path.as_str();
            for (end, _) in whole.match_indices('/') {
                let dir = &whole[..end];
                match seen.insert(dir.to_lowercase(), (dir, true)) {
                    Some((other, _)) if other != dir => {
                        return Err(BadManifest::Collision(dir.to_owned()));
                    }
                    Some((_, false)) => return Err(BadManifest::NoDirectory(dir.to_owned())),
                    _ => {}
                }
            }
            match seen.insert(whole.to_lowercase(), (whole, false)) {
                Some((other, true)) if other == whole => {
                    return Err(BadManifest::NoDirectory(whole.to_owned()));
                }
                Some(_) => return Err(BadManifest::Collision(whole.to_owned())),
                None => {}
            }
        }

        let targets = LinkTargets::of(&self.links);
        self.links
            .iter()
            .try_for_each(|link| link.check(&targets))?;
        let (inside, outside) = (self.bytes(), sum(&self.parts));
        if self.parts.len() > MAX_PARTS || !self.parts.is_empty() && inside != outside {
            return Err(BadManifest::Parts(self.parts.len(), outside, inside));
        }
        Ok(())
    }

    /// Returns the number of `files`, `links` and `empty` directories.
    pub fn entries(&self) -> usize {
        self.files.len() + self.links.len() + self.empty.len()
    }

    /// Returns the sum of the files' lengths in bytes.
    pub fn bytes(&self) -> u64 {
        let sizes = self.files.iter().map(|file| file.blob.size);
        sizes.fold(0, u64::saturating_add)
    }
}

fn sum(blobs: &[BlobRef]) -> u64 {
    blobs
        .iter()
        .map(|blob| blob.size)
        .fold(0, u64::saturating_add)
}

impl ListedLink {
    fn check(&self, targets: &LinkTargets<'_>) -> Result<(), BadManifest> {
        let bad = |why| BadManifest::Link {
            path: self.path.clone(),
            target: legible(&self.target, 80),
            why,
        };
        if let Some(why) = why_not(&self.target) {
            return Err(bad(why));
        }
        targets.follow(self).map_err(bad)
    }
}

/// Returns the reason why no [`ListedLink`] may have the target, wherever it lies.
fn why_not(target: &str) -> Option<&'static str> {
    if target.is_empty() || target.len() > MAX_TARGET {
        return Some("which is no path of 1 to 1024 bytes");
    }
    if target.starts_with('/') {
        return Some("an absolute path, and a task finds the tree elsewhere");
    }

    let portable = |name: &str| matches!(name, "." | "..") || name.parse::<PortablePath>().is_ok();
    let mut names = target.trim_end_matches('/').split('/');
    (!names.all(portable)).then_some("which is no portable path")
}

/// The targets of a tree's links by their paths, without the case of letters: some systems do not
/// heed it.
struct LinkTargets<'a>(BTreeMap<String, &'a str>);

impl<'a> LinkTargets<'a> {
    fn of(links: &'a [ListedLink]) -> Self {
        let entry = |link: &'a ListedLink| (link.path.as_str().to_lowercase(), &*link.target);
        Self(links.iter().map(entry).collect())
    }

    /// Walks to the `target` of a link, through other links as a system does. What is not in the
    /// tree counts as a directory that somebody may make.
    fn follow(&self, link: &ListedLink) -> Result<(), &'static str> {
        let mut place: Vec<String> = link
            .path
            .as_str()
            .split('/')
            .map(str::to_lowercase)
            .collect();
        place.pop();
        let mut ahead: Vec<&str> = link.target.rsplit('/').collect();
        let mut passed = 0;

        while let Some(name) = ahead.pop() {
            match name {
                "" | "." => continue,
                ".." => {
                    place.pop().ok_or("which is outside the tree")?;
                    continue;
                }
                name => place.push(name.to_lowercase()),
            }

            if let Some(target) = self.0.get(&place.join("/")) {
                passed += 1;
                if passed > MAX_LINKS {
                    return Err("through more than 40 other links, or in a circle");
                }
                place.pop();
                ahead.extend(target.rsplit('/'));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::BlobHash;

    fn blob(size: u64) -> BlobRef {
        let hash = BlobHash([3; 32]);
        BlobRef { hash, size }
    }

    fn manifest(paths: &[&str]) -> Manifest {
        let file = |path: &&str| ListedFile::new(path.parse().unwrap(), blob(10));
        paths.iter().map(file).collect::<Vec<_>>().into()
    }

    fn with_link(paths: &[&str], path: &str, target: &str) -> Manifest {
        let link = ListedLink {
            path: path.parse().unwrap(),
            target: target.to_owned(),
        };
        Manifest {
            links: vec![link],
            ..manifest(paths)
        }
    }

    #[test]
    fn a_manifest_reads_back_and_says_how_much_it_is() {
        let two = Manifest {
            empty: vec!["none".parse().unwrap()],
            ..with_link(&["a/state", "b"], "a/other", "../b")
        };
        assert_eq!(
            Manifest::from_bytes(&two.to_bytes().unwrap()),
            Ok(two.clone())
        );
        assert_eq!((two.bytes(), two.entries()), (20, 4));
        assert_eq!(
            Manifest::of_state(&two.to_bytes().unwrap()),
            Err(BadManifest::NoState)
        );
    }

    #[test]
    fn torn_and_colliding_manifests_are_refused() {
        let bytes = manifest(&["a", "b"]).to_bytes().unwrap();
        assert!((0..bytes.len()).all(|cut| Manifest::from_bytes(&bytes[..cut]).is_err()));
        assert!(matches!(
            Manifest::from_bytes(&[&bytes[..], &[0]].concat()),
            Err(BadManifest::Malformed(_))
        ));

        for twice in [
            &["a", "A"][..],
            &["a", "a"],
            &["d/x", "D/y"],
            &["d/e/x", "d/E"],
        ] {
            let refused = manifest(twice).check().unwrap_err().to_string();
            assert!(refused.contains("upper and lower case") || refused.contains("directory"));
        }

        // A path that leaves the directory does not even decode.
        let up = bytes
            .iter()
            .map(|byte| if *byte == b'a' { b'/' } else { *byte })
            .collect::<Vec<_>>();
        assert!(matches!(
            Manifest::from_bytes(&up),
            Err(BadManifest::Malformed(_))
        ));
    }

    #[test]
    fn nothing_can_be_written_through_a_link_or_a_file() {
        for bad in [
            with_link(&["a/b"], "a", "."),
            with_link(&["A/b"], "a", "."),
            manifest(&["a", "a/b"]),
            manifest(&["a/b", "a"]),
        ] {
            assert!(
                matches!(
                    bad.check(),
                    Err(BadManifest::NoDirectory(_) | BadManifest::Collision(_))
                ),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn links_lead_nowhere_outside() {
        for right in ["b", "./b", "../a/b", "..", "../", "not-there", "../../x"] {
            assert_eq!(with_link(&["b"], "d/e/l", right).check(), Ok(()), "{right}");
        }
        for wrong in [
            "",
            "/etc/passwd",
            "../../../x",
            "a/../../../../x",
            "a//b",
            "x\0",
            "c:\\x",
        ] {
            let refused = with_link(&["b"], "d/e/l", wrong).check();
            assert!(matches!(refused, Err(BadManifest::Link { .. })), "{wrong}");
        }
    }

    #[test]
    fn links_lead_nowhere_outside_through_other_links_either() {
        let with = |links: &[(&str, &str)]| Manifest {
            links: links
                .iter()
                .map(|(path, target)| ListedLink {
                    path: path.parse().unwrap(),
                    target: (*target).to_owned(),
                })
                .collect(),
            ..manifest(&["e/x"])
        };
        let deep = ("1/2/3/up", "../../../e");
        for right in [
            &[deep, ("l", "1/2/3/up/../e/x")][..],
            &[("a", "b"), ("b", "c"), ("c", "e")],
            &[("a", "."), ("b", "a/a/a/a/e")],
        ] {
            assert_eq!(with(right).check(), Ok(()), "{right:?}");
        }

        for (wrong, why) in [
            (&[deep, ("l", "1/2/3/up/../..")][..], "outside the tree"),
            (&[deep, ("l", "1/2/3/UP/../..")], "outside the tree"),
            (&[("a", ".."), ("b", "a/..")], "outside the tree"),
            (&[("a", "a")], "in a circle"),
            (&[("a", "b/x"), ("b", "a/y")], "in a circle"),
        ] {
            let refused = with(wrong).check().unwrap_err().to_string();
            assert!(refused.contains(why), "{wrong:?}: {refused}");
        }
    }

    #[test]
    fn parts_are_as_long_as_the_files() {
        let with = |sizes: &[u64]| Manifest {
            parts: sizes.iter().copied().map(blob).collect(),
            ..manifest(&["a", "b"])
        };
        assert_eq!(with(&[3, 17]).check(), Ok(()));
        for wrong in [&[3, 16][..], &[20, 1], &[u64::MAX, u64::MAX]] {
            let refused = with(wrong).check();
            assert!(matches!(refused, Err(BadManifest::Parts(..))), "{wrong:?}");
        }
    }
}
