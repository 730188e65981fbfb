#!/bin/sh
# PrologSlurmctld for slurm-pod-scheduler: holds a job back while containers of a pod whose own job
# has ended still run on its nodes. It always ends with status 0, because slurmctld cancels external
# jobs and holds batch jobs after another status. See docs/install-slurm.md.

# Sets `now`, in seconds. /proc/uptime needs no process; `date` would be started three times for each
# job and take a quarter of the guard's CPU time.
look_at_clock() {
    { read -r now _ </proc/uptime; } 2>/dev/null || now=$(date +%s)
    now=${now%.*}
}

# Lets the job start although the nodes are not known to be free. With POLICY=drain it drains them.
# What is said is cut: a program may be given arguments of a certain length only.
give_up() {
    why=$(printf '%.500s' "$*")
    say "$SLURM_JOB_NODELIST: $why; the job starts (POLICY=$POLICY)"
    [ "$POLICY" = drain ] || return 0
    scontrol update "nodename=$SLURM_JOB_NODELIST" state=drain \
        "reason=slurm-pod-scheduler: $why" || say "the nodes could not be drained"
}

# Pauses before the next question: 1, 2, and then 4 seconds, since many jobs may wait, and each
# question takes some processes beside slurmctld.
rest() {
    sleep $((pause < wait ? pause : wait))
    pause=$((pause < 4 ? 2 * pause : pause))
}

# guard URL: returns when the nodes are free, or after it has given up (see POLICY). Fails if the job
# has waited for as long as it may.
guard() {
    look_at_clock
    heard=$now pause=1
    while :; do
        look_at_clock
        patience=$((UNREACHABLE_SECONDS - (now - heard)))
        left=$((WAIT_SECONDS - (now - began)))
        if [ "$left" -le 0 ]; then
            give_up "after $WAIT_SECONDS s, $text"
            return 1
        elif [ "$patience" -le 0 ]; then
            give_up "no answer of $1 for $UNREACHABLE_SECONDS s ($status, $text)"
            return 0
        fi
        wait=$((left < patience ? left : patience)) asked=$now
        post "$1/v1/guard" $((wait + 5)) "job=$SLURM_JOB_ID" "nodes=$SLURM_JOB_NODELIST" "wait=$wait"
        case $status in
        200) return 0 ;;
        409 | 429) # a pod is still there, or too many jobs wait for pods: both is an answer
            look_at_clock
            # A scheduler says 409 when the wait is over. Another program may say it at once.
            if [ "$status" = 409 ] && [ "$now" -gt "$asked" ]; then pause=1; else rest; fi
            look_at_clock # the pause is the hook's own: it is no silence of the scheduler
            heard=$now
            ;;
        400 | 401 | 404 | 413)
            give_up "$1 refused the question ($status, $text)"
            return 0
            ;;
        *) rest ;;
        esac
    done
}

main() {
    # shellcheck source-path=SCRIPTDIR source=hooks.sh
    . "${0%/*}/hooks.sh"
    configured || return
    look_at_clock
    began=$now
    for each in $URL; do
        guard "$each" || return
    done
}

# In a subshell, because not even a syntax error in the settings may end this shell.
(main) || :
exit 0
