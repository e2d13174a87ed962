"""The signals that end the command; imported before all else, so it imports little."""

import signal
import sys

STOP_SIGNALS = [signal.SIGINT, signal.SIGTERM]
"""They end the command with 130, unless they are ignored: SIGHUP under nohup, SIGINT in a shell's background job."""
if sys.platform != "win32":
    STOP_SIGNALS.append(signal.SIGHUP)
