#!/usr/bin/env python3
"""Makes the tables of methods and launch descriptors in assets/registers/nvidia/ anew.

usage: scripts/nvidia-methods.py [--check] DOC KERNEL

DOC and KERNEL are git repositories of NVIDIA's open-gpu-doc and open-gpu-kernel-modules.
With --check the script writes nothing, and fails if a table differs from what the headers give.
The format is described in trace-core/nvidia-channel/src/table.rs.
"""
import re
import subprocess
import sys

from nvidia_tables import write_or_check

KERNEL_TAG = "595.45.04"

# File, headers of its classes. A class that both repositories have comes from the more complete header.
DOC_COMPUTE = [f"classes/compute/cl{c}.h" for c in "c3c0 c5c0 c6c0 c7c0 c9c0 cbc0 cdc0 cec0".split()]
DOC_COPY = [f"classes/dma-copy/cl{c}.h" for c in "c3b5 c5b5 c6b5 c7b5 c8b5 c9b5 cab5".split()]
DOC_HOST = [f"classes/host/cl{c}.h" for c in "b06f c36f c46f c56f".split()]
# Their headers are partial: what they leave out is taken from the class before.
KERNEL_HOST = [f"src/common/sdk/nvidia/inc/class/cl{c}.h" for c in "c86f c96f ca6f".split()]
TABLES = {
    "host.txt": (DOC_HOST, KERNEL_HOST),
    "compute.txt": (DOC_COMPUTE, []),
    "copy.txt": (DOC_COPY, []),
    "inline-to-memory.txt": (["classes/inline-to-memory/cla140.h"], []),
}
QMD = [f"classes/compute/cl{c}qmd.h" for c in "c3c0 c5c0 c6c0 c7c0 c9c0 cbc0 cdc0 cec0".split()]
# Sizes of arrays, which the headers leave open: the first name that matches.
COUNTS = [
    (r"LOAD_INLINE_QMD_DATA", {"default": 64, "cbc0": 96, "cdc0": 96, "cec0": 96}),
    (r"CALL_MME_(MACRO|DATA)", {"default": 256}),
    (r"SET_MME_SHADOW_SCRATCH", {"default": 256}),
    (r"SET_SCG_(GRAPHICS|COMPUTE)_SCHEDULING_PARAMETERS", {"default": 16}),
    (r"SET_FALCON", {"default": 32}),
    (r".*PERFORMANCE", {"default": 8}),
    (r"CONSTANT_BUFFER", {"default": 8}),
    (r"RELEASE_", {"default": 3}),
    (r"DEPENDENT_QMD_", {"default": 2}),
    (r"SUB_TASK_", {"default": 4}),
    (r"TPC_DISABLE_MASK", {"default": 4}),
]
# Names of a field that is the whole word: they say nothing.
PLAIN = ("V", "VALUE", "HANDLE", "PAYLOAD", "PARAMETER", "COUNT")
DEFINE = re.compile(r"^#define\s+(\w+)(\((?:i|j)\))?\s+(.+?)\s*(?://.*|/\*.*)?$")
NUMBER = re.compile(r"^\(?\s*(0x[0-9a-fA-F]+|\d+)U?\s*\)?$")
BITS = re.compile(r"^(?:MW\()?(\d+):(\d+)\)?$")
METHOD_ARRAY = re.compile(r"^\((0x[0-9a-fA-F]+)\+\((?:i|j)\)\*(\d+)\)$")
BITS_ARRAY = re.compile(r"^MW\(\((\d+)\+\(i\)\*(\d+)\):\((\d+)\+\(i\)\*\d+\)\)$")


def read(repository, revision, path):
    command = ["git", "-C", repository, "show", f"{revision}:{path}"]
    return subprocess.run(command, check=True, capture_output=True, text=True, errors="replace").stdout


def count_of(name, number):
    for pattern, counts in COUNTS:
        if re.match(pattern, name):
            return counts.get(number, counts["default"])
    sys.exit(f"the size of the array {name} of {number} is unknown")


def values_text(values):
    if values == [(0, "FALSE"), (1, "TRUE")]:
        return " bool"
    return "".join(f" {v:x}={n}" for v, n in values)


def field_text(name, high, low, array, values):
    bits = f"{high}:{low}" if high != low else f"{high}"
    if array:
        bits += f"+{array[0]}*{array[1]}"
    return f" {bits} {name}{values_text(values)}"


def parse_methods(text):
    """Returns number and name of a header's class, and its methods: [offset, array, name, fields]."""
    number = name = None
    prefix = None
    methods = []  # [offset, array, name, fields]; a field is [name, high, low, array, values]
    for line in text.splitlines():
        match = DEFINE.match(line)
        if not match:
            continue
        define, index, value = match.groups()
        plain = NUMBER.match(value)
        if number is None:
            if plain and re.fullmatch(r"[A-Z][A-Z0-9_]+_[A-Z]", define) and len(plain[1]) in (6, 10):
                number, name = f"{int(plain[1], 0):04x}", define
                prefix = f"NV{number.upper()}_"
            continue
        if not define.startswith(prefix):
            continue
        define = define[len(prefix):]
        # The formats of GPFIFO entries and of push buffers are code.
        if re.match(r"DMA_|GP_ENTRY|NUMBER_OF|TYPEDEF|OPAQUE|CE_", define):
            continue
        array = METHOD_ARRAY.match(value)
        bits = BITS.match(value)
        if array:
            methods.append([int(array[1], 16), (int(array[2]), count_of(define, number)), define, []])
        elif bits:
            owner = next((m for m in reversed(methods) if define.startswith(m[2] + "_")), None)
            if owner is None:
                print(f"{number}: no method for the field {define}", file=sys.stderr)
                continue
            owner[3].append([define[len(owner[2]) + 1:], int(bits[1]), int(bits[2]), None, []])
        elif plain:
            value = int(plain[1], 0)
            fields = [(len(m[2] + f[0]), f, m) for m in methods for f in m[3] if define.startswith(f"{m[2]}_{f[0]}_")]
            if fields:
                _, field, owner = max(fields, key=lambda f: f[0])
                value_name = define[len(owner[2]) + len(field[0]) + 2:].strip("_")
                if value not in [v for v, _ in field[4]]:
                    field[4].append((value, value_name))
            elif value % 4 == 0 and (value > 0 or define == "SET_OBJECT"):
                methods.append([value, None, define, []])
            else:
                # One alias of a value of MEM_OP_D that has the name of MEM_OP_B.
                print(f"{number}: {define} is skipped", file=sys.stderr)
    return number, name, methods


