"""The plans of a version as the history records them: one for each source with shared windows, one for each join, and
one for each view that joins streams of several sites."""

from __future__ import annotations

from tidemill.engine.adapt.history import InForce, Subject
from tidemill.engine.views.ways import SITE_PLAN, WAYS
from tidemill.engine.workload import Workload
from tidemill.optimize.joins.decide import JoinSettings, model_of
from tidemill.optimize.share.reader_plan import ReaderPlan
from tidemill.plan.aggregation_joins import analyze_join
from tidemill.plan.node import walk
from tidemill.plan.physical import Lfta, Physical
from tidemill.plan.relations import JoinAggregate


def plans_in_force(workload: Workload, plan: Physical) -> dict[Subject, InForce]:
    """What `plan` has chosen; the workload has just made it with `keep`."""
    sharing, found = workload.sharing, dict[Subject, InForce]()
    fed = [op.source for op in plan.reader if isinstance(op, Lfta)]
    for source in fed:
        reader_plan = sharing.settings.reader_plans.get(source)
        if reader_plan is not None:
            found[Subject("windows", source)] = InForce(source, windows_text(reader_plan), sharing.predict_cost(source))
    settings = workload.join_planning.settings
    for node, views in _joins(workload).values():
        if node.fingerprint in settings.plans:
            cost = model_of(node, analyze_join(node), settings).price(settings.plans[node.fingerprint]).cost
            found[Subject("join", node.fingerprint)] = InForce(", ".join(views), join_text(node, settings), cost)
    return found | _site_joins(workload)


def _site_joins(workload: Workload) -> dict[Subject, InForce]:
    """The joins between sites: each view that reads another site by its own plan."""
    found = {}
    for entry in workload.catalog.of("view", "query"):
        if WAYS in entry.options or SITE_PLAN in entry.options:
            plan = entry.options.get(SITE_PLAN, {"algorithm": "sp_s", "at": "this site", "methods": {}})
            price: dict[str, float] = next(
                (way for way in entry.options.get("site_costs", ()) if way.get("chosen")), {}
            )
            text = f"{plan['algorithm']} at {plan['at']}"
            found[Subject("site", entry.id)] = InForce(entry.name, text, price.get("cost"))
    return found


def windows_text(reader_plan: ReaderPlan) -> str:
    """Configuration, sizes of the tables in its order, and weaved groups."""
    sizes = " ".join(str(node.buckets) for node in reader_plan.tree)
    return f"{reader_plan.chosen.configuration} [{sizes}] in {len(reader_plan.groups)} weaved groups"


def join_text(node: JoinAggregate, settings: JoinSettings) -> str:
    """The paper's name of the plan, the method where it is not hashing, and keys that are copied or split."""
    bits = settings.plans[node.fingerprint]
    words = [f"EAP{bits}" if "1" in bits else "LAP"]
    if settings.method != "hash":
        words.append(settings.method)
    hot = settings.hot.get(node.fingerprint, ())
    for word, keys in (("copied", [k for k in hot if not k.split]), ("split", [k for k in hot if k.split])):
        if keys:
            words.append(f"{word} {' '.join(k.text or str(k.hash) for k in keys)}")
    return ", ".join(words)


def _joins(workload: Workload) -> dict[str, tuple[JoinAggregate, list[str]]]:
    """The aggregation joins by fingerprint, each with the views that read it."""
    found: dict[str, tuple[JoinAggregate, list[str]]] = {}
    for view in workload.views.values():
        for node in walk(view.node):
            if isinstance(node, JoinAggregate):
                names = found.setdefault(node.fingerprint, (node, []))[1]
                if view.entry.name not in names:
                    names.append(view.entry.name)
    return found
