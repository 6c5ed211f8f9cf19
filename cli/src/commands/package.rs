//! Executes `deskgrid package`: has the master make a token, and puts it into an installer.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::token::Role;
use common::view::TokenView;
use common::wire::client::Request;
use link::masters;
use serde::Serialize;

use super::Context;
use crate::args::package::PackageArgs;
use crate::failure::{Exit, Failure};
use crate::output::{note, when};
use crate::package::{PlainPackage, SiteFiles};
use crate::session::Session;

/// The line that ends the settings in a script.
const ENDS_SETTINGS: &str = "END_OF_SETTINGS";

#[derive(Serialize)]
struct PackageAnswer {
    file: String,
    format: &'static str,
    bytes: usize,
    master: String,
    /// The number of the token; the token itself is in the file only.
    token: u32,
    uses: u32,
    expires: common::Time,
    /// The tokens of earlier installers of the same name that PCs can still join by.
    earlier: Vec<u32>,
}

/// The time for which the address of the master is looked up.
const LOOKUP: Duration = Duration::from_secs(3);

/// Makes an installer. The token comes last: a file that cannot be written costs none.
pub(super) async fn run(context: &Context, args: PackageArgs) -> Result<Exit, Failure> {
    let plain = PlainPackage::find(&args.from, args.format, &args.arch)?;
    let settings = args.config.as_deref().map(read_settings).transpose()?;
    let master = String::new();
    let blank = SiteFiles { master, settings };
    // Packing takes a while, in which a session would end.
    plain.installer(&blank, "")?;

    let session = Session::open(&context.state).await?;
    let master = match &args.master {
        Some(master) => master.clone(),
        None => reachable(session.master())?,
    };
    note_unknown(&master).await;
    let site = SiteFiles { master, ..blank };

    let ending = args.format.ending();
    let out = args.out.clone();
    let out = out.unwrap_or_else(|| format!("deskgrid-worker-site.{ending}").into());
    let aside = beside(&out);
    let file = private(&aside)?;
    let (token, view) = match make_token(&session, &args).await {
        Ok(made) => made,
        Err(failure) => {
            let _ = std::fs::remove_file(&aside);
            return Err(failure);
        }
    };
    // The installer is made even if the others cannot be named.
    let earlier = earlier_tokens(&session, &view).await.unwrap_or_default();
    session.close().await;

    let bytes = plain.installer(&site, &token)?;
    save(file, &bytes, &aside, &out).map_err(|error| {
        let _ = std::fs::remove_file(&aside);
        Failure {
            hint: format!("deskgrid token revoke {}, and try elsewhere", view.id),
            ..Failure::cannot("write", &out, &error)
        }
    })?;

    let answer = PackageAnswer {
        file: out.display().to_string(),
        format: ending,
        bytes: bytes.len(),
        master: site.master,
        token: view.id,
        uses: view.uses_left,
        expires: view.expires,
        earlier: earlier.iter().map(|token| token.id).collect(),
    };
    let text = || told(&answer, &view) + &still_usable(&earlier);
    context.show(&answer, text, || vec![answer.file.clone()])
}

fn told(answer: &PackageAnswer, view: &TokenView) -> String {
    let pcs = match answer.uses {
        1 => "one PC".to_owned(),
        more => format!("{more} PCs"),
    };
    let till = when::relative(view.expires, when::now());
    let copy = match answer.format {
        "msi" => {
            "Windows keeps a copy of it on each PC, which others there may read: revoke the token once all have joined.\n"
        }
        _ => "",
    };

    format!(
        "{} installs the worker for {}, by token {}: {pcs} can join by it, until it expires {till}.\n\
         Whoever can read the file can let PCs join; `deskgrid token revoke {}` ends that.\n{copy}",
        answer.file, answer.master, view.id, view.id
    )
}

/// Names the tokens of earlier installers, one of which the new `--out` may have replaced.
fn still_usable(earlier: &[TokenView]) -> String {
    let line = |token: &TokenView| {
        let TokenView { id, uses_left, .. } = token;
        let till = when::relative(token.expires, when::now());
        format!(
            "token {id} of an earlier installer counts, too, for {uses_left} more, until it expires {till}. If nobody is to use that \
             installer any more: deskgrid token revoke {id}\n"
        )
    };
    earlier.iter().map(line).collect()
}

/// Reads the settings of the site's workers, after a check that a worker accepts them.
fn read_settings(file: &Path) -> Result<String, Failure> {
    let text = worker::Config::checked_text(file)?;
    if text.lines().any(|line| line == ENDS_SETTINGS) {
        let what = format!(
            "{} has the line {ENDS_SETTINGS}, which ends the settings in an installer",
            file.display()
        );
        return Err(Failure::usage(what, "write that line in another way"));
    }
    Ok(text)
}

/// Refuses an address that means another machine on each PC, also among several.
fn reachable(master: &str) -> Result<String, Failure> {
    let own = |master: &str| {
        let host = master.rsplit_once(':').map_or(master, |(host, _)| host);
        let host = host.trim_matches(['[', ']']);
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    };
    if masters::addresses(master).any(own) {
        let what = format!("this machine reaches the master at {master}, which PCs cannot use");
        return Err(Failure::usage(
            what,
            "name the master as PCs reach it: --master HOST:PORT",
        ));
    }
    Ok(master.to_owned())
}

/// Says of a name that this machine does not find either, since PCs then may not.
async fn note_unknown(master: &str) {
    for address in masters::addresses(master) {
        let found = tokio::time::timeout(LOOKUP, tokio::net::lookup_host(address)).await;
        if let Ok(Err(error)) = found {
            note(&format!(
                "note: this machine finds no address for {address} ({error}); PCs that do not either cannot join"
            ));
        }
    }
}

/// The tokens of the same `name` as this new one by which machines of its role can still join.
async fn earlier_tokens(session: &Session, new: &TokenView) -> Result<Vec<TokenView>, Failure> {
    let mut all = session.tokens(&Request::TokenList).await?;
    all.retain(|token| {
        let same = token.name == new.name && token.role == new.role && token.speaks_for.is_none();
        same && token.id != new.id && token.ended(when::now()).is_none()
    });
    Ok(all)
}

async fn make_token(session: &Session, args: &PackageArgs) -> Result<(String, TokenView), Failure> {
    let request = Request::TokenCreate {
        role: Role::Worker,
        ttl: args.ttl.span(),
        uses: args.uses,
        name: args.name.clone(),
        approval: args.approve,
        speaks_for: None,
    };
    let (token, view, _) = session.new_token(&request).await?;
    Ok((token.to_string(), view))
}

/// The name of the file while it is written.
fn beside(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Makes a file that only this account can read, in place of one that a broken run left.
fn private(path: &Path) -> Result<File, Failure> {
    let _ = std::fs::remove_file(path);
    link::files::create_private(path).map_err(|e| Failure::cannot("write", path, &e))
}

fn save(mut file: File, bytes: &[u8], aside: &Path, out: &Path) -> std::io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(aside, out)
}
