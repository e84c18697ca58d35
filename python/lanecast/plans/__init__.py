# SPDX-License-Identifier: Apache-2.0
"""Plans for people: saved as JSON, told as text, drawn as pictures.

plans = make_plans("all_reduce", topology, "hierarchical(ring,direct)")
Path("plan.json").write_text(to_json(plans, topology))
print(show(plans, topology))
draw(plans, topology, Path("plan.png"))

The same of what plans become for GPUs (lanecast.compose.programs): show_program, programs_to_json and
programs_from_json, draw_programs.
"""

from lanecast.plans.draw import draw
from lanecast.plans.draw_programs import draw_programs
from lanecast.plans.json import from_json, to_json
from lanecast.plans.programs import programs_from_json, programs_to_json, show_program
from lanecast.plans.show import show

__all__ = [
    "draw",
    "draw_programs",
    "from_json",
    "programs_from_json",
    "programs_to_json",
    "show",
    "show_program",
    "to_json",
]
