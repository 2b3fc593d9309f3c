# SPDX-License-Identifier: GPL-2.0-only
"""Removal of an installation: package scripts and make uninstall."""

import os
import shutil

import pytest

from rxdlib.command import ENVIRONMENT, SOURCE, program, run, rxadm

pytestmark = pytest.mark.one_kernel

PACKAGING = os.path.join(SOURCE, "packaging")

# A unit is a file that holds its state. Other files list the units that require it. The command
# fails if a unit cannot be stopped, or ends with an error.
SYSTEMCTL = r"""#!/bin/sh
cd "$UNITS" && printf '%s\n' "systemctl $*" >>../log
command=$1; shift
case $command in
list-units)
    for option; do case $option in --state=*) states=,${option#--state=},;; esac; done
    for pattern; do case $pattern in -*) ;; *)
        for unit in $pattern; do
            [ -f "$unit" ] || continue
            state=$(cut -d ' ' -f 1 "$unit")
            case $states in *,$state,*) printf '%s\n' "$unit loaded $state $state Text";; esac
        done ;;
    esac; done ;;
stop) for unit; do
    case $(cat "$unit") in
    *stuck|*beside) echo "failed ${unit#*@}" >"$unit";;
    *) echo inactive >"$unit";; esac
    done ;;
show) while [ "$1" != "${1#-}" ]; do shift; done
    cat "../requiredby/$1" 2>/dev/null || echo ;;
is-active) [ "$1" != --quiet ] || { quiet=yes; shift; }
    state=$(cut -d ' ' -f 1 "$1" 2>/dev/null || echo inactive)
    [ -n "$quiet" ] || echo "$state"; [ "$state" = active ] ;;
reset-failed) for unit; do echo inactive >"$unit"; done ;;
start) ;;
*) exit 9 ;;
esac
"""
# Sections that are in use cannot be ended. What is saved beside its image is ended, and an error.
# Sections with "removed" in their names are not in the configuration.
RXADM = """#!/bin/sh
echo "rxadm $*" >>"$UNITS/../log"
for section; do :; done
case $*,$section in
list*) [ "$LISTED" != fail ] || exit 1; printf '%s\n' "$LISTED" ;;
*--dry-run*started*) echo "$section: save it"; exit 0 ;;
*removed*) echo "rxadm: apply: '$section': there is no such section" >&2; exit 1 ;;
*--dry-run*busy|*--dry-run*stuck) echo "rxadm: apply: $section: is in use" >&2; exit 5 ;;
*--dry-run*full) echo "$section: save it"; exit 0 ;;
*--dry-run*) ;;
*busy|*stuck) echo "rxadm: apply: $section: is in use" >&2; exit 5 ;;
*full) echo "rxadm: apply: $section: no space left" >&2; exit 4 ;;
*saved) echo "rxadm: apply: $section: saved as FILE.new-DATE" >&2; exit 5 ;;
esac
"""


class Machine:
    """A folder that takes the place of systemd and its units."""

    def __init__(self, folder):
        self.folder = folder
        self.units = folder / "units"
        self.bin = folder / "bin"
        self.units.mkdir()
        self.bin.mkdir()
        self.program("systemctl", SYSTEMCTL)
        self.program("rxadm", RXADM)

    def program(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def run(self, *args):
        environment = {**ENVIRONMENT, "UNITS": str(self.units),
                       "PATH": f"{self.bin}:/usr/sbin:/usr/bin:/sbin:/bin"}
        return run(*args, check=False, environment=environment)

    def log(self):
        path = self.folder / "log"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if not line.startswith(("systemctl list-units",
                                                               "systemctl show",
                                                               "systemctl is-active"))]


@pytest.fixture(name="machine")
def machine_of_a_test(tmp_path):
    os.makedirs("/run/systemd/system")
    os.makedirs("/run/rxadm", exist_ok=True)
    yield Machine(tmp_path)
    for name in os.listdir("/run/rxadm"):
        if name.startswith(("ramdisk-", "cache-", "export-")):
            os.unlink(f"/run/rxadm/{name}")
    os.removedirs("/run/systemd/system")


