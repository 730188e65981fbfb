# Slurm of one release in one container, for deploy/kind; the context is the folder `deploy`. Debian sid
# has Slurm 26.05, trixie 24.11.
ARG BASE=debian:sid-slim
FROM ${BASE}
ARG RELEASE=26.05
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
      curl slurm-client slurm-wlm-jwt-plugin slurmctld slurmd slurmrestd \
 && rm -rf /var/lib/apt/lists/* \
 && slurmctld -V \
 && slurmctld -V | grep -q "^slurm[^ ]* $RELEASE\." \
 && install -d -o slurm -g slurm /var/spool/slurmctld
COPY slurm/*.sh /etc/slurm/
COPY kind/slurm-${RELEASE}.conf /etc/slurm/slurm.conf
COPY kind/slurm.sh /usr/local/bin/slurm.sh
# slurmrestd
EXPOSE 6820
ENTRYPOINT ["slurm.sh"]
