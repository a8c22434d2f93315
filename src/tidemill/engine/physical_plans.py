"""One physical plan for everything that stands, from the relations of the views and what is kept of earlier plans."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tidemill.engine.adapt.joins import JoinPlanning
from tidemill.engine.adapt.sharing import Sharing
from tidemill.engine.adapt.tagging import Tagging
from tidemill.engine.views.rereading import second_specs
from tidemill.optimize.lower import lower
from tidemill.optimize.share.sharing_key import sharing_key
from tidemill.optimize.share.weave import Bits
from tidemill.optimize.views.tagging import TaggingSettings, choose_taggers
from tidemill.plan import relations as r
from tidemill.plan.homes import Home
from tidemill.plan.node import walk
from tidemill.plan.physical import OPERATOR_SECONDS, Physical
from tidemill.plan.relations import Relation
from tidemill.plan.sources import SourceSpec
from tidemill.runtime import fast_paths
from tidemill.runtime.garbage_collection import seldom_collected
from tidemill.runtime.thresholds import sizes
from tidemill.sql.catalog import Catalog


@dataclass(frozen=True)
class PhysicalPlans:
    """Makes plans. A plan that is only looked at changes nothing; one that is kept assigns ids, bits and taggers."""

    catalog: Catalog
    unit_us: int
    sharing: Sharing
    join_planning: JoinPlanning
    tagging: Tagging

    @property
    def fast_paths_off(self) -> tuple[str, ...]:
        """The fast paths that the database does without (`SET fast_paths_off`)."""
        return tuple(str(self.catalog.settings.get("fast_paths_off", "")).replace(",", " ").split())

    def lower(
        self, version: int, shards: tuple[int, ...], roots: dict[str, Relation], tagging: TaggingSettings | None
    ) -> Physical:
        """The plan of the roots under their names; it is kept unless `tagging` is what they would share with others."""
        specs, keep = self._specs(roots), tagging is None
        if keep:
            self.join_planning.forget(roots.values())
            windows = (n for root in roots.values() for n in walk(root) if isinstance(n, r.WindowAggregate))
            self.sharing.forget({sharing_key(n) for n in windows} | set(specs))
        with fast_paths.without(self.fast_paths_off), seldom_collected():
            plan = lower(
                roots,
                specs,
                version=version,
                unit_us=self.unit_us,
                shards=shards,
                bits=self._bits(keep),
                sharing=self.sharing.settings if keep else self.sharing.settings.copy(),
                join_settings=self.join_planning.settings if keep else self.join_planning.settings.copy(),
                tagging=self._keep_taggers(version, roots) if tagging is None else tagging,
            )
        given = self.catalog.settings
        return replace(
            plan,
            sealed_rows=given.get("sealed_rows", sizes.sealed_rows),
            operator_memory=given.get("operator_memory", 0),
            operator_seconds=given.get("operator_time", OPERATOR_SECONDS),
            fast_paths_off=self.fast_paths_off,
            functions=self.catalog.user_functions(),
        )

    def choose_taggers(self, version: int, roots: Sequence[Relation]) -> TaggingSettings:
        """Which queries would share a tagger; those that begin with plan `version` get theirs now."""
        settings = self.tagging.settings.copy()
        choose_taggers(list(roots), version, settings)
        return settings

    def _keep_taggers(self, version: int, roots: dict[str, Relation]) -> TaggingSettings:
        self.tagging.choose(roots.values(), version)
        return self.tagging.settings

    def homes(self, shards: tuple[int, ...], roots: dict[str, Relation]) -> dict[str, Home]:
        """How the rows of all operators and ports of the newest plan lie in the shards."""
        found: dict[str, Home] = {}
        lower(
            roots,
            self._specs(roots),
            version=0,
            unit_us=self.unit_us,
            shards=shards,
            bits=self._bits(False),
            sharing=self.sharing.settings.copy(),
            join_settings=self.join_planning.settings.copy(),
            tagging=self.tagging.settings.copy(),
            homes=found,
        )
        return found

    def _specs(self, roots: dict[str, Relation]) -> dict[str, SourceSpec]:
        """The sources, and second readings of them that the roots need."""
        known = {e.spec.name: e.spec for e in self.catalog.of("source", "table") if e.spec}
        return known | second_specs(roots.values(), known)

    def _bits(self, keep: bool) -> Bits:
        """Which bit of a signature belongs to which query: kept with the catalog; a plan that is only looked at gets a
        copy.
        """
        known: Bits = self.catalog.settings.setdefault("bits", {})
        return known if keep else copy.deepcopy(known)
