//! The way in for browsers: a page at `/in` that exchanges a ticket, or a token that somebody
//! pastes, for a cookie which no script can read.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body;
use axum::extract::{Request, State};
use axum::http::uri::PathAndQuery;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::get;

use crate::door::Entrance;
use crate::problem::Problem;
use crate::safety::only_reads;

/// The longest ticket or token that is looked at, in bytes.
const LONGEST: usize = 512;
/// The time in which it has to be there.
const PATIENCE: Duration = Duration::from_secs(30);
/// The cookie with a token. Over an encrypted connection no other server of this machine, and no
/// neighbouring name, can set it (`__Host-`).
const COOKIE: &str = "deskgrid-token";
const SECURE_COOKIE: &str = "__Host-deskgrid-token";

/// Returns the page and what belongs to it, which ask for no proof of who asks.
pub(crate) fn routes(entrance: Arc<dyn Entrance>) -> Router {
    Router::new()
        .route("/in", get(page).post(exchange))
        .route("/in.js", get(script))
        .with_state(entrance)
}

/// Sends a browser without a proof to the page, which goes on to what was asked for (`to`): where
/// somebody follows a link of another site, browsers keep the cookie back.
pub(crate) fn lead(request: &Request) -> Option<Response> {
    let accepts = request.headers().get(header::ACCEPT)?.to_str().ok()?;
    if !accepts.contains("text/html") {
        return None;
    }

    let reads = only_reads(request.method());
    let asked = request.uri().path_and_query().filter(|_| reads);
    let to = [("to", asked.map_or("/", PathAndQuery::as_str))];
    let query = serde_urlencoded::to_string(to).unwrap_or_default();
    // A slash means nothing in a query, and people read it more easily.
    let place = format!("/in?{}", query.replace("%2F", "/"));
    Some(Redirect::to(&place).into_response())
}

/// Returns the page to which somebody goes on from this address of the way in: one of this server,
/// or the first one.
fn destination(uri: &Uri) -> String {
    let to = uri.query().and_then(|query| field(query, "to"));
    // Browsers take two slashes, or a backslash, for the name of another server.
    let ours = |to: &String| {
        let plain = to.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        plain && to.starts_with('/') && !to.starts_with("//")
    };
    to.filter(ours).unwrap_or_else(|| "/".to_owned())
}

/// Returns the field of a form, or of a query, that has this name.
fn field(form: &str, name: &str) -> Option<String> {
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(form).ok()?;
    let (_, value) = pairs.into_iter().find(|(field, _)| field == name)?;
    Some(value)
}

/// The headers with the token of the cookie where programs send theirs.
pub(crate) fn with_token(headers: &HeaderMap, entrance: &dyn Entrance) -> HeaderMap {
    let mut headers = headers.clone();
    if headers.contains_key(header::AUTHORIZATION) {
        return headers;
    }
    let wanted = cookie_name(entrance);
    let cookie = cookies(&headers).find(|(name, _)| *name == wanted);
    if let Some(token) = cookie.and_then(|(_, token)| bearer(token)) {
        headers.insert(header::AUTHORIZATION, token);
    }
    headers
}

/// Returns the names and values of all cookies that were sent.
pub(crate) fn cookies(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let sent = headers.get_all(header::COOKIE).iter();
    sent.filter_map(|cookies| cookies.to_str().ok())
        .flat_map(|cookies| cookies.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
}

fn cookie_name(entrance: &dyn Entrance) -> &'static str {
    match entrance.is_encrypted() {
        true => SECURE_COOKIE,
        false => COOKIE,
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("Bearer {token}")).ok()
}

/// The ticket is in the fragment of this page's address: only its script sees it.
async fn page(State(entrance): State<Arc<dyn Entrance>>) -> Html<String> {
    let words = if entrance.takes_tokens() {
        (
            "Who are you?",
            "Paste an access token. An admin makes it for you.",
        )
    } else {
        ("Who are you?", entrance.way_in())
    };
    way_in(&*entrance, words)
}

/// The page with this heading and hint.
fn way_in(entrance: &dyn Entrance, (heading, hint): (&str, &str)) -> Html<String> {
    let form = match entrance.takes_tokens() {
        true => include_str!("token.html"),
        false => "",
    };
    let page = include_str!("in.html").replace("FORM", form);
    Html(page.replace("WAY-IN", hint).replace("HEADING", heading))
}

