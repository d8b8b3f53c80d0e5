"""Write `metaoperator/kubernetes` anew: `python -m tests.schemas`, with `METAOPERATOR_KUBECONFIG` set."""

import asyncio
import os

from tests.contract.client import connect
from tests.schemas import FOLDER, ask, text_of


async def main() -> None:
    """Ask, and write."""
    async with connect(os.environ["METAOPERATOR_KUBECONFIG"]) as api:
        files = await ask(api)
    FOLDER.mkdir(exist_ok=True)
    for name, content in files.items():
        (FOLDER / f"{name}.json").write_text(text_of(content))
        print(f"{name}.json: {len(text_of(content))} bytes")


if __name__ == "__main__":
    asyncio.run(main())
