"""`python -m apgcn` is the command `apgcn`."""

from apgcn.cli import main

if __name__ == "__main__":
    main()
