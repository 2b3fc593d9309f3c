# SPDX-License-Identifier: GPL-2.0-only
"""The manual pages name everything in the sources that users need."""

import os
import re

import pytest

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


def read(*parts):
    with open(os.path.join(TOP, *parts), encoding="utf-8") as file:
        return file.read()


def sources(folder):
    names = sorted(name for name in os.listdir(os.path.join(TOP, folder)) if name.endswith(".c"))
    return "\n".join(read(folder, name) for name in names)


def find(pattern, text, at_least):
    """Return the matches of a pattern. Too few mean that the form of the sources has changed."""
    found = re.findall(pattern, text, re.M)
    assert len(found) >= at_least, f"{pattern}: only {found}"
    return found


def bold(page):
    """Return the words that a page sets in bold."""
    return set(re.findall(r"\*([^*\n]+)\*", re.sub(r"\\(.)", r"\1", page)))


def section(page, title):
    """Return the text below a heading, up to the next heading of the same level."""
    level = title.split()[0]
    start, end = rf"^{re.escape(title)}(?!\w).*\n", rf"(?=^#{{1,{len(level)}}} |\Z)"
    match = re.search(start + r"((?:.*\n)*?)" + end, page, re.M)
    assert match, f"no section {title}"
    return match.group(1)


def parameters(folder):
    return re.findall(r"^module_param\w*\((\w+),", sources(folder), re.M)


def test_parameters_of_rxd():
    found = parameters("module")
    assert len(found) >= 2
    assert set(found) <= bold(section(read("Documentation/rxd.4.scd"), "# MODULE PARAMETERS"))


def test_parameters_of_rxcache():
    assert not parameters("dm-target"), "name them in rxcache(4), and check it here"


def test_sysfs():
    files = find(r"^static DEVICE_ATTR_\w+\((\w+)\)", read("module/sysfs.c"), 12)
    assert set(files) == bold(section(read("Documentation/rxd.4.scd"), "# SYSFS"))


def test_synopsis():
    """rxadm(8) and --help have the same usage lines."""
    usages = find(r"\"(?:Usage:|      ) (rxadm [a-z].*)\\n\"", sources("utils/rxadm/commands"), 25)
    page = section(read("utils/rxadm/rxadm.8.scd"), "# SYNOPSIS")
    lines = re.sub(r"[*_]|\+\+$", "", page, flags=re.M).split("\n")
    assert set(usages) == {line for line in lines if line.startswith("rxadm ") and line[6] != "-"}


def test_words_of_state():
    words = find(r"RXD_STATE_\w+, \"([a-z-]+)\"", read("module/sysfs.c"), 6)
    text = section(read("Documentation/rxd.4.scd"), "# SYSFS")
    assert [word for word in words if f"_{word}_" not in text] == []


HEADER = read("include/uapi/linux/rxd.h")
IOCTLS = find(r"^#define (RXD_\w+)\s+_IO\w+\(RXD_IOC_MAGIC, \w+, struct (\w+)\)", HEADER, 6)


def fields(name):
    body = re.search(rf"^struct {name} \{{\n(.*?)^\}};", HEADER, re.M | re.S).group(1)
    return find(r"^\s+__[us]\d+ (\w+)(?:\[\d+\])?;", body, 2)


@pytest.mark.parametrize("ioctl, struct", IOCTLS)
def test_ioctl(ioctl, struct):
    page = read("Documentation/rxd.4.scd")
    named = bold(section(page, f"## {ioctl} (struct {struct})"))
    general = bold(section(page, "# IOCTLS").split("\n## ")[0])
    general &= {"version", "flags", "pad", "reserved"}
    assert set(fields(struct)) - named - general == set()


def test_extent():
    named = bold(section(read("Documentation/rxd.4.scd"), "## RXD_MAP"))
    assert {"struct rxd_extent", *fields("rxd_extent")} <= named


def test_constants():
    names = {name for name in find(r"^#define (RXD_\w+)", HEADER, 20)
             if name not in ("RXD_CONTROL_NAME", "RXD_IOC_MAGIC")}
    ioctls = {ioctl for ioctl, _ in IOCTLS}
    page = read("Documentation/rxd.4.scd")
    assert names - ioctls - bold(page) == set()
    assert [ioctl for ioctl in ioctls if f"\n## {ioctl} (" not in page] == []


def test_errors_of_ioctls():
    page = read("Documentation/rxd.4.scd")
    names = set(find(r"\b(E[A-Z]{3,})\b(?=:|\t)", HEADER, 10)) - {"EINVAL"}
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", page)] == []


RXCACHE = read("Documentation/rxcache.4.scd")


def test_messages():
    names = find(r"^\t\{ \"(\w+)\", \d+, ", read("dm-target/message.c"), 7)
    assert set(names) == bold(re.sub(r"^(?!\*).*$", "", section(RXCACHE, "# MESSAGES"),
                                     flags=re.M))


def test_status_fields():
    counters = find(r"^\tRXC_((?!NR_)\w+),", read("dm-target/stats.h"), 11)
    named = re.findall(r"^\|  \*([A-Z_]+)\*", section(RXCACHE, "# STATUS LINE"), re.M)
    # The last two are among the policy arguments.
    assert counters[-2:] == ["GIVEN", "TAKEN"]
    assert {"lent", "given_back", "taken"} <= bold(section(RXCACHE, "# STATUS LINE"))
    del counters[-2:]
    assert [name for name in named if name in counters] == counters
    assert named[:3] == ["BLOCK_SIZE", "USED", "METADATA_BYTES"]
    line = section(RXCACHE, "# STATUS LINE").split("\n\n")[0]
    assert re.findall(r"_([A-Z_]+?)_(?=[ \n/])", line)[4:-2] == counters


def test_features():
    modes = find(r"^\t\[RXC_\w+\] = \"(\w+)\"", read("dm-target/args.c"), 3)
    keys = find(r"strcmp\([^,]+, \"(\w+)\"\)", read("dm-target/args.c"), 2)
    assert {*modes, *keys} <= bold(section(RXCACHE, "# TABLE LINE"))


def test_errors_of_tables():
    found = set(find(r"-(E[A-Z]+)\b", read("dm-target/target.c"), 6))
    table = set(find(r"^\|  (E[A-Z]+)", section(RXCACHE, "# TABLE LINE"), 6))
    assert found <= table


def test_ima():
    text = read("dm-target/target.c").split("case STATUSTYPE_IMA:")[1].split("break;")[0]
    keys = find(r"(\w+)=", text, 7)
    told = find(r"(\w+)=", section(RXCACHE, "# IMA"), 7)
    assert told == ["target_name", "target_version", *keys]


@pytest.mark.parametrize("kind", ["ramdisk", "cache", "export"])
def test_keys_of_the_configuration(kind):
    found = find(r'^\t\[CONFIG_\w+\] = { "([a-z-]+)", ([A-Z |]+), ',
                 read("utils/rxadm/config/config_keys.c"), 20)
    page = read("utils/rxadm/rxd.conf.5.scd")
    assert {key for key, kinds in found if kind.upper() in kinds.split(" | ")} == \
        bold(section(page, f"## [{kind} NAME]")) & {key for key, _ in found}
