//! `pve_ha_resource`: whether HA keeps a guest up, and how.

use crate::look::{self, Look, Stop, Think};
use crate::privileges;
use crate::pve_common::{self as common, Target, is_running, text};
use crate::{Def, Side, pve_write};
use plan::{Effect, ErrorKind, Fact, Facts, Key, Module, Outcome, Plan, Refusal, Request, Step};
use pve::keys::PveKey;
use serde_json::{Map, Value, json};
use spec::shared::{RETURNS, RETURNS_WRITING};
use spec::{ArgError, Args, Kind, ModuleSpec, Opt, Ret};

/// The module.
pub const DEF: Def = Def {
    spec: &SPEC,
    side: Side::Pve,
    make,
};

const OPTIONS: &[Opt] = &[
    Opt::int("vmid", "Id of the QEMU guest.").required(),
    Opt::str("state", "Whether HA manages the guest. V(absent) leaves the guest as it is, running or not.")
        .choices(&["present", "absent"])
        .default("\"present\""),
    Opt::str(
        "ha_state",
        "What HA keeps it in. With V(started), HA starts a guest that is off; so does a new resource without this option, unless the guest is off, when it is V(stopped).",
    )
    .choices(&["started", "stopped", "disabled", "ignored"]),
    Opt::int("max_restart", "How often a failed start is tried on the same node; the server's default is 1.").range(0, 1000),
    Opt::int("max_relocate", "How often a failed start is tried on another node; the server's default is 1.").range(0, 1000),
    Opt::bool("failback", "Whether it moves back to the node with the highest priority; Proxmox VE 9 and later, where the default is true."),
    Opt::str("group", "HA group; Proxmox VE 8 only, since groups became rules in 9."),
    Opt::str("comment", "A comment."),
];

/// Argument table.
pub static SPEC: ModuleSpec = ModuleSpec {
    name: "pve_ha_resource",
    short: "Manage whether HA keeps a Proxmox VE guest up",
    doc: &[
        "Puts a QEMU guest under HA management, changes how it is managed, and takes it out again.",
        "Options that are not given are left as they are.",
    ],
    options: &[OPTIONS, common::GUARDS, common::SIGN_IN],
    required_one_of: &[common::SIGN_IN_ONE_OF],
    required_together: &[common::SIGN_IN_TOGETHER],
    returns: &[
        &[
            Ret::new(
                "sid",
                Kind::Str,
                "success",
                "Id of the resource, such as V(vm:20042).",
            ),
            Ret::new(
                "resource",
                Kind::Dict,
                "success",
                "The resource as it is now, or null.",
            ),
        ],
        RETURNS,
        RETURNS_WRITING,
    ],
    examples: r#"- name: Keep it up
  trueplan.virt.pve_ha_resource:
    api_host: pve1.example.com
    api_user: deploy@pve
    api_token_id: ansible
    api_token_secret: "{{ token }}"
    vmid: 20042
    ha_state: started
    max_restart: 2
"#,
    privileges: &[
        ("C(/)", "C(Sys.Audit)", "reading what HA manages"),
        ("C(/)", "C(Sys.Console)", "changing it"),
        privileges::READS,
    ],
    action_groups: &["pve", "proxmox"],
    ..ModuleSpec::EMPTY
};

/// Options of the resource, by their names in the API, with the server's defaults.
const NAMES: &[(&str, Option<&str>)] = &[
    ("state", Some("started")),
    ("max_restart", Some("1")),
    ("max_relocate", Some("1")),
    ("failback", Some("1")),
    ("group", None),
    ("comment", None),
];

