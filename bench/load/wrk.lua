-- wrk.lua: the requests of wrk and the form of its measurement.
-- Arguments: number of keys; path; for the path /json the body is that of envoyproxy/ratelimit.
-- Prints one line of JSON: counts, duration and latencies in microseconds.
local requests, position = {}, 0

function init(args)
  local keys, path = tonumber(args[1]), args[2]
  for i = 1, keys do
    local key = string.format('203.0.%03d.%03d', math.floor(i / 256), i % 256)
    if path == '/json' then
      local body = string.format(
        '{"domain":"bench","descriptors":[{"entries":[{"key":"client","value":"%s"}]}]}', key)
      requests[i] = wrk.format('POST', path, {['Content-Type'] = 'application/json'}, body)
    else
      requests[i] = wrk.format('GET', path, {['X-Key'] = key})
    end
  end
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"duration":%d,"p99":%d,"refused":%d,"failed":%d}\n',
    summary.requests, summary.duration, latency:percentile(99),
    errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
