# A host of an experiment: Python, what the workers import, and nothing that they do not.
# Built by `make image` and, with torch and Horovod, `make image-horovod` (scripts/image.sh), which put
# the packages and wheels/ beside this file: they are fetched outside, with the machine's own pip
# settings and certificates.
FROM debian:bookworm-slim AS wheels
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3-venv > /dev/null
COPY wheels /wheels
RUN python3 -m venv /opt/giveway \
    && /opt/giveway/bin/pip install -q --no-index --no-deps /wheels/*.whl \
    && /opt/giveway/bin/pip uninstall -q -y pip setuptools \
    && find /opt/giveway -depth -type d -name tests -exec rm -r {} +

FROM debian:bookworm-slim
# libstdc++ and libgomp: what compiled wheels expect a machine to have.
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends python3-minimal libpython3-stdlib \
        libstdc++6 libgomp1 > /dev/null \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /usr/share/doc /usr/share/man
COPY --from=wheels /opt/giveway /opt/giveway
COPY packages /opt/giveway/packages
ENV PATH=/opt/giveway/bin:$PATH PYTHONPATH=/opt/giveway/packages PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# testbed/containers/hosts.py gives the folders below /run/giveway to this user.
USER 10001:10001
WORKDIR /tmp
# An image whose workers do not start is never made.
ARG IMPORTS
RUN python3 -c "import testbed.live.nursery, $IMPORTS"
ENTRYPOINT ["python3", "-m", "testbed.live.nursery"]
# What the image was made of, last so that nothing has to be made again for a label.
ARG INPUTS
LABEL giveway.inputs=$INPUTS
