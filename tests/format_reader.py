#!/usr/bin/env python3
"""A reader of .kine files, written from docs/format.md alone with Python's standard library and libzstd.

    format_reader.py FILE

prints JSON lines: the sections, the facts, events, snapshots, pages, metadata records and extras of the file's last
whole commit.
Every digest is checked. Exits with 1 and a sentence when the file cannot be read.
"""

import ctypes
import itertools
import json
import struct
import sys

PAGE = 4096


class Damaged(Exception):
    """The file is not what the page says."""


# BLAKE3, for input of any length and 32 bytes of output.

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
ORDER = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
MASK = 0xFFFFFFFF
COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def compress(chaining, words, counter, length, flags):
    v = list(chaining) + [IV[0], IV[1], IV[2], IV[3], counter & MASK, counter >> 32, length, flags]
    m = words
    for turn in range(7):
        i = 0
        for a, b, c, d in COLUMNS + DIAGONALS:
            va, vb, vc, vd = v[a], v[b], v[c], v[d]
            va = (va + vb + m[i]) & MASK
            vd ^= va
            vd = (vd >> 16 | vd << 16) & MASK
            vc = (vc + vd) & MASK
            vb ^= vc
            vb = (vb >> 12 | vb << 20) & MASK
            va = (va + vb + m[i + 1]) & MASK
            vd ^= va
            vd = (vd >> 8 | vd << 24) & MASK
            vc = (vc + vd) & MASK
            vb ^= vc
            vb = (vb >> 7 | vb << 25) & MASK
            v[a], v[b], v[c], v[d] = va, vb, vc, vd
            i += 2
        if turn < 6:
            m = [m[k] for k in ORDER]
    return [v[i] ^ v[i + 8] for i in range(8)]


def hash_chunk(data, index, root):
    blocks = [data[i : i + 64] for i in range(0, len(data), 64)] or [b""]
    chaining = IV
    for i, block in enumerate(blocks):
        flags = (CHUNK_START if i == 0 else 0) | (CHUNK_END if i == len(blocks) - 1 else 0)
        if root and flags & CHUNK_END:
            flags |= ROOT
        words = struct.unpack("<16I", block.ljust(64, b"\0"))
        chaining = compress(chaining, words, index, len(block), flags)
    return chaining


