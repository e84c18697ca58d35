# SPDX-License-Identifier: Apache-2.0
"""Plans for people: saved as JSON, told as text, drawn as pictures.

plans = make_plans("all_reduce", topology, "hierarchical(ring,direct)")
Path("plan.json").write_text(to_json(plans, topology))
print(show(plans, topology))
draw(plans, topology, Path("plan.png"))
"""

from lanecast.plans.draw import draw
from lanecast.plans.json import from_json, to_json
from lanecast.plans.show import show

__all__ = ["draw", "from_json", "show", "to_json"]
