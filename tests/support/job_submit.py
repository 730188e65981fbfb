"""One job_submit plugin, written twice: in Lua for slurmctld and in Python for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler.sandbox.slurm import Verdict

# The plugin acts on these words in the comment of a job, or of a job's update.
REFUSED: Final = "to be refused"
BUSY: Final = "to be told that nodes are busy"
TALKED_ABOUT: Final = "to be talked about"
ROBBED: Final = "to lose its comments"
WORDS: Final = "no jobs on a Sunday"

LUA: Final = f"""\
local function judged(fields)
    if fields.comment == "{REFUSED}" then
        slurm.log_user("{WORDS}")
        return slurm.ERROR
    elseif fields.comment == "{BUSY}" then
        return 2016
    elseif fields.comment == "{TALKED_ABOUT}" then
        slurm.log_user("{WORDS}")
    end
    return slurm.SUCCESS
end
function slurm_job_submit(fields, partitions, uid)
    if fields.comment == "{ROBBED}" then
        fields.comment = ""
        fields.admin_comment = ""
    end
    return judged(fields)
end
function slurm_job_modify(fields, job, partitions, uid)
    return judged(fields)
end
return slurm.SUCCESS
"""


def verdict(fields: Mapping[str, Any]) -> Verdict:
    """What the Lua script does, for the model."""
    return {
        REFUSED: Verdict(number=-1, words=WORDS),
        BUSY: Verdict(number=2016),
        TALKED_ABOUT: Verdict(words=WORDS),
        ROBBED: Verdict(changes={"comment": "", "admin_comment": ""}),
    }.get(fields.get("comment", ""), Verdict())
