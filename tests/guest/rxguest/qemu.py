# SPDX-License-Identifier: GPL-2.0-only
"""The command line of a guest's QEMU."""

import os
import subprocess

from . import accel
from .errors import GuestError

SCRATCH = 1 << 30
SLOW = 2 << 30
SLOW_IOPS = 150
SLOW_BYTES = 150_000_000
CPUS = 2

# Debian's kernels clear each page that they allocate: no test would notice that a driver does not,
# and emulated guests are a tenth slower.
PARAMETERS = ("init_on_alloc=0 console=ttyS0 loglevel=1 panic=-1 oops=panic log_buf_len=8M "
              "watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 net.ifnames=0 "
              "printk.devkmsg=on")


def _drive(nr, name, file, options):
    """A virtio disk; the address keeps vda, vdb and so on in this order."""
    file = file.replace(",", ",,")
    if "format=" not in options:
        options += ",format=raw"
    return ["-drive", f"if=none,id={name},file={file},{options}",
            "-device", f"virtio-blk-pci,drive={name},serial={name},addr={0x10 + nr:#x}"]


def _share(name, path, options=""):
    path = path.replace(",", ",,")
    return ["-virtfs", f"local,path={path},mount_tag={name},security_model=none,"
                       f"multidevs=remap{options}"]


def sparse(path, size):
    """A new, empty disk."""
    if os.path.exists(path):
        os.unlink(path)
    with open(path, "wb") as file:
        file.truncate(size)


def overlay(path, base):
    """A new disk that holds what differs from another."""
    made = subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b",
                           os.path.realpath(base), path], check=False, stderr=subprocess.PIPE,
                          text=True)
    if made.returncode:
        raise GuestError(f"{path}: cannot be made: {made.stderr.strip()}")


def _nodes(count, mem, cpus):
    """NUMA nodes, each a socket, which share the memory and the CPUs; one node needs no option."""
    args = ["-smp", f"{cpus},sockets={count}"]
    for node in range(count) if count > 1 else ():
        first, last = node * cpus // count, (node + 1) * cpus // count - 1
        args += ["-object", f"memory-backend-ram,id=mem{node},size={mem // count}M",
                 "-numa", f"node,nodeid={node},cpus={first}-{last},memdev=mem{node}"]
    return args


def command(boot, top, kernel, out, disks, options, kvm):
    """The command line that starts it; ttyS0 goes to a file, ttyS1 to stdout."""
    drives = [("root", options.root or os.path.join(boot, "../root.ext4"),
               "format=qcow2,cache=unsafe" if options.root else "snapshot=on"),
              ("scratch", os.path.join(disks, "scratch.raw"), "cache=writeback"),
              ("slow", os.path.join(disks, "slow.raw"),
               f"cache=writeback,throttling.iops-total={SLOW_IOPS},"
               f"throttling.bps-total={SLOW_BYTES}")]
    for nr, spec in enumerate(options.disk):
        file, _, how = spec.partition(",")
        drives.append((f"extra{nr}", os.path.abspath(file), how or "cache=writeback"))
    how = accel.COUNTED if options.icount else accel.KVM if kvm else accel.TCG
    parameters = [PARAMETERS, f"guest.kernel={kernel}", *([] if kvm else [accel.TCG_PARAMETERS])]
    args = ["qemu-system-x86_64", *how, "-machine", "q35", "-m", f"{options.mem}M",
            *_nodes(options.nodes, options.mem, 1 if options.icount else CPUS),
            *(["-mem-prealloc"] if options.prealloc else []),
            "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-kernel", os.path.join(boot, "vmlinuz"),
            "-initrd", options.initrd or os.path.join(boot, "initrd"),
            "-append", " ".join([*parameters, *options.append]),
            "-serial", f"file:{os.path.join(out, 'console.txt').replace(',', ',,')}",
            "-serial", "stdio", "-device", "virtio-rng-pci",
            *_share("rxd", top, ",readonly=on"), *_share("out", out)]
    for nr, drive in enumerate(drives):
        args += _drive(nr, *drive)
    for option in options.qemu:
        args += option.split(" ", 1)
    return args
