"""`python -m metaoperator` is the command `metaoperator`."""

from metaoperator import cli

if __name__ == "__main__":
    cli.main()