async fn script() -> Response {
    let kind = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (kind, include_str!("in.js")).into_response()
}

async fn exchange(State(entrance): State<Arc<dyn Entrance>>, request: Request) -> Response {
    let to = destination(request.uri());
    let kind = request.headers().get(header::CONTENT_TYPE);
    let form = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/x-www-form-"));
    let sent = body::to_bytes(request.into_body(), LONGEST);
    let sent = tokio::time::timeout(PATIENCE, sent).await;
    let sent = sent
        .ok()
        .and_then(Result::ok)
        .and_then(|sent| String::from_utf8(sent.into()).ok());
    let sent = sent.unwrap_or_default();

    let cookie = if form {
        token(&*entrance, &sent).await
    } else {
        entrance.exchange(sent.trim())
    };
    match cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        Some(cookie) if form => ([(header::SET_COOKIE, cookie)], Redirect::to(&to)).into_response(),
        Some(cookie) => (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response(),
        None if form => {
            let heading = "This token lets nobody in";
            let hint = "It is unknown, revoked or expired, or one to join with. Paste an access token; an admin makes it for you.";
            (
                StatusCode::UNAUTHORIZED,
                way_in(&*entrance, (heading, hint)),
            )
                .into_response()
        }
        None => Problem::new(
            StatusCode::UNAUTHORIZED,
            "not-authenticated",
            "this ticket or token does not count, or not any more",
            entrance.way_in(),
        )
        .into_response(),
    }
}

/// Returns the cookie with the token of a form, if it lets somebody in.
async fn token(entrance: &dyn Entrance, form: &str) -> Option<String> {
    let token = field(form, "token")?;
    let token = token.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if token.is_empty() || !token.chars().all(plain) {
        return None;
    }

    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, bearer(token)?);
    entrance.admit(&headers).await?;
    let secure = if entrance.is_encrypted() {
        "; Secure"
    } else {
        ""
    };
    let name = cookie_name(entrance);
    Some(format!(
        "{name}={token}; HttpOnly; SameSite=Strict; Path=/{secure}"
    ))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request as HttpRequest;
    use tower::ServiceExt;

    use super::*;
    use crate::{SitePages, Tickets, Who};

    /// The address to which a browser is sent that has no cookie and asks for this.
    async fn led(verb: &str, path: &str) -> String {
        let who = Who {
            user: "ann".into(),
            role: common::token::Role::Client,
            id: uuid::Uuid::nil(),
            token: None,
        };
        let entrance = Arc::new(Tickets::new(who, 7000));
        let site = crate::site(entrance, SitePages::default());
        let request = HttpRequest::builder()
            .method(verb)
            .uri(path)
            .header(header::HOST, "127.0.0.1:7000")
            .header(header::ACCEPT, "text/html,*/*")
            .body(Body::empty())
            .expect("a request");

        let answer = site.oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), StatusCode::SEE_OTHER);
        let place = &answer.headers()[header::LOCATION];
        place.to_str().expect("text").to_owned()
    }

    fn leads_to(place: &str) -> String {
        destination(&place.parse().expect("an address"))
    }

    #[tokio::test]
    async fn a_browser_without_a_proof_goes_on_to_what_it_asked_for() {
        for (asked, place) in [
            ("/", "/in?to=/"),
            ("/jobs/7", "/in?to=/jobs/7"),
            (
                "/jobs?state=open&label=a+b%2Fc",
                "/in?to=/jobs%3Fstate%3Dopen%26label%3Da%2Bb%252Fc",
            ),
        ] {
            assert_eq!(led("GET", asked).await, place);
            assert_eq!(leads_to(place), asked);
        }
        // There may be nothing to read where a form was sent to.
        assert_eq!(led("POST", "/resume").await, "/in?to=/");
    }

    #[test]
    fn the_way_in_leads_to_no_other_server() {
        for to in [
            "",
            "jobs",
            "//evil.example",
            "%2F%2Fevil.example",
            "/%5Cevil.example",
            "/%09/evil.example",
            "https://evil.example/",
            "/a%0d%0ab",
            "/%C3%A9",
        ] {
            assert_eq!(leads_to(&format!("/in?to={to}")), "/", "{to}");
        }
        assert_eq!(leads_to("/in"), "/");
    }
}
