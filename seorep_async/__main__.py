"""`python -m seorep_async`: the command `seorep`."""

from seorep_async.cli import main

if __name__ == "__main__":
    main()
