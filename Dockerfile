# The image of slurm-pod-scheduler; docs/image.md says how to build it and what is in it.
#
# Any base serves that has a Python 3.11 or newer as `python3`, with its module venv.
ARG BASE=python:3.13.15-slim-trixie@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b

FROM ${BASE} AS build
ARG PIP_INDEX_URL=""
ARG SOURCE_DATE_EPOCH
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
RUN python3 -m venv /tools \
 && python3 -m venv --without-pip /opt/slurm-pod-scheduler \
 && rm /opt/slurm-pod-scheduler/bin/[Aa]ctivate*
COPY requirements/image.txt requirements/runtime.txt requirements/
# The only step with a network: wheels alone, each with a hash of the lock file. A site's pip.conf and
# the authority of its mirror come as secrets, which no layer keeps.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/run/secrets/ca.crt \
    if [ -s /run/secrets/ca.crt ]; then export PIP_CERT=/run/secrets/ca.crt; fi \
 && locked="--require-hashes --only-binary=:all: --no-compile" \
 && /tools/bin/pip install --quiet $locked -r requirements/image.txt \
 && /tools/bin/pip --python /opt/slurm-pod-scheduler/bin/python3 \
      install --quiet $locked -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY groundwork groundwork
COPY annotations annotations
COPY slurmapi slurmapi
COPY scheduler scheduler
RUN /tools/bin/hatchling build -t wheel -d /wheels \
 && /tools/bin/pip --python /opt/slurm-pod-scheduler/bin/python3 \
      install --quiet --no-index --find-links /wheels --no-deps --no-compile slurm-pod-scheduler
COPY deploy/image/sbom.py .
RUN mkdir /share && cp LICENSE /share/ \
 && /tools/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
      -o python.cdx.json /opt/slurm-pod-scheduler/bin/python3 \
 && /opt/slurm-pod-scheduler/bin/python3 sbom.py python.cdx.json > /share/sbom.cdx.json
# A root that is read-only never gets bytecode later; bytecode that goes by the time of its source is
# stale as soon as a builder sets the times of all files.
RUN python3 -m compileall -q --invalidation-mode unchecked-hash /opt/slurm-pod-scheduler

FROM ${BASE}
ARG BASE
# The official Python images leave the bytecode of the standard library out. What installs packages
# has no work here.
RUN lib="$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')" \
 && rm -rf "$lib"/site-packages/pip "$lib"/site-packages/pip-* "$lib"/ensurepip \
      /usr/share/python-wheels /usr/local/bin/pip* \
 && python3 -m compileall -q --invalidation-mode unchecked-hash \
      -x '/(config-|idlelib|lib2to3|pydoc_data|test|tkinter|turtledemo)' "$lib"
COPY --from=build /opt/slurm-pod-scheduler /opt/slurm-pod-scheduler
COPY --from=build /share /usr/share/slurm-pod-scheduler
COPY deploy/image/healthcheck.py /usr/libexec/slurm-pod-scheduler/healthcheck.py
# kubernetes_asyncio does not start without a home; a user that is only a number has none.
ENV PATH=/opt/slurm-pod-scheduler/bin:/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin \
    HOME=/ PYTHONDONTWRITEBYTECODE=1
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="slurm-pod-scheduler" \
      org.opencontainers.image.description="A Kubernetes scheduler whose decisions are made by Slurm" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.base.name="${BASE}"
USER 65532:65532
# metrics, probes, hooks
EXPOSE 8080 8081 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python3", "-I", "/usr/libexec/slurm-pod-scheduler/healthcheck.py"]
ENTRYPOINT ["slurm-pod-scheduler"]
