"""What stops a command: a message for a person, and the exit code."""


class ClusterError(Exception):
    """The command cannot go on; the message says what to do about it."""

    exit_code = 1


class NotRoot(ClusterError):
    """The command needs root and would say so before it changes anything."""

    exit_code = 2