struct Resource {
    vmid: u32,
    absent: bool,
    wanted: Vec<(&'static str, String)>,
    guard: Option<String>,
}

fn make(args: &Args) -> Result<Box<dyn Module>, Vec<ArgError>> {
    let mut errors = common::sign_in_errors(args);
    let vmid = common::vmid_arg(args, "vmid", &mut errors);
    let Some(vmid) = vmid.filter(|_| errors.is_empty()) else {
        return Err(errors);
    };
    let wanted = NAMES.iter().filter_map(|(n, _)| {
        let value = match *n {
            "state" => args.str("ha_state").map(str::to_owned),
            "failback" => args.bool(n).map(|b| u8::from(b).to_string()),
            "group" | "comment" => args.str(n).map(str::to_owned),
            _ => args.int(n).map(|i| i.to_string()),
        };
        Some((*n, value?))
    });
    Ok(Box::new(Resource {
        vmid,
        absent: args.str("state") == Some("absent"),
        wanted: wanted.collect(),
        guard: args.str("guard_uuid").map(str::to_owned),
    }))
}

/// `enabled` is what `started` was called (source: pve-ha-manager, PVE/HA/Resources.pm).
fn meant(name: &str, value: &str) -> String {
    match (name, value) {
        ("state", "enabled") => "started".to_owned(),
        _ => value.trim_end().to_owned(),
    }
}

impl Resource {
    fn sid(&self) -> String {
        format!("vm:{}", self.vmid)
    }

    fn key(&self) -> PveKey {
        PveKey::HaResource(self.sid())
    }

    fn verb(&self) -> &'static str {
        if self.absent {
            "take out of HA"
        } else {
            "put under HA"
        }
    }

    fn unable(&self, kind: ErrorKind, why: impl std::fmt::Display) -> Stop {
        Refusal::kind(
            kind,
            format!("unable to {} guest {}: {why}", self.verb(), self.vmid),
        )
        .into()
    }

    fn permitted(&self, look: &Look<'_>, request: &Request) -> Result<(), Stop> {
        let what = format!("{} guest {}", self.verb(), self.vmid);
        pve_write::permitted(look, &Map::new(), request, &what)
    }

    /// The guest's status with HA's part as it will be: later tasks wait otherwise for a managed guest.
    fn managed(&self, look: &Look<'_>, managed: bool) -> Result<Option<Effect>, Stop> {
        let key = PveKey::GuestStatus(self.vmid);
        let known = look.aux(&key, "whether it runs")?.and_then(Fact::known);
        Ok(known.map(|s| {
            let mut s = s.clone();
            s["ha"] = json!({"managed": u8::from(managed)});
            Effect::Put(key.key(), s)
        }))
    }
}

