"""Time an import and the start of the command, beside an import of aiohttp: `python -m benchmarks.import_time`."""

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.alternating import Ratio
from benchmarks.findings import Bar, Findings, Table, command

_COMMAND = "import sys; from seorep_async.cli import main; sys.argv[1:] = {}; main()"
_BARE = "import aiohttp"
_PROGRAMS = {
    "from seorep_async import SeoRepClient": ("from seorep_async import SeoRepClient", 1.35),
    "seorep --help": (_COMMAND.format(["--help"]), 0.6),
    "seorep pull --help": (_COMMAND.format(["pull", "--help"]), 1.9),
    "seorep doctor --help": (_COMMAND.format(["doctor", "--help"]), 1.9),
    "seorep users list --help": (_COMMAND.format(["users", "list", "--help"]), 1.9),
}


def measure(quick: bool) -> Findings:
    """Run each program in new processes, in turn, and compare median processor times, with the interpreter's."""
    programs = {_BARE: _BARE, **{name: program for name, (program, _) in _PROGRAMS.items()}}
    times: dict[str, list[float]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory() as folder:
        bytecode = None if quick else folder
        # the first run compiles the modules
        for program in () if quick else programs.values():
            _seconds(program, bytecode)
        for _ in range(1 if quick else 21):
            for name, program in programs.items():
                times[name].append(_seconds(program, bytecode))
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    return Findings(
        bars=[
            Bar(f"{name}, against {_BARE}", required, Ratio.of(times[name], times[_BARE]))
            for name, (_, required) in _PROGRAMS.items()
        ],
        tables=[
            Table(
                "Starting, ms",
                list(medians),
                [[f"{seconds * 1e3:.0f}" for seconds in medians.values()]],
            )
        ],
    )


def _seconds(program: str, bytecode: str | None) -> float:
    """Return the processor time of a program whose modules are compiled already, as in an installed package.

    Otherwise, packages installed by pip, which compiles them, would seem faster than a checkout.
    """
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    if bytecode is not None:
        environment["PYTHONPYCACHEPREFIX"] = bytecode
    running = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, env=environment
    )
    _, status, used = os.wait4(running.pid, 0)
    running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise RuntimeError(f"{program} ended with {running.returncode}")
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    command(measure, __doc__)
