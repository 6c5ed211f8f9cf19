//! An installer as a package of Windows Installer: the plain one with a second cabinet, which has
//! the file to join by and the site's settings. They are files rather than properties, which would
//! stand in command lines and logs.

use std::io::{Cursor, Write};

use msi::{CodePage, Expr, Insert, Package, Select, Update, Value};
use uuid::Uuid;

use super::{BadPackage, SiteFiles};

/// The number that the worker's packages of all versions share (`UpgradeCode`).
const FAMILY: &str = "{6F1F3A0E-5A3C-4D7E-9B0E-0C2D4B7F9A11}";
/// The number of the component that is the file to join by.
const JOIN_COMPONENT: &str = "{0F2F6D0A-6B86-4A0C-8F53-5A1D5F0F9B04}";
/// The cabinet with the site's files.
const CABINET: &str = "site.cab";
/// The attributes of components on systems of 64 bits: of one that goes with the package, and of
/// settings, which a removal by the installer leaves. Other than in a plain package they replace
/// those that are there, unless these were changed on the PC.
const GOES: i32 = 0x100;
const STAYS: i32 = GOES | 0x10;
/// The attribute of a file without which an installation fails.
const VITAL: i32 = 0x200;

/// The length of a cabinet's head, of the description of its one folder, and of that of a file
/// without its name; the most bytes of a block.
const HEAD: usize = 36;
const FOLDER: usize = 8;
const FILE: usize = 16;
const BLOCK: usize = 0x8000;

/// Makes the installer of a plain package. It is a product of its own number: Windows puts it in the
/// place of another one, also of the same version.
pub(super) fn installer(
    plain: &[u8],
    site: &SiteFiles,
    token: &str,
) -> Result<Vec<u8>, BadPackage> {
    edited(plain, site, token).map_err(|error| BadPackage::Form(error.to_string()))
}

fn edited(plain: &[u8], site: &SiteFiles, token: &str) -> std::io::Result<Vec<u8>> {
    let mut package = Package::open(Cursor::new(plain.to_vec()))?;
    let named = |name: &str| Expr::col("Property").eq(Expr::string(name));
    let family = Select::table("Property").with(named("UpgradeCode"));
    let family = package.select_rows(family)?.next();
    if family.is_none_or(|row| row["Value"].as_str() != Some(FAMILY)) {
        return Err(std::io::Error::other("it is no package of the worker"));
    }
    let last = package.select_rows(Select::table("File"))?.len() as i32;

    let join = site.join_file(token);
    let mut files = vec![("Join", join.as_bytes())];
    files.extend(site.settings.iter().map(|text| ("Config", text.as_bytes())));
    let size = |text: &[u8]| Value::Int(text.len() as i32);
    add(
        &mut package,
        "Component",
        vec![
            "Join".into(),
            JOIN_COMPONENT.into(),
            "DATA".into(),
            Value::Int(GOES),
            Value::Null,
            "Join".into(),
        ],
    )?;
    add(
        &mut package,
        "FeatureComponents",
        vec!["All".into(), "Join".into()],
    )?;
    add(
        &mut package,
        "File",
        vec![
            "Join".into(),
            "Join".into(),
            "join.toml".into(),
            size(join.as_bytes()),
            Value::Null,
            Value::Null,
            Value::Int(VITAL),
            Value::Int(last + 1),
        ],
    )?;
    add(
        &mut package,
        "Media",
        vec![
            Value::Int(2),
            Value::Int(last + files.len() as i32),
            Value::Null,
            format!("#{CABINET}").into(),
            Value::Null,
            Value::Null,
        ],
    )?;

    if let Some(settings) = &site.settings {
        let config = Update::table("File")
            .set("FileSize", size(settings.as_bytes()))
            .set("Sequence", Value::Int(last + 2))
            .with(Expr::col("File").eq(Expr::string("Config")));
        package.update_rows(config)?;
        let component = Update::table("Component")
            .set("Attributes", Value::Int(STAYS))
            .with(Expr::col("Component").eq(Expr::string("Settings")));
        package.update_rows(component)?;
        // A sum that no file has, so that other settings never count as these. The row is not
        // removed: wixl counts the uses of a text too low, and the file's name would go with it.
        let sum = ["HashPart1", "HashPart2", "HashPart3", "HashPart4"];
        let sum = sum.iter().fold(Update::table("MsiFileHash"), |sum, part| {
            sum.set(*part, Value::Int(0))
        });
        let sum = sum.with(Expr::col("File_").eq(Expr::string("Config")));
        package.update_rows(sum)?;
    }
    package.write_stream(CABINET)?.write_all(&cabinet(&files))?;

    // The numbers come last: a text that is removed leaves a gap, in which the library would put a
    // second copy of one that stands behind it.
    let product = Update::table("Property").set("Value", fresh().into());
    package.update_rows(product.with(named("ProductCode")))?;
    package.summary_info_mut().set_uuid(fresh());
    // The library would write UTF-8, which Windows Installer does not take everywhere.
    package.set_database_codepage(CodePage::Windows1252);
    package.remove_digital_signature()?;

    Ok(package.into_inner()?.into_inner())
}

/// Adds a row to a table.
fn add(
    package: &mut Package<Cursor<Vec<u8>>>,
    table: &str,
    row: Vec<Value>,
) -> std::io::Result<()> {
    package.insert_rows(Insert::into(table).row(row))
}

/// Returns a number that nothing else has.
fn fresh() -> Uuid {
    uuid::Builder::from_random_bytes(rand::random()).into_uuid()
}

