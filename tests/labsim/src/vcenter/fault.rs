//! SOAP faults: a typed detail and a text.
use super::xml::{escape, mo, write_fields};
use serde_json::{Value, json};

/// A fault: a data object with `_t` (its type) and `msg` (its text).
#[derive(Clone, Debug)]
pub struct Fault(pub Value);

impl Fault {
    /// A fault of a type with its text and its fields.
    pub fn new(ty: &str, msg: &str, fields: Value) -> Fault {
        let mut v = json!({ "_t": ty, "msg": msg });
        if let (Some(to), Value::Object(from)) = (v.as_object_mut(), fields) {
            to.extend(from);
        }
        Fault(v)
    }

    /// Its type's name.
    pub fn ty(&self) -> &str {
        self.0["_t"].as_str().unwrap_or("RuntimeFault")
    }

    /// Its text.
    pub fn msg(&self) -> &str {
        self.0["msg"].as_str().unwrap_or("")
    }

    /// The SOAP fault element.
    pub fn soap(&self) -> String {
        let ty = self.ty();
        let mut out =
            String::from("<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>");
        escape(&mut out, self.msg());
        out.push_str(&format!(
            "</faultstring><detail><{ty}Fault xmlns=\"urn:vim25\" xsi:type=\"{ty}\">"
        ));
        write_fields(&mut out, ty, &self.0);
        out.push_str(&format!("</{ty}Fault></detail></soapenv:Fault>"));
        out
    }

    /// The session is unknown or has expired.
    /// Source: docs/vsphere-facts.md section 1.
    pub fn not_authenticated() -> Fault {
        Fault::new(
            "NotAuthenticated",
            "The session is not authenticated.",
            json!({ "object": mo("Folder", "group-d1"), "privilegeId": "System.View" }),
        )
    }

    /// A privilege is missing.
    pub fn no_permission(object: Value, privilege: &str) -> Fault {
        let missing = json!([{ "entity": object, "privilegeIds": [privilege] }]);
        Fault::new(
            "NoPermission",
            "Permission to perform this operation was denied.",
            json!({ "object": object, "privilegeId": privilege, "missingPrivileges": missing }),
        )
    }

    /// No such object.
    pub fn not_found(ty: &str, id: &str) -> Fault {
        Fault::new(
            "ManagedObjectNotFound",
            &format!(
                "The object 'vim.{ty}:{id}' has already been deleted or has not been completely created"
            ),
            json!({ "obj": mo(ty, id) }),
        )
    }

    /// A property path that the type does not have.
    pub fn invalid_property(name: &str) -> Fault {
        Fault::new("InvalidProperty", "", json!({ "name": name }))
    }

    /// An argument with a wrong value.
    pub fn invalid_argument(name: &str) -> Fault {
        let msg = format!("A specified parameter was not correct: {name}");
        Fault::new("InvalidArgument", &msg, json!({ "invalidProperty": name }))
    }

    /// A request that does not parse.
    pub fn invalid_request(why: &str) -> Fault {
        Fault::new(
            "InvalidRequest",
            &format!("Unable to parse the request: {why}"),
            json!({}),
        )
    }

    /// The operation is not allowed in this power state.
    pub fn power_state(requested: &str, existing: &str) -> Fault {
        Fault::new(
            "InvalidPowerState",
            &format!(
                "The attempted operation cannot be performed in the current state ({}).",
                nice(existing)
            ),
            json!({ "requestedState": requested, "existingState": existing }),
        )
    }

    /// Another operation of the same object runs.
    pub fn in_progress(task: &str) -> Fault {
        Fault::new(
            "TaskInProgress",
            "Another task is already in progress.",
            json!({ "task": mo("Task", task) }),
        )
    }
}

fn nice(state: &str) -> &str {
    match state {
        "poweredOn" => "Powered on",
        "poweredOff" => "Powered off",
        _ => "Suspended",
    }
}
