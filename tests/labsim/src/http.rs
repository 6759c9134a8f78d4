//! The one shape in which both simulated sites receive requests and give answers.

/// A request as a site sees it: already read whole, TLS and HTTP framing stripped.
#[derive(Clone, Debug, Default)]
pub struct Req {
    /// Upper-case method, such as `GET`.
    pub method: String,
    /// Path without the query, still percent-encoded, such as `/api2/json/version`.
    pub path: String,
    /// Raw query string without the question mark; empty when there is none.
    pub query: String,
    /// Header names in lower case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
}

impl Req {
    /// The first header of that (lower-case) name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, v)| v.as_str())
    }
}

/// How the request log counts a request. Sign-in, views, filters and checks are not writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Kind {
    /// Sign-in, sign-out, session upkeep.
    Auth,
    /// Changes nothing that anybody else could see.
    #[default]
    Read,
    /// Changes, or tries to change, the world.
    Write,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Resp {
    /// HTTP status.
    pub status: u16,
    /// Reason phrase, where it matters (Proxmox VE puts its error text there).
    pub reason: Option<String>,
    /// Extra headers.
    pub headers: Vec<(String, String)>,
    /// The body's bytes.
    pub body: Vec<u8>,
    /// For the request log.
    pub kind: Kind,
    /// For the request log: who asked, as far as the site knows.
    pub user: String,
    /// For the request log: what was asked in the site's own words (a SOAP method, `qmcreate`, ...).
    pub note: String,
}

/// One of the two servers: takes a request, on a thread that may block, and answers.
pub trait Site: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, req: &Req) -> Resp;

    /// How the log counts a request that a fault rule kept from being executed.
    fn kind(&self, req: &Req) -> Kind {
        if req.method == "GET" || req.method == "HEAD" {
            Kind::Read
        } else {
            Kind::Write
        }
    }

    /// The whole present state, for `GET /labsim/world`; no secrets.
    fn dump(&self) -> serde_json::Value;

    /// Starts anew from this site's part of a world. The folders `DIR/export` and `DIR/storage` are empty when it is called.
    /// Errors: a text that says what in the world is wrong.
    fn reset(&self, world: &serde_json::Value) -> Result<(), String>;

    /// Changes the state from outside, as a test asks for (`POST /labsim/set`): this site's part of the patch.
    /// Errors: what of the patch is unknown.
    fn set(&self, patch: &serde_json::Value) -> Result<(), String>;
}
