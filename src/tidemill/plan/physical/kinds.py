"""All kinds of operators, and how one is written to a plan file."""

from __future__ import annotations

from typing import Any

from tidemill.plan.physical import aggregation_join, keyed, linear, ranking, recursion, sharing, times
from tidemill.plan.physical.base import Op
from tidemill.plan.physical.codec import decoder, fields_of, values_decoder
from tidemill.plan.sources import Schema

OPERATORS: tuple[type[Op], ...] = (
    linear.Scan,
    linear.Seed,
    linear.Filter,
    linear.Project,
    linear.Unnest,
    linear.Synchronize,
    linear.SynchronizePeriods,
    linear.Temporal,
    linear.Partial,
    linear.Finer,
    linear.Windowed,
    linear.Values,
    linear.Counted,
    linear.Latest,
    linear.Union,
    linear.LocalRows,
    linear.Picked,
    keyed.Shed,
    keyed.Tagger,
    keyed.Group,
    keyed.NumberedRows,
    keyed.JointGroup,
    keyed.SetCombine,
    keyed.Join,
    keyed.JoinAt,
    ranking.Ranked,
    ranking.WindowFunctions,
    ranking.Sessions,
    recursion.Recursive,
    aggregation_join.JoinAggregate,
    times.Clock,
    times.SynchronizeOn,
    times.RowPoints,
    times.RowsWindow,
    times.Stamp,
    times.Rstream,
    times.ChangeStream,
    times.CatchUp,
    times.Alternatives,
    times.ViewOutput,
    sharing.Lfta,
    sharing.Numbering,
    sharing.Leaf,
    sharing.Weave,
    sharing.WeaveNumbered,
    sharing.Weaved,
)
_KINDS: dict[str, Any] = {cls.kind: cls for cls in OPERATORS}
_schema = decoder(Schema)
_EVERY = 3  # fields that every operator has


def encode_op(op: Op) -> dict[str, Any]:
    """An operator as JSON has it: what all have, and under `params` what only this kind has."""
    own = fields_of(op, skip=_EVERY)
    return {"id": op.id, "inputs": op.inputs, "kind": op.kind, "params": own, "schema": op.schema}


def decode_op(data: dict[str, Any]) -> Op:
    """The operator that `encode_op` wrote."""
    cls = _KINDS[data["kind"]]
    own = values_decoder(cls, _EVERY)(data["params"])
    found: Op = cls(id=data["id"], inputs=tuple(data["inputs"]), schema=_schema(data["schema"]), **own)
    return found
