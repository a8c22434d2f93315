"""A process forked from the zygote is what Spark would have started: arguments, streams, environment, end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tidemill.runtime.spark import zygote

CHILD = """
import json, os, sys, time
print(json.dumps([sys.argv[1:], os.environ.get("SAID"), os.getcwd(), __name__, os.getpid()]), flush=True)
if "echo" in sys.argv:
    sys.stdout.write(sys.stdin.read())
if "sleep" in sys.argv:
    time.sleep(60)
sys.exit(7)
"""


@pytest.fixture(scope="module")
def launcher(tmp_path_factory):
    folder = tmp_path_factory.mktemp("zygote")
    (folder / "somebody.py").write_text(CHILD)
    others = dict(zygote._started)  # of a session in this process
    zygote._started.clear()
    made = zygote.start(str(folder))
    assert made is not None and zygote.start(str(folder)) == made
    deadline = time.monotonic() + 30
    while not (folder / zygote.SOCKET).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    yield made
    process = zygote._started.pop(made)
    zygote._started.update(others)
    process.stdin.close()
    assert process.wait(10) == 0, "it ends with the one who started it"


def start(launcher, *words, **more):
    folder = os.path.dirname(launcher)
    return subprocess.Popen(
        [launcher, "-m", "somebody", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": folder, "SAID": "yes"},
        **more,
    )


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    deadline = time.monotonic() + 10
    while is_there(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_there(pid)


def test_it_runs_as_a_module_with_its_own_streams_and_environment(launcher):
    process = start(launcher, "a", "echo")
    text, _ = process.communicate("what came in")
    words, said, folder, name, pid = json.loads(text.split("\n")[0])
    assert (words, said, folder, name) == (["a", "echo"], "yes", os.path.dirname(launcher), "__main__")
    assert text.split("\n")[1] == "what came in" and process.returncode == 7 and pid != process.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_launcher(launcher, number):
    process = start(launcher, "sleep")
    pid = json.loads(process.stdout.readline())[-1]
    assert is_there(pid)
    process.send_signal(number)
    assert gone(pid) and process.wait(10) != 0
    process.communicate()


def test_several_run_at_once(launcher):
    many = [start(launcher, str(i)) for i in range(5)]
    assert [json.loads(p.communicate()[0])[0] for p in many] == [[str(i)] for i in range(5)]


def test_where_no_zygote_answers_python_starts_as_usual(launcher, tmp_path):
    lonely = tmp_path / "python"
    text = Path(launcher).read_text().replace(os.path.dirname(launcher) + "/zygote", str(tmp_path / "nobody"))
    lonely.write_text(text)
    lonely.chmod(0o700)
    process = subprocess.run(
        [str(lonely), "-m", "somebody", "b"],
        capture_output=True,
        text=True,
        cwd=os.path.dirname(launcher),
        env={**os.environ, "PYTHONPATH": os.path.dirname(launcher)},
    )
    assert json.loads(process.stdout)[0] == ["b"] and process.returncode == 7
    other = subprocess.run([launcher, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True)
    assert other.stdout.strip() == sys.executable, "whatever is not a module is for the interpreter"
