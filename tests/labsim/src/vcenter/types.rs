//! The vSphere type table (names, bases, properties in WSDL order), read from the recorded `vim-types.json`.
use serde_json::Value;
use std::collections::HashMap;
use std::sync::LazyLock;

/// A property of a data type or of a managed object type.
#[derive(Clone, Debug)]
pub struct Prop {
    /// Its name on the wire.
    pub name: String,
    /// Its declared type, without the array mark.
    pub ty: String,
    /// Whether it is an array of that type.
    pub array: bool,
    /// Whether it may be left out.
    pub optional: bool,
}

/// A method's parameter: like a property, and whether it may be left out.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name and type.
    pub prop: Prop,
    /// Whether the caller may leave it out.
    pub optional: bool,
}

/// The table.
pub struct Types {
    bases: HashMap<String, String>,
    data: HashMap<String, Vec<Prop>>,
    managed: HashMap<String, Vec<Prop>>,
    enums: HashMap<String, Vec<String>>,
    children: HashMap<String, Vec<String>>,
    methods: HashMap<String, Vec<Param>>,
}

// What the recorded table leaves out and this server needs.
// Source: vSphere Web Services API reference, ResourcePool, ManagedObjectView, ScheduledTask, CustomFieldsManager, ...
const MORE_PROPS: &[(&str, &str, &str)] = &[
    ("ResourcePool", "resourcePool", "ResourcePool[]"),
    ("ResourcePool", "vm", "VirtualMachine[]"),
    ("ResourcePool", "config", "ResourceConfigSpec"),
    ("ResourcePool", "runtime", "ResourcePoolRuntimeInfo"),
    ("ManagedObjectView", "view", "ManagedObject[]"),
    ("ScheduledTask", "info", "ScheduledTaskInfo"),
    ("CustomFieldsManager", "field", "object[]"),
];

// Faults that the recorded table lacks: name, base. They have no fields of their own here.
const MORE_FAULTS: &[(&str, &str)] = &[
    ("ToolsInstallationInProgress", "MigrationFault"),
    ("IndependentDiskVMotionNotSupported", "MigrationFault"),
    ("InsufficientStorageSpace", "InsufficientResourcesFault"),
    (
        "FeatureRequirementsNotMet",
        "VirtualHardwareCompatibilityIssue",
    ),
];

/// Name, type, whether it may be left out.
type MoreParams = &'static [(&'static str, &'static str, bool)];

const MORE_METHODS: &[(&str, MoreParams)] = &[
    ("Fetch", &[("prop", "str", false)]),
    ("CreateListView", &[("obj", "ManagedObject[]", true)]),
    (
        "FindByDatastorePath",
        &[("datacenter", "Datacenter", false), ("path", "str", false)],
    ),
    (
        "RemoveSnapshot_Task",
        &[
            ("removeChildren", "bool", false),
            ("consolidate", "bool", true),
            ("spec", "object", true),
        ],
    ),
    (
        "MarkAsVirtualMachine",
        &[
            ("pool", "ResourcePool", false),
            ("host", "HostSystem", true),
        ],
    ),
    ("RefreshStorageInfo", &[]),
    ("RefreshDatastore", &[]),
    ("WaitForUpdates", &[("version", "str", true)]),
    ("CheckForUpdates", &[("version", "str", true)]),
];

fn prop(name: &str, ty: &str) -> Prop {
    let (ty, array) = ty.strip_suffix("[]").map_or((ty, false), |t| (t, true));
    Prop {
        name: name.into(),
        ty: ty.into(),
        array,
        optional: true,
    }
}

fn own_props(entry: &Value) -> Vec<Prop> {
    entry["props"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|p| Prop {
            optional: p[2].as_bool().unwrap_or(true),
            ..prop(
                p[0].as_str().unwrap_or(""),
                p[1].as_str().unwrap_or("object"),
            )
        })
        .collect()
}

