#!/bin/sh
# Holds a node for a Kubernetes pod. On a signal it asks the scheduler whether the pod is gone, and
# ends when it is, or when KillWait has run out without an answer. While the scheduler answers that
# the pod is still there it stays: Slurm itself ends what is to end, with SIGKILL after KillWait.

newline='
'

hold() {
    trap true TERM INT USR1
    kill "$!" 2>/dev/null
    [ -n "$SLURM_POD_SCHEDULER_HOOKS_URL" ] && command -v curl >/dev/null || exit 0
    heard=$(date +%s) said=
    while [ $(($(date +%s) - heard)) -lt "$SLURM_POD_SCHEDULER_KILL_WAIT" ]; do
        asked=$(date +%s)
        answer=$(gone)
        case ${answer##*"$newline"} in
        200) exit 0 ;;
        409)
            heard=$(date +%s)
            [ "$heard" -gt "$asked" ] || sleep 1 # at once: no answer of the scheduler
            ;;
        *)
            say "${answer%%"$newline"*} (${answer##*"$newline"})"
            sleep 1
            ;;
        esac
    done
    exit 0
}

# The token comes through a pipe, for arguments are seen by everybody on the node; the authority as
# well, for there is no file to clean up after SIGKILL then, and a full /tmp does no harm (bash before
# 5.1 writes here-documents there). curl reads no .curlrc: the user's home folder may hang. Of the
# answer only its beginning is read: another program may answer without end.
gone() {
    printf '%s\n' "$SLURM_POD_SCHEDULER_CA" | {
        printf 'Authorization: Bearer %s\n' "$SLURM_POD_SCHEDULER_TOKEN" |
            curl --disable --silent --show-error --noproxy '*' --connect-timeout 5 --max-time 35 \
                ${SLURM_POD_SCHEDULER_CA:+--cacert /dev/fd/3} \
                --header @- --data wait=30 --write-out '\n%{http_code}' \
                "$SLURM_POD_SCHEDULER_HOOKS_URL/v1/units/$SLURM_POD_SCHEDULER_UNIT/gone" 2>&1 |
            head -c 16384
    } 3<&0
}

# Goes to the syslog of the node, once for each trouble. The job itself has no output. A syslog daemon
# that hangs must not keep the script from its signals.
say() {
    [ "$*" != "$said" ] || return
    said=$*
    told="job $SLURM_JOB_ID: no answer of $SLURM_POD_SCHEDULER_HOOKS_URL, $said"
    told="$told; the node is held for $SLURM_POD_SCHEDULER_KILL_WAIT s"
    timeout 2 logger -t slurm-pod-scheduler "$told" 2>/dev/null
}

trap hold TERM INT USR1

# The marker of the SUNK Pod Scheduler, for tools that look for it. A slurmctld that has lost its
# state meanwhile may have given the id to another job.
mark() {
    [ "$(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%j)" = "$SLURM_JOB_NAME" ] &&
        scontrol update "jobid=$SLURM_JOB_ID" "extra=$SLURM_JOB_EXTRA: started"
}
mark >/dev/null 2>&1 &

# `wait` returns on a trapped signal, a foreground sleep does not. It sleeps for 68 years, because a
# shell that cannot start another process ends, and its job with it.
while :; do
    sleep 2147483647 &
    wait "$!"
done
