#!/bin/sh
# Sends requests to the limits of conf/Caddyfile, and has Redis answer no one for a while now and then.
#   SITE           the site, such as http://caddy:8080
#   REDIS          the host of Redis, REDIS_PORT its port; default: 6379
#   ROUNDS         of some seconds, then it ends; default: no end
#   OUTAGE_EVERY   rounds; default: 100
#   OUTAGE_SECONDS of each outage; default: 30

# get PATH CLIENT [HEADER]
get() {
	wget -q -T 10 -O - --header "X-Client: $2" ${3:+--header} ${3:+"$3"} "$SITE$1" 2>/dev/null
}

# repeat TIMES PATH CLIENT [HEADER]
repeat() {
	times=$1
	shift
	while [ "$times" -gt 0 ]; do
		get "$@" >/dev/null
		times=$((times - 1))
	done
}

# stream TIMES PATH CLIENT is as repeat, by one process, which is faster. The path must refuse nothing: BusyBox's wget
# ends at a refusal.
stream() {
	urls=
	for _ in $(seq "$1"); do
		urls="$urls $SITE$2"
	done
	wget -q -T 10 -O - --header "X-Client: $3" $urls >/dev/null 2>&1
}

# download CLIENT SECONDS begins to read a large file and gives up after these seconds.
download() {
	get /caddy "$1" | { sleep "$2"; }
}

round=0
while [ "$round" != "${ROUNDS:-}" ]; do
	round=$((round + 1))
	crowd=$((20 + round % 30)) # rises, then falls at once
	for _ in 1 2 3; do # two of a client run, the third waits for two seconds at most
		download ann 1 &
		download eve 3 &
	done
	if [ $((round % ${OUTAGE_EVERY:-100})) = 0 ]; then
		sleep 1 # the downloads have begun
		redis-cli -h "$REDIS" -p "${REDIS_PORT:-6379}" client pause $((${OUTAGE_SECONDS:-30} * 1000)) all
	fi
	for _ in 1 2 3 4; do # a lease is for 16 requests or more in half a second
		stream "$crowd" /events ann &
	done
	repeat 2 /events bob &
	for path in api login payments assets search; do
		repeat "$crowd" "/$path" ann &
		repeat 2 "/$path" bob &
	done
	repeat 10 /reports ann &
	repeat 3 /reports bob &
	repeat 3 /pages eve "Accept: text/html" &
	repeat 1 /plan bob "X-Limit: many" &
	repeat 1 /tokens ann "X-Cost: 4" &
	repeat 1 /tokens bob "X-Cost: 25" &
	wait
done
