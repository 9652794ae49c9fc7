#!/usr/bin/env python3
"""Makes the packed files and archives of this folder, with Python's own writers and the programs of each packing.

Run it here: python3 make.py. `log()` is the same text as in tests/it/packed.rs.
"""
import bz2, gzip, io, lzma, os, subprocess, tarfile, zipfile


def log(lines):
    head = "VERSION 20070824\nPCIDEV 0018 10025046 b fd000008 c001 febf0000 0 0 0 c0002 1000000 100 4000 0 0 0 20000 \n"
    line = "W 4 {}.{:06} 1 {:#x} {:#x} 0x0 0\n"
    return head + "".join(line.format(4 + n // 500000, n * 2 % 1000000, 0xFEBF0000 + n % 64 * 4, n % 7) for n in range(lines))


def run(command, data):
    return subprocess.run(command.split(), input=data, stdout=subprocess.PIPE, check=True).stdout


def write(name, data):
    with open(name, "wb") as file:
        file.write(data)


text = log(8000).encode()
half = len(text) // 2
first, second = text[:half], text[half:]
write("log.gz", gzip.compress(first, mtime=0) + gzip.compress(second, mtime=0))
write("log.xz", run("xz -6 --block-size=100000", first) + bytes(4) + run("xz -0 --check=crc32", second))
write("log.bz2", run("bzip2 -1", first) + run("bzip2 -9", second))
skipped = b"\x53\x2a\x4d\x18\x03\x00\x00\x00abc"
write("log.zst", run("zstd -3", first) + skipped + run("zstd -19 --no-check", second))
write("one.xz", lzma.compress(text))
write("one.bz2", bz2.compress(text, 1))
write("one.zst", run("zstd -3", text))
write("twice.gz", gzip.compress(run("xz", text), mtime=0))

small = log(100).encode()
lspci = b"00:03.0 VGA compatible controller: ATI Rage 128 Pro\n"
dmesg = b"[    1.000000] nouveau 0000:03:00.0: fifo: SCHED_ERROR 0a [CTXSW_TIMEOUT]\n"
members = {"mydump.txt": small, "lspci.txt": lspci, "dmesg.txt": dmesg}


def tar(names, form, extra=()):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name in names:
            info = tarfile.TarInfo(name)
            data = members.get(os.path.basename(name), small)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return out.getvalue()


write("log-first.tar.gz", gzip.compress(tar(["mydump.txt", "lspci.txt", "dmesg.txt"], tarfile.USTAR_FORMAT), mtime=0))
write("log-last.tar.xz", lzma.compress(tar(["dmesg.txt", "lspci.txt", "mydump.txt"], tarfile.GNU_FORMAT)))
long = "a-folder-with-a-long-name/" * 6 + "mydump.txt"
write("long-gnu.tar.bz2", bz2.compress(tar([long], tarfile.GNU_FORMAT)))
write("long-pax.tar.zst", run("zstd", tar([long], tarfile.PAX_FORMAT)))
link = tarfile.TarInfo("link.txt")
link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
write("several.tar", tar(["a.txt", "inner/b.txt", "../outside.txt"], tarfile.USTAR_FORMAT, [link]))


def zipped(method, names, **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name in names:
            with archive.open(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), "w", **options) as file:
                file.write(members.get(os.path.basename(name), small))
    return out.getvalue()


def with_method(method, names, **options):
    info = zipfile.ZipInfo.__init__

    def init(self, *args, **kwargs):
        info(self, *args, **kwargs)
        self.compress_type = method

    zipfile.ZipInfo.__init__ = init
    try:
        return zipped(method, names, **options)
    finally:
        zipfile.ZipInfo.__init__ = info


write("deflated.zip", with_method(zipfile.ZIP_DEFLATED, ["inner/mydump.txt", "inner/lspci.txt"]))
write("stored.zip", zipped(zipfile.ZIP_STORED, ["mydump.txt"], force_zip64=True))
write("bzip2.zip", with_method(zipfile.ZIP_BZIP2, ["mydump.txt"]))
