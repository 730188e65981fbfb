"""How often, how late and how long: the times that decisions rest on."""

from __future__ import annotations

from typing import Final

# A bind must rest on a look at the job that is no older than this (I2).
FRESH_SECONDS: Final = 2.0
# Where waiting can help, an allocation on an unfit Node is given back only after this long.
UNFIT_SECONDS: Final = 60.0
# An allocation beside a pod that leaves is kept so long at most: the guard's own WAIT_SECONDS,
# as Slurm's hooks come with them.
HANDOVER_SECONDS: Final = 300.0
# A safety net: whatever is missed by watches and pulses is found this late.
SLOW_LOOK_SECONDS: Final = 300.0
# A cancel that was taken, and is not seen by then, is repeated: a crash of slurmctld forgets it.
CANCEL_AGAIN_SECONDS: Final = 10.0
# How soon an unconfirmed or half-finished matter is looked at again.
SOON_SECONDS: Final = 1.0
# Whether the Node of a pod that went without a word is still there is looked at so often.
LINGER_LOOK_SECONDS: Final = 5.0
