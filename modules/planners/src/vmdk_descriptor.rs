//! `vmdk_descriptor`: a descriptor that Proxmox can read for a data file that VMware wrote.

use crate::{Def, Side};
use plan::{Arg, Tolerance};
use plan::{Effect, ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Request, Step};
use serde_json::{Map, Value, json};
use spec::shared::{EXPECT_PLAN, RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};
use vsphere::export::ExportKey;
use vsphere::vmdk;

const OWN: &[Opt] = &[
    Opt::path("export", "The folder where the NFS export is mounted on the host where the task runs, such as C(/mnt/pve/nfs).").required(),
    Opt::int("vmid", "Id of the Proxmox guest that the disk is for; the descriptor lies in C(images/<vmid>/) of the export.").required().range(100, 999_999_999),
    Opt::int("disk", "Number of the disk; the descriptor is called C(disk<N>.vmdk), since a volume id allows no white space.").required().range(0, 255),
    Opt::str("storage", "Id of the Proxmox storage that mounts the export; only for the returned volume id."),
    Opt::str("source", "Path of VMware's data file, relative to the export, such as C(app01/app01-flat.vmdk). Needed for O(state=present)."),
    Opt::int("bytes", "Size that the data file must have exactly, in bytes. Needed for O(state=present)."),
    Opt::int("key", "Key of the disk's device in vCenter; only names the disk in plans and differences."),
    Opt::bool("source_pending", "In check mode only: an earlier task of this run makes the data file, so that it cannot be looked at yet. Ignored in earnest.").default("false"),
    Opt::bool("at_rest", "Record in the descriptor that the machine is off, so that nobody writes to the data file any more. What is written to it later makes RV(written_since) true, and the descriptor is then written anew.").default("false"),
    Opt::str("state", "Whether the descriptor is there.").choices(&["present", "absent"]).default("\"present\""),
];

const OWN_RETURNS: &[Ret] = &[
    Ret::new(
        "path",
        Kind::Str,
        "always",
        "Absolute path of the descriptor.",
    ),
    Ret::new(
        "volume",
        Kind::Str,
        "when O(storage) is given",
        "Volume id of the descriptor, C(<storage>:<vmid>/disk<N>.vmdk).",
    ),
    Ret::new(
        "bytes",
        Kind::Int,
        "for O(state=present)",
        "Size of the disk in bytes.",
    ),
    Ret::new(
        "found",
        Kind::Str,
        "for O(state=present)",
        "What was there before: V(none), V(same) for a descriptor of this data file, V(other) for one of another file or size.",
    ),
    Ret::new(
        "written_since",
        Kind::Bool,
        "for O(state=present)",
        "Whether the data file was written to after the descriptor that was found recorded it as at rest.",
    ),
];

/// The argument table.
pub const SPEC: ModuleSpec = ModuleSpec {
    name: "vmdk_descriptor",
    short: "Make a VMware data file importable by Proxmox VE",
    doc: &[
        "Writes a small text file, C(images/<vmid>/disk<N>.vmdk), on an NFS export that both hypervisors mount. It points to the data file (C(-flat.vmdk)) that VMware wrote, so that Proxmox VE imports or attaches it by volume id.",
        "VMware's own files are only read. A file that this module did not write is never overwritten and never removed.",
        "Runs on a host that mounts the export; delegate it there.",
    ],
    options: &[OWN, &[EXPECT_PLAN]],
    required_if: &[("state", "present", &["source", "bytes"], false)],
    returns: &[OWN_RETURNS, RETURNS, RETURNS_WRITING],
    examples: "- name: Describe the first disk\n  trueplan.virt.vmdk_descriptor:\n    export: /mnt/pve/nfs-migration\n    storage: nfs-migration\n    vmid: 20042\n    disk: 0\n    source: app01/app01-flat.vmdk\n    bytes: 17179869184\n  delegate_to: pve1\n",
    ..ModuleSpec::EMPTY
};

