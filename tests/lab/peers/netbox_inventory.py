#!/usr/bin/env python3
# Copyright (c) 2026, the trueplan authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory of the lab's NetBox of one file: groups by status, variables as the users' inventory gives them."""

import json
import os
import sys

with open(os.environ["TRUEPLAN_LAB_NETBOX"], encoding="utf-8") as f:
    book = json.load(f)
out = {"_meta": {"hostvars": {"pve1": {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}}},
       "all": {"vars": book["vars"], "hosts": ["pve1"]}, "cluster_pve": {"hosts": sorted(book["hosts"])}}
for name, facts in book["hosts"].items():
    out["_meta"]["hostvars"][name] = facts
    out.setdefault("status_" + facts["status"], {"hosts": []})["hosts"].append(name)
print(json.dumps(out))