def record(section, config="/etc/rxd.conf"):
    with open(f"/run/rxadm/{section.replace('/', '-', 1)}", "w", encoding="ascii") as file:
        file.write(f"rxadm-record 1 0 2049 {config}\n[{section.replace('/', ' ')}]\nsize=4M\n")


def stop_units(machine, **units):
    for name, state in units.items():
        kind, _, name = name.partition("_")
        (machine.units / f"rxd-{kind}@{name}.service").write_text(f"{state}\n")
        if state != "inactive" and "removed" not in name:
            record(f"{kind}/{name}")
    (machine.folder / "log").unlink(missing_ok=True)
    return machine.run(f"{PACKAGING}/stop-units")


def test_nothing_to_stop(machine):
    assert (stop_units(machine, ramdisk_a="inactive").returncode, machine.log()) == (0, [])


def test_active_units(machine):
    assert stop_units(machine, ramdisk_a="active", export_a="active").returncode == 0
    assert machine.log() == ["systemctl stop rxd-export@a.service rxd-ramdisk@a.service"]
    result = stop_units(machine, ramdisk_stuck="active stuck")
    assert result.returncode == 1 and "rxd-ramdisk@stuck.service" in result.stderr


def test_failed_units(machine):
    """A failed unit is stopped as well, or nothing is removed."""
    result = stop_units(machine, ramdisk_a="failed", cache_b="failed", export_c="failed",
                        ramdisk_d="active")
    assert result.returncode == 0, result
    assert machine.log() == [
        "systemctl stop rxd-ramdisk@d.service",
        "rxadm apply --stop export/c", "systemctl reset-failed rxd-export@c.service",
        "rxadm apply --stop cache/b", "systemctl reset-failed rxd-cache@b.service",
        "rxadm apply --stop ramdisk/a", "systemctl reset-failed rxd-ramdisk@a.service"]
    result = stop_units(machine, ramdisk_busy="failed", ramdisk_a="failed")
    assert result.returncode == 1
    assert "rxd: rxd-ramdisk@busy.service\n" in result.stderr and "is in use" in result.stderr
    assert "@a.service" not in result.stderr


@pytest.mark.parametrize("kind", ["ramdisk", "cache", "export"])
def test_failed_unit_of_a_removed_section(machine, monkeypatch, kind):
    """Nothing exists of it, so the package is removed."""
    monkeypatch.setitem(ENVIRONMENT, "LISTED", "other\nremoved.\n")
    result = stop_units(machine, **{f"{kind}_removed": "failed", "ramdisk_a": "active"})
    assert result.returncode == 0, result
    assert f"systemctl reset-failed rxd-{kind}@removed.service" in machine.log()
    assert not any(line.startswith("systemctl start") for line in machine.log())


@pytest.mark.parametrize("left", ["record", "disk", "mapping", "unknown"])
def test_failed_unit_of_a_removed_section_has_a_disk(machine, monkeypatch, left):
    listed = {"disk": "other\nremoved", "unknown": "fail"}
    monkeypatch.setitem(ENVIRONMENT, "LISTED", listed.get(left, "other"))
    if left == "record":
        record("cache/removed")
    if left == "mapping":
        os.makedirs("/dev/mapper", exist_ok=True)
        os.symlink("/dev/null", "/dev/mapper/removed")
    try:
        result = stop_units(machine, cache_removed="failed")
    finally:
        if left == "mapping":
            os.unlink("/dev/mapper/removed")
    assert result.returncode == 1 and "rxd: rxd-cache@removed.service\n" in result.stderr
    assert not any(line.startswith("systemctl reset-failed") for line in machine.log())


def test_started_on_the_command_line(machine):
    """The package is not removed, and nothing is stopped. The message has the commands."""
    record("ramdisk/started-1")
    record("export/started", "/srv/my conf")
    record("ramdisk/started.unit")
    record("cache/gone")
    result = stop_units(machine, **{"ramdisk_started.unit": "active"})
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == [
        "rxd: rxadm apply --config /srv/my conf --stop export/started",
        "rxd: rxadm apply --config /etc/rxd.conf --stop ramdisk/started-1"]
    assert "rxadm apply --config /srv/my conf --stop --dry-run export/started" in machine.log()
    assert not any(line.startswith("systemctl") for line in machine.log())
    for name in "ramdisk-started-1", "export-started":
        os.unlink(f"/run/rxadm/{name}")
    result = stop_units(machine, **{"ramdisk_started.unit": "active"})
    assert (result.returncode, result.stderr) == (0, "")
    assert "systemctl stop rxd-ramdisk@started.unit.service" in machine.log()


