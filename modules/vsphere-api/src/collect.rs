//! Properties of many objects in one query, page by page.

use crate::error::{CallError, Fault};
use crate::session::{Session, pause, worth_another_try};
use crate::soap::Call;
use plan::Failure;
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use vsphere::value::{moid, put, text, wsdl_ref};

/// Objects that vanish while a query runs fail all of it: so often it is tried again (docs/vsphere-facts.md section 2).
const VANISHED_TRIES: u32 = 3;

/// Objects in one retrieval at most: twice what a vCenter can register (45,000 machines; VMware's configuration maximums for 8.0).
const MAX_OBJECTS: usize = 100_000;
/// Pages in a row that bring nothing new.
const MAX_IDLE_PAGES: u32 = 3;

/// Which properties of which type.
#[derive(Clone, Debug)]
pub(crate) struct Spec {
    /// WSDL type; objects of derived types are meant too.
    pub(crate) ty: &'static str,
    /// Paths; `None` means all properties.
    pub(crate) paths: Option<Vec<String>>,
}

impl Spec {
    pub(crate) fn new(ty: &'static str, paths: &[&str]) -> Self {
        Spec {
            ty,
            paths: Some(paths.iter().map(|p| (*p).to_owned()).collect()),
        }
    }
}

/// One object as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// WSDL type.
    pub(crate) ty: String,
    /// Managed object id.
    pub(crate) moid: String,
    /// Path and value, in the server's order.
    pub(crate) props: Vec<(String, Value)>,
    /// Paths that the server would not tell, and the type of the fault.
    pub(crate) missing: Vec<(String, String)>,
}

impl Found {
    /// The properties as a tree, copied.
    pub(crate) fn tree(&self) -> Value {
        self.clone().split().1
    }

    /// The rest of it, and its properties as a tree, of which nothing is copied.
    pub(crate) fn split(mut self) -> (Found, Value) {
        let mut m = Map::new();
        for (path, v) in std::mem::take(&mut self.props) {
            put(&mut m, &path, v);
        }
        (self, Value::Object(m))
    }
}

fn prop_set(specs: &[Spec]) -> Value {
    specs
        .iter()
        .map(|s| match &s.paths {
            Some(p) => json!({"type": s.ty, "all": false, "pathSet": p}),
            None => json!({"type": s.ty, "all": true}),
        })
        .collect()
}

/// What a page handler does with an object.
pub(crate) type Sink<'a> = dyn FnMut(Found) -> Result<(), Failure> + 'a;

impl Session {
    /// All objects of those types below a container (the root folder, a folder, a datacenter, a compute resource), in one
    /// query: a view, a retrieval with its pages, and the view is destroyed. Each object is handed on once.
    pub(crate) fn collect(
        &mut self,
        container: Option<&str>,
        specs: &[Spec],
        sink: &mut Sink<'_>,
    ) -> Result<(), CallError> {
        self.collect_in_turn(container, &[specs], sink)
    }

    /// The same with one view and several retrievals, one after the other: what comes later can build on what came first.
    pub(crate) fn collect_in_turn(
        &mut self,
        container: Option<&str>,
        turns: &[&[Spec]],
        sink: &mut Sink<'_>,
    ) -> Result<(), CallError> {
        let root = match container {
            Some(c) => c.to_owned(),
            None => self.manager("rootFolder").map_err(CallError::Other)?,
        };
        let types: Vec<&str> = turns.iter().flat_map(|s| s.iter()).map(|s| s.ty).collect();
        let mut done: HashSet<String> = HashSet::new();
        let mut tries = 0;
        let mut again = 0;
        loop {
            match self.collect_once(&root, &types, turns, &mut done, sink) {
                Ok(()) => return Ok(()),
                Err(e) if e.is("ManagedObjectNotFound") && again + 1 < VANISHED_TRIES => again += 1,
                // A view dies with its session, so the whole is done again after signing in.
                Err(e) if e.is("NotAuthenticated") && again + 1 < VANISHED_TRIES => {
                    again += 1;
                    self.again()?;
                }
                Err(e) if worth_another_try(&e, tries) => {
                    tries += 1;
                    pause(tries);
                }
                Err(e) => return Err(e),
            }
        }
    }

