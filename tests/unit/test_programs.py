# SPDX-License-Identifier: GPL-2.0-only
"""The unit tests that are C programs."""

import os
import re
import subprocess

HERE = os.path.dirname(os.path.realpath(__file__))


def test_programs():
    result = subprocess.run([os.path.join(HERE, "run")], capture_output=True, text=True,
                            check=False)
    failed = "\n".join(line for line in result.stdout.splitlines()
                       if not line.startswith("ok "))
    assert result.returncode == 0, failed + result.stderr
    assert int(re.search(r"^(\d+) passed, 0 failed", result.stdout, re.M).group(1)) > 100
