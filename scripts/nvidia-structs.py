#!/usr/bin/env python3
"""Makes the tables of ioctl arguments and names in assets/registers/nvidia/ anew.

usage: scripts/nvidia-structs.py [--check] KERNEL

KERNEL is a git repository of NVIDIA's open-gpu-kernel-modules. The script needs gcc and readelf: the layouts are those
of the compiler. With --check it writes nothing, and fails if a table differs from what the headers give.
The format is described in trace-core/nvidia-channel/src/rm/table.rs.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from nvidia_tables import write_or_check

TAGS = {"570": "570.211.01", "580": "580.142", "595": "595.45.04"}
SDK = "src/common/sdk/nvidia/inc"
UNIX = "src/nvidia/arch/nvalloc/unix/include"
KERNEL_INC = "kernel-open/common/inc"
UVM = "kernel-open/nvidia-uvm"

# Requests of /dev/nvidiactl and /dev/nvidiaN: number, name, structs of the argument.
REQUESTS = [
    (0x27, "RM_ALLOC_MEMORY", "nv_ioctl_nvos02_parameters_with_fd"),
    (0x28, "RM_ALLOC_OBJECT", "NVOS05_PARAMETERS"),
    (0x29, "RM_FREE", "NVOS00_PARAMETERS"),
    (0x2A, "RM_CONTROL", "NVOS54_PARAMETERS"),
    (0x2B, "RM_ALLOC", "NVOS64_PARAMETERS NVOS21_PARAMETERS"),
    (0x34, "RM_DUP_OBJECT", "NVOS55_PARAMETERS"),
    (0x35, "RM_SHARE", "NVOS57_PARAMETERS"),
    (0x41, "RM_IDLE_CHANNELS", "NVOS30_PARAMETERS"),
    (0x4A, "RM_VID_HEAP_CONTROL", "NVOS32_PARAMETERS"),
    (0x4E, "RM_MAP_MEMORY", "nv_ioctl_nvos33_parameters_with_fd"),
    (0x4F, "RM_UNMAP_MEMORY", "NVOS34_PARAMETERS"),
    (0x52, "RM_GET_EVENT_DATA", "NVOS41_PARAMETERS"),
    (0x54, "RM_ALLOC_CONTEXT_DMA2", "NVOS39_PARAMETERS"),
    (0x57, "RM_MAP_MEMORY_DMA", "NVOS46_PARAMETERS"),
    (0x58, "RM_UNMAP_MEMORY_DMA", "NVOS47_PARAMETERS"),
    (0x59, "RM_BIND_CONTEXT_DMA", "NVOS49_PARAMETERS"),
    (0x5C, "RM_EXPORT_OBJECT_TO_FD", ""),
    (0x5D, "RM_IMPORT_OBJECT_FROM_FD", ""),
    (0x5E, "RM_UPDATE_DEVICE_MAPPING_INFO", "NVOS56_PARAMETERS"),
    (0xC8, "CARD_INFO", "nv_ioctl_card_info_t*"),
    (0xC9, "REGISTER_FD", "nv_ioctl_register_fd_t"),
    (0xCE, "ALLOC_OS_EVENT", "nv_ioctl_alloc_os_event_t"),
    (0xCF, "FREE_OS_EVENT", "nv_ioctl_free_os_event_t"),
    (0xD1, "STATUS_CODE", "nv_ioctl_status_code_t"),
    (0xD2, "CHECK_VERSION_STR", "nv_ioctl_rm_api_version_t"),
    (0xD3, "IOCTL_XFER_CMD", "nv_ioctl_xfer_t"),
    (0xD4, "ATTACH_GPUS_TO_FD", ""),
    (0xD5, "QUERY_DEVICE_INTR", "nv_ioctl_query_device_intr"),
    (0xD6, "SYS_PARAMS", "nv_ioctl_sys_params_t"),
    (0xD7, "NUMA_INFO", "nv_ioctl_numa_info_t"),
    (0xD8, "SET_NUMA_STATUS", "nv_ioctl_set_numa_status_t"),
    (0xD9, "EXPORT_TO_DMABUF_FD", "nv_ioctl_export_to_dma_buf_fd_t"),
    (0xDA, "WAIT_OPEN_COMPLETE", "nv_ioctl_wait_open_complete_t"),
]
# Parameters of allocations by class.
MEMORY = "NV_MEMORY_ALLOCATION_PARAMS"
CHANNEL = "NV_CHANNEL_ALLOC_PARAMS"
COPY = "NVB0B5_ALLOCATION_PARAMETERS"
COMPUTE = "NV_GR_ALLOCATION_PARAMETERS"
ALLOCATIONS = {
    0x3E: MEMORY, 0x40: MEMORY, 0x50A0: MEMORY,
    0x70: "NV_MEMORY_VIRTUAL_ALLOCATION_PARAMS",
    0x79: "NV0005_ALLOC_PARAMETERS",
    0x80: "NV0080_ALLOC_PARAMETERS",
    0x2080: "NV2080_ALLOC_PARAMETERS",
    0x503C: "NV503C_ALLOC_PARAMETERS",
    0x83DE: "NV83DE_ALLOC_PARAMETERS",
    0x9067: "NV_CTXSHARE_ALLOCATION_PARAMETERS",
    0x90F1: "NV_VASPACE_ALLOCATION_PARAMETERS",
    0xA06C: "NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS",
    0xC661: "NV_HOPPER_USERMODE_A_PARAMS", 0xC761: "NV_HOPPER_USERMODE_A_PARAMS",
    **{c: CHANNEL for c in (0xB06F, 0xC36F, 0xC46F, 0xC56F, 0xC86F, 0xC96F, 0xCA6F)},
    **{c: COPY for c in (0xC3B5, 0xC5B5, 0xC6B5, 0xC7B5, 0xC8B5, 0xC9B5, 0xCAB5)},
    **{c: COMPUTE for c in (0xC3C0, 0xC5C0, 0xC6C0, 0xC7C0, 0xC9C0, 0xCBC0, 0xCDC0, 0xCEC0)},
}
# Control commands whose parameters the table holds: those of a CUDA program.
CONTROLS = """
NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION_V2 NV0000_CTRL_CMD_SYSTEM_GET_FEATURES NV0000_CTRL_CMD_GPU_GET_ATTACHED_IDS
NV0000_CTRL_CMD_GPU_GET_ID_INFO NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2 NV0000_CTRL_CMD_GPU_GET_PROBED_IDS
NV0000_CTRL_CMD_GPU_ATTACH_IDS NV0000_CTRL_CMD_GPU_GET_PCI_INFO NV0000_CTRL_CMD_GPU_QUERY_DRAIN_STATE
NV0000_CTRL_CMD_GPU_GET_MEMOP_ENABLE NV0000_CTRL_CMD_GPU_ASYNC_ATTACH_ID NV0000_CTRL_CMD_CLIENT_GET_ADDR_SPACE_TYPE
NV0080_CTRL_CMD_GPU_GET_NUM_SUBDEVICES NV0080_CTRL_CMD_GPU_GET_VIRTUALIZATION_MODE
NV0080_CTRL_CMD_GPU_GET_CLASSLIST NV0080_CTRL_CMD_GPU_GET_CLASSLIST_V2 NV0080_CTRL_CMD_FB_GET_CAPS_V2
NV0080_CTRL_CMD_HOST_GET_CAPS_V2 NV0080_CTRL_CMD_FIFO_GET_CHANNELLIST NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL
NV2080_CTRL_CMD_GPU_GET_INFO_V2 NV2080_CTRL_CMD_GPU_GET_NAME_STRING NV2080_CTRL_CMD_GPU_GET_SHORT_NAME_STRING
NV2080_CTRL_CMD_GPU_GET_SIMULATION_INFO NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES NV2080_CTRL_CMD_GPU_GET_GID_INFO
NV2080_CTRL_CMD_GPU_GET_ENGINES_V2 NV2080_CTRL_CMD_GPU_EXEC_REG_OPS NV2080_CTRL_CMD_GR_GET_INFO
NV2080_CTRL_CMD_GR_SET_CTXSW_PREEMPTION_MODE NV2080_CTRL_CMD_GR_GET_CTX_BUFFER_SIZE NV2080_CTRL_CMD_GR_GET_CAPS_V2
NV2080_CTRL_CMD_GR_GET_GPC_MASK NV2080_CTRL_CMD_GR_GET_TPC_MASK NV2080_CTRL_CMD_FB_GET_INFO_V2
NV2080_CTRL_CMD_MC_GET_ARCH_INFO NV2080_CTRL_CMD_BUS_GET_PCI_INFO NV2080_CTRL_CMD_BUS_GET_INFO_V2
NV2080_CTRL_CMD_BUS_GET_C2C_INFO NV2080_CTRL_CMD_PERF_BOOST NV2080_CTRL_CMD_CE_GET_ALL_CAPS
NV2080_CTRL_CMD_GSP_GET_FEATURES NV503C_CTRL_CMD_REGISTER_VA_SPACE NV503C_CTRL_CMD_REGISTER_VIDMEM
NV503C_CTRL_CMD_UNREGISTER_VIDMEM NV83DE_CTRL_CMD_DEBUG_SET_EXCEPTION_MASK
NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO
NVA06C_CTRL_CMD_GPFIFO_SCHEDULE NVA06C_CTRL_CMD_SET_TIMESLICE NVA06C_CTRL_CMD_PREEMPT
NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN NV_CONF_COMPUTE_CTRL_CMD_SYSTEM_GET_CAPABILITIES
NV0000_CTRL_CMD_CLIENT_SET_INHERITED_SHARE_POLICY NV0000_CTRL_CMD_GPU_GET_ACTIVE_DEVICE_IDS
NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO NV0000_CTRL_CMD_SYSTEM_GET_BUILD_VERSION
NV0000_CTRL_CMD_SYSTEM_GET_P2P_CAPS_MATRIX NV2080_CTRL_CMD_BUS_GET_PCIE_SUPPORTED_GPU_ATOMICS
NV2080_CTRL_CMD_BUS_GET_PCI_BAR_INFO NV2080_CTRL_CMD_GET_GPU_FABRIC_PROBE_INFO
NV2080_CTRL_CMD_GPU_GET_COMPUTE_POLICY_CONFIG NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS
NV2080_CTRL_CMD_GRMGR_GET_GR_FS_INFO NV2080_CTRL_CMD_GR_GET_GLOBAL_SM_ORDER
NV2080_CTRL_CMD_GR_GET_SM_ISSUE_RATE_MODIFIER NV2080_CTRL_CMD_NVLINK_GET_NVLINK_STATUS
NV90E6_CTRL_CMD_MASTER_GET_VIRTUAL_FUNCTION_ERROR_CONT_INTR_MASK
""".split()
# Structs that do not have the name of their command.
CONTROL_STRUCTS = {
    "NV0080_CTRL_CMD_PERF_CUDA_LIMIT_SET_CONTROL": "NV0080_CTRL_PERF_CUDA_LIMIT_CONTROL_PARAMS",
    "NV0000_CTRL_CMD_SYNC_GPU_BOOST_GROUP_INFO": "NV0000_SYNC_GPU_BOOST_GROUP_INFO_PARAMS",
}
# Names of classes that their header does not give first, or that another header gives.
CLASSES = {
    0x3E: "NV01_MEMORY_SYSTEM", 0x41: "NV01_ROOT_CLIENT", 0x78: "NV01_EVENT_KERNEL_CALLBACK",
    0x79: "NV01_EVENT_OS_EVENT", 0x7E: "NV01_EVENT_KERNEL_CALLBACK_EX", 0x81: "NV01_MEMORY_LIST_SYSTEM",
    0x82: "NV01_MEMORY_LIST_FBMEM", 0x9010: "NV9010_VBLANK_CALLBACK",
}
NUMBER = r"\(?\s*(0x[0-9a-fA-F]+|\d+)U?\s*\)?"


def extract(repository, tag, folder):
    archive = subprocess.run(["git", "-C", repository, "archive", tag, SDK, UNIX, KERNEL_INC, UVM],
                             check=True, capture_output=True).stdout
    subprocess.run(["tar", "x", "-C", folder], input=archive, check=True)


def compile_headers(folder):
    """Compiles every header and returns the debug information, and the values of its macros."""
    sdk = Path(folder, SDK)
    headers = ["nvtypes.h", "nvos.h", "nv-ioctl.h", "nv-ioctl-numa.h", "nv-unix-nvos-params-wrappers.h"]
    headers += sorted(str(p.relative_to(sdk)) for d in ("alloc", "class", "ctrl") for p in sdk.glob(f"{d}/**/*.h"))
    source = Path(folder, "all.c")
    source.write_text("".join(f'#include "{h}"\n' for h in headers + ["uvm_linux_ioctl.h"]))
    gcc = ["gcc", "-w"] + [f"-I{folder}/{d}" for d in (SDK, UNIX, KERNEL_INC, UVM)]
    subprocess.run([*gcc, "-g", "-c", "-fno-eliminate-unused-debug-types", "-o", f"{folder}/all.o", source], check=True)
    dump = ["readelf", "--debug-dump=info", f"{folder}/all.o"]
    info = subprocess.run(dump, check=True, capture_output=True, text=True).stdout
    return info


def parse_entries(info):
    """Returns the entries of the debug information: offset to [depth, tag, attributes, children]."""
    entries, stack = {}, []
    entry = None
    for line in info.splitlines():
        head = re.match(r" <(\w+)><(\w+)>: Abbrev Number: \d+ \((DW_TAG_\w+)\)", line)
        if head:
            depth = int(head[1], 16)
            entry = [depth, head[3], {}, []]
            entries[int(head[2], 16)] = entry
            del stack[depth:]
            if stack:
                stack[-1][3].append(entry)
            stack.append(entry)
            continue
        attribute = re.match(r"\s+<\w+>\s+(DW_AT_\w+)\s*:\s*(.*)", line)
        if attribute and entry:
            value = attribute[2].strip()
            value = re.sub(r"^\((?:indirect|alt indirect)[^)]*\):\s*|^\([^)]*\)\s*", "", value)
            entry[2][attribute[1]] = value.strip()
    return entries


class Layouts:
    """Structs of one branch by name."""

    def __init__(self, info):
        self.entries = parse_entries(info)
        self.structs = {}
        for _, tag, attributes, _ in self.entries.values():
            name = attributes.get("DW_AT_name")
            if name and tag in ("DW_TAG_typedef", "DW_TAG_structure_type"):
                self.structs.setdefault(name, (tag, attributes))

    def type_of(self, attributes):
        return self.entries[int(attributes["DW_AT_type"].strip("<>"), 16)]

    def resolve(self, entry):
        while entry[1] in ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type"):
            entry = self.type_of(entry[2])
        return entry

    def size(self, entry):
        entry = self.resolve(entry)
        if entry[1] == "DW_TAG_array_type":
            return self.size(self.type_of(entry[2])) * self.count(entry)
        return int(entry[2]["DW_AT_byte_size"], 0)

    @staticmethod
    def count(entry):
        count = 1
        for child in entry[3]:
            if "DW_AT_upper_bound" in child[2]:
                count *= int(child[2]["DW_AT_upper_bound"], 0) + 1
            elif "DW_AT_count" in child[2]:
                count *= int(child[2]["DW_AT_count"], 0)
        return count

    def fields(self, entry, at=0, prefix=""):
        """Yields (offset, type, name); structs within structs are flattened, arrays of structs are bytes."""
        for _, tag, attributes, _ in entry[3]:
            if tag != "DW_TAG_member":
                continue
            offset = at + int(attributes.get("DW_AT_data_member_location", "0"), 0)
            name = prefix + attributes.get("DW_AT_name", "")
            if "DW_AT_bit_size" in attributes:
                bits = int(attributes["DW_AT_data_bit_offset"], 0)
                yield at + bits // 8, f"b{bits % 8}:{attributes['DW_AT_bit_size']}", name
                continue
            inner = self.type_of(attributes)
            resolved = self.resolve(inner)
            if resolved[1] == "DW_TAG_structure_type":
                # The base of a wrapper keeps the names of its fields.
                inner_prefix = prefix if name in ("params",) else (f"{name}." if name else prefix)
                yield from self.fields(resolved, offset, inner_prefix)
                continue
            yield offset, self.type_text(inner, resolved), name

    def type_text(self, inner, resolved):
        if resolved[1] == "DW_TAG_array_type":
            element = self.resolve(self.type_of(resolved[2]))
            if element[1] in ("DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_array_type"):
                return f"u8[{self.size(resolved)}]"
            return f"{self.type_text(self.type_of(resolved[2]), element)}[{self.count(resolved)}]"
        if resolved[1] == "DW_TAG_union_type":
            return f"u8[{self.size(resolved)}]"
        if resolved[1] == "DW_TAG_pointer_type" or inner[2].get("DW_AT_name") == "NvP64":
            return "ptr"
        signed = "signed" in resolved[2].get("DW_AT_encoding", "") and "unsigned" not in resolved[2].get("DW_AT_encoding", "")
        return f"{'i' if signed else 'u'}{8 * self.size(resolved)}"

    def layout(self, name):
        """Returns size and lines of a struct, or None if the branch does not have it."""
        if name not in self.structs:
            return None
        tag, attributes = self.structs[name]
        entry = self.resolve(self.type_of(attributes)) if tag == "DW_TAG_typedef" else next(
            e for e in self.entries.values() if e[2] is attributes)
        if entry[1] != "DW_TAG_structure_type" or "DW_AT_byte_size" not in entry[2]:
            return None
        lines = [f" {offset} {kind} {field}" for offset, kind, field in self.fields(entry)]
        return int(entry[2]["DW_AT_byte_size"], 0), "\n".join(lines)


def struct_table(names, branches):
    out = []
    for name in sorted(names):
        forms = {}
        for branch, layouts in branches.items():
            layout = layouts.layout(name)
            if layout:
                forms.setdefault(layout, []).append(branch)
        if not forms:
            sys.exit(f"no branch has the struct {name}")
        for (size, lines), owners in forms.items():
            out.append(f"struct {name} {size} {' '.join(owners)}\n{lines}")
    return "\n".join(out) + "\n"


def read_all(folder, pattern):
    return "\n".join(p.read_text(errors="replace") for p in sorted(Path(folder, SDK).glob(pattern)))


def class_names(folders):
    names = dict(CLASSES)
    for folder in folders:
        for path in sorted(Path(folder, SDK, "class").glob("cl*.h")):
            number = re.match(r"cl([0-9a-f]{4})", path.stem)
            if not number:
                continue
            number = int(number[1], 16)
            for name, value in re.findall(rf"^#define\s+(\w+)\s+{NUMBER}", path.read_text(errors="replace"), re.M):
                if int(value, 0) == number and not name.endswith(("_H", "_MESSAGE_ID")) and not re.match(r"NV[0-9A-F]{4}_", name):
                    names.setdefault(number, name)
                    break
    return names


def control_names(folders):
    names = {}
    for folder in folders:
        pattern = rf"^#define\s+(NV\w*_CTRL_CMD_\w+)\s+{NUMBER}"
        for name, value in re.findall(pattern, read_all(folder, "ctrl/**/*.h"), re.M):
            value = int(value, 0)
            # Words of parameters have names of this form too: a command has its class in the upper half.
            head = re.match(r"NV([0-9A-F]{4})_CTRL_CMD_", name)
            fits = value >> 16 == int(head[1], 16) if head else value > 0xFFFF
            if fits and value & 0xFFFF > 0xFF and name not in names.values():
                names.setdefault(value, name)
    return names


def control_table(names):
    sections = {}
    for value, name in sorted(names.items()):
        prefix, rest = name.split("_CTRL_CMD_", 1)
        sections.setdefault((value >> 16, prefix), []).append(f"{value & 0xFFFF:x} {rest}")
    return "\n".join(f"of {high:x} {prefix}\n" + "\n".join(lines) for (high, prefix), lines in sections.items()) + "\n"


def status_table(folders):
    names = {}
    for folder in folders:
        text = Path(folder, SDK, "nvstatuscodes.h").read_text()
        for name, value, sense in re.findall(r'NV_STATUS_CODE\((\w+),\s*(\w+),\s*"([^"]*)"\)', text):
            names.setdefault(int(value, 0), (name, sense.strip()))
    return "\n".join(f"{v:x} {n} {s}" for v, (n, s) in sorted(names.items())) + "\n"


def uvm_requests(folders):
    names = {}
    for folder in folders:
        for file in ("uvm_ioctl.h", "uvm_linux_ioctl.h"):
            text = Path(folder, UVM, file).read_text()
            for name, number in re.findall(rf"^#define\s+(UVM_\w+)\s+UVM_IOCTL_BASE\((\d+)\)", text, re.M):
                names.setdefault(int(number), name)
            for name, number in re.findall(rf"^#define\s+(UVM_(?:DE)?INITIALIZE)\s+{NUMBER}", text, re.M):
                names.setdefault(int(number, 0), name)
    return names


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    if len(arguments) != 1:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as scratch:
        folders, branches = [], {}
        for branch, tag in TAGS.items():
            folder = Path(scratch, branch)
            folder.mkdir()
            extract(arguments[0], tag, folder)
            branches[branch] = Layouts(compile_headers(folder))
            folders.append(folder)
        # The middle branch names first: it is the one that recordings are from.
        folders = [folders[1], folders[2], folders[0]]
        controls = control_names(folders)
        by_name = {name: value for value, name in controls.items()}
        uvm = uvm_requests(folders)
        structs = set()
        lines = []
        for number, name, arguments in REQUESTS:
            lines.append(f"rm {number:x} {name} {arguments}".rstrip())
            structs.update(a.rstrip("*") for a in arguments.split())
        for number, name in sorted(uvm.items()):
            struct = f"{name}_PARAMS"
            has = any(b.layout(struct) for b in branches.values())
            lines.append(f"uvm {number:x} {name} {struct if has else ''}".rstrip())
            if has:
                structs.add(struct)
        for number, struct in sorted(ALLOCATIONS.items()):
            lines.append(f"alloc {number:x} {struct}")
            structs.add(struct)
        for name in CONTROLS:
            struct = CONTROL_STRUCTS.get(name, name.replace("_CTRL_CMD_", "_CTRL_") + "_PARAMS")
            # Some structs have the whole name of the command.
            if not any(b.layout(struct) for b in branches.values()):
                struct = f"{name}_PARAMS"
            if name not in by_name:
                sys.exit(f"the command {name} is unknown")
            lines.append(f"control {by_name[name]:x} {struct}")
            structs.add(struct)
        made = {
            "requests.txt": "\n".join(lines) + "\n",
            "structs.txt": struct_table(structs, branches),
            "classes.txt": "\n".join(f"{v:x} {n}" for v, n in sorted(class_names(folders).items())) + "\n",
            "controls.txt": control_table(controls),
            "status.txt": status_table(folders),
        }
    write_or_check(made)


main()
