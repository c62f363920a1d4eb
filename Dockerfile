# Matins in a container: `docker compose up` with compose.yaml beside it, or alone:
#   docker build -t matins . && docker run -p 127.0.0.1:7411:7411 -v matins:/var/lib/matins matins
# It has no tool of an agent. Add yours in an image of your own: FROM matins, USER root, RUN npm install …, USER matins.
FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /opt/matins \
    && /opt/matins/bin/pip install --no-cache-dir --constraint constraints.txt ".[postgres,github,notify,holidays]"

FROM python:3.13-slim
RUN useradd --uid 10001 --user-group --create-home --home-dir /var/lib/matins matins
COPY --from=build /opt/matins /opt/matins
ENV PATH=/opt/matins/bin:$PATH \
    MATINS_HOME=/var/lib/matins \
    PYTHONUNBUFFERED=1
# The account matins, by its number: a cluster checks that it is not root.
USER 10001:10001
WORKDIR /var/lib/matins
VOLUME /var/lib/matins
EXPOSE 7411
HEALTHCHECK --interval=30s --timeout=5s --start-period=20s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:7411/readyz', timeout=4)"]
# Runs get 30 seconds to finish.
STOPSIGNAL SIGTERM
ENTRYPOINT ["matins"]
CMD ["up", "--host", "0.0.0.0", "--port", "7411"]
