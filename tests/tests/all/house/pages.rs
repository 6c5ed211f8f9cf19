//! The pages of the documentation: each link leads to a file and a heading that are there, and
//! `docs/README.md`, from which `docs/build` makes the site's table of contents, names each page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{files, root, text};

/// The pages: those of the documentation, and those at the top of the project.
fn pages() -> Vec<PathBuf> {
    let top = std::fs::read_dir(root()).expect("the top can be read");
    let names = top.flatten().map(|entry| PathBuf::from(entry.file_name()));
    let mut all: Vec<PathBuf> = names
        .filter(|path| path.extension().is_some_and(|found| found == "md"))
        .collect();
    all.sort();
    all.extend(files("docs", "md"));
    all
}

/// A page without its blocks of code and without what stands between backticks.
fn prose(page: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            out.extend(line.split('`').step_by(2));
            out.push('\n');
        }
    }
    out
}

/// The targets of a page's links.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let parts = prose.split("](").skip(1);
    let target = |part: &str| part.split([')', ' ']).next().unwrap_or_default().to_owned();
    parts.map(target).collect()
}

/// The places of a page's headings, as forges and the site name them.
fn places(page: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let (mut found, mut fenced) = (BTreeSet::new(), false);
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        if fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }

        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let words: String = heading.trim().to_lowercase().chars().filter(kept).collect();
        let place = words.replace(' ', "-");
        let times = seen.entry(place.clone()).or_default();
        found.insert(if *times == 0 {
            place
        } else {
            format!("{place}-{times}")
        });
        *times += 1;
    }

    found
}

/// The reason why a link of the page at this place leads nowhere.
fn dead(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, place) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() {
        root().join(page)
    } else {
        root().join(page.parent()?).join(path)
    };

    if !target.exists() {
        return Some("there is no such file".to_owned());
    }
    let named = !place.is_empty() && target.extension().is_some_and(|found| found == "md");
    let there = !named || places(&text(&target)).contains(place);
    (!there).then(|| "the page has no such heading".to_owned())
}

#[test]
fn each_link_of_the_documentation_leads_somewhere() {
    let mut count = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        for link in links(&text(&page)) {
            count += 1;
            let dead = dead(&page, &link);
            wrong.extend(dead.map(|why| format!("{}: {link}: {why}", page.display())));
        }
    }

    assert!(count > 100, "only {count} links found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_of_contents_names_each_page_once() {
    let table = text("docs/README.md");
    let listed = links(&table);
    for page in files("docs", "md") {
        let name = page.file_name().expect("a name").to_string_lossy();
        let times = listed.iter().filter(|link| **link == *name).count();
        let wanted = usize::from(name != "README.md");
        assert_eq!(times, wanted, "docs/README.md names {name} {times} times");
    }
}

#[test]
fn a_link_to_an_absent_page_or_heading_is_found() {
    let page = Path::new("docs/placement.md");
    assert_eq!(dead(page, "operations.md#benched-hosts"), None);
    assert_eq!(dead(page, "../BENCHMARKS.md"), None);
    assert!(dead(page, "absent.md").is_some());
    assert!(dead(page, "operations.md#absent").is_some());

    let text = "# A `word`, and more\n\n[a](b.md#c) `[not](this)`\n\n```\n[nor](that)\n# nor\n```\n\n## Twice\n## Twice\n";
    assert_eq!(links(text), ["b.md#c"]);
    let named = ["a-word-and-more", "twice", "twice-1"].map(str::to_owned);
    assert_eq!(places(text), BTreeSet::from(named));
}
