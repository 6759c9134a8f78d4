//! Reads ahead: the answers that the next facts are made of, by several connections at once.
//!
//! A configuration is one request a guest. One after the other, each waits for the way there and back; hundreds of guests make that
//! the whole time of a run. What is fetched here decides nothing: a read takes an answer from here instead of asking for it, and what
//! is not here, it asks for as ever, with its retries and its words for what fails.

use crate::error::{ApiError, Refused};
use crate::live::Live;
use crate::read::{cluster, guest, storage};
use crate::session::Session;
use pve::keys::PveKey;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Connections at once. pvedaemon and pveproxy answer with 3 workers each (source: pve-manager, PVE/Service/pvedaemon.pm and
/// pveproxy.pm, `max_workers => 3`): 4 keep them busy, more would only queue. A browser opens 6 to the web interface.
pub(crate) const LANES: usize = 4;
/// Fewer requests go one after the other: further connections cost more than they save.
const WORTH_IT: usize = 8;

/// An answer, or what the server said instead of one.
pub(crate) type Answer = Result<Value, Refused>;

impl Live {
    /// Fetches what the reads of these keys will ask for first, as far as that is known without asking.
    pub(crate) fn fetch_ahead(&mut self, keys: &[PveKey]) {
        self.ahead.clear();
        if keys.len() < WORTH_IT {
            return;
        }
        // Signing in is the first read's business, and so is what fails there.
        let Some(session) = self.signed_in() else {
            return;
        };
        let listed = guest::places(self.answered(guest::LISTING));
        let mut paths: Vec<String> = Vec::new();
        let mut known = BTreeSet::new();
        for path in keys.iter().filter_map(|k| self.first_get(k, &listed)) {
            if self.answered(&path).is_none() && known.insert(path.clone()) {
                paths.push(path);
            }
        }
        if paths.len() >= WORTH_IT {
            self.ahead = fetch(session, &paths);
        }
    }

    /// The path that [`Live::observe`] asks for first, where it asks for something that was not read.
    fn first_get(&self, key: &PveKey, listed: &BTreeMap<u32, guest::Place>) -> Option<String> {
        if self.remembers(key) {
            return None;
        }
        let on = |vmid: &u32| {
            let seen = self.places.get(vmid);
            let hint = seen.or(self.connection.node_hint.as_ref());
            match hint {
                Some(node) => Some(guest::Place {
                    node: node.clone(),
                    lxc: false,
                }),
                None => listed.get(vmid).cloned(),
            }
        };
        match key {
            PveKey::Guest(v) => on(v)
                .filter(|p| !p.lxc)
                .map(|p| guest::pending_path(&p.node, *v)),
            PveKey::GuestStatus(v) => on(v).map(|p| guest::status_path(&p, *v)),
            PveKey::NodeGuests(n) => Some(cluster::node_guests_path(n)),
            PveKey::Storages(n) => Some(storage::storages_path(n)),
            // Not the agents' answers: a worker of the server waits for a guest's agent up to seconds, and four that hang would hold all
            // workers of a node, the web interface's too.
            _ => None,
        }
    }
}

/// The answers to these reads, as far as they came at the first try. The first that did not ends it: whatever is wrong, the read that
/// follows meets it and says so.
fn fetch(session: &Session, paths: &[String]) -> BTreeMap<String, Answer> {
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(BTreeMap::new());
    let lane = || {
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            let answer = match session.glance(path) {
                Ok(v) => Ok(v),
                Err(ApiError::Refused(r)) if r.status != 401 => Err(r),
                Err(_) => {
                    next.store(paths.len(), Ordering::Relaxed);
                    return;
                }
            };
            let mut all = answers.lock().unwrap_or_else(PoisonError::into_inner);
            all.insert(path.clone(), answer);
        }
    };
    std::thread::scope(|s| {
        for _ in 0..LANES.min(paths.len()) {
            // Where no thread can be had, the reads do without.
            let _ = std::thread::Builder::new().spawn_scoped(s, lane);
        }
    });
    answers.into_inner().unwrap_or_else(PoisonError::into_inner)
}