    fn collect_once(
        &mut self,
        root: &str,
        types: &[&str],
        turns: &[&[Spec]],
        done: &mut HashSet<String>,
        sink: &mut Sink<'_>,
    ) -> Result<(), CallError> {
        let manager = self.manager("viewManager").map_err(CallError::Other)?;
        let params = [
            ("container".to_owned(), json!(root)),
            ("type".to_owned(), json!(types)),
            ("recursive".to_owned(), json!(true)),
        ];
        let call = Call {
            this: &manager,
            method: "CreateContainerView",
            params: &params,
            shown: None,
            long: false,
        };
        let view = self.value(&call)?;
        let view = match view.as_str().map(wsdl_ref) {
            Some(v) if v.starts_with("ContainerView:") => v,
            _ => {
                return Err(CallError::Decode(
                    "no view was made of the inventory".into(),
                ));
            }
        };
        let object_set = json!([{
            "obj": view, "skip": true,
            "selectSet": [{"_type": "TraversalSpec", "name": "view", "type": "ContainerView", "path": "view", "skip": false}],
        }]);
        let read = turns.iter().try_for_each(|specs| {
            let set = json!([{"propSet": prop_set(specs), "objectSet": object_set}]);
            self.pages(set, done, sink)
        });
        let destroy = Call {
            this: &view,
            method: "DestroyView",
            params: &[],
            shown: None,
            long: false,
        };
        // Session state must not be left behind; a view that is gone with its session needs none of it.
        if !read
            .as_ref()
            .is_err_and(|e| e.is("NotAuthenticated") || e.passing())
        {
            let destroyed = self.value(&destroy);
            if read.is_ok()
                && let Err(e) = destroyed
                && e.fault().is_none()
                && !e.passing()
            {
                return Err(e);
            }
        }
        read
    }

    /// The properties of named objects, in one query. A fault `ManagedObjectNotFound` means that one of them is gone.
    pub(crate) fn objects(&mut self, refs: &[String], spec: Spec) -> Result<Vec<Found>, CallError> {
        let set: Vec<Value> = refs
            .iter()
            .map(|r| json!({"obj": r, "skip": false}))
            .collect();
        self.retrieve(json!([{"propSet": prop_set(&[spec]), "objectSet": set}]))
    }

    /// One object, those that its properties `along` name, and all that it lies in (`name` and `parent`, up to the root), in one
    /// query, so that they are of one moment. Going up by `parent` is what govmomi does too (vim25/mo/ancestors.go).
    pub(crate) fn with_ancestors(
        &mut self,
        reference: &str,
        spec: Spec,
        along: &[(&str, Spec)],
    ) -> Result<Vec<Found>, CallError> {
        let mut select = vec![
            json!({"_type": "TraversalSpec", "name": "up", "type": "ManagedEntity", "path": "parent", "skip": false,
                                     "selectSet": [{"_type": "SelectionSpec", "name": "up"}]}),
        ];
        let mut specs = vec![];
        for (path, more) in along {
            select.push(json!({"_type": "TraversalSpec", "name": path, "type": spec.ty, "path": path, "skip": false}));
            specs.push(more.clone());
        }
        specs.extend(
            crate::place::specs()
                .into_iter()
                .filter(|s| s.ty != spec.ty),
        );
        specs.push(spec);
        let set = json!([{"obj": reference, "skip": false, "selectSet": select}]);
        self.retrieve(json!([{"propSet": prop_set(&specs), "objectSet": set}]))
    }

    fn retrieve(&mut self, specs: Value) -> Result<Vec<Found>, CallError> {
        let mut tries = 0;
        loop {
            let mut out = vec![];
            let read = self.pages(specs.clone(), &mut HashSet::new(), &mut |f| {
                out.push(f);
                Ok(())
            });
            match read {
                Ok(()) => return Ok(out),
                Err(e) if e.is("NotAuthenticated") && tries == 0 => {
                    tries += 1;
                    self.again()?;
                }
                Err(e) if worth_another_try(&e, tries) => {
                    tries += 1;
                    pause(tries);
                }
                Err(e) => return Err(e),
            }
        }
    }

