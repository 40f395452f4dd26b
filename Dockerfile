# The command line with Python, Java and Delta's and Kafka's artifacts inside: a container needs no network.
#
#     docker build --tag mainstem .
#     docker run --rm --volume "$PWD:/work" mainstem run
#
# The process is no root: the folder that is mounted at /work must be writable for user 10001. As yourself, with
# your name, which Hadoop asks for:
#
#     docker run --rm --user "$(id -u):$(id -g)" --volume /etc/passwd:/etc/passwd:ro --volume "$PWD:/work" mainstem run
#
# /work has mainstem.yml, landing folders and the lakehouse.

FROM python:3.12-slim-bookworm AS java
RUN apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*

FROM java AS build
ENV UV_PROJECT_ENVIRONMENT=/opt/mainstem/venv UV_LINK_MODE=copy UV_PYTHON_DOWNLOADS=never
ENV MAINSTEM_CACHE=/opt/mainstem/cache
WORKDIR /build
RUN python -m pip install --no-cache-dir "uv==0.13.*"
COPY pyproject.toml uv.lock README.md LICENSE hatch_build.py ./
COPY mainstem ./mainstem
COPY framework ./framework
COPY bronze ./bronze
COPY silver ./silver
COPY gold ./gold
RUN uv sync --frozen --no-cache --no-default-groups --extra local --extra otel --extra lineage --extra alerts --no-editable
COPY container/collect_jars.py ./
RUN cd / && /opt/mainstem/venv/bin/python /build/collect_jars.py /opt/mainstem/jars

FROM java
COPY --from=build /opt/mainstem /opt/mainstem
RUN useradd --uid 10001 --create-home mainstem && mkdir /work && chown mainstem /work
ENV PATH=/opt/mainstem/venv/bin:$PATH MAINSTEM_CACHE=/opt/mainstem/cache PYTHONDONTWRITEBYTECODE=1
USER 10001
WORKDIR /work
ENTRYPOINT ["mainstem"]
CMD ["--help"]