@pytest.mark.parametrize("text", [
    "", "rxadm-record 1 0 0 /etc/rx", "rxadm-record 2 0 0 /etc/rxd.conf\n", "rxadm-record 1\n",
    "rxadm-record 1 0 0 rxd.conf\n"])
def test_damaged_record(machine, text):
    """It may be of a RAM disk that no unit saves, so the package is not removed."""
    with open("/run/rxadm/ramdisk-a", "w", encoding="ascii") as file:
        file.write(text)
    result = stop_units(machine)
    assert result.returncode == 1
    line, = result.stderr.splitlines()[1:]
    assert line.startswith("rxd: rm /run/rxadm/ramdisk-a, which is damaged;")


def test_stop_units_with_rxadm(machine):
    """The same with rxadm itself: what its records, its dry run and its list say."""
    config = machine.folder / "a.conf"
    config.write_text("[ramdisk a-b.1]\nsize = 4M\n")
    (machine.bin / "rxadm").unlink()
    (machine.bin / "rxadm").symlink_to(program("rxadm"))
    rxadm("apply", "--config", config, check=True)
    result = stop_units(machine)
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == \
        [f"rxd: rxadm apply --config {config} --stop ramdisk/a-b.1"]
    assert os.path.exists("/run/rxadm/ramdisk-a-b.1")
    # If the disk was removed in another way, its record does not matter.
    rxadm("remove", *rxadm("list", "-n", "-o", "DEVICE").stdout.split(), check=True)
    assert os.path.exists("/run/rxadm/ramdisk-a-b.1")
    result = stop_units(machine, ramdisk_removed="failed")
    assert result.returncode == 0, result
    assert "systemctl reset-failed rxd-ramdisk@removed.service" in machine.log()
    made = rxadm("create", "--size", "4M", "--name", "removed", check=True).stdout.strip()
    result = stop_units(machine, ramdisk_removed="failed")
    assert result.returncode == 1 and "rxd: rxd-ramdisk@removed.service\n" in result.stderr
    rxadm("remove", made, check=True)


def test_units_that_are_starting(machine):
    """A unit that is loading a large image is stopped, too."""
    assert stop_units(machine, ramdisk_a="activating", cache_b="deactivating").returncode == 0
    assert machine.log() == ["systemctl stop rxd-cache@b.service rxd-ramdisk@a.service"]


def test_saved_beside_the_image(machine):
    """The unit has failed, but there is no data left that could be lost."""
    result = stop_units(machine, ramdisk_a="active beside", ramdisk_saved="failed")
    assert result.returncode == 0, result
    assert "rxd-ramdisk@a.service" in result.stderr and "journalctl -u UNIT" in result.stderr
    assert "could not be stopped" not in result.stderr
    assert "systemctl reset-failed rxd-ramdisk@a.service" in machine.log()
    assert "systemctl reset-failed rxd-ramdisk@saved.service" in machine.log()
    assert not any(line.startswith("systemctl start") for line in machine.log())
    result = stop_units(machine, ramdisk_full="failed")
    assert result.returncode == 1 and "rxd: rxd-ramdisk@full.service\n" in result.stderr


def test_all_is_started_again(machine):
    """Units with noauto, and units that required them, are started again, too."""
    users = {"rxd-ramdisk@a.service": "srv-my\\x2dscratch.mount rxd-export@c.service\n\n",
             "srv-my\\x2dscratch.mount": "web.service down.service local-fs.target\n",
             "web.service": "srv-my\\x2dscratch.mount\n"}
    (machine.folder / "requiredby").mkdir()
    for unit, others in users.items():
        (machine.folder / "requiredby" / unit).write_text(others)
    for unit in "srv-my\\x2dscratch.mount", "web.service", "local-fs.target":
        (machine.units / unit).write_text("active\n")
    (machine.units / "down.service").write_text("inactive\n")
    result = stop_units(machine, ramdisk_a="active", ramdisk_stuck="active stuck",
                        export_c="active", ramdisk_d="inactive")
    assert result.returncode == 1
    assert "rxd: rxd-ramdisk@stuck.service\n" in result.stderr
    last = machine.log()[-1].split()
    assert last[:3] == ["systemctl", "start", "--no-block"]
    assert set(last[3:]) == {
        "local-fs.target", "rxd-export@c.service", "rxd-ramdisk@a.service",
        "rxd-ramdisk@stuck.service", "srv-my\\x2dscratch.mount", "web.service"}