    /// The retrieval and all its further pages. A page that is cut off half way is read again; what was handed on is not
    /// handed on twice.
    fn pages(
        &mut self,
        spec_set: Value,
        done: &mut HashSet<String>,
        sink: &mut Sink<'_>,
    ) -> Result<(), CallError> {
        let collector = self
            .manager("propertyCollector")
            .map_err(CallError::Other)?;
        let mut params = vec![
            ("specSet".to_owned(), spec_set),
            ("options".to_owned(), json!({})),
        ];
        let mut method = "RetrievePropertiesEx";
        let mut seen: HashSet<String> = HashSet::new();
        let mut idle = 0;
        loop {
            let before = seen.len();
            let call = Call {
                this: &collector,
                method,
                params: &params,
                shown: None,
                long: true,
            };
            let mut token: Option<String> = None;
            let mut page = self.soap_page(&call, &mut token, &mut seen, done, sink);
            idle = if seen.len() == before { idle + 1 } else { 0 };
            if page.is_ok() && token.is_some() && idle >= MAX_IDLE_PAGES {
                page = Err(CallError::Decode(format!(
                    "{idle} pages in a row bring nothing new, and the server promises more"
                )));
            }
            if let Err(e) = page {
                // An end of ours leaves a retrieval open on the server, which must be told.
                if let (CallError::Other(_) | CallError::Decode(_), Some(t)) = (&e, &token) {
                    let p = [("token".to_owned(), json!(t))];
                    let cancel = Call {
                        this: &collector,
                        method: "CancelRetrievePropertiesEx",
                        params: &p,
                        shown: None,
                        long: false,
                    };
                    let _ = self.value(&cancel);
                }
                return Err(e);
            }
            // Its presence decides, not its value: it can be "0" (docs/vsphere-facts.md section 2).
            match token {
                Some(t) => {
                    method = "ContinueRetrievePropertiesEx";
                    params = vec![("token".to_owned(), json!(t))];
                }
                None => return Ok(()),
            }
        }
    }

    fn soap_page(
        &mut self,
        call: &Call<'_>,
        token: &mut Option<String>,
        seen: &mut HashSet<String>,
        done: &mut HashSet<String>,
        sink: &mut Sink<'_>,
    ) -> Result<(), CallError> {
        self.once(call, &mut |d, _| {
            let mut count = 0;
            let mut failed: Option<Failure> = None;
            while let Some(o) = d.child()? {
                match o.name.as_str() {
                    "token" => *token = Some(d.text()?),
                    "objects" => {
                        d.reset_limit();
                        count += 1;
                        let found = found(d)?;
                        if let Some((path, _)) =
                            found.missing.iter().find(|(_, f)| f == "NotAuthenticated")
                        {
                            // Some servers say so per property instead of by a fault (data/README.md, vcsim).
                            let fields = json!({"_vimtype": "vim.fault.NotAuthenticated"});
                            return Err(CallError::Fault(Fault::new(
                                fields,
                                &format!("{path} cannot be read: not signed in"),
                            )));
                        }
                        let id = format!("{}:{}", found.ty, found.moid);
                        seen.insert(id.clone());
                        if seen.len() > MAX_OBJECTS {
                            return Err(CallError::Decode(format!(
                                "more than {MAX_OBJECTS} objects in one answer"
                            )));
                        }
                        if failed.is_none() && done.insert(id) {
                            failed = sink(found).err();
                        }
                    }
                    _ => d.skip()?,
                }
            }
            match failed {
                Some(f) => Err(CallError::Other(f)),
                None => Ok(format!(
                    "{count} objects{}",
                    if token.is_some() {
                        ", more to come"
                    } else {
                        ""
                    }
                )),
            }
        })
    }
}

fn found<R: std::io::BufRead>(d: &mut crate::decode::Decoder<R>) -> Result<Found, CallError> {
    let mut f = Found {
        ty: String::new(),
        moid: String::new(),
        props: vec![],
        missing: vec![],
    };
    while let Some(o) = d.child()? {
        match o.name.as_str() {
            "obj" => {
                f.ty = o.ty.clone().unwrap_or_default();
                f.moid = d.text()?.trim().to_owned();
            }
            "propSet" => {
                let (mut name, mut val) = (String::new(), Value::Null);
                while let Some(p) = d.child()? {
                    match p.name.as_str() {
                        "name" => name = d.text()?,
                        "val" => val = d.value(&p, "object")?,
                        _ => d.skip()?,
                    }
                }
                f.props.push((name, val));
            }
            "missingSet" => {
                let (mut path, mut fault) = (String::new(), String::new());
                while let Some(p) = d.child()? {
                    match p.name.as_str() {
                        "path" => path = d.text()?,
                        "fault" => fault = Fault::new(d.value(&p, "MethodFault")?, "").ty,
                        _ => d.skip()?,
                    }
                }
                f.missing.push((path, fault));
            }
            _ => d.skip()?,
        }
    }
    Ok(f)
}

/// The objects that a property lists, as `Type:moid`.
pub(crate) fn refs(tree: &Value, path: &str) -> Vec<String> {
    vsphere::value::list(tree, path)
        .iter()
        .filter_map(Value::as_str)
        .map(wsdl_ref)
        .collect()
}

/// The moid at a path.
pub(crate) fn moid_of(tree: &Value, path: &str) -> Option<String> {
    text(tree, path).map(|r| moid(r).to_owned())
}
