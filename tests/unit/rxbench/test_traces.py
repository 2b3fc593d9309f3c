# SPDX-License-Identifier: GPL-2.0-only
"""Trace formats, compressed and not, complete and truncated."""

import gzip
import lzma
import subprocess

import pytest

from rxbench.system.errors import BadInput
from rxbench.traces.formats import Request, requests
from rxbench.workloads.replay import aligned

CSV = "version,time,op,size,lbn\n1,5,2a,512,7\n1,6,28,6656,40\n"
LIS = "230027 8 0 0\n1842745 64 0 1\n"
BLKPARSE = """\
  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000002000   697  Q  RA 100 + 16 [cp]
  8,0    3        4     0.000003000   697  Q FWS [cp]
  8,0    3        5     0.000004000   697  Q   D 100 + 16 [fstrim]
CPU0 (8,0):
 Reads Queued:           1,        8KiB
"""
IOLOG2 = """\
fio version 2 iolog
/dev/x add
/dev/x open
/dev/x read 4096 512
/dev/x write 0 8192
/dev/x close
"""
IOLOG3 = """\
fio version 3 iolog
0 /dev/x add
0 /dev/x open
1 /dev/x read 4096 512
2 /dev/x close
"""


def read(tmp_path, data, limit=None):
    path = tmp_path / "trace"
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(requests(str(path), limit))


@pytest.mark.parametrize("text, wanted", [
    (CSV, [Request(True, 3584, 512), Request(False, 20480, 6656)]),
    (LIS, [Request(False, 230027 * 512, 4096), Request(False, 1842745 * 512, 32768)]),
    (BLKPARSE, [Request(True, 223490 * 512, 4096), Request(False, 51200, 8192)]),
    (IOLOG2, [Request(False, 4096, 512), Request(True, 0, 8192)]),
    (IOLOG3, [Request(False, 4096, 512)]),
])
def test_formats(tmp_path, text, wanted):
    assert read(tmp_path, text) == wanted
    assert read(tmp_path, text, limit=1) == wanted[:1]


def zstd(data):
    return subprocess.run(["zstd", "-qc"], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress, zstd])
def test_packed(tmp_path, pack):
    many = "".join(f"{number} 8 0 {number}\n" for number in range(0, 80000, 8)).encode()
    assert len(read(tmp_path, pack(many))) == 10000
    with pytest.raises(BadInput, match="truncated"):
        read(tmp_path, pack(many)[:-20])


@pytest.mark.parametrize("text, names", [
    ("", ["contains no request"]), ("version,time,op,size,lbn\n", ["contains no request"]),
    ("hello\n", ["line 1", "unknown format"]), (CSV[:-1], ["line 3", "truncated"]),
    (CSV + "1,7,28,4\n", ["line 4", "5 fields"]), (CSV + "1,7,28,4", ["line 4", "truncated"]),
    (CSV + "1,7,35,4096,8\n", ["line 4", "op 35"]), (CSV + "1,7,28,x,8\n", ["line 4", "x"]),
    (CSV + "1,7,28,0,8\n", ["line 4", "length"]), (LIS + "5 -8 0 2\n", ["line 3", "length"]),
    (LIS + "5 8 0\n", ["line 3", "4 numbers"]), (LIS + "12", ["line 3", "truncated"]),
    (BLKPARSE.splitlines()[0][:50] + "\n", ["line 1"]),
    (IOLOG2 + "/dev/x read 5\n", ["line 7", "OFFSET"]),
    (IOLOG2 + "/dev/y read 0 512\n", ["line 7", "/dev/y", "second file"]),
    (IOLOG2 + "/dev/x erase 0 512\n", ["line 7", "erase"]),
    (b"\xff\xff\xff\n", ["not text"]),
])
def test_bad_traces(tmp_path, text, names):
    with pytest.raises(BadInput) as caught:
        read(tmp_path, text)
    for name in [str(tmp_path / "trace"), *names]:
        assert name in str(caught.value)


def test_aligned():
    """Whole sectors, and none beyond the end."""
    assert aligned(Request(False, 512, 512), 4096, 1 << 20) == (0, 4096)
    assert aligned(Request(False, 4095, 2), 4096, 1 << 20) == (0, 8192)
    assert aligned(Request(False, (1 << 20) - 512, 512), 512, 1 << 20) == ((1 << 20) - 512, 512)
    assert aligned(Request(False, (5 << 20) + 512, 512), 512, 1 << 20) == (512, 512)
    assert aligned(Request(False, (2 << 20) - 512, 8192), 512, 1 << 20) == ((1 << 20) - 8192, 8192)
