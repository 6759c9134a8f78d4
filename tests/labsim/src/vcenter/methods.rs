//! The methods, one match over receiver type and name.
use super::collector::{self, Ctx, Read};
use super::fault::Fault;
use super::model::{Collector, Obj, Session, State, now};
use super::render::refresh_vm;
use super::types::Types;
use super::xml::{mo, mo_id, mo_of};
use super::{Inner, Reply, drop_session, expire, power, relocate};
use crate::http::Kind;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// How the request log counts a method: sign-in, views, filters, checks are not writes.
pub fn kind(method: &str) -> Kind {
    match method {
        "Login" | "LoginByToken" | "Logout" | "SessionIsActive" => Kind::Auth,
        "RetrieveServiceContent"
        | "CurrentTime"
        | "Fetch"
        | "DestroyView"
        | "CreateFilter"
        | "DestroyPropertyFilter"
        | "CancelRetrievePropertiesEx"
        | "CancelWaitForUpdates"
        | "CheckForUpdates"
        | "CreatePropertyCollector"
        | "DestroyPropertyCollector"
        | "CheckRelocate_Task"
        | "PlaceVm"
        | "CreateCollectorForTasks"
        | "CreateContainerView"
        | "CreateListView"
        | "CreateInventoryView" => Kind::Read,
        m if [
            "Retrieve",
            "Continue",
            "Find",
            "WaitFor",
            "Query",
            "Recommend",
            "Read",
            "Refresh",
        ]
        .iter()
        .any(|p| m.starts_with(p)) =>
        {
            Kind::Read
        }
        _ => Kind::Write,
    }
}

// Which privilege a method needs, for NoPermission.
// Source: docs/vsphere-facts.md section 10.
fn privilege(method: &str) -> &'static str {
    match method {
        "RelocateVM_Task" => "Resource.HotMigrate",
        "PowerOffVM_Task" | "ShutdownGuest" => "VirtualMachine.Interact.PowerOff",
        "PowerOnVM_Task" => "VirtualMachine.Interact.PowerOn",
        "SuspendVM_Task" => "VirtualMachine.Interact.Suspend",
        "ResetVM_Task" | "RebootGuest" => "VirtualMachine.Interact.Reset",
        "ReconfigVM_Task" => "VirtualMachine.Config.Annotation",
        "AnswerVM" => "VirtualMachine.Interact.AnswerQuestion",
        "CreateSnapshot_Task" => "VirtualMachine.State.CreateSnapshot",
        "RemoveSnapshot_Task" | "RemoveAllSnapshots_Task" => "VirtualMachine.State.RemoveSnapshot",
        "UnregisterVM" => "VirtualMachine.Inventory.Unregister",
        "Destroy_Task" => "VirtualMachine.Inventory.Delete",
        "CancelTask" => "Global.CancelTask",
        _ => "System.Read",
    }
}

/// One call.
pub struct Call<'a> {
    /// The vCenter.
    pub inner: &'a Arc<Inner>,
    /// Method.
    pub method: &'a str,
    /// Receiver's type as the client says it.
    pub ty: &'a str,
    /// Receiver's id.
    pub id: &'a str,
    /// Arguments, typed.
    pub args: &'a Value,
    /// Session cookie, empty when there is none.
    pub cookie: &'a str,
    /// Version of the SOAPAction.
    pub version: Vec<u32>,
}

fn task(v: Value) -> Reply {
    Reply::One("Task", v)
}

