//! Keeps pages that a browser of this machine shows from commanding the job.
//!
//! A page of any site can send simple requests to loopback, so a request that changes something has to be of
//! `application/json`: a browser asks before it sends that to another site, and this server does not consent. A page whose
//! own name was pointed at this address passes as the same site, so the `Host` of the request has to be one of this
//! master's. Programs that are no browsers may leave out `Host`.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use flexor_model::Reason;
use serde_json::json;

use crate::job::Job;

/// The hosts under which a master is called.
#[derive(Debug)]
pub(crate) struct AllowedHosts {
    /// The address of the port; unspecified if it is every address of the machine.
    address: IpAddr,
    names: Vec<String>,
}

impl AllowedHosts {
    pub(crate) fn new(address: IpAddr, names: &[String]) -> Self {
        Self { address, names: names.iter().map(|name| plain(name)).collect() }
    }

    /// Whether this master is called by the host of a `Host` header. A name of DNS can be pointed at any address, an
    /// address cannot.
    fn contains(&self, host: &str) -> bool {
        let host = plain(without_port(host));
        match host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || address == self.address || self.address.is_unspecified(),
            Err(_) => host == "localhost" || self.names.contains(&host),
        }
    }
}

fn plain(host: &str) -> String {
    host.trim_matches(['[', ']']).trim_end_matches('.').to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && !name.ends_with(':') => name,
        Some(_) | None => host,
    }
}

/// Refuses what a browser can send without the consent of this server.
pub(super) async fn refuse_browsers(
    State((job, hosts)): State<(Job, Arc<AllowedHosts>)>,
    request: Request,
    next: Next,
) -> Response {
    let changes_something = !matches!(*request.method(), Method::GET | Method::HEAD);
    if changes_something && !is_json(request.headers()) {
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, "send the header Content-Type: application/json".to_owned());
    }
    if (changes_something || job.token().is_none())
        && let Some(host) = host(request.uri(), request.headers())
        && !hosts.contains(host)
    {
        let host: String = host.chars().filter(|c| !c.is_control()).take(253).collect();
        let error = format!(
            "this master is not called {host}; use its address, or start it with --allowed-host {}",
            without_port(&host)
        );
        return refuse(StatusCode::FORBIDDEN, error);
    }
    next.run(request).await
}

fn refuse(status: StatusCode, error: String) -> Response {
    (status, Json(json!({ "reason": Reason::InvalidValue, "error": error }))).into_response()
}

/// The host that the client has called; none if it names none.
fn host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let header = headers.get(header::HOST).map(|host| host.to_str().unwrap_or("?"));
    header.or_else(|| uri.authority().map(axum::http::uri::Authority::as_str))
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn allowed(address: impl Into<IpAddr>) -> AllowedHosts {
        AllowedHosts::new(address.into(), &["Job-Master.ns.svc".to_owned()])
    }

    #[test]
    fn loopback_the_own_address_and_configured_names_are_allowed() {
        let hosts = allowed([10, 0, 0, 5]);
        for host in [
            "localhost",
            "LOCALHOST:50001",
            "127.0.0.1",
            "127.9.9.9:1",
            "[::1]:50001",
            "[::1]",
            "10.0.0.5:50001",
            "job-master.ns.svc:50001",
            "job-master.ns.svc.",
            "JOB-master.ns.svc",
        ] {
            assert!(hosts.contains(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:50001",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "10.0.0.6",
            "0.0.0.0:1",
            "[fe80::1]:1",
            "job-master",
            "?",
            "127.0.0.1@evil.example",
            "2130706433",
        ] {
            assert!(!hosts.contains(host), "{host}");
        }
    }

    #[test]
    fn a_port_on_every_address_is_called_by_any_address() {
        for hosts in [allowed(Ipv4Addr::UNSPECIFIED), allowed(Ipv6Addr::UNSPECIFIED)] {
            assert!(
                hosts.contains("10.0.0.6:50001") && hosts.contains("[fe80::1]:1") && !hosts.contains("evil.example")
            );
        }
    }

    #[test]
    fn only_json_is_json() {
        let is_json = |kind: &str| is_json(&HeaderMap::from_iter([(header::CONTENT_TYPE, kind.parse().unwrap())]));
        assert!(is_json("application/json") && is_json("Application/JSON; charset=utf-8"));
        for kind in ["text/plain", "text/plain; application/json", "application/x-www-form-urlencoded", "", "json"] {
            assert!(!is_json(kind), "{kind}");
        }
    }
}
