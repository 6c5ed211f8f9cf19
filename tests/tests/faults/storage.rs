//! S3-compatible storage for one test: a place of its own in the bucket of `tests/s3`, or in one of its
//! own, seen past the front of the server, and reached through a proxy that breaks as a test says.

use tests::Http;
use uuid::Uuid;

use super::front::{Front, Proxy};

/// The bucket that `tests/s3` has made.
const BUCKET: &str = "deskgrid";

/// A place in a bucket.
pub(crate) struct Storage {
    bucket: String,
    prefix: String,
    files: Http,
    proxy: Proxy,
}

impl Storage {
    /// `None` where there is none; says so.
    pub(crate) fn new() -> Option<Self> {
        let (place, files) = (
            std::env::var("DESKGRID_TEST_S3"),
            std::env::var("DESKGRID_TEST_S3_FILES"),
        );
        let (Ok(place), Ok(files)) = (place, files) else {
            super::skip("DESKGRID_TEST_S3 names no storage (tests/s3 starts one)");
            return None;
        };
        Some(Self {
            bucket: BUCKET.to_owned(),
            prefix: new_name(),
            files: Http::tcp(&files).with("Accept", "application/json"),
            proxy: Proxy::to(place.trim_start_matches("http://")),
        })
    }

    /// The same in a bucket of its own.
    pub(crate) fn in_own_bucket() -> Option<Self> {
        let storage = Self {
            bucket: format!("own-{}", new_name()),
            ..Self::new()?
        };
        storage.make_bucket();
        Some(storage)
    }

    /// Its address, as for `--content`.
    pub(crate) fn content(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }

    /// The settings of a master that has its content there.
    pub(crate) fn settings(&self) -> String {
        self.settings_at(&format!("http://{}", self.proxy.address))
    }

    /// The same of a master that goes to the server itself by https; `None` where the server has no
    /// certificate.
    pub(crate) fn settings_by_https(&self) -> Option<String> {
        let Ok(endpoint) = std::env::var("DESKGRID_TEST_S3_TLS") else {
            super::skip("the storage has no certificate (tests/s3 makes one by openssl)");
            return None;
        };
        Some(self.settings_at(&endpoint))
    }

    fn settings_at(&self, endpoint: &str) -> String {
        let content = self.content();
        format!(
            "content = \"{content}\"\ncontent_grace = \"6s\"\n[s3]\nendpoint = \"{endpoint}\"\n"
        )
    }

    /// From now on the proxy does this.
    pub(crate) fn set(&self, front: Front) {
        self.proxy.set(front);
    }

    /// The proxy itself.
    pub(crate) fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    /// The path of its bucket among the server's files.
    fn path(&self) -> String {
        format!("/buckets/{}", self.bucket)
    }

    /// Makes the bucket, which has nothing in it.
    fn make_bucket(&self) {
        let made = self.files.send("POST", &format!("{}/", self.path()), None);
        assert!(made.status < 300, "{}", made.status);
    }

    /// Removes the bucket. Returns what was in it, by path.
    pub(crate) fn remove_bucket(&self) -> Vec<(String, Vec<u8>)> {
        let all = self.below(&self.path());
        let had = all.into_iter().map(|path| (path.clone(), self.read(&path)));
        let had = had.collect();
        let whole = format!("{}?recursive=true", self.path());
        self.files.send("DELETE", &whole, None).expect(204);
        had
    }

    /// Makes the bucket again, with this in it.
    pub(crate) fn restore_bucket(&self, had: &[(String, Vec<u8>)]) {
        self.make_bucket();
        for (path, bytes) in had {
            self.write(path, bytes);
        }
    }

    /// The mark of the grid: its path, and its bytes.
    pub(crate) fn mark(&self) -> (String, Vec<u8>) {
        let path = format!("{}/{}/grid", self.path(), self.prefix);
        let bytes = self.read(&path);
        (path, bytes)
    }

    /// The names of all objects of content, as paths of the server's files.
    pub(crate) fn objects(&self) -> Vec<String> {
        self.below(&format!("{}/{}/content", self.path(), self.prefix))
    }

    /// The paths of all files below this one.
    fn below(&self, top: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![top.to_owned()];
        while let Some(dir) = open.pop() {
            let answer = self.files.get(&format!("{dir}/?limit=10000"));
            if answer.status == 404 {
                continue;
            }
            let listed = answer.expect(200).json();
            for entry in listed["Entries"].as_array().into_iter().flatten() {
                let path = entry["FullPath"].as_str().expect("a path").to_owned();
                // Directories have this bit in their mode.
                let is_dir = entry["Mode"]
                    .as_u64()
                    .is_some_and(|mode| mode & (1 << 31) != 0);
                if is_dir {
                    open.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The objects with these bytes as their content, whole or not.
    pub(crate) fn objects_of(&self, content: &[u8]) -> Vec<String> {
        let hash = blake3::hash(content).to_string();
        let within = format!("/{}/{}/", &hash[..2], &hash[2..]);
        let mut found = self.objects();
        found.retain(|path| path.contains(&within));
        found
    }

    /// Reads an object.
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        self.files.get(path).expect(200).body
    }

    /// Removes an object by hand.
    pub(crate) fn remove(&self, path: &str) {
        self.files.send("DELETE", path, None).expect(204);
    }

    /// Gives an object these bytes, by hand.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let sent = self.files.send("PUT", path, Some(bytes));
        assert!(sent.status < 300, "{}", sent.status);
    }
}

fn new_name() -> String {
    Uuid::from_bytes(rand::random()).simple().to_string()
}
