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
give_up() {
    say "$SLURM_JOB_NODELIST: $*; the job starts (POLICY=$POLICY)"
    [ "$POLICY" = drain ] || return 0
    scontrol update "nodename=$SLURM_JOB_NODELIST" state=drain \
        "reason=slurm-pod-scheduler: $*" || say "the nodes could not be drained"
}

# guard URL: returns when the nodes are free, or after it has given up (see POLICY).
guard() {
    look_at_clock
    began=$now heard=$now
    while :; do
        look_at_clock
        patience=$((UNREACHABLE_SECONDS - (now - heard)))
        left=$((WAIT_SECONDS - (now - began)))
        if [ "$left" -le 0 ]; then
            give_up "after $WAIT_SECONDS s, $text"
            return
        elif [ "$patience" -le 0 ]; then
            give_up "no answer of $1 for $UNREACHABLE_SECONDS s ($status, $text)"
            return
        fi
        wait=$((left < patience ? left : patience))
        post "$1/v1/guard" $((wait + 5)) "job=$SLURM_JOB_ID" "nodes=$SLURM_JOB_NODELIST" "wait=$wait"
        case $status in
        200) return ;;
        409)
            look_at_clock
            heard=$now
            ;;
        400 | 401 | 404 | 413)
            give_up "$1 refused the question ($status, $text)"
            return
            ;;
        *) sleep 1 ;;
        esac
    done
}

main() {
    # shellcheck source-path=SCRIPTDIR source=hooks.sh
    . "${0%/*}/hooks.sh"
    configured || return
    for each in $URL; do
        guard "$each"
    done
}

# In a subshell, because not even a syntax error in the settings may end this shell.
(main) || :
exit 0
