"""What a worker process does, whether it was started anew or forked: it works until there is no more work."""

from __future__ import annotations

import os
import signal
import threading
import traceback


def run_worker() -> None:
    """Be a worker process until there is no more work, or until the driver has gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole process group; the driver decides
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # so does the end of a terminal
    threading.Thread(target=_leave_with_driver, daemon=True).start()
    from apache_beam.runners.worker import sdk_worker_main

    try:
        sdk_worker_main.main([])
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # the work is done and handed over: taking the interpreter down tidily would cost another 0.4 s


def _leave_with_driver() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)
