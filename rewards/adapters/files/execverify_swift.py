"""For ms-swift's `--external_plugins`: see `rewards.adapters.ms_swift`."""

import sys

from rewards.adapters.ms_swift import register

if "swift" in sys.modules:  # it is, when ms-swift loads this file
    register()
