"""Times as people write them in our kinds: `6h`, `1h30m`, `90s`."""

import re
from datetime import timedelta
from typing import Any, Final

_DURATION: Final = re.compile(r"(?:(?P<hours>[0-9]{1,6})h)?(?:(?P<minutes>[0-9]{1,6})m)?(?:(?P<seconds>[0-9]{1,6})s)?")


def read(written: Any) -> timedelta | None:
    """Read one; `None` for what is none, or empty."""
    found = _DURATION.fullmatch(str(written or ""))
    time = {unit: int(count) for unit, count in (found.groupdict() if found else {}).items() if count}
    return timedelta(**time) if time else None