def hash_tree(data, first, root):
    if len(data) <= 1024:
        return hash_chunk(data, first, root)
    left = 1024
    while left * 2 < len(data):
        left *= 2
    words = hash_tree(data[:left], first, False) + hash_tree(data[left:], first + left // 1024, False)
    return compress(IV, words, 0, 64, PARENT | (ROOT if root else 0))


ZERO_PAGE = bytes(PAGE)


def digest(data):
    return struct.pack("<8I", *hash_tree(bytes(data), 0, True))


# Header, commit records, tables.


def read_header(data):
    header = data[:64]
    if header[:8] != bytes.fromhex("894b494e450d0a1a"):
        raise Damaged("not a .kine file")
    if len(header) < 64 or digest(header[:32]) != header[32:]:
        raise Damaged("the header is damaged")
    (version,) = struct.unpack_from("<I", header, 8)
    if version not in (1, 2):
        raise Damaged(f"version {version} is not known")
    return version


def read_record(data, at, file_version):
    """The commit record at a place, or None."""
    raw = data[at : at + 128]
    if at % 512 or at < 4096 or len(raw) < 128 or raw[:8] != bytes.fromhex("4b494e45636d740a"):
        return None
    own, number, table, size, previous, version, flags = struct.unpack_from("<5Q2I", raw, 8)
    if own != at or digest(raw[:96]) != raw[96:]:
        return None
    if version != file_version:
        raise Damaged(f"version {version} of the commit at byte {at} is not that of the file")
    (codecs,) = struct.unpack_from("<Q", raw, 56)
    if version == 2 and codecs & ~3:
        raise Damaged(f"the commit at byte {at} has blocks of unknown codecs ({codecs:#x})")
    return dict(at=at, number=number, table=table, size=size, previous=previous, complete=flags & 1, digest=raw[64:96])


def read_table(data, record):
    """The entries that a record's table lists by itself, or None."""
    start, end = record["table"], record["table"] + record["size"]
    if record["size"] % 96 or record["size"] > 67108864 or start < 4096 or end > record["at"]:
        return None
    table = data[start:end]
    if digest(table) != record["digest"]:
        return None
    return [table[i : i + 96] for i in range(0, len(table), 96)]


def read_commit(data, record, version):
    """All entries of a commit's state, or None when it is not whole."""
    tables = []
    while True:
        table = read_table(data, record)
        if table is None or len(tables) == 64:
            return None
        tables.append(table)
        if record["complete"]:
            return [entry for table in reversed(tables) for entry in table]
        before = read_record(data, record["previous"], version)
        if before is None or before["at"] >= record["at"] or before["number"] + 1 != record["number"]:
            return None
        record = before


def last_commit(data, version):
    at = (len(data) - 128) // 512 * 512
    while at >= 4096:
        record = read_record(data, at, version)
        if record:
            entries = read_commit(data, record, version)
            if entries is not None:
                return record, entries
        at -= 512
    raise Damaged("no whole commit")


# Sections.

# kind: name, struct format of a row, may be constant
COLUMN_KINDS = {
    0x001: ("host-writes", "QII", False),
    0x101: ("event-kind", "B", False),
    0x102: ("event-space", "B", True),
    0x103: ("event-time", "Q", True),
    0x104: ("event-thread", "I", True),
    0x105: ("event-payload", "I", True),
    0x201: ("access-offset", "I", False),
    0x202: ("access-width", "B", True),
    0x203: ("access-value", "Q", True),
    0x301: ("interrupts", "II", False),
    0x401: ("submits", "QII", False),
    0x501: ("page-digests", "32s", False),
    0x502: ("page-images", "4096s", False),
    0x901: ("undecoded", "II", False),
    0xA01: ("dma-maps", "QQII", False),
    0xB01: ("launches", "Q16I", False),
    0xC01: ("copies", "7Q6I", False),
    0xD01: ("fills", "4Q8I", False),
    0xE01: ("orders", "6I", False),
    0xF01: ("allocations", "QQ4I", False),
    0x1001: ("calls", "Q6I", False),
    0x1101: ("call-bytes", "B", False),
    0x1201: ("call-pages", "I", False),
    0x1301: ("objects", "3Q10I", False),
    0x1401: ("ring-entries", "4Q4I", False),
    0x1501: ("saved-memory", "3Q2I", False),
}
RECORD_KINDS = {0x601: "facts", 0x602: "snapshots", 0x603: "marks", 0x604: "metadata"}
# Of these kinds, only the last section counts.
REPLACED_KINDS = (0x601, 0x604)
NAMED_KINDS = {0x701: "extra", 0x801: "derived"}


BLOCK = 65536
PACKED_BLOCK = 262144
PACKED_ROWS, PACKED_RECORD = 3, 4


def unzstd(stored, size):
    """The content of a zstd frame, which has `size` bytes."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    out = ctypes.create_string_buffer(size)
    if library.ZSTD_decompress(out, size, stored, len(stored)) != size:
        raise Damaged(f"a packed block is no zstd frame of {size} bytes")
    return out.raw


def restore(prepared, preparation):
    """The bytes of a block from their prepared form."""
    width, values = 1 << (preparation & 3), (preparation >> 4) + 1
    size = width * values
    count = len(prepared) // size
    body, tail = prepared[: count * size], prepared[count * size :]
    if preparation & 8:
        rows = bytearray(len(body))
        for place in range(size):
            rows[place::size] = body[place * count : (place + 1) * count]
        body = bytes(rows)
    if preparation & 4:
        form = f"<{count * values}{'BHIQ'[preparation & 3]}"
        restored = list(struct.unpack(form, body))
        for n in range(values):
            restored[n::values] = itertools.accumulate(restored[n::values])
        body = struct.pack(form, *(value & (1 << 8 * width) - 1 for value in restored))
    return body + tail


def packed_content(data, start, blocks_at, size):
    """The content of a section in packed blocks. Each is compared with its entry in the table of blocks."""
    content, at = b"", start
    for i in range(0, size, PACKED_BLOCK):
        entry = data[blocks_at + i // PACKED_BLOCK * 40 :][:40]
        stored, codec, preparation = struct.unpack_from("<IBB", entry, 32)
        block = data[at : at + stored]
        at += stored
        if at > blocks_at or digest(block) != entry[:32]:
            raise Damaged(f"packed block {i // PACKED_BLOCK} of the table at byte {blocks_at} is damaged")
        bytes_now = min(PACKED_BLOCK, size - i)
        if codec == 1:
            block = unzstd(block, bytes_now)
        elif codec != 0:
            raise Damaged(f"codec {codec} is not known")
        content += restore(block, preparation)
    return content


def check_blocks(data, blocks_at, section):
    """Compares each block of a section with its entry in the table of blocks."""
    for i in range(0, len(section), BLOCK):
        block = section[i : i + BLOCK]
        entry = data[blocks_at + i // BLOCK * 40 :][:40]
        stored, codec = struct.unpack_from("<IB", entry, 32)
        if codec != 0 or stored != len(block):
            raise Damaged(f"block {i // BLOCK} at byte {blocks_at} has codec {codec} and {stored} bytes")
        if digest(block) != entry[:32]:
            raise Damaged(f"block {i // BLOCK} of the table at byte {blocks_at} does not agree with its digest")


class Section:
    def __init__(self, data, raw, limit, version):
        (self.kind, self.version, self.offset, self.bytes, self.rows, self.first_row, self.value) = struct.unpack_from(
            "<2I5Q", raw
        )
        self.encoding, self.row_bytes = struct.unpack_from("<2I", raw, 48)
        self.digest = raw[64:]
        self.name = None
        packed = self.encoding in (PACKED_ROWS, PACKED_RECORD)
        may_pack = self.kind == 0x801 if self.encoding == PACKED_RECORD else self.kind in COLUMN_KINDS and self.kind != 0x502
        if packed and (version == 1 or not may_pack):
            raise Damaged(f"section {self.kind:#x} cannot be packed")
        block_size = PACKED_BLOCK if packed else BLOCK
        end = self.offset + (0 if packed else self.bytes)
        if self.bytes and (self.offset % (8 if packed else 4096) or self.offset < 4096) or end > limit:
            raise Damaged(f"section {self.kind:#x} cannot lie at byte {self.offset}")
        self.data = data[self.offset : end]
        covered = self.data
        if version == 2:
            (blocks_at,) = struct.unpack_from("<Q", raw, 56)
            blocks_end = blocks_at + (self.bytes + block_size - 1) // block_size * 40
            if (blocks_at < end or blocks_at % 8 or blocks_end > limit) if self.bytes else blocks_at:
                raise Damaged(f"the table of blocks of section {self.kind:#x} cannot lie at byte {blocks_at}")
            covered = data[blocks_at:blocks_end]
        if digest(covered) != self.digest:
            raise Damaged(f"section {self.kind:#x} at byte {self.offset} does not agree with its digest")
        if packed:
            self.data = packed_content(data, self.offset, blocks_at, self.bytes)
        elif version == 2:
            check_blocks(data, blocks_at, self.data)
        known = self.kind in COLUMN_KINDS or self.kind in RECORD_KINDS or self.kind in NAMED_KINDS
        if known and self.version != 1:
            raise Damaged(f"version {self.version} of section {self.kind:#x} is not known")
        if self.kind in NAMED_KINDS:
            (length,) = struct.unpack_from("<I", self.data)
            if length > 208:
                raise Damaged("a name is too long")
            self.name = self.data[48 : 48 + length].decode("utf-8")

    def label(self):
        for kinds in (RECORD_KINDS, NAMED_KINDS):
            if self.kind in kinds:
                return kinds[self.kind]
        return COLUMN_KINDS[self.kind][0]

    def as_json(self):
        return {
            "section": self.label(),
            "name": self.name,
            "version": self.version,
            "offset": self.offset,
            "bytes": self.bytes,
            "first_row": self.first_row,
            "rows": self.rows,
            "digest": self.digest.hex(),
        }


def that_count(sections):
    """Without the sections that a later one replaces, and without those of unknown kinds."""
    last = {}
    for i, s in enumerate(sections):
        if s.kind in NAMED_KINDS or s.kind in REPLACED_KINDS:
            last[s.kind, s.name] = i
    for i, s in enumerate(sections):
        if s.kind in COLUMN_KINDS or s.kind in RECORD_KINDS and s.kind not in REPLACED_KINDS:
            yield s
        elif (s.kind, s.name) in last and last[s.kind, s.name] == i:
            yield s


def read_column(sections, kind):
    name, form, may_be_constant = COLUMN_KINDS[kind]
    row = struct.Struct("<" + form)
    values = []
    for s in sections:
        if s.kind != kind:
            continue
        if s.first_row != len(values) or s.row_bytes != row.size:
            raise Damaged(f"a chunk of {name} does not fit the one before")
        if s.encoding == 1 and may_be_constant:
            values += [s.value] * s.rows
        elif s.encoding in (0, PACKED_ROWS) and s.bytes == s.rows * row.size:
            rows = row.iter_unpack(s.data)
            values += [r[0] for r in rows] if len(form) == 1 or form.endswith("s") else list(rows)
        else:
            raise Damaged(f"a chunk of {name} has encoding {s.encoding} and {s.bytes} bytes")
    return values


# Records.


class Value:
    """Takes values from a record's bytes, in order."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, form):
        (v,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return v

    def of(self, kind):
        if kind in ("u8", "u32", "u64"):
            return self.take({"u8": "B", "u32": "I", "u64": "Q"}[kind])
        if kind == "bool":
            return (False, True)[self.take("B")]
        if kind == "string":
            length = self.take("Q")
            raw = self.data[self.at : self.at + length]
            if len(raw) != length:
                raise Damaged("a string is longer than its record")
            self.at += length
            return raw.decode("utf-8")
        form, inner = kind
        if form == "list":
            return [self.of(inner) for _ in range(self.take("Q"))]
        if form == "option":
            return self.of(inner) if self.take("B") else None
        if form == "choice":
            return inner[self.take("I")]
        if form == "table format":
            name = inner[self.take("I")]
            return self.of("string") if name == "Described" else name
        return {name: self.of(of) for name, of in inner}


def list_of(kind):
    return ("list", kind)


def option(kind):
    return ("option", kind)


def choice(names):
    return ("choice", names.split())


def structure(*fields):
    return ("structure", fields)


IDENTITY = structure(
    ("gpu_id", "u32"), ("gpu_name", "string"), ("driver", "string"), ("board", "string"), ("tool", "string"),
    ("source", "string"), ("when", "string"), ("clock", choice("SinceStart Monotonic Virtual Ticks")),
)
SPACE = structure(("name", "string"), ("kind", choice("Registers Framebuffer Ports Config Memory")), ("bytes", "u64"))
ADDRESS_SPACE = structure(
    ("number", "u8"), ("format", ("table format", "Aarch64_4k MaliLpae Described".split())), ("root", "u64"), ("memattr", "u64"),
    ("transcfg", "u64"),
)
BUFFER = structure(
    ("name", "string"), ("role", choice("Input Output Shared Weights Shader Descriptor")), ("address_space", "u32"),
    ("va", "u64"), ("bytes", "u64"), ("element", choice("U8 I8 U16 I16 U32 I32 U64 I64 F16 F32 F64 BF16")),
)
REGION = structure(
    ("address_space", "u32"), ("start", "u64"), ("end", "u64"), ("committed_pages", "u64"), ("flags", "u64"),
    ("has_content", "bool"),
)
LOST = structure(("before_event", "u64"), ("count", option("u64")), ("reason", "string"))
FINDING = structure(
    ("kind", choice(
        "undecoded-job-head foreign-data truncated-section lost-events overlapping-regions time-backwards "
        "unknown-register mapped-without-content feature-changed state-before-recording not-used order-differs "
        "assumed damaged-section shader-not-run undecoded-access writable-and-executable aliased-attributes "
        "aliased-rights mapped-unused writable-page-table not-recorded driver-error "
        "unmapped-address not-freed copy-trapped copy-limit copy-failed copy-unfinished")),
    ("severity", choice("note warning error")), ("place", "string"), ("message", "string"), ("event", option("u64")),
)
FACTS = structure(
    ("identity", IDENTITY), ("spaces", list_of(SPACE)), ("address_spaces", list_of(ADDRESS_SPACE)),
    ("buffers", list_of(BUFFER)), ("regions", list_of(REGION)), ("lost", list_of(LOST)),
    ("findings", list_of(FINDING)), ("source_pages", "u64"), ("source_zero_pages", "u64"),
)
PAGE_RUN = structure(
    ("first_frame", "u64"), ("count", "u32"), ("first_page", "u32"), ("repeat", "bool"),
    ("role", choice("Data Table")),
)
SNAPSHOT = structure(("event", "u64"), ("parent", option("u32")), ("runs", list_of(PAGE_RUN)))


def read_record_section(s, kind):
    if s.encoding != 2:
        raise Damaged(f"{s.label()} has encoding {s.encoding}")
    value = Value(s.data)
    got = value.of(kind)
    if value.at != len(s.data):
        raise Damaged(f"{len(s.data) - value.at} bytes are left over after a record of {s.label()}")
    return got


def read_list(sections, kind, of):
    values = []
    for s in sections:
        if s.kind == kind:
            got = read_record_section(s, list_of(of))
            if len(got) != s.rows or s.first_row != len(values):
                raise Damaged(f"a list of {s.label()} does not fit its entry")
            values += got
    return values


# Metadata records.

METADATA = {
    1: "calls", 2: "hardware", 3: "capture", 4: "buffer-shapes", 5: "chain-reports", 6: "recorded-ranges",
    7: "screen-at-end", 8: "cuts", 9: "applied-edits", 10: "processes", 11: "driver-trace",
    12: "job-queues",
}
OF_REGISTER_TRACES = (2, 5, 6, 7, 12)


def split_metadata(data):
    """The records of a section `metadata`: tag, version, body."""
    at, records = 0, []
    while at < len(data):
        tag, version, size = struct.unpack_from("<2IQ", data, at)
        body = data[at + 16 : at + 16 + size]
        if size > 67108864 or len(body) != size:
            raise Damaged(f"the metadata record {tag} is truncated")
        if any(tag == before for before, _, _ in records):
            raise Damaged(f"the metadata record {tag} is repeated")
        if tag in METADATA and version != 1:
            raise Damaged(f"version {version} of the metadata record {METADATA[tag]} is not known")
        records.append((tag, version, body))
        at += 16 + size
    return records


def read_metadata(sections):
    """The records of the section `metadata`, or of the extras that hold them in older files, by tag."""
    own = [s for s in sections if s.kind == 0x604]
    if own:
        if own[0].encoding != 2 or own[0].bytes > 268435456:
            raise Damaged("the section metadata is no list of records")
        records = split_metadata(own[0].data)
    else:
        extras = {s.name: s.data[256:] for s in sections if s.kind == 0x701}
        records = [(tag, 1, extras[name]) for tag, name in METADATA.items() if name in extras]
    tags = [tag for tag, _, _ in records]
    if sum([1 in tags, 11 in tags, any(tag in OF_REGISTER_TRACES for tag in tags)]) > 1:
        raise Damaged("the recording has metadata of two kinds of traces")
    for tag, version, body in sorted(records, key=lambda r: (r[0] not in METADATA, r[0] if r[0] in METADATA else 0)):
        text = tag in METADATA and METADATA[tag] != "screen-at-end"
        yield {"metadata": tag, "version": version, "body": json.loads(body) if text else list(body)}


# Derived data.


def padded(n):
    return (n + 7) // 8 * 8


def read_pyramid(data):
    """Lanes with all their reads and writes, and the rows of times, from the bytes of a section `pyramid`."""
    block, group, events, lanes = struct.unpack_from("<IIQI", data)
    if (block, group) != (128, 64):
        raise Damaged(f"a pyramid of blocks of {block} in groups of {group}")
    names = [data[24 + 32 * i : 56 + 32 * i].rstrip(b"\0").decode("utf-8") for i in range(lanes)]
    rows = (events + 127) // 128 + 1
    at = 24 + 32 * lanes
    latest = struct.unpack_from(f"<{rows}Q", data, at)
    cut = struct.unpack_from(f"<{rows}Q", data, at + 8 * rows)
    at += 16 * rows
    groups = (rows + 63) // 64
    coarse = struct.unpack_from(f"<{groups * lanes * 2}I", data, at)
    at += padded(8 * lanes * groups)
    fine = struct.unpack_from(f"<{rows * lanes * 2}H", data, at)
    if at + padded(4 * lanes * rows) != len(data):
        raise Damaged("a pyramid of the wrong length")

    def before(row, column):
        return coarse[row // 64 * lanes * 2 + column] + fine[row * lanes * 2 + column]

    counts = [[[before(row, lane * 2 + write) for write in (0, 1)] for lane in range(lanes)] for row in range(rows)]
    return {"pyramid": events, "lanes": names, "before": counts, "latest": latest, "cut": cut}


def read_timeline(data):
    """The tables of a section `timeline`."""
    at, tables = 0, {}
    for name, words in (("polls", 6), ("interrupts", 4), ("jobs", 8), ("gaps", 2), ("phases", 3)):
        (count,) = struct.unpack_from("<Q", data, at)
        rows = struct.unpack_from(f"<{count * words}Q", data, at + 8)
        tables[name] = [rows[i * words : (i + 1) * words] for i in range(count)]
        at += 8 + 8 * count * words
    if at != len(data):
        raise Damaged("a timeline of the wrong length")
    return {"timeline": tables}


DERIVED = {("pyramid", 1): read_pyramid, ("timeline", 3): read_timeline}


# Events.

EVENT_KINDS = {
    1: "read", 2: "write", 3: "interrupt", 4: "mark", 5: "submit", 6: "host-write", 7: "undecoded", 8: "dma-map",
    9: "launch", 10: "copy", 11: "fill", 12: "order", 13: "allocation", 14: "call",
    15: "object", 16: "ring-entry", 17: "saved-memory",
}


def arguments(columns, at, length):
    got = columns[0x1101][at : at + length]
    if len(got) != length:
        raise Damaged("a call names more bytes than there are")
    return bytes(got).hex()


def launch(columns, row):
    at, length, function, stream, *rest = columns[0xB01][row]
    names = ("shared", "flags", "result", "took")
    return {
        "function": function, "stream": stream, "grid": rest[0:3], "block": rest[3:6], "cluster": rest[6:9],
        "arguments": arguments(columns, at, length), **dict(zip(names, rest[9:13])),
    }


def copy(columns, row):
    to, source, size, rows, to_pitch, from_pitch, pages_at, kind, stream, flags, result, took, _ = columns[0xC01][row]
    pages = stored_pages(columns, source if kind == 2 else to, size * rows, pages_at)
    return {
        "to": to, "from": source, "bytes": size, "rows": rows, "to_pitch": to_pitch, "from_pitch": from_pitch,
        "copy_kind": kind, "stream": stream, "flags": flags, "result": result, "took": took, "pages": pages,
    }


def fill(columns, row):
    names = ("to", "elements", "rows", "pitch", "value", "element", "stream", "flags", "result", "took")
    return zip(names, columns[0xD01][row])


def order(columns, row):
    return zip(("order_kind", "stream", "number", "flags", "result", "took"), columns[0xE01][row])


def allocation(columns, row):
    return zip(("at", "bytes", "allocation_kind", "stream", "result", "took"), columns[0xF01][row])


def other_call(columns, row):
    at, length, name, about, result, took, _ = columns[0x1001][row]
    return {"name": name, "about": about, "result": result, "took": took, "arguments": arguments(columns, at, length)}


def driver_object(columns, row):
    names = (
        "bytes", "address", "second", "client", "parent", "handle", "class", "address_space", "action", "object_kind",
        "caller", "flags", "result",
    )
    return zip(names, columns[0x1301][row])


def stored_pages(columns, at, size, pages_at):
    if pages_at == 2**64 - 1:
        return None
    count = (at % PAGE + size + PAGE - 1) // PAGE
    pages = columns[0x1201][pages_at : pages_at + count]
    if len(pages) != count:
        raise Damaged("an event names more pages than there are")
    return pages


def ring_entry(columns, row):
    entry, at, size, pages_at, client, channel, index, _ = columns[0x1401][row]
    return {
        "entry": entry, "at": at, "bytes": size, "client": client, "channel": channel, "index": index,
        "pages": stored_pages(columns, at, size, pages_at),
    }


def saved_memory(columns, row):
    at, size, pages_at, reason, _ = columns[0x1501][row]
    return {"at": at, "bytes": size, "reason": reason, "pages": stored_pages(columns, at, size, pages_at)}


CALLS = {
    9: launch, 10: copy, 11: fill, 12: order, 13: allocation, 14: other_call, 15: driver_object, 16: ring_entry,
    17: saved_memory,
}


def events(columns, marks):
    for i, kind in enumerate(columns[0x101]):
        event = {
            "event": i,
            "kind": EVENT_KINDS.get(kind, kind),
            "space": columns[0x102][i],
            "time": columns[0x103][i],
            "thread": columns[0x104][i],
        }
        row = columns[0x105][i]
        if kind in (1, 2):
            event.update(offset=columns[0x201][row], width=columns[0x202][row], value=columns[0x203][row])
        elif kind == 3:
            event.update(zip(("line", "status"), columns[0x301][row]))
        elif kind == 4:
            event.update(text=marks[row])
        elif kind == 5:
            event.update(zip(("head_va", "address_space", "slot"), columns[0x401][row]))
        elif kind == 6:
            event.update(zip(("at", "bytes", "image"), columns[0x001][row]))
        elif kind == 7:
            event.update(zip(("offset", "code"), columns[0x901][row]))
        elif kind == 8:
            event.update(zip(("bus", "bytes", "map_kind"), columns[0xA01][row][:3]))
        elif kind in CALLS:
            event.update(CALLS[kind](columns, row))
        yield event


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    version = read_header(data)
    record, entries = last_commit(data, version)
    sections = list(that_count([Section(data, raw, record["at"], version) for raw in entries]))
    columns = {kind: read_column(sections, kind) for kind in COLUMN_KINDS}
    for kind, values in columns.items():
        first = next(k for k in COLUMN_KINDS if k >> 8 == kind >> 8)
        if len(values) != len(columns[first]):
            raise Damaged(f"columns {kind:#x} and {first:#x} differ in length")
    out = [s.as_json() for s in sections]
    out += [{"facts": read_record_section(s, FACTS)} for s in sections if s.kind == 0x601]
    out += events(columns, read_list(sections, 0x603, "string"))
    out += [{"snapshot": s} for s in read_list(sections, 0x602, SNAPSHOT)]
    for i, (image, told) in enumerate(zip(columns[0x502], columns[0x501])):
        if digest(image) != told:
            raise Damaged(f"page {i + 1} does not agree with its digest")
        out.append({"page": i + 1, "digest": told.hex(), "sum": sum(image)})
    out += read_metadata(sections)
    extras = sorted((s.name.encode(), s) for s in sections if s.kind == 0x701 and s.name not in METADATA.values())
    out += [{"extra": s.name, "content": list(s.data[256:])} for _, s in extras]
    for s in sections:
        if s.kind == 0x801:
            (version,) = struct.unpack_from("<I", s.data, 4)
            if (s.name, version) in DERIVED:
                out.append(DERIVED[s.name, version](s.data[256:]))
    return out


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        lines = read(sys.argv[1])
    except (Damaged, OSError, struct.error, IndexError, UnicodeDecodeError, json.JSONDecodeError) as why:
        print(f"{sys.argv[1]}: {why}", file=sys.stderr)
        return 1
    for line in lines:
        print(json.dumps(line))
    return 0


if __name__ == "__main__":
    sys.exit(main())
