package accesslog

// gcpLog is the log of Google's load balancers as JSON, by its documentation.
var gcpLog = jsonFormat("gcp", "Google Cloud", "Google Cloud JSON",
	"starts=timestamp,client=httpRequest.remoteIp,method=httpRequest.requestMethod,uri=httpRequest.requestUrl,"+
		"status=httpRequest.status,size=httpRequest.responseSize,agent=httpRequest.userAgent,duration=httpRequest.latency")

// cloudflareLog is a log of Cloudflare's Logpush as JSON, by its documentation, with the fields that it has by default.
var cloudflareLog = jsonFormat("cloudflare", "Cloudflare", "Cloudflare JSON",
	"starts=EdgeStartTimestamp,ends=EdgeEndTimestamp,client=ClientIP,host=ClientRequestHost,method=ClientRequestMethod,"+
		"uri=ClientRequestURI,status=EdgeResponseStatus,size=EdgeResponseBytes")
