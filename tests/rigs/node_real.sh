# shellcheck shell=sh
# The first process of a real Node: sh node_real.sh DIRECTORY NAME. Ends when its input does, or
# when the kubelet does, and the kernel then ends all others of its pid namespace.
set -e
run=$1 name=$2

# Places that container software writes to wherever it is told to keep its files.
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount --bind "$run/var-lib" /var/lib
mount --bind "$run/var-log" /var/log
for file in "$run"/sys/*; do
    setting=/proc/sys/$(basename "$file" | tr . /)
    if [ -e "$setting" ]; then mount --bind "$file" "$setting"; fi
done

exec 3<&0
cat <&3 > /dev/null &
input=$!

containerd --config "$run/containerd.toml" > "$run/log/containerd.log" 2>&1 &
control() { ctr --address "$run/containerd.sock" --namespace k8s.io "$@"; }
tries=0
until control version > /dev/null 2>&1; do
    tries=$((tries + 1))
    [ "$tries" -lt 200 ]
    sleep 0.05
done
control images import "$run/images.tar"

{
    "$KUBELET" --config="$run/kubelet.json" --kubeconfig="$run/kubeconfig" \
        --hostname-override="$name" --root-dir="$run/kubelet" --cert-dir="$run/kubelet-certificates" \
        > "$run/log/kubelet.log" 2>&1 || true
    kill "$input"
} &
# `wait` also buries the orphans that every first process inherits.
wait "$input"