def complete(methods, before):
    """Adds the methods, fields and values that a partial header leaves out, as the class before has them."""
    known = {m[2]: m for m in methods}
    for offset, array, name, fields in before:
        if name not in known:
            methods.append([offset, array, name, [[*f[:4], list(f[4])] for f in fields]])
            continue
        known_fields = {f[0]: f for f in known[name][3]}
        for field in fields:
            if field[0] not in known_fields:
                known[name][3].append([*field[:4], list(field[4])])
                continue
            values = known_fields[field[0]][4]
            values += [v for v in field[4] if v[0] not in [w for w, _ in values]]


def method_texts(methods):
    out = []
    for offset, array, method, fields in sorted(methods, key=lambda m: m[0]):
        head = f"{offset:x}" + (f"+{array[0]}*{array[1]}" if array else "")
        lines = [f"{head} {method}"]
        if not (len(fields) == 1 and fields[0][1:3] == [31, 0] and fields[0][0] in PLAIN and not fields[0][4]):
            lines += [field_text(f[0], f[1], f[2], f[3], sorted(f[4])) for f in sorted(fields, key=lambda f: f[2])]
        out.append((offset, "\n".join(lines)))
    return out


def group(names, items):
    """Returns sections of items that the same classes have. items: name to a list of (key, text)."""
    having = {}
    for name in names:
        for key, text in items[name]:
            having.setdefault((key, text), []).append(name)
    sections = {}
    for (key, text), owners in having.items():
        sections.setdefault(tuple(owners), []).append((key, text))
    order = sorted(sections, key=lambda s: (-len(s), [names.index(n) for n in s]))
    return [f"in {' '.join(s)}\n" + "\n".join(t for _, t in sorted(sections[s])) for s in order]


def method_table(headers, partial):
    classes = [parse_methods(text) for text in headers]
    for text in partial:
        number, name, methods = parse_methods(text)
        complete(methods, classes[-1][2])
        classes.append((number, name, methods))
    classes = [(number, name, method_texts(methods)) for number, name, methods in classes]
    lines = [f"class {number} {name}" for number, name, _ in classes]
    sections = group([c[0] for c in classes], {c[0]: c[2] for c in classes})
    return "\n".join(lines + sections) + "\n"


def parse_qmd(text):
    """Returns the layouts of a header: version to fields as (low bit, text)."""
    layouts = {}
    skipped = False
    number = None
    for line in text.splitlines():
        if line.startswith("** Queue Meta Data"):
            skipped = "inferred arrays" in line
        match = DEFINE.match(line)
        if not match or skipped:
            continue
        define, index, value = match.groups()
        head = re.match(r"NV(\w{4})_QMDV(\d\d)_(\d\d)_", define)
        if not head:
            continue
        number, version = head[1].lower(), f"{head[2]}_{head[3]}"
        define = define[head.end():]
        fields = layouts.setdefault(version, [])
        bits, array, plain = BITS.match(value), BITS_ARRAY.match(value), NUMBER.match(value)
        if bits:
            fields.append([define, int(bits[1]), int(bits[2]), None, []])
        elif array:
            fields.append([define, int(array[1]), int(array[3]), (int(array[2]), count_of(define, number)), []])
        elif plain:
            owner = max((f for f in fields if define.startswith(f[0] + "_")), key=lambda f: len(f[0]))
            owner[4].append((int(plain[1], 0), define[len(owner[0]) + 1:]))
    for version, fields in layouts.items():
        check_overlap(f"{version} of {number}", fields, 3072 if version >= "04" else 2048)
    return number, {v: [(f[2], field_text(*f)) for f in fs] for v, fs in layouts.items()}


def check_overlap(name, fields, size):
    """Stops if an element of an array is on the bits of another field, or beyond the end."""
    taken = {}
    for field, high, low, array, _ in fields:
        stride, count = array or (0, 1)
        for element in range(count):
            for bit in range(low + element * stride, high + element * stride + 1):
                other = taken.setdefault(bit, field)
                if bit >= size or other != field:
                    sys.exit(f"{name}: element {element} of {field} is on bit {bit} of {other}")


def qmd_table(headers):
    found = {}
    for text in headers:
        number, layouts = parse_qmd(text)
        for version, fields in layouts.items():
            found.setdefault(version, {})[number] = fields
    out = []
    for version in sorted(found):
        classes = found[version]
        out.append(f"layout {version} {384 if version >= '04' else 256} {' '.join(classes)}")
        out += group(list(classes), classes)
    return "\n".join(out) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 2:
        sys.exit(__doc__)
    doc, kernel = arguments
    made = {}
    for file, (from_doc, from_kernel) in TABLES.items():
        partial = [read(kernel, KERNEL_TAG, p) for p in from_kernel]
        made[file] = method_table([read(doc, "HEAD", p) for p in from_doc], partial)
    made["qmd.txt"] = qmd_table([read(doc, "HEAD", p) for p in QMD])
    write_or_check(made)


main()
