//! The checks that every request passes, whatever it asks for: it names this server (a foreign page
//! whose name resolves to this address names another one: DNS rebinding), it does not come from
//! another site's page, and it proves who asks. And the headers that every answer has.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::door::Entrance;
use crate::problem::Problem;
use crate::way_in::{lead, with_token};

/// The policy for pages of this server: they may load its own files, and nothing inline.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The headers of every answer.
const ALWAYS: [(HeaderName, &str); 5] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, POLICY),
    // Not none at all: forms of this server's own pages would come from nowhere.
    (header::REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
];

/// Passes on requests that name this server and come from no other site; sets the headers of the
/// answer.
pub(crate) async fn guard(
    State(entrance): State<Arc<dyn Entrance>>,
    request: Request,
    next: Next,
) -> Response {
    let checked = if entrance.is_private() {
        Ok(())
    } else {
        named(&request, &*entrance).and_then(|()| same_site(&request))
    };
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };

    for (name, value) in ALWAYS {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
        .headers_mut()
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}

/// Passes on requests that prove who asks.
pub(crate) async fn admit(
    State(entrance): State<Arc<dyn Entrance>>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = with_token(request.headers(), &*entrance);

    match entrance.admit(&headers).await {
        Some(who) => {
            request.extensions_mut().insert(who);
            next.run(request).await
        }
        None => {
            let (title, hint) = if headers.contains_key(header::AUTHORIZATION) {
                (
                    "this token lets nobody in: it is unknown, revoked or expired, or one to join with",
                    "an admin makes one with: deskgrid token create --http --role client --for USER",
                )
            } else {
                (
                    "nobody is let in without a proof of who asks",
                    entrance.way_in(),
                )
            };
            let status = StatusCode::UNAUTHORIZED;
            let problem = Problem::new(status, "not-authenticated", title, hint);
            if let Some(response) = lead(&request) {
                return response;
            }
            let mut response = problem.into_response();
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            response
        }
    }
}

/// The one value of a header; an error if there are several, or it is no text.
fn one(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, ()> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(drop),
        (Some(_), Some(_)) => Err(()),
    }
}

/// The host that a request names, in its first line or its header.
fn host(request: &Request) -> Result<Option<String>, ()> {
    let named = one(request.headers(), header::HOST)?;
    Ok(match request.uri().authority() {
        Some(authority) => Some(authority.as_str().to_owned()),
        None => named.map(str::to_owned),
    })
}

fn named(request: &Request, entrance: &dyn Entrance) -> Result<(), Problem> {
    let both = one(request.headers(), header::HOST);
    let ours = |host: &str| entrance.is_ours(host);
    // Both the first line and the header have to name this server.
    if let (Ok(Some(host)), Ok(header)) = (host(request), both)
        && ours(&host)
        && header.is_none_or(ours)
    {
        return Ok(());
    }

    Err(Problem::new(
        StatusCode::MISDIRECTED_REQUEST,
        "misdirected",
        "this server is not called so",
        "use the address that it printed when it was started, or a name of http_hosts",
    ))
}

/// Whether a verb changes nothing.
pub(crate) fn only_reads(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

fn same_site(request: &Request) -> Result<(), Problem> {
    let headers = request.headers();
    let refuse = || {
        let title = "this request comes from a page of another site";
        let hint = "programs send neither Origin nor Sec-Fetch-Site; pages ask the server that they came from";
        Err(Problem::new(
            StatusCode::FORBIDDEN,
            "cross-site",
            title,
            hint,
        ))
    };
    let (Ok(origin), Ok(site), Ok(mode)) = (
        one(headers, header::ORIGIN),
        one(headers, HeaderName::from_static("sec-fetch-site")),
        one(headers, HeaderName::from_static("sec-fetch-mode")),
    ) else {
        return refuse();
    };

    let own = host(request).ok().flatten().unwrap_or_default();
    let from_here = |origin: &str| {
        let rest = origin.strip_prefix("http://");
        let rest = rest.or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|named| named.eq_ignore_ascii_case(&own))
    };
    if origin.is_some_and(|origin| !from_here(origin)) {
        return refuse();
    }

    let reads = only_reads(request.method());
    match site {
        Some("same-origin") => Ok(()),
        // A link that somebody follows, or an address that somebody types.
        Some("none") if reads => Ok(()),
        Some(_) if reads && mode == Some("navigate") => Ok(()),
        Some(_) => refuse(),
        // A browser that says nothing of the site says at least the origin; a cookie without
        // either may be anybody's.
        None if reads || origin.is_some() || !headers.contains_key(header::COOKIE) => Ok(()),
        None => refuse(),
    }
}
