//! The document of the API, `docs/openapi.json`, is what the program serves. After a change that is
//! meant: `DESKGRID_BLESS=1 cargo test -p tests openapi`.

use serde_json::Value;

use super::{root, text};

const FILE: &str = "docs/openapi.json";

#[test]
fn the_document_of_the_api_is_the_one_that_is_served() {
    let served = format!("{:#}\n", api::openapi());
    if std::env::var_os("DESKGRID_BLESS").is_some() {
        std::fs::write(root().join(FILE), &served).expect("the file can be written");
    }
    assert!(text(FILE) == served, "{FILE} is not what is served");
}

/// Every reference in the document, with the place it is at.
fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(path) if name == "$ref" => found.push(path),
                    value => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_reference_in_the_document_leads_to_a_schema() {
    let document = api::openapi();
    let mut found = Vec::new();
    references(&document, &mut found);
    assert!(found.len() > 50);
    for reference in found {
        let path = reference.strip_prefix('#').expect("in the document");
        assert!(document.pointer(path).is_some(), "{reference}");
    }
}
