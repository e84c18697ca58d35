# SPDX-License-Identifier: Apache-2.0
"""`python -m lanecast`: the command line without the console script, which is how ranks are started."""

from lanecast.cli import main

if __name__ == "__main__":
    main()
