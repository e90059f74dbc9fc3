//! The watches that are open through the proxy, and which of them are refused when they are opened again.

use std::collections::{BTreeMap, BTreeSet};

use http::Uri;

/// How the API server says that the version from which to watch is too old.
#[derive(Debug, Clone, Copy)]
pub enum Expiry {
    /// As the first event of a watch.
    Event,
    /// As the status of the answer.
    Status,
}

/// A watch, told apart by its resource and its selectors.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Watched {
    /// In the plural, without its group.
    pub resource: String,
    path: String,
    selectors: Vec<String>,
}

impl Watched {
    /// The watch that a request opens, if it opens one.
    pub fn of(uri: &Uri) -> Option<Self> {
        let options = || uri.query().unwrap_or_default().split('&');
        options().find(|option| matches!(*option, "watch=true" | "watch=1"))?;
        let selectors = options().filter(|option| option.contains("Selector=")).map(str::to_owned).collect();
        let resource = uri.path().rsplit('/').next().unwrap_or_default().to_owned();
        Some(Self { resource, path: uri.path().to_owned(), selectors })
    }
}

#[derive(Default)]
pub struct OpenWatches {
    pub open: BTreeSet<Watched>,
    /// Those with an event that waits.
    pub waiting: BTreeSet<Watched>,
    /// How watches are refused, and how often each.
    expiry: Option<(Expiry, u32)>,
    /// How often each was refused.
    refused: BTreeMap<Watched, u32>,
}

impl OpenWatches {
    /// Has the next so many requests for each of the open watches refused.
    pub fn expire(&mut self, expiry: Expiry, times: u32) {
        self.expiry = Some((expiry, times));
        self.refused = self.open.iter().map(|watched| (watched.clone(), 0)).collect();
    }

    /// How a request for a watch is refused, if it is.
    pub fn refuse(&mut self, watched: &Watched) -> Option<Expiry> {
        let (expiry, times) = self.expiry?;
        let refused = self.refused.get_mut(watched).filter(|refused| **refused < times)?;
        *refused += 1;
        Some(expiry)
    }

    /// Whether each watch was refused as often as it was to be.
    pub fn all_have_expired(&self) -> bool {
        let Some((_, times)) = self.expiry else { return false };
        !self.refused.is_empty() && self.refused.values().all(|refused| *refused == times)
    }
}
