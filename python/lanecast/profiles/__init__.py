# SPDX-License-Identifier: Apache-2.0
"""What communicators choose by: the files that `lanecast tune` and `lanecast learn` write, found, checked and adopted.

`lanecast.init()` comes in here by `finding`, and whoever measures or learns comes in to write. The room reads files and
asks the core; it times nothing, so measuring stands above it, as in the core `src/profiles` stands above no benchmark.

Begin with `profile`, the file of one shape of job, and `model`, what was learned for many numbers of ranks. `shape` and
`scope` say what each of them holds for, `gpu_profile` is that of the GPUs of one host, and `surprises` keeps what a
profile has not foreseen.
"""

from lanecast.profiles.profile import Profile, Shape, load, save

__all__ = ["Profile", "Shape", "load", "save"]
