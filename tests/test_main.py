"""The command line as a module."""

import subprocess
import sys

from regard import __version__


def test_python_m_regard_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "regard", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"regard {__version__}\n"
