# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of AWX's REST API as the modules of awx.awx need to make things: lists by field, POST, PATCH, related lists, surveys.

It keeps what it is given and knows nothing of it, so that what the playbook says reaches it as the real modules send it. Prints its port, and on
GET /dump everything that it holds.
"""

from __future__ import annotations

import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

SINGULAR = {
    "organizations": "organization", "credential_types": "credential_type", "credentials": "credential",
    "execution_environments": "execution_environment", "projects": "project", "inventories": "inventory",
    "inventory_sources": "inventory_source", "job_templates": "job_template",
}
RELATED = {
    "job_templates": ("credentials", "labels", "instance_groups", "survey_spec"),
    "projects": ("update",),
    "inventories": ("instance_groups",),
}
store = {k: [] for k in SINGULAR}
links = {}
writes = []


def add(kind, fields):
    number = len(store[kind]) + 1
    url = "/api/v2/%s/%d/" % (kind, number)
    item = dict(fields, id=number, type=SINGULAR[kind], url=url, summary_fields={})
    item["related"] = {r: url + r + "/" for r in RELATED.get(kind, ())}
    item.setdefault("status", "successful")
    if kind == "projects":
        item["scm_revision"] = "0" * 40
    store[kind].append(item)
    return item


def shown(item):
    """Secrets cannot be read back."""
    if "inputs" in item and item["type"] == "credential":
        secret = ("password", "token_secret")
        return dict(item, inputs={k: "$encrypted$" if k in secret and v else v for k, v in item["inputs"].items()})
    return item


add("organizations", {"name": "Default"})
add("credential_types", {"name": "VMware vCenter", "kind": "cloud", "managed": True, "namespace": "vmware"})
add("credentials", {"name": "git", "inputs": {}})


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, value):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-API-Product-Name", "AWX")
        self.send_header("X-API-Product-Version", "24.6.1")
        self.end_headers()
        self.wfile.write(body)

    def handle_one(self, method):
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        parts = urlsplit(self.path)
        query = {k: v[0] for k, v in parse_qs(parts.query).items()}
        if parts.path == "/dump":
            return self.answer(200, {"store": store, "links": links, "writes": writes})
        if parts.path.rstrip("/") in ("/api", "/api/v2", "/api/v2/ping"):
            return self.answer(200, {"current_version": "/api/v2/", "version": "24.6.1", "available_versions": {"v2": "/api/v2/"}})
        found = re.match(r"^/api/v2/(\w+)/(?:(\d+)/(?:(\w+)/)?)?$", parts.path)
        if not found or found.group(1) not in store:
            return self.answer(404, {"detail": "not found: " + self.path})
        kind, number, related = found.groups()
        if method != "GET":
            writes.append([method, self.path, body])
        if number is None:
            if method == "POST":
                return self.answer(201, shown(add(kind, body)))
            hits = store[kind]
            for k, v in query.items():
                if k in ("page_size", "order_by"):
                    continue
                k = k.split("__")[0] if k.endswith("__exact") else k
                hits = [i for i in hits if str(i.get(k)) == v]
            return self.answer(200, {"count": len(hits), "next": None, "previous": None, "results": [shown(i) for i in hits]})
        item = next((i for i in store[kind] if i["id"] == int(number)), None)
        if item is None:
            return self.answer(404, {"detail": "not found"})
        if related == "survey_spec":
            if method == "POST":
                item["survey"] = body
                return self.answer(200, {})
            return self.answer(200, item.get("survey") or {})
        if related:
            mine = links.setdefault(self.path.split("?")[0], [])
            if method == "POST":
                if body.get("disassociate"):
                    mine.remove(body["id"])
                else:
                    mine.append(body["id"])
                return self.answer(204, {})
            return self.answer(200, {"count": len(mine), "next": None, "results": [{"id": i} for i in mine]})
        if method == "PATCH":
            item.update(body)
        return self.answer(200, shown(item))

    def do_GET(self):
        self.handle_one("GET")

    def do_POST(self):
        self.handle_one("POST")

    def do_PATCH(self):
        self.handle_one("PATCH")


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
sys.stdin.close()
server.serve_forever()
