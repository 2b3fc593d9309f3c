# SPDX-License-Identifier: GPL-2.0-only
"""rxadm: the effect and the output of its commands."""

import concurrent.futures
import json
import os

import pytest

from rxdlib import direct, dm, modules
from rxdlib.command import ENVIRONMENT, as_nobody, program, run, rxadm
from rxdlib.control import (NODE_INTERLEAVE, NODE_LOCAL, STATE_DETECT_ZEROES, STATE_OVERCOMMIT,
                            STATE_RESERVED)
from rxdlib.direct import BLOCK, KIB, MIB, stamp
from rxdlib.lab import DISK, RamDisk
from rxdlib.outcome import ok, refused
from rxdlib.sampled import sampled


def create(lab, *args):
    path = ok("create", *args).strip()
    assert path.startswith("/dev/rxd")
    return lab.adopt_ramdisk(int(path[len("/dev/rxd"):]))


@pytest.mark.one_kernel
@pytest.mark.parametrize("text, size", sampled([
    ("4096", 4096), ("4K", 4096), ("64M", 64 * MIB), ("64m", 64 * MIB), ("64MiB", 64 * MIB),
    ("64MB", 64 * MIB), ("1.5M", 3 * MIB // 2), ("0.25G", 256 * MIB), ("1048576B", MIB)]))
def test_create(lab, text, size):
    ramdisk = create(lab, "--size", text)
    assert ramdisk.path == "/dev/rxd0"
    assert os.path.exists(ramdisk.path)
    assert ramdisk.query().size == size


def test_create_percent(lab):
    ramdisk = create(lab, "--size", "10%")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert ramdisk.query().size == memory * 10 // 100 // BLOCK * BLOCK


def test_create_options(lab):
    ramdisk = create(lab, "--size=8M", "--index=5", "--logical-block-size", "4096",
                     "--mem-limit", "1M", "--overcommit")
    query = ramdisk.query()
    assert (query.index, query.size, query.logical_block_size, query.mem_limit) == \
        (5, 8 * MIB, 4096, MIB)
    assert query.state & STATE_OVERCOMMIT


def test_create_overcommit(lab):
    ramdisk = create(lab, "--size", "1T", "--overcommit")
    assert ramdisk.query().size == 1 << 40


@pytest.mark.one_kernel
def test_resize_of_a_cache(lab):
    """A note says when the cache uses the new size."""
    cache = lab.cache(4 * MIB, cache_size=4 * MIB)
    ok("resize", cache.ramdisk.path, "4M")
    result = rxadm("resize", cache.ramdisk.path, "8M")
    assert result.returncode == 0
    for words in "note: ", cache.path, "dmsetup suspend":
        assert words in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.one_kernel
@pytest.mark.parametrize("name", ["rxd0", "/dev/rxd0", "link"])
def test_remove(lab, tmp_path, name):
    create(lab, "--size", "4M")
    if name == "link":
        name = tmp_path / "link"
        name.symlink_to("/dev/rxd0")
    assert ok("remove", name) == ""
    assert not os.path.exists("/dev/rxd0")


def test_remove_several(lab):
    """The named disks are removed, and no others."""
    for _ in range(4):
        create(lab, "--size", "4M")
    calls = ["ioctl(/dev/rxd-control, RXD_REMOVE, {version=1, flags=RXD_IF_SAME, "
             f"index={index}, diskseq={RamDisk(index).seen()['diskseq']}, changes=0}})\n"
             for index in (2, 0, 3)]
    assert ok("remove", "rxd2", "/dev/rxd0", "rxd3", "--dry-run") == "".join(calls)
    assert len(ok("list", "-n").splitlines()) == 4
    assert ok("remove", "rxd2", "/dev/rxd0", "rxd3") == ""
    assert ok("list", "-rno", "DEVICE") == "/dev/rxd1\n"


def test_remove_all(lab):
    """All unused disks are removed; each of the others is reported by a line."""
    assert ok("remove", "--all") == ""
    for _ in range(4):
        create(lab, "--size", "4M")
    cache = lab.cache(4 * MIB, ramdisk=lab.ramdisk(4 * MIB))
    with direct.Direct("/dev/rxd1"):
        for options in ("--dry-run",), ():
            result = rxadm("remove", "--all", *options)
            assert result.returncode == 5
            assert result.stdout.count("RXD_REMOVE") == (3 if options else 0)
            lines = result.stderr.splitlines()
            assert len(lines) == 2
            assert "'/dev/rxd1': is in use (open in process" in lines[0]
            assert "'/dev/rxd4': is in use" in lines[1] and cache.name in lines[1]
            assert len(ok("list", "-n").splitlines()) == (5 if options else 2)
    ok("unmap", cache.name)
    assert ok("remove", "--all") == "" == ok("list", "-n")


@pytest.mark.one_kernel
def test_remove_all_at_the_same_time(lab):
    """A disk that another process has removed meanwhile is not an error."""
    for _ in range(30):
        create(lab, "--size", "64K")
    with concurrent.futures.ThreadPoolExecutor() as executor:
        results = list(executor.map(lambda _: rxadm("remove", "--all"), range(3)))
    assert [(result.returncode, result.stderr) for result in results] == 3 * [(0, "")]
    assert ok("list", "-n") == ""


@pytest.mark.one_kernel
def test_remove_all_without_the_module():
    """There are none, as in list."""
    modules.unload()
    try:
        assert ok("remove", "--all") == ""
        assert not modules.loaded() & {modules.RXD}
    finally:
        modules.load()


def test_resize_by(lab):
    """The size is more or less than the present one."""
    ramdisk = create(lab, "--size", "4M")
    direct.write(ramdisk.path, 3 * MIB, stamp(1))
    assert ok("resize", "rxd0", "+4M", "--dry-run").endswith(f"index=0, size={8 * MIB}}})\n")
    assert ok("resize", "rxd0", "--force", "--dry-run", "--", "-1M").endswith(
        f"index=0, size={3 * MIB}}})\n")
    assert ramdisk.query().size == 4 * MIB
    assert ok("resize", "rxd0", "+1.5M") == ""
    assert ramdisk.query().size == 5 * MIB + MIB // 2
    ok("resize", "/dev/rxd0", "--", "-512K")
    assert ramdisk.query().size == 5 * MIB
    ok("resize", "--", "rxd0", "-4K")
    assert ramdisk.query().size == 5 * MIB - BLOCK
    assert direct.read(ramdisk.path, 3 * MIB, BLOCK) == stamp(1)
    ok("resize", "rxd0", "--force", "--", "-3M")
    assert ramdisk.query().size == 2 * MIB - BLOCK
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    ok("resize", "rxd0", "+1%")
    assert ramdisk.query().size == 2 * MIB - BLOCK + memory // 100 // BLOCK * BLOCK
    ok("resize", "rxd0", "+1T", "--overcommit")
    assert ramdisk.query().size > 1 << 40


def test_resize(lab):
    ramdisk = create(lab, "--size", "4M")
    direct.write(ramdisk.path, 3 * MIB, stamp(1))
    assert ok("resize", "rxd0", "8M") == ""
    assert ramdisk.query().size == 8 * MIB
    ok("resize", "/dev/rxd0", "4M")
    assert direct.read(ramdisk.path, 3 * MIB, BLOCK) == stamp(1)
    ok("resize", "rxd0", "2M", "--force")
    assert ramdisk.query().size == 2 * MIB
    ok("resize", "rxd0", "1T", "--overcommit")
    assert ramdisk.query().size == 1 << 40


def test_list_json(lab):
    first = create(lab, "--size", "8M", "--mem-limit", "2M")
    create(lab, "--size", "1T", "--overcommit", "--index", "7", "--logical-block-size", "4096")
    direct.write(first.path, 0, stamp(1, MIB))
    direct.write(first.path, 2 * MIB, stamp(1, MIB))
    with pytest.raises(OSError):
        direct.write(first.path, 4 * MIB, stamp(1))
    with direct.Direct(first.path) as device:
        device.discard(MIB, 7 * MIB)
        listed = json.loads(ok("list", "--json"))
    for ramdisk in listed["ramdisks"]:
        query = RamDisk(int(ramdisk["device"][len("/dev/rxd"):])).query()
        assert ramdisk.pop("uuid") == query.uuid
        assert ramdisk.pop("metadata") == query.mem_index > 0
        assert ramdisk.pop("name") is ramdisk.pop("parent") is ramdisk.pop("export") is None
    assert listed == {"ramdisks": [
        {"device": "/dev/rxd0", "size": 8 * MIB, "used": MIB, "max_used": 2 * MIB,
         "limit": 2 * MIB, "logical_block_size": 512, "state": "open", "nospc": 1,
         "discards": 1, "folio_size": 4096, "node": "local"},
        {"device": "/dev/rxd7", "size": 1 << 40, "used": 0, "max_used": 0, "limit": 0,
         "logical_block_size": 4096, "state": "overcommit", "nospc": 0, "discards": 0,
         "folio_size": 4096, "node": "local"}]}


@pytest.mark.one_kernel
def test_list_as_anybody(lab):
    """The list of RAM disks contains nothing that sysfs hides from users."""
    for index in 10, 2:
        create(lab, "--size", "8M", "--index", str(index), "--mem-limit", "2M")
    ok("create", "--size", "4M", "--node", "interleave", "--detect-zeroes")
    lab.adopt_ramdisk(0)
    for options in (), ("--json",), ("--bytes", "--raw", "-o", "+UUID"):
        result = as_nobody(program("rxadm"), "list", *options, check=False)
        assert (result.returncode, result.stderr) == (0, ""), result
        assert result.stdout == ok("list", *options)
    assert ok("list", "-rno", "DEVICE").split() == ["/dev/rxd0", "/dev/rxd2", "/dev/rxd10"]


@pytest.mark.one_kernel
def test_list_of_another_version(lab):
    """Disks of a module that lacks some files of this rxadm are still listed."""
    ramdisk = create(lab, "--size", "8M")
    listed = run("unshare", "--mount", "sh", "-euc",
                 f"mount -t tmpfs tmpfs /sys/block/{ramdisk.name}/rxd; {program('rxadm')} list -J")
    (line,) = json.loads(listed.stdout)["ramdisks"]
    assert (line["device"], line["size"], line["used"]) == (ramdisk.path, 8 * MIB, None)


def test_list_of_none():
    assert json.loads(ok("list", "--json")) == {"ramdisks": []}
    assert ok("list", "--noheadings") == ""


@pytest.mark.one_kernel
def test_list_formats(lab):
    create(lab, "--size", "1.5M")
    create(lab, "--size", "64M")
    ok("set", "rxd1", "--name", "scratch")
    heading, *rows = ok("list").splitlines()
    assert heading.split() == ["DEVICE", "SIZE", "USED", "LIMIT", "STATE", "NAME"]
    assert [row.split()[4:] for row in rows] == [["idle"], ["idle", "scratch"]]
    assert [row.split()[:3] for row in rows] == [["/dev/rxd0", "1.5M", "0B"],
                                                 ["/dev/rxd1", "64M", "0B"]]
    assert ok("list", "--raw", "--noheadings", "--bytes", "-o", "DEVICE,SIZE,STATE") == \
        "/dev/rxd0 1572864 idle\n/dev/rxd1 67108864 idle\n"
    assert ok("list", "--raw", "-o", "SIZE,DEVICE").splitlines() == [
        "SIZE DEVICE", "1.5M /dev/rxd0", "64M /dev/rxd1"]
    assert json.loads(ok("list", "--json", "-o", "device")) == {
        "ramdisks": [{"device": "/dev/rxd0"}, {"device": "/dev/rxd1"}]}


@pytest.mark.parametrize("text, folio_size", [("4K", 4096), ("65536", 65536), ("2MiB", 2 * MIB)])
def test_create_folio_size(lab, text, folio_size):
    ramdisk = create(lab, "--size", "8M", "--folio-size", text)
    assert ramdisk.query().folio_size == folio_size
    assert ok("list", "-r", "-n", "-b", "-o", "FOLIO_SIZE") == f"{folio_size}\n"


@pytest.mark.parametrize("text, node", [("local", NODE_LOCAL), ("interleave", NODE_INTERLEAVE),
                                        ("0", 0)])
def test_create_node(lab, text, node):
    ramdisk = create(lab, "--size", "8M", "--node", text)
    assert ramdisk.query().node == node
    assert ok("list", "-r", "-n", "-o", "NODE") == f"{text}\n"


@pytest.mark.one_kernel
def test_create_uuid(lab):
    text = "0B4A1C6E-57E7-4f2e-8d3a-7c1c0a2f9e11"
    ramdisk = create(lab, "--size", "8M", "--uuid", text)
    other = create(lab, "--size", "8M")
    assert ramdisk.query().uuid == text.lower() != other.query().uuid
    assert ok("list", "-r", "-n", "-o", "UUID").splitlines() == [text.lower(), other.query().uuid]


def test_create_reserve_and_detect_zeroes(lab):
    reserved = create(lab, "--size", "8M", "--reserve", "--mem-limit", "8M")
    zeroes = create(lab, "--size", "8M", "--detect-zeroes")
    assert reserved.query().mem_used == 8 * MIB and reserved.query().state == STATE_RESERVED
    assert zeroes.query().mem_used == 0 and zeroes.query().state == STATE_DETECT_ZEROES
    assert ok("list", "-r", "-n", "-o", "STATE").splitlines() == ["reserved", "detect-zeroes"]


def test_limit(lab):
    ramdisk = create(lab, "--size", "8M")
    assert ok("limit", "rxd0", "1.5M") == ""
    assert ramdisk.query().mem_limit == 3 * MIB // 2
    assert ok("limit", ramdisk.path, "none") == ""
    assert ramdisk.query().mem_limit == 0


def test_clear(lab):
    ramdisk = create(lab, "--size", "8M")
    direct.write(ramdisk.path, MIB, stamp(1, MIB))
    assert ok("clear", "rxd0", "--force") == ""
    assert ramdisk.query().mem_used == 0
    assert direct.read(ramdisk.path, MIB, MIB) == bytes(MIB)


@pytest.mark.one_kernel
def test_clear_several(lab):
    """All of the named disks are cleared, or none."""
    disks = [create(lab, "--size", "4M") for _ in range(3)]
    for disk in disks:
        direct.write(disk.path, 0, stamp(1, MIB))
    with direct.Direct(disks[2].path):
        refused(5, "clear", "--force", "rxd0", "rxd2", names=("rxd2", "open"))
    run("blockdev", "--setro", disks[2].path)
    refused(4, "clear", "--force", "rxd0", "rxd2", names=("rxd2", "read-only"))
    run("blockdev", "--setrw", disks[2].path)
    refused(1, "clear", "--force", "rxd0", "/dev/rxd0", names="more than once")
    assert [disk.query().mem_used for disk in disks] == 3 * [MIB]
    assert ok("clear", "--force", "--dry-run", "rxd2", "rxd0").count("RXD_CLEAR") == 2
    assert ok("clear", "--force", "rxd2", "rxd0") == ""
    assert [disk.query().mem_used for disk in disks] == [0, MIB, 0]


@pytest.mark.one_kernel
def test_unmap_several(lab):
    """All of the named caches are removed, or none."""
    one, two = (lab.cache(4 * MIB, cache_size=4 * MIB, origin=lab.ramdisk(4 * MIB).path)
                for _ in range(2))
    with direct.Direct(two.path):
        refused(5, "unmap", one.name, two.name, names=(two.name, "open"))
    refused(1, "unmap", one.name, f"/dev/mapper/{one.name}", names="more than once")
    refused(4, "unmap", one.name, "rxdtest-none", names="'rxdtest-none'")
    assert ok("unmap", two.name, one.name, "--dry-run") == \
        f"dmsetup remove {two.name}\ndmsetup remove {one.name}\n"
    assert ok("status", "-rno", "NAME", two.name, one.path) == f"{two.name}\n{one.name}\n"
    refused(4, "status", one.name, "rxdtest-none", names="'rxdtest-none'")
    assert len(ok("status", "-n").splitlines()) == 2
    assert ok("unmap", two.name, one.name) == ""
    assert ok("status", "-n") == ""


def test_extents(lab):
    ramdisk = create(lab, "--size", "64M")
    assert json.loads(ok("extents", "rxd0", "--json")) == {"extents": []}
    assert ok("extents", "rxd0", "-n") == ""
    direct.write(ramdisk.path, 0, stamp(1, 3 * BLOCK))
    direct.write(ramdisk.path, 33 * MIB, stamp(1, MIB))
    assert json.loads(ok("extents", "/dev/rxd0", "-J")) == {"extents": [
        {"start": 0, "length": 3 * BLOCK}, {"start": 33 * MIB, "length": MIB}]}
    assert ok("extents", "-r", "rxd0") == f"START LENGTH\n0 12288\n{33 * MIB} {MIB}\n"
    assert ok("extents", "rxd0", "-r", "-n", "-o", "LENGTH") == f"12288\n{MIB}\n"


def test_many_extents(lab):
    """More extents than one call of RXD_MAP returns."""
    ramdisk = create(lab, "--size", "64M")
    with direct.Direct(ramdisk.path) as device:
        device.write(0, stamp(1, 40 * MIB))
        for offset in range(BLOCK, 40 * MIB, 2 * BLOCK):
            device.discard(offset, BLOCK)
    lines = ok("extents", "rxd0", "-r", "-n").splitlines()
    assert lines == [f"{offset} {BLOCK}" for offset in range(0, 40 * MIB, 2 * BLOCK)]


def test_map_and_unmap(lab):
    """The main use: map, write, unmap, and the disk has all data."""
    ramdisk = create(lab, "--size", "16M")
    name = "rxc-" + os.path.basename(DISK)
    assert ok("map", "--cache", "rxd0", "--origin", DISK) == f"/dev/mapper/{name}\n"
    lab.adopt_mapped(name)
    path = f"/dev/mapper/{name}"
    with direct.Direct(path) as mapped, direct.Direct(DISK, os.O_RDONLY) as disk:
        assert mapped.size() == disk.size()
    assert dm.table(name).endswith(" 3 writethrough block_size 8 0")
    direct.write(path, MIB, stamp(3, MIB))
    assert direct.read(DISK, MIB, MIB) == stamp(3, MIB) == direct.read(path, MIB, MIB)
    assert ramdisk.query().mem_used == MIB
    assert ok("unmap", name) == ""
    assert name not in dm.names() and not os.path.exists(path)
    assert ramdisk.query().mem_used == 0
    assert ramdisk.attribute("state") == "idle"
    assert direct.read(DISK, MIB, MIB) == stamp(3, MIB)


@pytest.mark.parametrize("block_size, sectors", [
    ("4096", 8), ("4K", 8), ("64K", 128), ("1M", 2048)])
def test_map_options(lab, block_size, sectors):
    create(lab, "--size", "32M")
    assert ok("map", "--cache", "/dev/rxd0", "--origin", DISK, "--name", "my.cache-1",
              "--block-size", block_size) == "/dev/mapper/my.cache-1\n"
    lab.adopt_mapped("my.cache-1")
    assert dm.Status("my.cache-1").block_size == sectors
    ok("unmap", "/dev/mapper/my.cache-1")


def test_mode_and_set(lab):
    """Modes and the cut-off, at first and later."""
    create(lab, "--size", "16M")
    ok("map", "--cache", "rxd0", "--origin", DISK, "--name", "one", "--mode", "writearound",
       "--seq-cutoff", "1M")
    lab.adopt_mapped("one")
    assert dm.table("one").endswith(" 3 writearound block_size 8 2 seq_cutoff 1048576")
    columns = ("status", "-r", "-n", "-b", "-o", "MODE,SEQ_CUTOFF")
    assert ok(*columns) == "writearound 1048576\n"
    assert ok("mode", "one") == "writearound\n"
    assert ok("mode", "one", "passthrough") == ""
    assert ok("mode", "/dev/mapper/one") == "passthrough\n"
    assert ok(*columns) == "passthrough 1048576\n"
    ok("set", "/dev/mapper/one", "--seq-cutoff", "0")
    ok("mode", "/dev/mapper/one", "writethrough")
    assert ok(*columns) == "writethrough 0\n"
    assert dm.table("one").endswith(" 3 writethrough block_size 8 0")


def test_stats_reset(lab):
    """Reset one cache, and then all; cached blocks stay."""
    caches = [lab.cache(4 * MIB, cache_size=4 * MIB),
              lab.cache(4 * MIB, cache_size=4 * MIB, origin=lab.ramdisk(4 * MIB).path)]

    def use():
        for cache in caches:
            direct.read(cache.path, 0, 64 * KIB)
            direct.read(cache.path, 0, 64 * KIB)

    def hits():
        return [cache.status().read_hits for cache in caches]

    use()
    assert hits() == [16, 16]
    assert ok("stats", "reset", caches[0].path) == ""
    assert hits() == [0, 16] and not any(caches[0].status().counters.values())
    assert ok("stats", "reset", "--all") == ""
    assert hits() == [0, 0]
    use()
    one, two = (cache.name for cache in caches)
    refused(4, "stats", "reset", one, "nine", names=("'nine'", "does not exist"))
    refused(1, "stats", "reset", one, two, one, names=(f"'{one}'", "more than once"))
    assert all(hits())
    assert ok("stats", "reset", one, two) == ""
    assert hits() == [0, 0]
    assert [cache.status().used for cache in caches] == [16, 16]


@pytest.mark.one_kernel
def test_dry_run_of_messages(lab):
    """The messages are printed as dmsetup accepts them, and not sent."""
    one, two = lab.cache(MIB), lab.cache(MIB, origin=lab.ramdisk(4 * MIB).path)
    direct.read(one.path, 0, BLOCK)
    before = [cache.status().__dict__ for cache in (one, two)]
    assert ok("mode", one.name, "writearound", "--dry-run") == \
        f"dmsetup message {one.name} 0 mode writearound\n"
    assert ok("set", one.path, "--seq-cutoff", "1M", "--dry-run") == \
        f"dmsetup message {one.name} 0 seq_cutoff 1048576\n"
    assert ok("stats", "reset", one.name, "--dry-run") == \
        f"dmsetup message {one.name} 0 reset_stats\n"
    assert ok("stats", "reset", two.name, one.name, "--dry-run").splitlines() == [
        f"dmsetup message {cache.name} 0 reset_stats" for cache in (two, one)]
    assert sorted(ok("stats", "reset", "--all", "--dry-run").splitlines()) == sorted(
        f"dmsetup message {cache.name} 0 reset_stats" for cache in (one, two))
    measure = ok("set", one.name, "--latency", "on", "--dry-run")
    assert measure.startswith("dmsetup stats create --programid rxadm --bounds 1us,2us,")
    assert ok("set", one.name, "--latency", "off", "--dry-run") == ""
    assert [cache.status().__dict__ for cache in (one, two)] == before
    # The printed command has the intended effect.
    run("sh", "-c", measure)
    assert ok("set", one.name, "--latency", "off", "--dry-run") == \
        f"dmsetup stats delete --programid rxadm --regionid 0 {one.name}\n"
    direct.read(one.path, 0, BLOCK)
    assert ok("status", "--latency", "-r", "-n", "-o", "COUNT") == "1\n"
    ok("set", one.name, "--latency", "off")
    run("sh", "-c", ok("mode", one.name, "writearound", "--dry-run"))
    assert ok("mode", one.name) == "writearound\n"


@pytest.mark.one_kernel
def test_set_both_or_none(lab):
    """If any ioctl fails, the cut-off does not change."""
    cache = lab.cache(MIB)
    failed = 0
    # LeakSanitizer cannot work beside strace.
    environment = {**ENVIRONMENT, "ASAN_OPTIONS": f"{ENVIRONMENT['ASAN_OPTIONS']}:detect_leaks=0"}
    ok("set", cache.name, "--seq-cutoff", "64K")
    for when in range(1, 16):
        result = run("strace", "-f", "-o", "/dev/null", "-e", "trace=ioctl", "-e",
                     f"inject=ioctl:error=EDQUOT:when={when}", program("rxadm"), "set", cache.name,
                     "--seq-cutoff", "1M", "--latency", "on", check=False,
                     environment=environment)
        failed += result.returncode != 0
        cutoff = 64 * KIB if result.returncode else MIB
        assert dm.table(cache.name).endswith(f" 2 seq_cutoff {cutoff}"), (when, result)
        ok("set", cache.name, "--seq-cutoff", "64K", "--latency", "off")
    assert failed > 4


def test_map_takes_a_formatted_ramdisk_by_force(lab):
    ramdisk = create(lab, "--size", "16M")
    run("mkfs.ext4", "-q", ramdisk.path)
    refused = rxadm("map", "--cache", "rxd0", "--origin", DISK, "--name", "forced")
    assert refused.returncode and "--force" in refused.stderr
    assert "forced" not in dm.names()
    ok("map", "--cache", "rxd0", "--origin", DISK, "--name", "forced", "--force")
    lab.adopt_mapped("forced")


def test_status(lab):
    create(lab, "--size", "16M")
    ok("map", "--cache", "rxd0", "--origin", DISK, "--name", "one")
    lab.adopt_mapped("one")
    assert json.loads(ok("status", "--json"))["caches"][0]["read_hit_percent"] is None
    path = "/dev/mapper/one"
    direct.read(path, 0, 64 * KIB)
    for _ in range(3):
        direct.read(path, 0, 64 * KIB)
    direct.write(path, 0, stamp(1))
    dmsetup = dm.Status("one")
    for arguments in (), ("one",), (path,):
        caches = json.loads(ok("status", *arguments, "--json"))["caches"]
        assert len(caches) == 1
        cache = caches[0]
        percent = cache.pop("read_hit_percent")
        assert percent == pytest.approx(
            100 * dmsetup.read_hits / (dmsetup.read_hits + dmsetup.read_misses), abs=0.1)
        assert cache == {
            "name": "one", "origin": DISK, "cache": "/dev/rxd0", "mode": "writethrough",
            "seq_cutoff": 0, "advise": "no", "block_size": 4096, "blocks_total": dmsetup.total,
            "blocks_used": dmsetup.used, "metadata_bytes": dmsetup.metadata, "limit": None,
            "export": None, "min_size": None, "lent": None, "given_back": None, "taken": None,
            **dmsetup.counters}
    assert cache["read_hits"] == 48 and cache["write_hits"] == 1
    assert ok("status", "-r", "-n", "-o", "NAME,READ_HITS,MODE") == "one 48 writethrough\n"
    assert len(ok("status").splitlines()) == 2


def test_status_of_none():
    assert json.loads(ok("status", "--json")) == {"caches": []}


def test_status_of_two(lab):
    for number in range(2):
        create(lab, "--size", "4M")
    other = lab.ramdisk(8 * MIB)
    ok("map", "--cache", "rxd0", "--origin", DISK, "--name", "b")
    lab.adopt_mapped("b")
    ok("map", "--cache", "rxd1", "--origin", other.path, "--name", "a")
    lab.adopt_mapped("a")
    caches = json.loads(ok("status", "--json"))["caches"]
    assert {cache["name"]: cache["origin"] for cache in caches} == {"a": other.path, "b": DISK}


def test_state_in_list(lab):
    ramdisk = create(lab, "--size", "4M")
    ok("map", "--cache", "rxd0", "--origin", DISK, "--name", "one")
    lab.adopt_mapped("one")
    assert ok("list", "-r", "-n", "-o", "STATE") == "open\\x20cache\n"
    ok("unmap", "one")
    assert ok("list", "-r", "-n", "-o", "STATE") == "idle\n"
    assert RamDisk(0).query() == ramdisk.query()


COMMANDS = ("create", "clone", "resize", "limit", "clear", "reset", "remove", "list", "info",
            "extents", "diff", "save", "load", "map", "unmap", "mode", "set", "status", "stats",
            "top", "metrics", "hotlist", "warm", "export", "unexport", "apply", "completion",
            "help")


@pytest.mark.one_kernel
def test_help_and_version():
    assert ok("--version").startswith("rxadm ")
    everything = ok("--help")
    assert "Usage:" in everything
    assert ok("help") == everything == ok("-h")
    for command in COMMANDS:
        assert f"\n {command} " in everything
        text = ok(command, "--help")
        usage = text.split("\n\n")[0].splitlines()
        assert usage[0].startswith(f"Usage: rxadm {command}")
        assert all(line.startswith(f"       rxadm {command}") for line in usage[1:])
        assert ok("help", command) == text


@pytest.mark.one_kernel
def test_help_as_anybody():
    result = as_nobody(program("rxadm"), "help", "create", check=False)
    assert (result.returncode, result.stderr, result.stdout) == (0, "", ok("create", "--help"))