fn own_values(entry: &Value) -> Vec<String> {
    entry["values"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(String::from)
        .collect()
}

static TABLE: LazyLock<Types> = LazyLock::new(Types::load);

impl Types {
    /// The one table of the process.
    pub fn get() -> &'static Types {
        &TABLE
    }

    fn load() -> Types {
        let raw: Value =
            serde_json::from_str(include_str!("../../../fixtures/vsphere/vim-types.json"))
                .expect("vim-types.json is part of the repository");
        let mut bases = HashMap::new();
        let mut children: HashMap<String, Vec<String>> = HashMap::new();
        let (mut own_data, mut own_managed) = (HashMap::new(), HashMap::new());
        let mut methods = HashMap::new();
        for (section, own) in [("types", &mut own_data), ("managed", &mut own_managed)] {
            for (name, entry) in raw[section].as_object().into_iter().flatten() {
                if let Some(base) = entry["base"].as_str() {
                    bases.insert(name.clone(), base.to_string());
                    children
                        .entry(base.to_string())
                        .or_default()
                        .push(name.clone());
                }
                own.insert(name.clone(), own_props(entry));
                for (method, m) in entry["methods"].as_object().into_iter().flatten() {
                    let params = m["params"]
                        .as_array()
                        .into_iter()
                        .flatten()
                        .map(|p| Param {
                            prop: prop(
                                p[0].as_str().unwrap_or(""),
                                p[1].as_str().unwrap_or("object"),
                            ),
                            optional: p[2].as_bool().unwrap_or(true),
                        })
                        .collect();
                    methods.insert(method.clone(), params);
                }
            }
        }
        for (ty, name, pty) in MORE_PROPS {
            own_managed
                .entry((*ty).to_string())
                .or_default()
                .push(prop(name, pty));
        }
        for (method, params) in MORE_METHODS {
            let params = params
                .iter()
                .map(|(n, t, optional)| Param {
                    prop: prop(n, t),
                    optional: *optional,
                })
                .collect();
            methods.insert((*method).to_string(), params);
        }
        for (name, base) in MORE_FAULTS {
            bases
                .entry((*name).to_string())
                .or_insert_with(|| (*base).to_string());
            own_data.entry((*name).to_string()).or_default();
        }
        let flatten = |own: &HashMap<String, Vec<Prop>>| {
            own.keys()
                .map(|name| {
                    let mut chain = vec![];
                    let mut at = Some(name.clone());
                    while let Some(t) = at {
                        chain.push(t.clone());
                        at = bases.get(&t).cloned();
                    }
                    let props = chain
                        .iter()
                        .rev()
                        .flat_map(|t| own.get(t).cloned().unwrap_or_default())
                        .collect();
                    (name.clone(), props)
                })
                .collect::<HashMap<String, Vec<Prop>>>()
        };
        let data = flatten(&own_data);
        let managed = flatten(&own_managed);
        let enums = raw["enums"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(n, e)| (n.clone(), own_values(e)))
            .collect();
        Types {
            bases,
            data,
            managed,
            enums,
            children,
            methods,
        }
    }

    /// Properties of a data type, bases first, as the WSDL orders them.
    pub fn data(&self, ty: &str) -> Option<&[Prop]> {
        self.data.get(ty).map(Vec::as_slice)
    }

    /// Properties of a managed object type.
    pub fn managed(&self, ty: &str) -> Option<&[Prop]> {
        self.managed.get(ty).map(Vec::as_slice)
    }

    /// Whether it names a managed object type.
    pub fn is_managed(&self, ty: &str) -> bool {
        self.managed.contains_key(ty)
    }

    /// The values of an enumeration, `None` for another type.
    pub fn enum_values(&self, ty: &str) -> Option<&[String]> {
        self.enums.get(ty).map(Vec::as_slice)
    }

    /// Whether `ty` is `base` or derives from it.
    pub fn is_a(&self, ty: &str, base: &str) -> bool {
        let mut at = Some(ty);
        while let Some(t) = at {
            if t == base {
                return true;
            }
            at = self.bases.get(t).map(String::as_str);
        }
        false
    }

    /// Parameters of a method, `None` for a method nobody knows.
    pub fn params(&self, method: &str) -> Option<&[Param]> {
        self.methods.get(method).map(Vec::as_slice)
    }

    fn find_prop(&self, ty: &str, name: &str) -> Option<&Prop> {
        let own = self.managed.get(ty).or_else(|| self.data.get(ty))?;
        own.iter().find(|p| p.name == name).or_else(|| {
            // A path is walked over the objects as they are, so a property of a subtype is a valid name.
            self.children
                .get(ty)?
                .iter()
                .find_map(|c| self.find_prop(c, name))
        })
    }

    /// The declared type at the end of a property path, `None` when the path is not valid for that managed type.
    pub fn path(&self, ty: &str, path: &str) -> Option<Prop> {
        let mut at = Prop {
            name: String::new(),
            ty: ty.into(),
            array: false,
            optional: true,
        };
        for (i, part) in path.split('.').enumerate() {
            let (name, keyed) = part
                .split_once('[')
                .map_or((part, false), |(n, _)| (n, true));
            // Only the first name may be a managed object's: references are not followed within a path.
            if i > 0 && (self.is_managed(&at.ty) || at.array) {
                return None;
            }
            let p = self.find_prop(&at.ty, name)?;
            at = Prop {
                name: path.into(),
                ty: p.ty.clone(),
                array: p.array && !keyed,
                optional: p.optional,
            };
        }
        Some(at)
    }
}

/// The name of a type on the wire, as in `xsd:string` or `VirtualDisk`.
pub fn wire_name(ty: &str) -> String {
    match ty {
        "str" | "PropertyPath" | "type" | "ManagedMethod" => "xsd:string".into(),
        "bool" => "xsd:boolean".into(),
        "datetime" => "xsd:dateTime".into(),
        "binary" => "xsd:base64Binary".into(),
        "object" => "xsd:anyType".into(),
        "int" | "long" | "short" | "byte" | "float" => format!("xsd:{ty}"),
        other => other.into(),
    }
}
