# SPDX-License-Identifier: GPL-2.0-only
"""The generator: the units that it makes of a configuration, word for word.

Each folder in generator/ holds a configuration, what is to come of it in units.txt,
and what is to be complained of in errors.txt.
"""

import os
import shutil
import subprocess
import uuid

import pytest

HERE = os.path.dirname(os.path.realpath(__file__))
SOURCE = os.path.join(HERE, "../../utils/generator")
BUILD = os.path.join(HERE, "../../build/unit/generator")
CASES = sorted(os.listdir(os.path.join(HERE, "generator")))
# systemd-analyze creates a folder in /run, which may be read-only here.
VERIFY = 'mount -t tmpfs tmpfs /run && exec systemd-analyze verify --man=no "$@"'
# Not the mounts of this machine.
LOCAL = "--fstab", "/dev/null", "--units", ""
NAMESPACE = uuid.UUID("9d47b8a6-8b9a-45b5-97ac-626c1b790991")


@pytest.fixture(scope="module", name="program")
def built_program():
    subprocess.run(["make", "-s", "-C", SOURCE, f"O={BUILD}", f"OBJ={BUILD}/obj"], check=True)
    return os.path.join(BUILD, "rxd-generator")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def listing(folder):
    """Return all files and links in a folder, as one text."""
    text = ""
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            full = os.path.join(path, name)
            text += f"==> {os.path.relpath(full, folder)}"
            text += f" -> {os.readlink(full)}\n" if os.path.islink(full) else f"\n{read(full)}"
    return text


def generate(program, config, folder):
    os.makedirs(folder)
    result = subprocess.run([program, *LOCAL, "--config", config, folder], capture_output=True,
                            text=True, check=False)
    assert (result.returncode, result.stdout) == (0, "")
    return result.stderr


@pytest.mark.parametrize("case", CASES)
def test_golden(program, tmp_path, case):
    config, units = tmp_path / "rxd.conf", tmp_path / "units"
    shutil.copy(os.path.join(HERE, "generator", case, "rxd.conf"), config)
    errors = generate(program, config, units)
    expected = os.path.join(HERE, "generator", case)
    made = {"units.txt": listing(units), "errors.txt": errors}
    for name, text in made.items():
        text = text.replace(str(tmp_path), "@FOLDER@")
        if os.environ.get("RXD_WRITE_GOLDEN"):
            with open(os.path.join(expected, name), "w", encoding="utf-8") as file:
                file.write(text)
        assert text == read(os.path.join(expected, name))


