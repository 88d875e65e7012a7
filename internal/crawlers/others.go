package crawlers

// This file has what others have than crawlers: names of customers, and User-Agents of people.

// hosting are names under which customers of hosting companies have their hosts, as far as the public suffix list lacks them.
var hosting = [...]string{
	"googleusercontent.com", "bc.googleusercontent.com", "gae.googleusercontent.com", "compute.amazonaws.com", "compute-1.amazonaws.com",
	"cloudapp.azure.com", "cloudapp.net", "your-server.de", "clients.your-server.de", "vultrusercontent.com", "vultr.com", "ovh.net",
	"ovh.ca", "ip-ovh.net", "contaboserver.net", "hwclouds-dns.com", "linodeusercontent.com", "ip.linodeusercontent.com", "linode.com",
	"members.linode.com", "scaleway.com", "instances.scw.cloud", "digitalocean.com", "leaseweb.net", "hostwindsdns.com",
	"startdedicated.com", "secureserver.net", "kasserver.com", "stratoserver.net", "ip.hetzner.com", "akamaitechnologies.com",
	"oraclevcn.com", "oraclecloud.com", "aliyuncs.com", "tencentcloudapp.com", "upcloud.host", "dreamhost.com",
}

// agentsOfPeople are User-Agents of browsers. A word of a crawler is in none of them.
var agentsOfPeople = [...]string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36 Edg/142.0.0.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0) (KHTML, like Gecko)",
	"Mozilla/4.0 (compatible; MSIE 8.0; Windows NT 6.1; Trident/4.0; .NET CLR 3.5.30729)",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/26.0 Safari/605.1.15",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36 OPR/124.0.0.0",
	"Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
	"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/142.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 Version/26.0 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (iPad; CPU OS 18_7 like Mac OS X) AppleWebKit/605.1.15 CriOS/142.0.0.0 Mobile/15E148 Safari/604.1",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 FxiOS/145.0 Mobile/15E148 Safari/605.1.15",
	"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/142.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Linux; Android 15; Pixel 9 Build/AP3A; wv) AppleWebKit/537.36 Version/4.0 Chrome/142.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Linux; Android 14; SAMSUNG SM-S928B) AppleWebKit/537.36 SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
	"Mozilla/5.0 (Android 15; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/142.0.0.0 YaBrowser/25.10.0 Yowser/2.5 Safari/537.36",
	"Mozilla/5.0 (Linux; U; Android 13; en-us) AppleWebKit/537.36 Version/4.0 UCBrowser/13.4 Mobile Safari/537.36",
	"Mozilla/5.0 (SMART-TV; Linux; Tizen 8.0) AppleWebKit/537.36 Version/4.0 TV Safari/537.36",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/605.1.15 Version/18.0 Safari/605.1.15 Epiphany/605.1.15 Vivaldi/7.6",
	"Opera/9.80 (Windows NT 6.1; WOW64) Presto/2.12.388 Version/12.18", "Lynx/2.9.2 libwww-FM/2.14 SSL-MM/1.4.1 OpenSSL/3.4.0", "w3m/0.5.3",
}

// agentsOfApps are User-Agents of programs that people use.
var agentsOfApps = [...]string{
	"Mozilla/5.0 (Linux; Android 15; SM-A556B Build/AP3A; wv) AppleWebKit/537.36 Chrome/142.0.0.0 GSA/16.42 GoogleApp/16.42",
	"DAVx5/4.5.6-ose (2025/10/24; dav4jvm; okhttp/4.12.0) Android/15 (Google; marlin; en-US)",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 " +
		"[FBAN/FBIOS;FBAV/530.0] Instagram 400.0 Facebook WhatsApp/2.25 Pinterest/13.40 BingSapphire/32.0 Snapchat TikTok",
	"Thunderbird/145.0", "Microsoft Office/16.0 (Windows NT 10.0; Microsoft Outlook 16.0; Pro)",
	"Apple-iPhone17C1/2207.100 CFNetwork/3826 Darwin/24.6.0",
	"curl/8.17.0", "Wget/1.25.0", "okhttp/5.1.0", "Dalvik/2.1.0 (Linux; U; Android 15)", "python-requests/2.32.5", "Go-http-client/2.0",
	"Amazon CloudFront", "Alexa Echo AmazonWebAppPlatform/3.4 Silk/142.1", "Spotify/9.0", "ChatGPT/1.2025.300", "Claude/1.2",
}
