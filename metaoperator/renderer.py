"""Which code renders: a digest that changes with every byte that rendered bytes may rest on.

An operator of another version may write the same set and values down in other bytes, by a new filter, default or
Jinja. The digest is part of every set revision, so what it renders is a revision of its own and goes through the waves.
A namespace for which the bytes stay the same is not touched by that.
"""

import functools
import hashlib
from pathlib import Path
from typing import Final

import jinja2
import yaml

_HERE: Final = Path(__file__).parent
_RESTS_ON: Final = (_HERE / "core", Path(jinja2.__file__).parent, Path(yaml.__file__).parent)


@functools.cache
def identity() -> str:
    """Digest the modules by name and content: the same on every machine, wherever and whenever it was installed."""
    found = hashlib.sha256((_HERE / "sources.py").read_bytes())
    for folder in _RESTS_ON:
        for path in sorted(folder.glob("*.py")):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            found.update(f"{folder.name}/{path.name} {content}\n".encode())
    return found.hexdigest()[:16]
