# SPDX-License-Identifier: Apache-2.0
"""Settings every test shares."""

import os

from hypothesis import settings

# Containers run the tests as root, which Open MPI refuses unless it is told twice.
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT", "1")
os.environ.setdefault("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")

# What a user has tuned on this machine must not change what the tests see.
os.environ.setdefault("LANECAST_PROFILE", "none")

# Ranks share few cores here, so an example's duration says nothing; the same examples on every run, more on request.
settings.register_profile("default", deadline=None, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=1000)
settings.register_profile("few", deadline=None, derandomize=True, max_examples=15)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
