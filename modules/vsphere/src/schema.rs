//! What the vSphere API calls its types: embedded as text, parsed on first use.
//!
//! `schema.txt` is made from `tests/fixtures/vsphere/vim-types.json` by the test `schema_txt_is_current` (run it with
//! `UPDATE_EXPECT=1` to write it anew). One line a type: `D Name vim.Name Base prop:type…` for data, `M` for managed objects,
//! `E Name` for enumerations and `+ Method result param:type…` for a method of the managed object above it. A `[]` after the
//! type is a list, `?` after it says optional.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

static TEXT: &str = include_str!("schema.txt");
static SCHEMA: LazyLock<Schema> = LazyLock::new(|| Schema::parse(TEXT));

/// One property or parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prop {
    /// WSDL name.
    pub name: &'static str,
    /// Type of it, or of its items.
    pub ty: &'static str,
    /// A list.
    pub array: bool,
    /// May be left out.
    pub optional: bool,
}

/// What a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value with properties.
    Data,
    /// An object of the server, named by a reference.
    Managed,
    /// A string of a fixed set.
    Enum,
}

/// One method of a managed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Method {
    /// Its parameters, in the order in which they are sent.
    pub params: Vec<Prop>,
    /// What it answers; `NoneType` if nothing.
    pub result: &'static str,
}

/// One type.
#[derive(Debug)]
pub struct Type {
    /// WSDL name.
    pub name: &'static str,
    /// Dotted name, as pyVmomi prints it in `_vimtype`.
    pub vim: &'static str,
    /// WSDL name of its base.
    pub base: &'static str,
    /// What it is.
    pub kind: Kind,
    own: &'static str,
    all: OnceLock<Vec<Prop>>,
    methods: HashMap<&'static str, Method>,
}

/// All types.
#[derive(Debug)]
pub struct Schema {
    types: HashMap<&'static str, Type>,
    by_vim: HashMap<&'static str, &'static str>,
}

fn prop(text: &'static str) -> Prop {
    let (name, ty) = text.split_once(':').unwrap_or((text, "str"));
    let (ty, optional) = ty.strip_suffix('?').map_or((ty, false), |t| (t, true));
    let (ty, array) = ty.strip_suffix("[]").map_or((ty, false), |t| (t, true));
    Prop {
        name,
        ty,
        array,
        optional,
    }
}

impl Schema {
    fn parse(text: &'static str) -> Schema {
        let mut types: HashMap<&'static str, Type> = HashMap::with_capacity(1024);
        let mut last = "";
        for line in text.lines() {
            let (tag, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut words = rest.splitn(4, ' ');
            let mut word = || words.next().unwrap_or("");
            if tag == "+" {
                let (name, result) = (word(), word());
                let params = rest.split(' ').skip(2).map(prop).collect();
                if let Some(t) = types.get_mut(last) {
                    t.methods.insert(name, Method { params, result });
                }
                continue;
            }
            let kind = match tag {
                "D" => Kind::Data,
                "M" => Kind::Managed,
                _ => Kind::Enum,
            };
            let name = word();
            last = name;
            let t = Type {
                name,
                vim: word(),
                base: word(),
                kind,
                own: word(),
                all: OnceLock::new(),
                methods: HashMap::new(),
            };
            types.insert(name, t);
        }
        let by_vim = types.values().map(|t| (t.vim, t.name)).collect();
        Schema { types, by_vim }
    }

    /// The type of that WSDL name.
    pub fn get(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }

    /// The type of that WSDL or dotted name.
    pub fn any(&self, name: &str) -> Option<&Type> {
        self.get(name)
            .or_else(|| self.by_vim.get(name).and_then(|n| self.get(n)))
    }

    /// True if `name` is `base` or comes from it.
    pub fn is_a(&self, name: &str, base: &str) -> bool {
        let mut at = name;
        for _ in 0..32 {
            if at == base {
                return true;
            }
            match self.get(at) {
                Some(t) => at = t.base,
                None => return false,
            }
        }
        false
    }

    /// All properties of a type, those of its bases first (the order of the wire).
    pub fn props<'a>(&'a self, t: &'a Type) -> &'a [Prop] {
        t.all.get_or_init(|| {
            let mut all: Vec<Prop> = match self.get(t.base) {
                Some(b) => self.props(b).to_vec(),
                None => vec![],
            };
            for p in t.own.split(' ').filter(|p| !p.is_empty()).map(prop) {
                match all.iter_mut().find(|q| q.name == p.name) {
                    Some(q) => *q = p,
                    None => all.push(p),
                }
            }
            all
        })
    }

    /// A method of a managed object or of one of its bases.
    pub fn method(&self, ty: &str, name: &str) -> Option<&Method> {
        let mut at = ty;
        for _ in 0..32 {
            let t = self.get(at)?;
            if let Some(m) = t.methods.get(name) {
                return Some(m);
            }
            at = t.base;
        }
        None
    }

    /// How many types there are.
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}

/// The one schema.
pub fn schema() -> &'static Schema {
    &SCHEMA
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn props_of_bases_come_first() {
        let s = schema();
        let disk = s.get("VirtualDisk").expect("known");
        assert_eq!(disk.vim, "vim.vm.device.VirtualDisk");
        let names: Vec<_> = s.props(disk).iter().map(|p| p.name).collect();
        assert!(
            names.iter().position(|n| *n == "key")
                < names.iter().position(|n| *n == "capacityInKB")
        );
        assert!(s.is_a("VirtualVmxnet3", "VirtualEthernetCard"));
        assert!(!s.is_a("VirtualDisk", "VirtualEthernetCard"));
    }

    #[test]
    fn methods_are_found_in_bases_too() {
        let m = schema()
            .method("VirtualMachine", "RelocateVM_Task")
            .expect("known");
        assert_eq!(
            (m.params[0].name, m.params[0].ty, m.result),
            ("spec", "VirtualMachineRelocateSpec", "Task")
        );
        assert!(schema().method("ContainerView", "DestroyView").is_some());
        assert!(schema().method("VirtualMachine", "Rename_Task").is_some());
        assert!(schema().method("VirtualMachine", "NoSuch").is_none());
    }
}