impl Think for Resource {
    fn think(&self, look: &Look<'_>) -> Result<Plan, Stop> {
        let mut plan = Plan::empty();
        let now = match look.fact(&self.key())? {
            Fact::Known(v) => Some(v),
            Fact::Absent => None,
            Fact::Unreadable(why) => {
                return Err(self.unable(
                    ErrorKind::Permission,
                    format_args!("{why}; give Sys.Audit on /"),
                ));
            }
        };
        if self.absent {
            let Some(_) = now else { return Ok(plan) };
            if self.guard.is_some()
                && let Some(g) = common::find(look, &Target::Vmid(self.vmid), self.verb())?
            {
                common::check_guard(&g, self.guard.as_deref(), self.verb())?;
            }
            let path = format!("/cluster/ha/resources/{}", self.sid());
            let request = Request::new("DELETE", path);
            self.permitted(look, &request)?;
            let mut step = Step::new(
                request,
                format!("take guest {} out of HA; it stays as it is", self.vmid),
            )
            .effect(Effect::Gone(self.key().key()));
            if let Some(e) = self.managed(look, false)? {
                step = step.effect(e);
            }
            plan.push(step);
            return Ok(plan);
        }
        let guest = common::find_existing(look, &Target::Vmid(self.vmid), self.verb())?;
        common::check_guard(&guest, self.guard.as_deref(), self.verb())?;
        let mut wanted = self.wanted.clone();
        if now.is_none() && !wanted.iter().any(|(n, _)| *n == "state") {
            let status = common::status(look, self.vmid, self.verb())?;
            let state = if is_running(status) {
                "started"
            } else {
                "stopped"
            };
            wanted.push(("state", state.to_owned()));
        }
        let has = |n: &str| {
            let default = NAMES.iter().find(|(x, _)| *x == n).and_then(|(_, d)| *d);
            let stored = now
                .and_then(|r| r.get(n))
                .filter(|v| !v.is_null())
                .map(text);
            stored.or_else(|| now.and(default.map(str::to_owned)))
        };
        wanted.retain(|(n, v)| has(n).is_none_or(|h| meant(n, &h) != meant(n, v)));
        if now.is_some() && wanted.is_empty() {
            return Ok(plan);
        }
        let mut after = now.cloned().unwrap_or_else(|| json!({"sid": self.sid()}));
        let mut request = match now {
            None => Request::new("POST", "/cluster/ha/resources").param("sid", self.sid()),
            Some(r) => {
                let request = Request::new("PUT", format!("/cluster/ha/resources/{}", self.sid()));
                match r["digest"].as_str().filter(|d| !d.is_empty()) {
                    Some(d) => request.arg(
                        "digest",
                        plan::Arg::Shown {
                            symbol: "<digest as read>".into(),
                            value: json!(d),
                        },
                    ),
                    None => request,
                }
            }
        };
        for (n, v) in &wanted {
            request = request.param(n, v.clone());
            after[*n] = v.parse::<u64>().map_or_else(|_| json!(v), |i| json!(i));
        }
        after["digest"] = json!("");
        self.permitted(look, &request)?;
        let to = wanted.iter().find(|(n, _)| *n == "state");
        let to = to.map(|(_, v)| v.as_str());
        let running = || Ok::<_, Stop>(is_running(common::status(look, self.vmid, self.verb())?));
        let starts = to == Some("started") && !running()?;
        let stops = matches!(to, Some("stopped" | "disabled")) && running()?;
        let why = format!(
            "{}{}",
            match now {
                None => format!("put guest {} under HA", self.vmid),
                Some(_) => format!("change how HA keeps guest {}", self.vmid),
            },
            match (starts, stops) {
                (true, _) => "; HA starts it",
                (_, true) => "; HA stops it",
                _ => "",
            }
        );
        let mut step = Step::new(request, why).effect(Effect::Put(self.key().key(), after));
        if let (None, Some(e)) = (now, self.managed(look, true)?) {
            step = step.effect(e);
        }
        plan.push(if stops { step.disruptive() } else { step });
        Ok(plan)
    }
}

impl Module for Resource {
    fn needs(&self, facts: &Facts) -> Vec<Key> {
        look::needs(self, facts)
    }

    fn holds(&self) -> Vec<Key> {
        vec![self.key().key()]
    }

    fn plan(&self, facts: &Facts) -> Result<Plan, Refusal> {
        look::plan(self, facts)
    }

    fn subject(&self, _facts: &Facts, _answers: &[Value]) -> Vec<Key> {
        vec![self.key().key()]
    }

    fn view(&self, facts: &Facts) -> Value {
        let Some(r) = facts.known(self.key().key()) else {
            return Value::Null;
        };
        let mut shown = Map::new();
        for (n, default) in NAMES {
            let value = r.get(*n).filter(|v| !v.is_null()).map(text);
            if let Some(v) = value.or_else(|| default.map(str::to_owned)) {
                shown.insert((*n).to_owned(), json!(meant(n, &v)));
            }
        }
        Value::Object(shown)
    }

    fn result(&self, o: &Outcome<'_>) -> Map<String, Value> {
        let msg = match (self.absent, o.changed) {
            (true, true) => "is taken out of HA",
            (true, false) => "is not under HA",
            (false, true) => "is under HA as asked",
            (false, false) => "is under HA as asked already",
        };
        let mut m = Map::new();
        m.insert("msg".into(), json!(format!("Guest {} {msg}", self.vmid)));
        m.insert("sid".into(), json!(self.sid()));
        m.insert("resource".into(), self.view(o.after));
        m
    }

    fn title(&self) -> String {
        format!("HA resource {}", self.sid())
    }
}
