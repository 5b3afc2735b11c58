"""``python -m modejump`` is the command line."""

from modejump.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
