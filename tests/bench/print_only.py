"""ansible-inventory --list without any host: it prints a text of so many characters, by the way of Ansible's own."""

import sys

from ansible.cli import inventory

length = int(sys.argv[1])
inventory.InventoryCLI.json_inventory = lambda self, top: {}
inventory.InventoryCLI.dump = staticmethod(lambda stuff: "x" * length)
inventory.main(["ansible-inventory", "--list", "-i", "localhost,"])
