//! `/storage` and `/nodes/{node}/storage`.

use super::{entries, pick, sorted, text};
use crate::error::ApiError;
use crate::live::{Live, seg};
use crate::wire;
use plan::Fact;
use serde_json::{Map, json};

/// What [`Live::storages`] reads.
pub(crate) fn storages_path(node: &str) -> String {
    format!("/nodes/{}/storage", seg(node))
}

impl Live {
    pub(crate) fn storages(&mut self, node: &str) -> Result<Fact, ApiError> {
        let answer = self.get(&storages_path(node))?;
        let list = entries(&answer)
            .map(|e| {
                let mut o = pick(e, &["storage", "type", "avail", "total", "used"]);
                let mut content: Vec<&str> = text(e, "content")
                    .unwrap_or_default()
                    .split(',')
                    .filter(|c| !c.is_empty())
                    .collect();
                content.sort_unstable();
                o.insert("content".into(), json!(content));
                for flag in ["enabled", "active", "shared"] {
                    o.insert(flag.into(), json!(wire::truth(e.get(flag))));
                }
                o
            })
            .collect();
        Ok(Fact::Known(sorted(list, "storage")))
    }

    pub(crate) fn storage_config(&mut self, storage: &str) -> Result<Fact, ApiError> {
        match self.get_for_one(&format!("/storage/{}", seg(storage))) {
            Ok(a) => Ok(Fact::Known(a)),
            Err(ApiError::Refused(r)) if r.says("does not exist") => Ok(Fact::Absent),
            Err(e) => Err(e),
        }
    }

    pub(crate) fn volumes(
        &mut self,
        node: &str,
        storage: &str,
        content: &str,
        vmid: Option<u32>,
    ) -> Result<Fact, ApiError> {
        let mut path = format!(
            "/nodes/{}/storage/{}/content?content={}",
            seg(node),
            seg(storage),
            wire::encode(content)
        );
        if let Some(v) = vmid {
            path.push_str(&format!("&vmid={v}"));
        }
        match self.get(&path) {
            Ok(answer) => {
                let list: Vec<Map<_, _>> = entries(&answer).cloned().collect();
                Ok(Fact::Known(sorted(list, "volid")))
            }
            Err(ApiError::Refused(r)) if r.says(&format!("storage '{storage}' does not exist")) => {
                Ok(Fact::Absent)
            }
            Err(e) => Err(e),
        }
    }

    pub(crate) fn volume(&mut self, node: &str, volid: &str) -> Result<Fact, ApiError> {
        let storage = volid.split(':').next().unwrap_or_default();
        let path = format!(
            "/nodes/{}/storage/{}/content/{}",
            seg(node),
            seg(storage),
            seg(volid)
        );
        match self.get_for_one(&path) {
            Ok(a) => Ok(Fact::Known(a)),
            // A file that cannot be found has no format, one that qemu-img cannot read has no size (source: pve-storage,
            // API2/Storage/Content.pm, `info`); block storages name what they do not find in their own words.
            Err(ApiError::Refused(r)) if r.status == 500 && r.says("volume_size_info on") => {
                Ok(if r.says("no format") {
                    Fact::Absent
                } else {
                    Fact::Unreadable(r.text())
                })
            }
            Err(ApiError::Refused(r))
                if r.status == 500 && (r.says("does not exist") || r.says("No such file")) =>
            {
                Ok(Fact::Absent)
            }
            Err(e) => Err(e),
        }
    }
}