def script(machine, name, debhelper):
    """A maintainer script with the parts that debhelper adds."""
    with open(f"{PACKAGING}/debian/{name}", encoding="utf-8") as file:
        text = file.read()
    assert "\n#DEBHELPER#\n" in text
    path = machine.folder / name
    path.write_text(text.replace("#DEBHELPER#", debhelper))
    return path


@pytest.mark.parametrize("in_use", [False, True])
def test_modules_are_unloaded_first(machine, in_use):
    """modprobe finds a module only while its file exists."""
    machine.program("modprobe", f'#!/bin/sh\necho "modprobe $*" >>"$UNITS/../log"\n'
                                f'exit {int(in_use)}\n')
    prerm = script(machine, "rxd-dkms.prerm", 'echo "dkms remove" >>"$UNITS/../log"')
    result = machine.run("sh", prerm, "remove")
    assert result.returncode == 0, result
    assert machine.log() == ["modprobe -qr dm-rxcache", "modprobe -qr rxd", "dkms remove"]
    for module in "dm-rxcache", "rxd":
        assert (f"the module {module} is in use" in result.stdout) == in_use
    (machine.folder / "log").unlink()
    assert machine.run("sh", prerm, "upgrade", "2").stdout == ""
    assert machine.log() == ["dkms remove"]


@pytest.fixture(name="settings")
def settings_of_a_machine(tmp_path):
    """/etc/rxd.conf and /var/lib/rxd, with images there and elsewhere."""
    assert not os.path.exists("/var/lib/rxd") and not os.path.exists("/etc/rxd.conf")
    os.makedirs("/var/lib/rxd")
    os.makedirs("/etc/rxd.conf.d")
    os.makedirs("/usr/lib/rxd.conf.d", exist_ok=True)
    elsewhere, vendors = tmp_path / "an image", tmp_path / "vendors.img"
    files = {
        "/var/lib/rxd/scratch.img": b"RXDIMAGE\0\0\0\nrxcache-hotlist 1\n",
        "/var/lib/rxd/data.hot": b"rxcache-hotlist 1\n0 8\n",
        str(elsewhere): b"RXDIMAGE",
        f"{elsewhere}.new-2026-11-22": b"RXDIMAGE",
        f"{elsewhere}.old-2026-11-23": b"RXDIMAGE",
        str(vendors): b"RXDIMAGE",
        "/usr/lib/rxd.conf.d/d.conf": f"[ramdisk d]\nimage = {vendors}\n".encode(),
        "/etc/rxd.conf": b"[ramdisk a]\nimage = /var/lib/rxd/scratch.img\n",
        "/etc/rxd.conf.d/b.conf": f"[ramdisk b]\n image =  {elsewhere}  # and\n"
                                  "[ramdisk c]\nimage=/gone\n".encode(),
    }
    for path, data in files.items():
        with open(path, "wb") as file:
            file.write(data)
    yield [str(elsewhere), f"{elsewhere}.new-2026-11-22", f"{elsewhere}.old-2026-11-23",
           str(vendors), "/var/lib/rxd/scratch.img"]
    os.unlink("/usr/lib/rxd.conf.d/d.conf")
    shutil.rmtree("/var/lib/rxd", ignore_errors=True)
    shutil.rmtree("/etc/rxd.conf.d", ignore_errors=True)
    if os.path.exists("/etc/rxd.conf"):
        os.unlink("/etc/rxd.conf")