impl Call<'_> {
    pub(super) fn session<'s>(&self, st: &'s mut State) -> Result<&'s mut Session, Fault> {
        st.sessions
            .get_mut(self.cookie)
            .ok_or_else(Fault::not_authenticated)
    }

    pub(super) fn ctx<'s>(&self, st: &'s State) -> Ctx<'s> {
        Ctx {
            session: st.sessions.get(self.cookie),
            version: self.version.clone(),
        }
    }

    /// Runs it; a sign-in fills `set_cookie`.
    ///
    /// # Errors
    /// The SOAP fault that the client gets.
    pub fn run(&self, set_cookie: &mut Option<String>) -> Result<Reply, Fault> {
        let mut st = self.inner.lock();
        expire(&mut st);
        match (self.method, self.id) {
            ("RetrieveServiceContent", "ServiceInstance") => {
                let content = st
                    .objs
                    .get("ServiceInstance")
                    .and_then(|o| o.props.get("content"))
                    .cloned();
                return Ok(Reply::One("ServiceContent", content.unwrap_or_default()));
            }
            ("Login", id) if id == st.content("sessionManager") => {
                return self.login(&mut st, set_cookie);
            }
            // What may be read without signing in.
            ("Fetch", id) if id == "ServiceInstance" || id == st.content("sessionManager") => {
                return self.fetch(&st);
            }
            _ => {}
        }
        let session = self.session(&mut st)?;
        session.last = Instant::now();
        session.calls += 1;
        let (user, denied) = (
            session.user.clone(),
            session.read_only && kind(self.method) == Kind::Write
                || session.deny.iter().any(|d| d == self.method),
        );
        let o = st
            .objs
            .get(self.id)
            .filter(|o| Types::get().is_a(&o.ty, self.ty) || Types::get().is_a(self.ty, &o.ty));
        let ty = match o {
            Some(o) => o.ty.clone(),
            // Collectors beside the default one are kept with the session.
            None if st
                .sessions
                .get(self.cookie)
                .is_some_and(|s| s.collectors.contains_key(self.id)) =>
            {
                "PropertyCollector".into()
            }
            None => return Err(Fault::not_found(self.ty, self.id)),
        };
        if denied {
            return Err(Fault::no_permission(
                mo(&ty, self.id),
                privilege(self.method),
            ));
        }
        if ty == "VirtualMachine"
            && st
                .vms
                .get(self.id)
                .is_some_and(|v| v.disabled.iter().any(|d| d == self.method))
        {
            return Err(Fault::new(
                "MethodDisabled",
                "The method is disabled by 'com.example.backup'",
                json!({ "source": "com.example.backup" }),
            ));
        }
        match ty.as_str() {
            "VirtualMachine" => self.vm(&mut st, &user),
            "VirtualMachineSnapshot" if self.method == "RemoveSnapshot_Task" => {
                self.remove_snapshot(&mut st, &user)
            }
            "Task" if self.method == "CancelTask" => self.cancel_task(&mut st),
            "PropertyCollector" => self.collector(st),
            _ => self.other(&mut st, &ty),
        }
    }

    fn login(&self, st: &mut State, set_cookie: &mut Option<String>) -> Result<Reply, Fault> {
        let (name, password) = (
            self.args["userName"].as_str().unwrap_or(""),
            self.args["password"].as_str().unwrap_or(""),
        );
        let world = self
            .inner
            .world
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let user = super::build::list(&world, "users")
            .iter()
            .find(|u| {
                u["name"]
                    .as_str()
                    .is_some_and(|n| n.eq_ignore_ascii_case(name))
                    && u["password"] == password
            })
            .cloned();
        let user = user.ok_or_else(|| {
            Fault::new(
                "InvalidLogin",
                "Cannot complete login due to an incorrect user name or password.",
                json!({}),
            )
        })?;
        let cookie = format!(
            "{:016x}{:016x}{:08x}",
            st.random(),
            st.random(),
            st.random() as u32
        );
        let session = Session {
            key: format!("52{:014x}-{:016x}", st.random() >> 8, st.random()),
            user: name.to_string(),
            deny: super::build::list(&user, "deny")
                .iter()
                .filter_map(Value::as_str)
                .map(String::from)
                .collect(),
            read_only: user["read_only"] == json!(true),
            last: Instant::now(),
            login_time: now(),
            owned: vec![],
            tokens: HashMap::new(),
            collectors: HashMap::from([(st.content("propertyCollector"), Collector::default())]),
            calls: 1,
        };
        let v = collector::session_value(&session);
        st.sessions.insert(cookie.clone(), session);
        *set_cookie = Some(cookie);
        Ok(Reply::One("UserSession", v))
    }

    /// pyVmomi's private way to read one property.
    pub(super) fn fetch(&self, st: &State) -> Result<Reply, Fault> {
        let o = st
            .objs
            .get(self.id)
            .ok_or_else(|| Fault::not_found(self.ty, self.id))?;
        match collector::read(
            st,
            &self.ctx(st),
            self.id,
            o,
            self.args["prop"].as_str().unwrap_or(""),
        )? {
            Read::Value(v) => Ok(Reply::Boxed(v)),
            Read::Absent => Ok(Reply::Void),
            Read::Denied(f) => Err(f),
        }
    }

    fn vm(&self, st: &mut State, user: &str) -> Result<Reply, Fault> {
        let vm = st
            .vms
            .get(self.id)
            .cloned()
            .ok_or_else(|| Fault::not_found("VirtualMachine", self.id))?;
        let method = self.method;
        if method == "Fetch" {
            return self.fetch(st);
        }
        // One operation at a time. Source: docs/vsphere-facts.md section 3, "TaskInProgress".
        if !["AnswerVM", "RefreshStorageInfo"].contains(&method)
            && let Some(t) = st
                .active_task(self.id)
                .filter(|t| t.method != "CheckRelocate_Task")
        {
            return Err(Fault::in_progress(&t.id));
        }
        Ok(match method {
            // Between hosts and datastores only a vCenter moves.
            "RelocateVM_Task" if st.content("vmProvisioningChecker").is_empty() => {
                let msg = "The operation is not supported on the object.";
                return Err(Fault::new("NotSupported", msg, json!({})));
            }
            "RelocateVM_Task" => {
                let target = relocate::target(st, &vm, &self.args["spec"])?;
                task(relocate::start(self.inner, st, &vm, target, user))
            }
            "PowerOnVM_Task" | "PowerOffVM_Task" | "SuspendVM_Task" | "ResetVM_Task" => {
                task(power::power_task(self.inner, st, &vm, method, user))
            }
            "ShutdownGuest" | "RebootGuest" => {
                power::guest(self.inner, st, &vm, method == "RebootGuest")?;
                Reply::Void
            }
            "ReconfigVM_Task" => task(power::reconfigure(
                self.inner,
                st,
                &vm,
                &self.args["spec"],
                user,
            )),
            "Rename_Task" => {
                let spec = json!({ "name": self.args["newName"] });
                task(power::reconfigure(self.inner, st, &vm, &spec, user))
            }
            "CreateSnapshot_Task" => task(power::create_snapshot(
                self.inner,
                st,
                &vm,
                self.args,
                user,
                self.inner.seed,
            )),
            "RemoveAllSnapshots_Task" => task(power::remove_snapshots(
                self.inner, st, &vm, None, method, user,
            )),
            "UnregisterVM" => {
                power::unregister(st, &vm)?;
                self.inner.cond.notify_all();
                Reply::Void
            }
            "Destroy_Task" => task(power::destroy(self.inner, st, &vm, user)),
            "AnswerVM" => {
                let n = self.args["answerChoice"]
                    .as_str()
                    .and_then(|s| s.parse::<usize>().ok());
                match &vm.question {
                    Some((_, choices))
                        if self.args["questionId"] == "q-1"
                            && n.is_some_and(|n| n < choices.len()) => {}
                    _ => return Err(Fault::invalid_argument("questionId")),
                }
                if let Some(v) = st.vms.get_mut(self.id) {
                    v.question = None;
                }
                refresh_vm(st, self.id);
                self.inner.cond.notify_all();
                Reply::Void
            }
            "RefreshStorageInfo" => {
                refresh_vm(st, self.id);
                Reply::Void
            }
            "MarkAsTemplate" | "MarkAsVirtualMachine" => {
                if vm.power != "poweredOff" {
                    return Err(Fault::power_state("poweredOff", &vm.power));
                }
                if let Some(v) = st.vms.get_mut(self.id) {
                    v.template = method == "MarkAsTemplate";
                    let (old, new) = if v.template {
                        (".vmx", ".vmtx")
                    } else {
                        (".vmtx", ".vmx")
                    };
                    v.aux
                        .iter_mut()
                        .filter(|a| *a == old)
                        .for_each(|a| *a = new.into());
                    if let Some(p) = mo_id(&self.args["pool"]) {
                        v.pool = p.into();
                    }
                    let (after, root) = (
                        v.clone(),
                        st.stores
                            .get(&vm.ds)
                            .map(|s| s.root.clone())
                            .unwrap_or_default(),
                    );
                    let _ =
                        std::fs::remove_file(root.join(&vm.dir).join(format!("{}{old}", vm.stem)));
                    let _ = super::files::write_texts(st, &after);
                }
                refresh_vm(st, self.id);
                super::render::relink(st);
                Reply::Void
            }
            _ => return Err(self.unknown()),
        })
    }

    pub(super) fn unknown(&self) -> Fault {
        Fault::new(
            "MethodNotFound",
            "",
            json!({ "receiver": mo(self.ty, self.id), "method": self.method }),
        )
    }

    fn remove_snapshot(&self, st: &mut State, user: &str) -> Result<Reply, Fault> {
        let owner = st
            .objs
            .get(self.id)
            .and_then(|o| o.props.get("vm"))
            .and_then(mo_id)
            .map(String::from)
            .unwrap_or_default();
        let vm = st
            .vms
            .get(&owner)
            .cloned()
            .ok_or_else(|| Fault::not_found("VirtualMachineSnapshot", self.id))?;
        if let Some(t) = st.active_task(&owner) {
            return Err(Fault::in_progress(&t.id));
        }
        let children = self.args["removeChildren"] == json!(true);
        Ok(task(power::remove_snapshots(
            self.inner,
            st,
            &vm,
            Some((self.id, children)),
            self.method,
            user,
        )))
    }

    fn cancel_task(&self, st: &mut State) -> Result<Reply, Fault> {
        let t = st
            .tasks
            .iter_mut()
            .find(|t| t.id == self.id)
            .ok_or_else(|| Fault::not_found("Task", self.id))?;
        if !t.active() {
            return Err(Fault::new(
                "InvalidState",
                "The operation is not allowed in the current state.",
                json!({}),
            ));
        }
        if !t.cancelable {
            return Err(Fault::new(
                "NotSupported",
                "The operation is not supported on the object.",
                json!({}),
            ));
        }
        t.cancelled = true;
        self.inner.cond.notify_all();
        Ok(Reply::Void)
    }

    /// Everything that is none of the larger families.
    fn other(&self, st: &mut State, ty: &str) -> Result<Reply, Fault> {
        let a = self.args;
        match (ty, self.method) {
            (_, "Fetch") => self.fetch(st),
            ("ServiceInstance", "CurrentTime") => Ok(Reply::One("datetime", json!(now()))),
            ("SessionManager", "Logout") => {
                drop_session(st, self.cookie);
                self.inner.cond.notify_all();
                Ok(Reply::Void)
            }
            ("SessionManager", "SessionIsActive") => {
                let found = st
                    .sessions
                    .values()
                    .any(|s| a["sessionID"] == s.key.as_str() && a["userName"] == s.user.as_str());
                Ok(Reply::One("bool", json!(found)))
            }
            ("ViewManager", "CreateContainerView") => {
                let (cty, cid) = mo_of(&a["container"]).unwrap_or(("", ""));
                let container = st.objs.get(cid).ok_or_else(|| Fault::not_found(cty, cid))?;
                let t = Types::get();
                if ![
                    "Folder",
                    "Datacenter",
                    "ComputeResource",
                    "ResourcePool",
                    "HostSystem",
                ]
                .iter()
                .any(|b| t.is_a(&container.ty, b))
                {
                    return Err(Fault::invalid_argument("container"));
                }
                let types = super::build::list(a, "type");
                if types
                    .iter()
                    .any(|x| !t.is_managed(x.as_str().unwrap_or("")))
                {
                    return Err(Fault::invalid_argument("type"));
                }
                let props = json!({ "container": a["container"], "type": types, "recursive": a["recursive"] });
                self.own(st, "ContainerView", "session", props)
            }
            ("ViewManager", "CreateListView") => self.own(
                st,
                "ListView",
                "session",
                json!({ "view": super::build::list(a, "obj") }),
            ),
            (_, "DestroyView") if Types::get().is_a(ty, "View") || ty == "ListView" => {
                self.disown(st)
            }
            (_, "DestroyPropertyFilter") if ty == "PropertyFilter" => {
                let id = self.id.to_string();
                self.session(st)?
                    .collectors
                    .values_mut()
                    .for_each(|c| c.filters.retain(|(f, _)| *f != id));
                self.disown(st)
            }
            ("Datastore", "RefreshDatastore") => {
                super::render::relink(st);
                Ok(Reply::Void)
            }
            ("ScheduledTaskManager" | "ScheduledTask", _) => self.schedule(st),
            ("SearchIndex", m) => self.search(st, m),
            ("StorageResourceManager", "RecommendDatastores") => {
                let found = super::pods::recommend(st, &a["storageSpec"])?;
                Ok(Reply::One("StoragePlacementResult", found))
            }
            ("VirtualMachineProvisioningChecker", "CheckRelocate_Task") => {
                let id = mo_id(&a["vm"]).unwrap_or("");
                let vm = st
                    .vms
                    .get(id)
                    .cloned()
                    .ok_or_else(|| Fault::not_found("VirtualMachine", id))?;
                let target = relocate::target(st, &vm, &a["spec"])?;
                let user = self.session(st)?.user.clone();
                Ok(task(relocate::start_check(
                    self.inner, st, &vm, &target, &user,
                )))
            }
            _ => Err(self.unknown()),
        }
    }

    pub(super) fn own(
        &self,
        st: &mut State,
        ty: &'static str,
        prefix: &str,
        props: Value,
    ) -> Result<Reply, Fault> {
        let key = self.session(st)?.key.clone();
        let id = format!("{prefix}[{key}]{}", st.new_id(""));
        let props = props.as_object().cloned().unwrap_or_else(Map::new);
        st.objs.insert(
            id.clone(),
            Obj {
                ty: ty.into(),
                props,
            },
        );
        self.session(st)?.owned.push(id.clone());
        Ok(Reply::One(ty, mo(ty, &id)))
    }

    fn disown(&self, st: &mut State) -> Result<Reply, Fault> {
        let id = self.id.to_string();
        self.session(st)?.owned.retain(|o| *o != id);
        st.objs.remove(self.id);
        Ok(Reply::Void)
    }
}