@pytest.mark.machine
@pytest.mark.parametrize("case", CASES)
def test_systemd_understands(program, tmp_path, case):
    """systemd-analyze reports nothing about the units, including the installed ones."""
    units = tmp_path / "units"
    config = os.path.join(HERE, "generator", case, "rxd.conf")
    generate(program, config, units)
    sbin = tmp_path / "sbin"
    sbin.mkdir()
    (sbin / "rxadm").write_text("#!/bin/sh\n")
    (sbin / "rxadm").chmod(0o755)
    for name in os.listdir(os.path.join(SOURCE, "units")):
        text = read(os.path.join(SOURCE, "units", name)).replace("@SBINDIR@", str(sbin))
        (units / name[:-len(".in")]).write_text(text)
    names = [name[:-len(".d")] for name in os.listdir(units)
             if name.endswith((".service.d", ".timer.d"))]
    names += [name for name in os.listdir(units) if name.endswith(".mount")]
    assert len(names) > 1
    result = subprocess.run(["unshare", "--mount", "sh", "-c", VERIFY, "sh", *names],
                            env=dict(os.environ, SYSTEMD_UNIT_PATH=f"{units}:"),
                            capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_names_are_systemds(program, tmp_path):
    """Mount units have the names that systemd-escape prints."""
    generate(program, os.path.join(HERE, "generator/escapes/rxd.conf"), tmp_path / "units")
    for path in "/.hidden/50%/x-y@z", "/top-level":
        name = subprocess.run(["systemd-escape", "--path", "--suffix=mount", path],
                              capture_output=True, text=True, check=True).stdout.strip()
        assert (tmp_path / "units" / name).is_file()


def test_uuid_is_version_5(program, tmp_path):
    generate(program, os.path.join(HERE, "generator/example/rxd.conf"), tmp_path / "units")
    expected = uuid.uuid5(NAMESPACE, "ramdisk/scratch")
    assert f"What=/dev/disk/by-id/rxd-{expected}\n" in \
        (tmp_path / "units/srv-my\\x2dscratch.mount").read_text()


STARTED = """\
rxadm-record 1 0 2049 {config}
[ramdisk scratch]
size=2G
image=/srv/old/a.img
mount=/old
uuid=c60fbf9c-8ec9-509b-9913-afbced891923
"""


@pytest.mark.parametrize("text, seconds", [
    ("[ramdisk scratch]\nsise = 4M\n", 7200), ("", 7200), (None, 7200),
    ("[ramdisk scratch]\nsize = 4M\n", 7200),
    ("[ramdisk scratch]\nsize = 4M\nimage = /srv/new/a.img\nautosave = no\n", 7200),
    ("[ramdisk scratch]\nsize = 4M\nimage = /srv/new/a.img\nautosave = 1min\n", 60)])
def test_what_was_started_is_saved(program, tmp_path, text, seconds):
    """The timer has an interval, and its service can write where the record says."""
    config, records, units = tmp_path / "rxd.conf", tmp_path / "records", tmp_path / "units"
    records.mkdir()
    units.mkdir()
    if text is not None:
        config.write_text(text)
    (records / "ramdisk-scratch").write_text(STARTED.format(config=config) + "autosave=2h\n")
    result = subprocess.run([program, *LOCAL, "--records", records, "--config", config, units],
                            check=True, capture_output=True, text=True)
    assert "exists already" not in result.stderr
    timer = units / "rxd-autosave@scratch.timer.d"
    assert [file.name for file in timer.iterdir()] == ["50-rxd.conf"]
    assert f"\n[Timer]\nOnActiveSec={seconds}s\nOnUnitActiveSec={seconds}s\n" in \
        (timer / "50-rxd.conf").read_text()
    made = listing(units / "rxd-autosave@scratch.service.d")
    assert "RequiresMountsFor=/srv/old/a.img\n\n[Service]\nReadWritePaths=-/srv/old\n" in made


@pytest.mark.parametrize("text", [
    "[ramdisk scratch]\nsise = 4M\n", "", None, "[ramdisk scratch]\nsize = 4M\n",
    "[ramdisk scratch]\nsize = 4M\nimage = /srv/new/a.img\nmount = /new\n"])
def test_what_was_started_can_be_stopped(program, tmp_path, text):
    """Its image is writable and its mount is ordered, even if the files have changed."""
    config, records, units = tmp_path / "rxd.conf", tmp_path / "records", tmp_path / "units"
    records.mkdir()
    units.mkdir()
    if text is not None:
        config.write_text(text)
    (records / "ramdisk-scratch").write_text(STARTED.format(config=config))
    (records / "ramdisk-other").write_text(STARTED.format(config="/else").replace("scratch", "o"))
    (records / "disk-7").write_text("0123456789abcdef\n")
    subprocess.run([program, *LOCAL, "--records", records, "--config", config, units], check=True,
                   capture_output=True)
    made = listing(units)
    assert "\n[Service]\nReadWritePaths=-/srv/old\n" in made
    assert "RequiresMountsFor=/srv/old/a.img\n" in made
    assert (units / "old.mount").is_file() and "rxd-ramdisk@o." not in made
    assert "Requires=rxd-ramdisk@scratch.service\nAfter=rxd-ramdisk@scratch.service\n" in \
        (units / "old.mount").read_text()
    # What was started without autosave is saved by no timer.
    assert "rxd-autosave" not in made
    # This starts nothing that is broken or removed.
    assert ("local-fs.target.wants/rxd-ramdisk@scratch" in made) == ("size = " in (text or ""))
    assert "local-fs.target.wants/old.mount" not in made


@pytest.mark.parametrize("name, text, missing", [
    ("cache-x", "[cache x]\nsize=4M\n", "origin"),
    ("cache-x", "[cache x]\norigin=\nsize=4M\n", "origin"),
    ("cache-x", "[cache x]\norigin=/dev/sdc\nsize=4M\nhotlist=hot\n", "hotlist"),
    ("export-x", "[export x]\ntransport=loop\n", "device"),
    ("export-x", "[export x]\ndevice=scratch\ntransport=loop\n", "device"),
    ("export-x", "[export x]\ndevice=ramdisk/scratch\n", "transport"),
    ("ramdisk-x", "[ramdisk x]\nsize=4M\nimage=x.img\n", "image"),
    ("ramdisk-x", "[ramdisk x]\nimage=/x.img\n", "size"),
    ("ramdisk-x", "[ramdisk x]\nsize=4M\nimage=/x.img\nuuid=1\n", "uuid"),
    ("ramdisk-x", "[ramdisk x]\nsize=4M\nfs=ext4\nmount=\n", "mount")])
@pytest.mark.parametrize("config_text", ["", "[ramdisk x]\nsize = 4M\n[cache x]\n"
                                         "origin = /dev/sdc\nsize = 4M\nhotlist = /hot\n"])
def test_damaged_record(program, tmp_path, name, text, missing, config_text):
    """Such a record is reported and ignored. The others are used."""
    config, records, units = tmp_path / "rxd.conf", tmp_path / "records", tmp_path / "units"
    records.mkdir()
    units.mkdir()
    config.write_text(config_text)
    (records / name).write_text(f"rxadm-record 1 0 2049 {config}\n{text}")
    (records / "ramdisk-scratch").write_text(STARTED.format(config=config))
    result = subprocess.run([program, *LOCAL, "--records", records, "--config", config, units],
                            check=False, capture_output=True, text=True)
    assert result.returncode == 0, result
    assert f"{records}/{name}: is ignored, because the key '{missing}' is missing or invalid\n" in \
        result.stderr
    made = listing(units)
    assert "RequiresMountsFor=/srv/old/a.img\n" in made and (units / "old.mount").is_file()
    assert f"{records}/{name}" not in made


@pytest.mark.parametrize("text, why", [
    ("", "1: is not a record that this rxadm understands"),
    ("rxadm-record 1 0 2049 {config}", "1: is not a record that this rxadm understands"),
    ("rxadm-record 1 0 2049 {config}\n",
     " is ignored, because it does not hold the one section that its name says"),
    ("rxadm-record 1 0 2049 {config}\n[ramdisk y]\nsize=4M\n",
     " is ignored, because it does not hold the one section that its name says"),
    ("rxadm-record 1 0 2049 {config}\n[ramdisk x]\nautosave=1h\nsize=4M\n",
     " is ignored, because the key 'image' is missing")])
def test_record_without_its_section(program, tmp_path, text, why):
    """It is the only one, and there is no configuration: it is reported, too."""
    config, records, units = tmp_path / "rxd.conf", tmp_path / "records", tmp_path / "units"
    records.mkdir()
    units.mkdir()
    (records / "ramdisk-x").write_text(text.format(config=config))
    result = subprocess.run([program, *LOCAL, "--records", records, "--config", config, units],
                            check=False, capture_output=True, text=True)
    assert result.returncode == 0, result
    assert f"rxd-generator: {records}/ramdisk-x:{why}\n" in result.stderr
    assert listing(units) == ""


def test_share_of_memory_that_was_started(program, tmp_path):
    config, records, units = tmp_path / "rxd.conf", tmp_path / "records", tmp_path / "units"
    records.mkdir()
    units.mkdir()
    config.write_text("[ramdisk scratch]\nsize = 25%\n")
    (records / "ramdisk-scratch").write_text(
        STARTED.format(config=config).replace("size=2G", "size=25%"))
    result = subprocess.run([program, *LOCAL, "--records", records, "--config", config, units],
                            check=True, capture_output=True, text=True)
    assert result.stderr == ""
    assert "RequiresMountsFor=/srv/old/a.img\n" in listing(units)


REMOTE = """\
[ramdisk scratch]
size = 64M
fs = ext4
mount = /scratch
image = {image}
options = {options}

[ramdisk upper]
size = 64M
image = /scratch/deep/upper.img

[ramdisk inner]
size = 64M
fs = ext4
mount = /scratch/inner

[ramdisk local]
size = 64M
fs = ext4
mount = /mnt/nfs-not/local
image = /srv/local.img
"""
NFS_UNIT = """\
[Unit]
Description=Network file system

[Mount]
What=192.0.2.1:/export
Where=/mnt/nfs
Type = nfs4
Options=vers=4.2
"""


def generate_at(program, tmp_path, fstab="", unit=None, image="/mnt/nfs/a/scratch.img",
                options="noatime", record=None):
    """Make the units of a machine with these mounts. Return their folder."""
    units, config = tmp_path / "units", tmp_path / "rxd.conf"
    for folder in "units", "etc", "usr", "records":
        (tmp_path / folder).mkdir()
    (tmp_path / "fstab").write_text(fstab)
    if unit is not None:
        (tmp_path / "usr/mnt-nfs.mount").write_text(unit)
    config.write_text(REMOTE.format(image=image, options=options))
    if record:
        (tmp_path / "records/ramdisk-scratch").write_text(record.format(config=config))
    result = subprocess.run(
        [program, "--fstab", tmp_path / "fstab", "--units", f"{tmp_path}/etc:{tmp_path}/usr",
         "--records", tmp_path / "records", "--config", config, units],
        capture_output=True, text=True, check=True)
    assert result.stderr == ""
    return units


def assert_remote(units, remote):
    """The section [ramdisk scratch] and those that need it are started after the network."""
    target, other = ("remote-fs.target", "local-fs.target")[::1 if remote else -1]
    for name in "scratch", "upper", "inner":
        assert f"\nBefore={target}\n" in \
            (units / f"rxd-ramdisk@{name}.service.d/50-rxd.conf").read_text()
        assert (units / f"{target}.wants/rxd-ramdisk@{name}.service").is_symlink()
        assert not (units / f"{other}.wants/rxd-ramdisk@{name}.service").is_symlink()
    for name in "scratch.mount", "scratch-inner.mount":
        assert ("_netdev" in (units / name).read_text()) == remote
        assert (units / f"{target}.wants/{name}").is_symlink()
        assert not (units / f"{other}.wants/{name}").is_symlink()
    if remote:
        assert "\nOptions=_netdev\n" in (units / "scratch-inner.mount").read_text()
    assert "\nBefore=local-fs.target\n" in \
        (units / "rxd-ramdisk@local.service.d/50-rxd.conf").read_text()
    assert "_netdev" not in (units / "mnt-nfs\\x2dnot-local.mount").read_text()


@pytest.mark.parametrize("fstab, remote", [
    ("192.0.2.1:/e /mnt/nfs nfs defaults 0 0\n", True),
    ("# here\n/dev/sda1 / ext4 rw 0 1\n192.0.2.1:/e\t/mnt//nfs/\tnfs4\tnoauto\n", True),
    ("u@h: /mnt/nfs/a fuse.sshfs rw\n", True),
    ("//h/e /mnt/nfs/a cifs rw\n", True),
    ("/dev/sdb1 /mnt/nfs ext4 rw,_netdev\n", True),
    ("", False),
    ("/dev/sdb1 /mnt/nfs ext4 rw,x_netdev\n", False),
    ("192.0.2.1:/e /mnt/nf nfs rw\n192.0.2.1:/e /mnt/nfs/a/scratch nfs rw\n", False),
    ("192.0.2.1:/e /mnt/nfs-not/other nfs rw\n", False),
    ("h:/e none nfs rw\n#h:/e /mnt/nfs nfs rw\n", False),
    # The initramfs mounts these, before the services of the machine start.
    ("192.0.2.1:/e / nfs rw\n192.0.2.1:/u /usr/ nfs rw\n", False)])
def test_image_on_the_network_in_fstab(program, tmp_path, fstab, remote):
    assert_remote(generate_at(program, tmp_path, fstab), remote)


@pytest.mark.parametrize("unit, remote", [
    (NFS_UNIT, True), (NFS_UNIT.replace("nfs4", "ext4"), False), ("", False),
    (NFS_UNIT.replace("nfs4", "ext4").replace("vers=4.2", "rw,_netdev"), True),
    (NFS_UNIT + "Type=ext4\n", False)])
def test_image_on_the_network_in_a_unit(program, tmp_path, unit, remote):
    assert_remote(generate_at(program, tmp_path, unit=unit), remote)


def test_masked_unit_of_the_network(program, tmp_path):
    """The first folder with a unit counts."""
    units = generate_at(program, tmp_path, unit=NFS_UNIT)
    assert_remote(units, True)
    for folder in "units", "records":
        shutil.rmtree(tmp_path / folder)
        (tmp_path / folder).mkdir()
    (tmp_path / "etc/mnt-nfs.mount").symlink_to("/dev/null")
    subprocess.run([program, "--fstab", "/dev/null", "--units", f"{tmp_path}/etc:{tmp_path}/usr",
                    "--config", tmp_path / "rxd.conf", units], check=True)
    assert_remote(units, False)


def test_option_of_the_network(program, tmp_path):
    """The user can say so for a mount that nothing else tells of."""
    units = generate_at(program, tmp_path, options="noatime,_netdev")
    assert_remote(units, True)


def test_image_that_was_on_the_network(program, tmp_path):
    """A RAM disk that is saved to the old image is ordered like that one."""
    record = STARTED.replace("/srv/old/a.img", "/mnt/nfs/a.img")
    units = generate_at(program, tmp_path, "h:/e /mnt/nfs nfs rw\n", image="/srv/a.img",
                        record=record)
    assert_remote(units, True)
    assert "_netdev" in (units / "old.mount").read_text()


@pytest.mark.machine
def test_types_are_systemds(program, tmp_path):
    """All types that systemd has in its list of network file systems are found."""
    result = subprocess.run(["systemd-analyze", "filesystems", "@network"], capture_output=True,
                            text=True, check=True, env=dict(os.environ, SYSTEMD_COLORS="0"))
    types = [line.split()[0] for line in result.stdout.splitlines()[1:]
             if line.strip() and not line.strip().startswith("#")]
    assert "nfs4" in types and "cifs" in types
    for kind in types:
        folder = tmp_path / kind
        folder.mkdir()
        assert_remote(generate_at(program, folder, f"h:/e /mnt/nfs {kind} rw\n"), True)


# A service of the network, such as NetworkManager's: it starts after local-fs.target.
NETWORK_UNITS = {
    "net.service": "[Unit]\nWants=network.target\nBefore=network.target network-online.target\n\n"
                   "[Service]\nType=oneshot\nExecStart=/bin/true\n",
    "all.target": "[Unit]\nRequires=basic.target remote-fs.target\n"
                  "After=basic.target remote-fs.target\n",
    "mnt-nfs.mount": NFS_UNIT}


@pytest.mark.machine
@pytest.mark.parametrize("options", ["rw", "_netdev"])
@pytest.mark.parametrize("known", [False, True])
def test_no_ordering_cycle(program, tmp_path, known, options):
    """systemd starts an image on the network, and all that needs it, without leaving units out."""
    units = generate_at(program, tmp_path, unit=NFS_UNIT if known else None, options=options)
    (tmp_path / "sbin").mkdir()
    (tmp_path / "sbin/rxadm").write_text("#!/bin/sh\n")
    (tmp_path / "sbin/rxadm").chmod(0o755)
    for name in os.listdir(os.path.join(SOURCE, "units")):
        text = read(os.path.join(SOURCE, "units", name))
        (units / name[:-len(".in")]).write_text(text.replace("@SBINDIR@", f"{tmp_path}/sbin"))
    for name, text in NETWORK_UNITS.items():
        (units / name).write_text(text)
    for target, name, file in (("network-online.target", "net.service", "../net.service"),
                               ("remote-fs.target", "mnt-nfs.mount", "../mnt-nfs.mount")):
        (units / f"{target}.wants").mkdir(exist_ok=True)
        (units / f"{target}.wants" / name).symlink_to(file)
    for link in units.glob("*-fs.target.wants/rxd-ramdisk@*.service"):
        link.unlink()
        link.symlink_to("../rxd-ramdisk@.service")
    result = subprocess.run(["unshare", "--mount", "sh", "-c", VERIFY, "sh", "all.target"],
                            env=dict(os.environ, SYSTEMD_UNIT_PATH=f"{units}:"),
                            capture_output=True, text=True, check=False)
    # A mount that the generator cannot know shows that this test sees cycles.
    found = known or options == "_netdev"
    assert ("ordering cycle" not in result.stderr) == found, result.stderr
    if found:
        assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("words, off", [
    ("ro rxadm.apply=off quiet", True), ("rxadm.apply=off", True), ("ro rxadm.apply=on", False),
    ("rxadm.apply=offline xrxadm.apply=off", False), ("", False)])
def test_switched_off(program, tmp_path, words, off):
    """The kernel parameter prevents all starts, and the log gives the reason."""
    (tmp_path / "cmdline").write_text(words + "\n")
    config, units = os.path.join(HERE, "generator/example/rxd.conf"), tmp_path / "units"
    units.mkdir()
    result = subprocess.run([program, *LOCAL, "--command-line", tmp_path / "cmdline", "--config",
                             config, units], capture_output=True, text=True, check=False)
    assert (result.returncode, listing(units) == "", "rxadm.apply=off" in result.stderr) == \
        (0, off, off)


@pytest.mark.parametrize("kind", ["ramdisk", "cache", "export"])
def test_switched_off_units(kind):
    """Units that another unit requires do nothing, either."""
    assert "\nConditionKernelCommandLine=!rxadm.apply=off\n" in \
        read(os.path.join(SOURCE, f"units/rxd-{kind}@.service.in"))


def test_switch_is_no_parameter_of_a_module():
    """It must not begin with the name of a module, which would get it and complain."""
    unit = read(os.path.join(SOURCE, "units/rxd-ramdisk@.service.in"))
    name, dot, _ = unit.partition("ConditionKernelCommandLine=!")[2].partition(".")
    # Without a dot, the kernel would report it as unknown, and pass it to init.
    assert dot and "\n" not in name
    assert name.replace("-", "_") not in ("rxd", "dm_rxcache")


def test_no_configuration(program, tmp_path):
    assert generate(program, tmp_path / "rxd.conf", tmp_path / "units") == ""
    assert listing(tmp_path / "units") == ""


def test_vendor_defaults(program, tmp_path):
    """Vendor defaults are started unless the configuration replaces them."""
    config, vendor, units = tmp_path / "rxd.conf", tmp_path / "vendor", tmp_path / "units"
    vendor.mkdir()
    units.mkdir()

    def run(args=()):
        return subprocess.run([program, *LOCAL, "--config", config, "--vendor", vendor, *args,
                               units], capture_output=True, text=True, check=True).stderr

    assert run() == "" and listing(units) == ""
    (vendor / "10-a.conf").write_text(
        "[ramdisk a]\nsize = 4M\nfs = ext4\nmount = /a\n\n[ramdisk b]\nsize = 4M\nfish = 1\n")
    (tmp_path / "cmdline").write_text("rxadm.apply=off\n")
    assert "rxadm.apply=off" in run(["--command-line", tmp_path / "cmdline"])
    assert listing(units) == ""
    assert f"{vendor}/10-a.conf:8: [ramdisk b]: key 'fish'" in run()
    made = listing(units)
    assert f"# Made by rxd-generator of {vendor}/10-a.conf, line 1.\n" in made
    assert f"SourcePath={vendor}/10-a.conf\n" in made
    assert "==> a.mount\n" in made and "rxd-ramdisk@b" not in made

    shutil.rmtree(units)
    units.mkdir()
    config.write_text("[ramdisk b]\nsize = 4M\n[ramdisk a]\nsize = 4M\nnoauto = TRUE\n")
    assert run() == ""
    made = listing(units)
    assert str(vendor) not in made and "a.mount" not in made
    assert "local-fs.target.wants/rxd-ramdisk@b" in made and "wants/rxd-ramdisk@a" not in made


def test_vendor_defaults_after_an_error(program, tmp_path):
    """No vendor default is started, because the unreadable part might have replaced it."""
    config, vendor, units = tmp_path / "rxd.conf", tmp_path / "vendor", tmp_path / "units"
    vendor.mkdir()
    units.mkdir()
    (vendor / "10-e.conf").write_text(
        "[ramdisk a]\nsize = 4M\n[export e]\ndevice = ramdisk/a\ntransport = tcp\n"
        "address = 0.0.0.0\nallow-any-host = yes\n")
    config.write_text("[ramdisk b]\nsize = 4M\n[export e\nnoauto = yes\n")
    result = subprocess.run([program, *LOCAL, "--config", config, "--vendor", vendor, units],
                            capture_output=True, text=True, check=True)
    assert result.stderr == (
        f"rxd-generator: {config}:3: '[export e': must be [KIND NAME]\n"
        f"rxd-generator: {vendor}: is ignored, because an earlier file has an error outside of all "
        "sections\n")
    made = listing(units)
    assert str(vendor) not in made and "wants/rxd-ramdisk@b" in made


def test_unit_that_is_there(program, tmp_path):
    """A mount that /etc/fstab has, too, is left to it; the other units are generated."""
    units = tmp_path / "units"
    units.mkdir()
    (units / "srv-my\\x2dscratch.mount").write_text("# fstab's\n")
    config = os.path.join(HERE, "generator/example/rxd.conf")
    result = subprocess.run([program, *LOCAL, "--config", config, units], capture_output=True,
                            text=True, check=False)
    assert result.returncode == 0
    assert "a unit of this name exists already; is it also in /etc/fstab?" in result.stderr
    assert (units / "srv-my\\x2dscratch.mount").read_text() == "# fstab's\n"
    assert (units / "rxd-cache@data.service.d/50-rxd.conf").is_file()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["--what", "a"]])
def test_wrong_arguments(program, arguments):
    assert subprocess.run([program, *arguments], capture_output=True, check=False).returncode == 1
