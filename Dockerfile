# Caddy with the rate limiter of this folder, and with other plugins by
# --build-arg PLUGINS='--with github.com/caddy-dns/cloudflare'. make xcaddy runs
# the same line without Docker.
FROM caddy:2.11.9-builder AS builder
ARG PLUGINS=
COPY . /src
RUN xcaddy build v2.11.9 --with github.com/redis-ratelimit/caddy-redis-ratelimit@v0.0.0=/src $PLUGINS

FROM caddy:2.11.9
COPY --from=builder /usr/bin/caddy /usr/bin/caddy