/// Returns a cabinet with these files, as they are, in one folder.
fn cabinet(files: &[(&str, &[u8])]) -> Vec<u8> {
    let whole: Vec<u8> = files.iter().flat_map(|(_, text)| *text).copied().collect();
    let blocks = whole.chunks(BLOCK);
    let names: usize = files.iter().map(|(name, _)| FILE + name.len() + 1).sum();
    let start = HEAD + FOLDER + names;
    let size = start + whole.len() + 8 * blocks.len();

    let mut out = Vec::with_capacity(size);
    let long = |out: &mut Vec<u8>, number: usize| out.extend((number as u32).to_le_bytes());
    let short = |out: &mut Vec<u8>, number: usize| out.extend((number as u16).to_le_bytes());
    out.extend(b"MSCF");
    for number in [0, size, 0, HEAD + FOLDER, 0] {
        long(&mut out, number);
    }
    // The format's version 1.3; one folder, the files, and no other cabinets.
    for number in [0x0103, 1, files.len(), 0, 0, 0] {
        short(&mut out, number);
    }
    long(&mut out, start);
    short(&mut out, blocks.len());
    short(&mut out, 0);

    let mut at = 0;
    for (name, text) in files {
        long(&mut out, text.len());
        long(&mut out, at);
        // The folder, the first day of the format, midnight, and a file that is to be archived.
        for number in [0, 0x21, 0, 0x20] {
            short(&mut out, number);
        }
        out.extend(name.as_bytes());
        out.push(0);
        at += text.len();
    }

    for block in blocks {
        // As long unpacked as it is packed.
        let lengths = block.len() | block.len() << 16;
        long(&mut out, sum(block) ^ lengths);
        long(&mut out, lengths);
        out.extend(block);
    }
    out
}

/// Returns the sum of a block: its words of four bytes, and what is left of one the other way round.
fn sum(block: &[u8]) -> usize {
    let words = block.chunks_exact(4);
    let rest = words.remainder().iter();
    let rest = rest.fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    words.fold(rest, |sum, word| {
        let word: [u8; 4] = word.try_into().expect("four bytes");
        sum ^ u32::from_le_bytes(word) as usize
    })
}

#[cfg(test)]
mod tests {
    use msi::{Column, PackageType};

    use super::*;

    /// A package with those tables and rows of a plain one that an installer touches.
    fn plain(family: &str) -> Vec<u8> {
        let blank = Cursor::new(Vec::new());
        let mut package = Package::create(PackageType::Installer, blank).unwrap();
        let keys = [
            ("Property", "ProductCode", "Value"),
            (
                "Component",
                "Settings",
                "ComponentId Directory_ #Attributes Condition KeyPath",
            ),
            ("FeatureComponents", "Other", "Component_"),
            (
                "File",
                "Config",
                "Component_ FileName #FileSize Version Language #Attributes #Sequence",
            ),
            (
                "MsiFileHash",
                "Config",
                "#Options #HashPart1 #HashPart2 #HashPart3 #HashPart4",
            ),
        ];
        for (table, key, others) in keys {
            let first = Column::build(key_of(table)).primary_key().string(72);
            let mut columns = vec![first];
            let mut row = vec![Value::from(key)];
            for name in others.split(' ') {
                let column = Column::build(name.trim_start_matches('#')).nullable();
                let number = name.starts_with('#');
                columns.push(if number {
                    column.int32()
                } else {
                    column.string(72)
                });
                row.push(if number {
                    Value::Int(1)
                } else {
                    "before".into()
                });
            }
            package.create_table(table, columns).unwrap();
            add(&mut package, table, row).unwrap();
        }
        add(
            &mut package,
            "Property",
            vec!["UpgradeCode".into(), family.into()],
        )
        .unwrap();

        let media =
            ["DiskId", "LastSequence"].map(|name| Column::build(name).primary_key().int32());
        let rest = ["DiskPrompt", "Cabinet", "VolumeLabel", "Source"];
        let rest = rest.map(|name| Column::build(name).nullable().string(72));
        package
            .create_table("Media", [&media[..], &rest].concat())
            .unwrap();
        package.into_inner().unwrap().into_inner()
    }

    fn key_of(table: &str) -> &str {
        match table {
            "FeatureComponents" => "Feature_",
            "MsiFileHash" => "File_",
            table => table,
        }
    }

    fn site(settings: Option<&str>) -> SiteFiles {
        SiteFiles {
            master: "grid:7411".to_owned(),
            settings: settings.map(str::to_owned),
        }
    }

    #[test]
    fn a_package_that_is_not_the_workers_is_refused() {
        let whole = plain(FAMILY);
        for bytes in [
            &b"no package"[..],
            &whole[..whole.len() / 2],
            &plain("{other}"),
        ] {
            assert!(installer(bytes, &site(None), "dg1.secret").is_err());
        }
    }

    #[test]
    fn settings_come_with_a_package_only_where_the_site_has_some() {
        for settings in [None, Some("slots = 1\n")] {
            let made = installer(&plain(FAMILY), &site(settings), "dg1.secret").unwrap();
            let mut package = Package::open(Cursor::new(made)).unwrap();
            let files = package.select_rows(Select::table("File")).unwrap();
            let sizes: Vec<_> = files
                .map(|row| (row[0].clone(), row["FileSize"].as_int()))
                .collect();
            let own = settings.map_or(1, |text| text.len() as i32);
            assert!(sizes.contains(&("Config".into(), Some(own))), "{sizes:?}");
            let mut sums = package.select_rows(Select::table("MsiFileHash")).unwrap();
            let sum = sums.next().unwrap()["HashPart4"].as_int();
            assert_eq!(sum, Some(i32::from(settings.is_none())));
        }
    }
}
