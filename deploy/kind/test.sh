#!/usr/bin/env bash
# Checks what a user sees, on the cluster of up.sh: each line of output is a story that passed. At
# the first failure it prints the state of pods, jobs and scheduler, and ends with status 1.
set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
. "$(dirname "$0")/common.sh"

SPACE=stories

pods() {
  kubectl --namespace "$SPACE" "$@"
}

# create NAME: a pod that fills one of the two Slurm nodes.
create() {
  sed "s/^  name: train$/  name: $1/" deploy/kind/pod.yaml | pods apply --filename - > /dev/null
}

# field NAME JSONPATH: prints a field of a pod.
field() {
  pods get pod "$1" --output "jsonpath={$2}"
}

job() {
  field "$1" '.metadata.annotations.slurm-pod-scheduler/job-id'
}

# state JOB: prints the state of the job, and its nodes.
state() {
  in_slurm squeue --noheader --states all --job "$1" --format '%T %N'
}

runs() {
  [ "$(field "$1" .status.phase)" = Running ]
}

ended() {
  [[ $(state "$1") != @(PENDING|RUNNING|COMPLETING)* ]]
}

gone() {
  [ -z "$(pods get pod "$1" --ignore-not-found --output name)" ]
}

waits_for_slurm() {
  [ "$(field "$1" '.status.conditions[?(@.type=="PodScheduled")].reason')" = SlurmPending ]
}

picture() {
  {
    pods describe pods
    in_slurm squeue --states all
    kubectl logs "deployment/$NAME" --namespace "$NAME" --tail 50
  } >&2 || true
}

held() {
  say "$*"
}

need docker kubectl helm
need_cluster
trap '[ $? = 0 ] || picture' EXIT
kubectl create namespace "$SPACE" --dry-run=client --output yaml | kubectl apply --filename -
pods delete pods --all --wait

helm test "$NAME" --namespace "$NAME" --logs --timeout 3m
held "helm test: a pod waited in Slurm's queue and ran"

create first
until_it 120 runs first
first=$(job first)
[ "$(state "$first")" = "RUNNING $(field first .spec.nodeName)" ]
held "a pod runs on the node that Slurm has given its job $first"

create second
until_it 120 runs second
second=$(job second)
[ "$(field first .spec.nodeName)" != "$(field second .spec.nodeName)" ]
create third
until_it 60 waits_for_slurm third
held "a pod for which Slurm has no room waits, and says so"

pods delete pod first
until_it 60 ended "$first"
until_it 120 runs third
held "a deleted pod's job ends, and the next in Slurm's queue runs"

in_slurm scancel "$second"
until_it 60 gone second
held "a pod goes when somebody cancels its job"

third=$(job third)
kubectl delete namespace "$SPACE"
until_it 60 ended "$third"
held "no job outlives its pod"
