//! SearchIndex: by uuid, inventory path, name, datastore path.
use super::Reply;
use super::fault::Fault;
use super::methods::Call;
use super::model::{Obj, State};
use super::xml::{mo, mo_id};
use serde_json::{Value, json};

impl Call<'_> {
    pub(super) fn search(&self, st: &State, method: &str) -> Result<Reply, Fault> {
        let a = self.args;
        let dc = mo_id(&a["datacenter"]);
        let within = |st: &State, id: &str| {
            let mut at = Some(id.to_string());
            while let Some(x) = at {
                if dc.is_none_or(|d| d == x) {
                    return true;
                }
                at = st.refs(&x, "parent").into_iter().next();
            }
            false
        };
        match method {
            "FindByUuid" | "FindAllByUuid" => {
                let uuid = a["uuid"].as_str().unwrap_or("").to_lowercase();
                let mut found: Vec<Value> = vec![];
                if a["vmSearch"] == json!(true) {
                    let instance = a["instanceUuid"] == json!(true);
                    found.extend(
                        st.vms
                            .values()
                            .filter(|v| {
                                if instance {
                                    v.instance_uuid == uuid
                                } else {
                                    v.uuid == uuid
                                }
                            })
                            .filter(|v| within(st, &v.moid))
                            .map(|v| mo("VirtualMachine", &v.moid)),
                    );
                } else {
                    let is = |o: &Obj| {
                        o.props
                            .get("summary")
                            .is_some_and(|s| s["hardware"]["uuid"] == uuid.as_str())
                    };
                    found.extend(
                        st.objs
                            .iter()
                            .filter(|(id, o)| o.ty == "HostSystem" && is(o) && within(st, id))
                            .map(|(id, _)| mo("HostSystem", id)),
                    );
                }
                Ok(match (method, found.first()) {
                    ("FindAllByUuid", _) => Reply::Many("ManagedEntity", found),
                    (_, Some(v)) => Reply::One("ManagedEntity", v.clone()),
                    _ => Reply::Void,
                })
            }
            "FindByInventoryPath" => {
                let mut at = st.content("rootFolder");
                for part in a["inventoryPath"]
                    .as_str()
                    .unwrap_or("")
                    .split('/')
                    .filter(|p| !p.is_empty())
                {
                    let Some(next) = self.child(st, &at, part) else {
                        return Ok(Reply::Void);
                    };
                    at = next;
                }
                Ok(st
                    .objs
                    .get(&at)
                    .map_or(Reply::Void, |o| Reply::One("ManagedEntity", mo(&o.ty, &at))))
            }
            "FindChild" => {
                let found = self.child(
                    st,
                    mo_id(&a["entity"]).unwrap_or(""),
                    a["name"].as_str().unwrap_or(""),
                );
                Ok(found
                    .and_then(|id| {
                        st.objs
                            .get(&id)
                            .map(|o| Reply::One("ManagedEntity", mo(&o.ty, &id)))
                    })
                    .unwrap_or(Reply::Void))
            }
            "FindByDatastorePath" => {
                let path = a["path"].as_str().unwrap_or("");
                let has = |o: &Obj| {
                    o.props
                        .get("config")
                        .is_some_and(|c| c["files"]["vmPathName"] == path)
                };
                let id = st
                    .vms
                    .keys()
                    .find(|id| st.objs.get(*id).is_some_and(has) && within(st, id));
                Ok(id.map_or(Reply::Void, |id| {
                    Reply::One("VirtualMachine", mo("VirtualMachine", id))
                }))
            }
            _ => Err(self.unknown()),
        }
    }

    fn child(&self, st: &State, id: &str, name: &str) -> Option<String> {
        let props = [
            "childEntity",
            "vmFolder",
            "hostFolder",
            "datastoreFolder",
            "networkFolder",
            "host",
            "resourcePool",
        ];
        props.iter().flat_map(|p| st.refs(id, p)).find(|c| {
            st.objs
                .get(c)
                .and_then(|o| o.props.get("name"))
                .is_some_and(|n| n == name)
        })
    }
}
