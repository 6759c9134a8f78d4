//! Where things are: folders, datacenters, compute resources and hosts, from one query.

use crate::collect::{Found, Spec, moid_of};
use serde_json::{Value, json};
use std::collections::HashMap;
use vsphere::path::{decode_name, same_name};
use vsphere::value::text;

/// A step in the tree.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) ty: String,
    /// As the server spells it.
    pub(crate) name: String,
    pub(crate) parent: Option<String>,
}

/// The tree, without the root folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(HashMap<String, Node>);

/// The types that make it.
pub(crate) fn specs() -> Vec<Spec> {
    ["Folder", "Datacenter", "ComputeResource", "HostSystem"]
        .map(|t| Spec::new(t, &["name", "parent"]))
        .to_vec()
}

impl Tree {
    /// Adds an object if it belongs into the tree.
    pub(crate) fn add(&mut self, f: &Found, props: &Value) {
        self.0.insert(
            f.moid.clone(),
            Node {
                ty: f.ty.clone(),
                name: text(props, "name").unwrap_or("").to_owned(),
                parent: moid_of(props, "parent").filter(|p| !p.is_empty()),
            },
        );
    }

    pub(crate) fn get(&self, moid: &str) -> Option<&Node> {
        self.0.get(moid)
    }

    /// The nodes from that one up, without the root folder.
    pub(crate) fn chain<'a>(&'a self, moid: &str) -> Vec<(String, &'a Node)> {
        let mut out = vec![];
        let mut at = moid.to_owned();
        // Bounded, should a server send a circle.
        while let Some(n) = self.0.get(&at) {
            // The root folder of a vCenter has no parent; a view from it does not contain it, but a view from elsewhere might.
            let Some(parent) = &n.parent else {
                if n.ty != "Folder" {
                    out.push((at, n));
                }
                break;
            };
            out.push((at.clone(), n));
            if out.len() > 64 {
                break;
            }
            at = parent.clone();
        }
        out
    }

    /// The inventory path of a folder, names as the server spells them: `/DC0/vm/web`; `/` for the root.
    pub(crate) fn path(&self, folder: &str) -> String {
        let mut names: Vec<&str> = self
            .chain(folder)
            .into_iter()
            .map(|(_, n)| n.name.as_str())
            .collect();
        names.reverse();
        format!("/{}", names.join("/"))
    }

    /// `{moid, name}` of the datacenter that holds it, or null.
    pub(crate) fn datacenter(&self, moid: &str) -> Value {
        let chain = self.chain(moid);
        chain.iter().find(|(_, n)| n.ty == "Datacenter").map_or(
            Value::Null,
            |(m, n)| json!({"moid": m, "name": decode_name(&n.name)}),
        )
    }

    /// `{moid, name}` of a node, or null.
    pub(crate) fn named(&self, moid: Option<&str>) -> Value {
        moid.and_then(|m| {
            self.get(m)
                .map(|n| json!({"moid": m, "name": decode_name(&n.name)}))
        })
        .unwrap_or(Value::Null)
    }

    /// All of a type, by name.
    pub(crate) fn all(&self, is: impl Fn(&str) -> bool) -> Vec<(&str, &Node)> {
        let mut out: Vec<(&str, &Node)> = self
            .0
            .iter()
            .filter(|(_, n)| is(&n.ty))
            .map(|(m, n)| (m.as_str(), n))
            .collect();
        out.sort_by(|a, b| (&a.1.name, a.0).cmp(&(&b.1.name, b.0)));
        out
    }

    /// The moids of the datacenters of that name (or moid).
    pub(crate) fn datacenters(&self, name: &str) -> Vec<String> {
        self.all(|t| t == "Datacenter")
            .into_iter()
            .filter(|(m, n)| same_name(&n.name, name) || *m == name)
            .map(|(m, _)| m.to_owned())
            .collect()
    }

    /// The node at an inventory path such as `/DC0/vm/web` or `DC0/host/cluster`, as `Type:moid`.
    pub(crate) fn find(&self, path: &str) -> Option<String> {
        let wanted = path.trim_matches('/');
        self.0
            .iter()
            .find(|(m, _)| {
                let p = self.path(m);
                let p = p.trim_matches('/');
                p == wanted || p.split('/').map(decode_name).collect::<Vec<_>>().join("/") == wanted
            })
            .map(|(m, n)| format!("{}:{m}", n.ty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stop_below_the_root_whatever_its_name() {
        let mut t = Tree::default();
        for (ty, m, name, parent) in [
            ("Datacenter", "dc-1", "DC%2f0", "group-d1"),
            ("Folder", "group-v2", "vm", "dc-1"),
            // A folder of that name stops the peer (docs/peers-vsphere.md V4.7).
            ("Folder", "group-v3", "Datacenters", "group-v2"),
        ] {
            let f = Found {
                ty: ty.into(),
                moid: m.into(),
                props: vec![],
                missing: vec![],
            };
            t.add(
                &f,
                &json!({"name": name, "parent": format!("vim.Folder:{parent}")}),
            );
        }
        assert_eq!(t.path("group-v3"), "/DC%2f0/vm/Datacenters");
        assert_eq!(
            t.datacenter("group-v3"),
            json!({"moid": "dc-1", "name": "DC/0"})
        );
        assert_eq!(t.find("/DC%2f0/vm").as_deref(), Some("Folder:group-v2"));
        assert_eq!(
            t.find("DC%2f0/vm/Datacenters/").as_deref(),
            Some("Folder:group-v3")
        );
        assert_eq!(t.datacenters("DC/0"), ["dc-1"]);
        assert_eq!(t.path("group-d1"), "/");
    }
}
