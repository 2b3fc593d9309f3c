# SPDX-License-Identifier: GPL-2.0-only
"""Whether guests boot with KVM here, which is tested once per boot of the machine."""

import os

# Some machines have /dev/kvm, but a guest that uses it never prints its first line.
FIRST_LINE_SECONDS = 20
KVM = ["-accel", "kvm", "-cpu", "host"]
# Five levels of page tables make each miss of the emulated TLB dearer. With ERMS or FSRM, the
# kernel copies and clears by "rep movsb" and "rep stosb", which QEMU does byte by byte.
TCG = ["-accel", "tcg,thread=multi", "-cpu", "max,-la57,-erms,-fsrm"]
# An emulated processor has no faults to mitigate. Code at another address is translated anew,
# which takes a short program as long as all else that it does. If QEMU did not run for a while, the
# kernel does not trust the TSC any more. It then patches its code, and QEMU's other thread may run
# into the breakpoint of that as if it were a fault.
TCG_PARAMETERS = "mitigations=off norandmaps tsc=reliable"
# Only one thread can count.
COUNTED = ["-accel", "tcg,thread=single", "-cpu", "max", "-icount", "shift=0"]


def _memory():
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    cache = os.environ.get("RXD_CACHE", "/var/cache/rxd")
    return os.path.join(cache, "guest", f"kvm-{boot}")


def present():
    return os.access("/dev/kvm", os.R_OK | os.W_OK)


def recall():
    """Return the result of the test: True, False, or None if there was none yet."""
    try:
        with open(_memory(), encoding="ascii") as file:
            return {"works": True, "stalls": False}.get(file.read().strip())
    except FileNotFoundError:
        return None


def remember(works):
    path = _memory()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # Two guests may find it out at the same time.
    new = f"{path}.{os.getpid()}"
    with open(new, "w", encoding="ascii") as file:
        file.write("works\n" if works else "stalls\n")
    os.replace(new, path)
