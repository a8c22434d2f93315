"""Phantoms (paper 002): finer aggregates inside the reader that feed many group-bys, under a memory budget.

graph       `configuration`, `feeding`, `enumeration`
statistics  `statistics`, `collisions`, `fill`, `epochs`
cost        `cost`, `model`, `share_model`, `peak`
algorithms  `choose` for phantoms; `space`, `exhaustive`, `fronts` and `refinement` for their sizes; `method` picks them
"""
