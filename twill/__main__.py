"""The `twill` command: `python -m twill`, and what the installed script calls.

Until the command line is imported, Ctrl-C ends the process as any other signal does, without a traceback.
"""

import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Import the command line, and run it."""
    from twill.cli import main as command

    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        command()
    except KeyboardInterrupt:  # just before the command line handles it, or just after
        sys.exit(130)


if __name__ == "__main__":
    main()
