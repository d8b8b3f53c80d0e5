"""Measure, and write the figures down: `python -m tests.bench`. Nothing here passes or fails by itself.

    headline             one shared controller against the operator's fleet: a neighbour beside a backlog, and a rate
    render               rendering, without a cluster
    burst                300 namespaces at once on simulated nodes, against a raw replay of the same writes
    settled              the same fleet, left alone for ten minutes
    settled-restarted    … after a restart of the operator
    settled-mirrored     … after a restart, where an admission policy rewrites images
    admission            what the admission policies cost the API server
    admission-outages    what they refuse while an API server comes back
    sweep                10,000 Workflows that lack their instance ID, also with 200 of 1 MB among them

`render` needs nothing, those about admission and the sweep an API server of their own. The others run on fresh local
clusters, which need root and are gone at the end.
"""

import argparse
import signal
import sys
from collections.abc import Callable

from . import admission, burst, headline, render, report, settled, sweep
from .report import Figure


def main() -> None:
    """Run the benches that are asked for; print their figures and keep them."""
    # Ended by a signal, also where a shell in the background had it ignored: the cluster goes with the bench.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", metavar="BENCH", help="run this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=2, help="of what is measured in turn (%(default)s)")
    parser.add_argument("--namespaces", type=int, default=burst.NAMESPACES, help="(%(default)s)")
    parser.add_argument("--minutes", type=float, default=10, help="of settled quiet (%(default)s)")
    parser.add_argument("--outages", type=int, default=20, help="of the API server, for each policy (%(default)s)")
    parser.add_argument("--workers", type=int, help="the operator's, where they are not its default")
    options = parser.parse_args()
    count, minutes = options.namespaces, options.minutes
    benches: dict[str, Callable[[], list[Figure]]] = {
        "headline": lambda: headline.run(options.rounds),
        "render": render.run,
        "burst": lambda: burst.run(options.rounds, count, options.workers),
        "settled": lambda: settled.opted_in(minutes, count),
        "settled-restarted": lambda: settled.restarted(minutes, count),
        "settled-mirrored": lambda: settled.mirrored(minutes, count),
        "admission": admission.costs,
        "admission-outages": lambda: admission.outages(options.outages),
        "sweep": sweep.run,
    }
    chosen = options.only or list(benches)
    if unknown := sorted(set(chosen) - benches.keys()):
        parser.error(f"no bench {', '.join(unknown)}; there are {', '.join(benches)}")
    arguments = {
        "headline": f" --rounds {options.rounds}",
        "render": "",
        "admission": "",
        "sweep": "",
        "admission-outages": f" --outages {options.outages}",
        "burst": f" --rounds {options.rounds} --namespaces {count}",
    }
    for name in chosen:
        print(f"== {name}", flush=True)
        described = report.about()
        figures = benches[name]()
        how = f"python -m tests.bench --only {name}" + arguments.get(
            name, f" --minutes {minutes:g} --namespaces {count}"
        )
        other = "" if options.workers is None or name != "burst" else f" --workers {options.workers}"
        report.keep(name + other.replace(" --workers ", "-workers-"), how + other, described, figures)
        print(report.table(figures), flush=True)
    print(f"kept in {report.TABLE.relative_to(report.ROOT)}")


if __name__ == "__main__":
    main()