/// The registry's entry.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Export,
    make,
};

struct Descriptor {
    folder: String,
    path: String,
    volume: Option<String>,
    symbol: String,
    /// Relative to the export; present only.
    source: Option<String>,
    source_path: Option<String>,
    bytes: u64,
    pending: bool,
    at_rest: bool,
}

fn make(a: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = vec![];
    let export = a
        .str("export")
        .unwrap_or_default()
        .trim_end_matches('/')
        .to_owned();
    let (vmid, disk) = (
        a.int("vmid").unwrap_or_default(),
        a.int("disk").unwrap_or_default(),
    );
    let present = a.str("state") == Some("present");
    let mut bad = |path: &str, value: &str, msg: String| {
        errors.push(ArgError {
            path: path.into(),
            value: Some(value.into()),
            msg,
        })
    };
    if !export.starts_with('/') {
        bad(
            "export",
            &export,
            format!("{export:?} is no absolute path; give the folder where the export is mounted"),
        );
    }
    let source = a
        .str("source")
        .map(|s| s.trim_start_matches("./").to_owned())
        .filter(|_| present);
    if let Some(s) = &source {
        if s.starts_with('/') || s.split('/').any(|p| p == ".." || p.is_empty()) {
            bad(
                "source",
                s,
                format!(
                    "{s:?} must be a path below the export, without `..`; give it relative to {export}"
                ),
            );
        }
        if s.contains(['"', '\n', '\r']) {
            bad(
                "source",
                s,
                format!(
                    "{s:?} holds a quote or a line feed, which a descriptor cannot name; rename the VM's folder in vSphere"
                ),
            );
        }
        let name = s.rsplit('/').next().unwrap_or(s);
        if vmdk::is_snapshot_delta(name) {
            bad(
                "source",
                s,
                format!(
                    "{name:?} belongs to a snapshot and holds only a part of the disk; remove the snapshots (consolidate) and name the base's data file"
                ),
            );
        }
    }
    let bytes = a.int("bytes").unwrap_or_default();
    if present
        && a.get("bytes").is_some()
        && (bytes <= 0 || !(bytes as u64).is_multiple_of(vmdk::SECTOR_BYTES))
    {
        bad(
            "bytes",
            &bytes.to_string(),
            format!(
                "{bytes} is no whole number of sectors of 512 bytes; give the data file's exact size"
            ),
        );
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let folder = format!("{export}/images/{vmid}");
    Ok(Box::new(Descriptor {
        path: format!("{folder}/disk{disk}.vmdk"),
        volume: a
            .str("storage")
            .map(|s| format!("{s}:{vmid}/disk{disk}.vmdk")),
        symbol: format!("<data file of disk {}>", a.int("key").unwrap_or(disk)),
        source_path: source.as_ref().map(|s| format!("{export}/{s}")),
        source,
        bytes: bytes as u64,
        pending: a.flag("source_pending"),
        at_rest: a.flag("at_rest"),
        folder,
    }))
}

impl Descriptor {
    fn file(&self) -> Key {
        ExportKey::File(self.path.clone()).key()
    }
    fn dir(&self) -> Key {
        ExportKey::Folder(self.folder.clone()).key()
    }

    /// The extent path from images/<vmid>/ to the data file.
    fn relative(&self) -> String {
        format!("../../{}", self.source.as_deref().unwrap_or_default())
    }

    fn entries(&self, facts: &Facts) -> Vec<String> {
        let list = facts
            .known(self.dir())
            .and_then(|v| v["entries"].as_array().cloned());
        list.unwrap_or_default()
            .iter()
            .filter_map(|v| v.as_str().map(str::to_owned))
            .collect()
    }

    fn name(&self) -> String {
        self.path.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The descriptor that is there, if it is one.
    fn found(&self, facts: &Facts) -> Option<vmdk::Descriptor> {
        facts
            .known(self.file())
            .and_then(|v| v["text"].as_str())
            .and_then(vmdk::parse_descriptor)
    }

    fn same(&self, d: &vmdk::Descriptor) -> bool {
        d.extent == self.relative() && d.bytes == self.bytes
    }

    /// Whether the data file is newer than the descriptor that calls it at rest; both times are the export's.
    fn written_since(&self, facts: &Facts) -> bool {
        let time = |path: &str| {
            facts
                .known(ExportKey::File(path.to_owned()).key())
                .and_then(|v| v["modified_ns"].as_u64())
        };
        let at_rest = self
            .found(facts)
            .is_some_and(|d| d.at_rest && self.same(&d));
        let data = self.source_path.as_deref().and_then(time);
        at_rest && matches!((data, time(&self.path)), (Some(data), Some(own)) if data > own)
    }

    fn check_source(&self, facts: &Facts, plan: &mut Plan) -> Result<(), Refusal> {
        let Some(path) = &self.source_path else {
            return Ok(());
        };
        let refuse = |kind, cause: String, way: &str| {
            Err(Refusal::kind(
                kind,
                format!("unable to describe {path} as {}: {cause}; {way}", self.path),
            ))
        };
        match facts.get(ExportKey::File(path.clone()).key()) {
            Some(Fact::Known(v)) => {
                let bytes = v["bytes"].as_u64().unwrap_or_default();
                if v["kind"] != "file" {
                    return refuse(
                        ErrorKind::Refused,
                        "it is no file".into(),
                        "name the data file (-flat.vmdk)",
                    );
                }
                if v["text"].as_str().is_some_and(vmdk::is_descriptor) {
                    return refuse(
                        ErrorKind::Refused,
                        "it is itself a descriptor".into(),
                        "name the data file beside it (-flat.vmdk)",
                    );
                }
                if bytes != self.bytes {
                    return refuse(
                        ErrorKind::Refused,
                        format!("it has {bytes} bytes, not {}", self.bytes),
                        "read the disk's size in vCenter again; the file may still be growing or belong to another disk",
                    );
                }
                Ok(())
            }
            Some(Fact::Absent) if self.pending => {
                plan.unverified.push(format!(
                    "{}: an earlier task of this run makes it",
                    self.symbol
                ));
                Ok(())
            }
            Some(Fact::Absent) => refuse(
                ErrorKind::NotFound,
                "there is no such file".into(),
                "check that the VM lies on this datastore and that the export is mounted here",
            ),
            Some(Fact::Unreadable(why)) => refuse(
                ErrorKind::Permission,
                why.clone(),
                "run the task as a user who may read the export",
            ),
            None => Ok(()),
        }
    }
}

impl Module for Descriptor {
    fn needs(&self, _facts: &Facts) -> Vec<Key> {
        let mut k = vec![self.file(), self.dir()];
        k.extend(self.source_path.clone().map(|p| ExportKey::File(p).key()));
        k
    }

    fn holds(&self) -> Vec<Key> {
        vec![self.file(), self.dir()]
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        let mut plan = Plan::empty();
        let existing = facts.known(self.file());
        if let Some(Fact::Unreadable(why)) = facts.get(self.file()) {
            return Err(Refusal::kind(
                ErrorKind::Permission,
                format!(
                    "unable to look at {}: {why}; run the task as a user who may read and write the export",
                    self.path
                ),
            ));
        }
        let found = self.found(facts);
        if existing.is_some() && !found.as_ref().is_some_and(|d| d.ours) {
            return Err(Refusal::new(format!(
                "unable to touch {}: this module did not write it; move it away, or choose another disk number",
                self.path
            )));
        }
        if self.source.is_none() {
            if existing.is_some() {
                plan.push(
                    Step::new(Request::new("REMOVE", &self.path), "remove our descriptor; the data file stays")
                        .effect(Effect::Gone(self.file()))
                        .effect(Effect::Put(self.dir(), json!({"entries": self.entries(facts).iter().filter(|e| **e != self.name()).collect::<Vec<_>>()}))),
                );
                if self.entries(facts) == [self.name()] {
                    plan.push(
                        Step::new(
                            Request::new("RMDIR", &self.folder),
                            "remove the empty folder",
                        )
                        .tolerate(Tolerance::AlreadyDone("not empty"))
                        .effect(Effect::Gone(self.dir())),
                    );
                }
            }
            return Ok(plan);
        }
        self.check_source(facts, &mut plan)?;
        if found
            .as_ref()
            .is_some_and(|d| self.same(d) && (d.at_rest || !self.at_rest))
            && !(self.at_rest && self.written_since(facts))
        {
            return Ok(plan);
        }
        if facts.get(self.dir()).is_some_and(Fact::is_absent) {
            plan.push(
                Step::new(
                    Request::new("MKDIR", &self.folder),
                    "make the guest's folder on the export",
                )
                .undo(Request::new("RMDIR", &self.folder))
                .effect(Effect::Put(self.dir(), json!({"entries": []}))),
            );
        }
        let text = vmdk::print_descriptor(&self.relative(), self.bytes, self.at_rest);
        let mut entries = self.entries(facts);
        if !entries.contains(&self.name()) {
            entries.push(self.name());
            entries.sort();
        }
        let why = match &found {
            None => "describe VMware's data file for Proxmox".to_owned(),
            Some(d) if self.same(d) => "record that the data file is at rest".to_owned(),
            Some(_) => "point our descriptor to where the data file is now".to_owned(),
        };
        plan.push(
            Step::new(
                Request::new("WRITE", &self.path)
                    .param("data_file", self.symbol.clone())
                    .param("bytes", self.bytes)
                    .arg(
                        "text",
                        Arg::Shown {
                            symbol: "<descriptor>".into(),
                            value: json!(text),
                        },
                    )
                    .arg("replace", Arg::Lit(json!(found.is_some()))),
                why,
            )
            .effect(Effect::Put(
                self.file(),
                json!({"bytes": text.len(), "kind": "file", "text": text}),
            ))
            .effect(Effect::Put(self.dir(), json!({"entries": entries}))),
        );
        Ok(plan)
    }

    fn subject(&self, _facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        vec![self.file(), self.dir()]
    }

    fn view(&self, facts: &Facts) -> Value {
        match self.found(facts) {
            None if facts.known(self.file()).is_some() => json!({"descriptor": "(not ours)"}),
            None => json!({"descriptor": null}),
            Some(d) => {
                // An absent task does not know which data file is meant: the symbol stands for whichever it is.
                let as_asked = self.source.is_none() || self.pending || d.extent == self.relative();
                let source = if as_asked {
                    self.symbol.clone()
                } else {
                    "(another data file)".to_owned()
                };
                json!({"descriptor": {"path": self.path, "bytes": d.bytes, "data_file": source, "at_rest": d.at_rest}})
            }
        }
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let mut m = Map::new();
        let what = match (self.source.is_some(), o.changed) {
            (true, true) => "written",
            (true, false) => "is up to date",
            (false, true) => "removed",
            (false, false) => "is absent",
        };
        m.insert(
            "msg".into(),
            json!(format!("Descriptor {} {what}", self.path)),
        );
        m.insert("path".into(), json!(self.path));
        m.insert("volume".into(), json!(self.volume));
        m.insert(
            "bytes".into(),
            if self.source.is_some() {
                json!(self.bytes)
            } else {
                Value::Null
            },
        );
        let present = self.source.is_some();
        let found = match self.found(o.before) {
            None => "none",
            Some(d) if self.same(&d) => "same",
            Some(_) => "other",
        };
        m.insert("found".into(), json!(present.then_some(found)));
        m.insert(
            "written_since".into(),
            json!(present.then(|| self.written_since(o.before))),
        );
        m
    }

    fn title(&self) -> String {
        format!("descriptor {}", self.path)
    }
}
