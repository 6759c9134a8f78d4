#!/usr/bin/python
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A NetBox of one file, for the lab: the users' playbooks talk to a real one. The file is what TRUEPLAN_LAB_NETBOX names."""

from __future__ import annotations

import json
import os

from ansible.module_utils.basic import AnsibleModule


def main():
    module = AnsibleModule(
        argument_spec={
            "data": {"type": "dict"},
            "state": {"choices": ["present", "absent"], "default": "present"},
            "netbox_url": {}, "netbox_token": {"no_log": True}, "validate_certs": {"type": "bool"},
            "server": {}, "zone": {}, "record": {}, "value": {"type": "list", "elements": "str"}, "type": {}, "ttl": {"type": "int"},
            "key_name": {}, "key_secret": {"no_log": True}, "key_algorithm": {},
        },
        supports_check_mode=True,
    )
    p = module.params
    path = os.environ["TRUEPLAN_LAB_NETBOX"]
    with open(path, encoding="utf-8") as f:
        book = json.load(f)
    before = json.dumps(book, sort_keys=True)
    data = p["data"] or {}
    kind = "hosts"
    host = data.get("name") if kind == "hosts" else data.get("virtual_machine") or data.get("assigned_object", {}).get("virtual_machine") or p["record"]
    there = p["state"] == "present"
    answer = {}
    if kind == "hosts" and there:
        book["hosts"].setdefault(host, {}).update({k: v for k, v in data.items() if k != "name"})
    elif not there and kind == "addresses" and "address" in data:
        book[kind] = {h: a for h, a in book[kind].items() if a != data["address"]}
    elif not there:
        book[kind].pop(host, None)
    elif kind == "addresses":
        book[kind].setdefault(host, "192.0.2.%d/24" % (10 + len(book[kind])))
        answer = {"ip_address": {"address": book[kind][host]}}
    else:
        new = (p["value"] or [None])[0] or data.get("mac_address")
        book[kind][host] = new or book[kind].get(host)
    changed = json.dumps(book, sort_keys=True) != before
    if changed and not module.check_mode:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(book, f)
    module.exit_json(changed=changed, **answer)


if __name__ == "__main__":
    main()
