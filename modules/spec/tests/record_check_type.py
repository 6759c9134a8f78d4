# Copyright (c) 2026, the trueplan authors; GPL-3.0-or-later
# Records what ansible-core's own checks make of values. Usage: python record_check_type.py check_type.json
# (ansible-core 2.19 and 2.22 give the same; 2.17 refuses integers with a point or an exponent, which we accept on all.)
import json, sys, ansible.release
from ansible.module_utils.common import validation as v
# what str() gives for things that JSON can carry
STR = ["", "x", " x ", "5", "5.0", "-5", "+5", " 5 ", "1_000", "_1", "1__0", "1e3", "1E+2", "1e-2", "0x10", "2.5", ".5", "5.", "-0", "00012", "1e400",
  "9223372036854775807", "nan", "inf", "yes", "Yes", "YES ", "on", "off", "y", "n", "t", "f", "true", "True", "FALSE", "no", "0", "1", "2", "maybe", "None", "null",
  "a,b", "a, b", ",", "a,", "[1, 2]x", "a b", "a=1", "a=1,b=2", "a=1, b=2", "a=1 b=2", "a='x y',b=\"z,w\"", "a=b=c", "a=", "=b", "a=1 b", "a\\=1=2", "a=it\\'s",
  "{\"a\": 1}", "{'a': 1}", "{'a': True, 'b': None}", "{\"a\": true}", "{'a': (1, 2), 'b': [1.5, -2]}", "{'a': {'b': 'it\\'s'}}", "{}", "{a: 1}", "{'a': 1,}", "{'a'}", "{'a': 0x10}", "{'a': 1_0}",
  "{'a': u'x'}", "{'a': '\\x41\\u00e9\\n\\q'}", "{'a': 'b' 'c'}", "{'a': 1e3}", "{'a': 1}}", "{'a': open('x')}", "{\"a\": \"\\ud83d\\ude00\"}"]
OTHER = [0, 1, 2, -7, 100, 0.0, 1.0, 2.0, 2.5, -0.5, 1e16, 1.5e16, 123456789012345.0, 1e-5, 1e-4, 0.1, 1e22, True, False, [], [1], ["a", 1], {}, {"a": 1}, {"a": [True, None, "it's", 'q"', "both'\""]}, ["tab\t", "nl\n", "bs\\"]]
out = []
for name in ("str", "int", "float", "bool", "list", "dict"):
    f = getattr(v, "check_type_" + name)
    for x in STR + OTHER:
        try:
            r = f(x)
            if isinstance(r, float) and (r != r or r in (float("inf"), float("-inf"))):
                out.append([name, x, "not JSON"]); continue
            try: json.dumps(r, allow_nan=False)
            except (TypeError, ValueError): out.append([name, x, "not JSON"]); continue
            # JSON has no bool-is-int: a bool that check_type_int passes on is the int it equals
            if name == "int":
                r = int(r)
                if not -2**63 <= r < 2**63:
                    out.append([name, x, "not 64 bits"]); continue
            out.append([name, x, "ok", r])
        except Exception as e:
            out.append([name, x, "refused"])
with open(sys.argv[1], "w") as fh:
    fh.write('{"source": "ansible-core %s, ansible.module_utils.common.validation.check_type_*", "cases": [\n' % ansible.release.__version__)
    fh.write(",\n".join(json.dumps(c) for c in out)); fh.write("\n]}\n")
