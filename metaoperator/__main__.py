"""`python -m metaoperator` is the command `metaoperator`, and begins and ends here."""

import gc


def main() -> None:
    """Run the command; one that ends at once leaves nothing to collect, and looking for it took a tenth of its time."""
    gc.disable()
    from metaoperator import cli  # noqa: PLC0415 - importing makes most of the objects that would be looked through

    try:
        cli.main()
    finally:
        # The interpreter collects once more when it ends, whatever `disable` says, but not what is frozen.
        gc.freeze()


if __name__ == "__main__":
    main()