def test_purge_keeps_images(machine, settings):
    """It prints where the images are; everything else is removed."""
    postrm = script(machine, "rxd-tools.postrm", "")
    result = machine.run("sh", postrm, "remove")
    assert (result.returncode, result.stdout) == (0, "")
    assert len(os.listdir("/var/lib/rxd")) == 2 and os.path.exists("/etc/rxd.conf")
    result = machine.run("sh", postrm, "purge")
    assert result.returncode == 0 and result.stderr == "", result
    told = [line.partition(": ")[2] for line in result.stdout.splitlines()[1:]]
    assert sorted(told) == sorted(settings)
    assert all(os.path.exists(path) for path in settings)
    assert os.listdir("/var/lib/rxd") == ["scratch.img"]
    assert not os.path.exists("/etc/rxd.conf") and not os.path.exists("/etc/rxd.conf.d")
    for path in settings:
        os.unlink(path)
    result = machine.run("sh", postrm, "purge")
    assert (result.returncode, result.stdout) == (0, "")
    assert not os.path.exists("/var/lib/rxd")


# It waits for udev with each command, and fails where the test wants that.
RXADM_OF_ROOT = r"""#!/bin/sh
echo "rxadm $*" >>"$UNITS/../log"
echo "rxadm: $1: waiting for udev" >&2
[ "$1" != "$FAILS" ] || { echo "rxadm: $1: wrong" >&2; exit 5; }
case $1 in
create) echo /dev/rxd7 ;;
map) printf '%b\n' "$PATH_OF_MAP" ;;
esac
"""
CREATE = "rxadm create --size 10%"
MAP = "rxadm map --cache /dev/rxd7 --origin /dev/sda2 --name rxd-root"


@pytest.mark.parametrize("fails, path, commands, reason", [
    ("none", "/dev/mapper/rxd-root", [CREATE, MAP], "cached by /dev/rxd7, as /dev/mapper/rxd-root"),
    ("create", "", [CREATE], "not cached: rxadm: create: wrong"),
    ("map", "", [CREATE, MAP, "rxadm remove /dev/rxd7"], "not cached: rxadm: map: wrong"),
    ("none", "and\\n/dev/mapper/rxd-root",
     [CREATE, MAP, "rxadm unmap rxd-root", "rxadm remove /dev/rxd7"],
     "not cached: rxadm map printed 'and"),
    ("none", "", [CREATE, MAP, "rxadm unmap rxd-root", "rxadm remove /dev/rxd7"],
     "not cached: rxadm map printed ''")])
def test_root_cache_while_udev_is_busy(machine, monkeypatch, fails, path, commands, reason):
    """The script prints the path only, and removes the RAM disk if there is none."""
    assert not os.path.exists("/etc/default/rxd")
    machine.program("rxadm", RXADM_OF_ROOT)
    monkeypatch.setitem(ENVIRONMENT, "FAILS", fails)
    monkeypatch.setitem(ENVIRONMENT, "PATH_OF_MAP", path)
    with open("/etc/default/rxd", "w", encoding="ascii") as file:
        file.write("RXD_ROOT_CACHE=10%\n")
    try:
        result = machine.run("sh", f"{PACKAGING}/root-cache/root-cache", "/dev/sda2")
    finally:
        os.unlink("/etc/default/rxd")
    cached = reason.startswith("cached")
    assert (result.returncode, result.stdout) == (int(not cached), f"{path}\n" if cached else "")
    assert machine.log() == commands
    lines = run("dmesg").stdout.splitlines()
    assert any(f"rxd: root disk /dev/sda2: {reason}" in line for line in lines)
    assert not os.path.exists("/run/rxd-root.errors")


def test_uninstall(lab, tmp_path):
    """It is refused while there are disks that could not be saved or removed afterwards."""
    program = tmp_path / "sbin/rxadm"
    program.parent.mkdir()
    command = ("make", "-C", SOURCE, f"PREFIX={tmp_path}", "KDIR=/nonexistent",
               f"B={tmp_path}/build", "uninstall")
    ramdisks = [lab.ramdisk(1 << 20, index=index) for index in (3, 12)]
    program.write_text("")
    result = run(*command, check=False)
    assert result.returncode and program.exists()
    assert "rxd12" in result.stderr and "rxd3" in result.stderr
    run(*command, f"DESTDIR={tmp_path}/elsewhere")
    assert program.exists()
    for ramdisk in ramdisks:
        ramdisk.remove()
    run(*command)
    assert not program.exists()
