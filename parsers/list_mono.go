package main

// monoServers returns ASP.NET as Mono has it, which sid has no more: no release of Debian has Microsoft's .NET.
func monoServers() []*server {
	const folder = "/srv/aspnet"
	return []*server{{
		name: "asp.net of mono", suite: oldSuite,
		packages: []string{
			"dash", "coreutils", "mono-runtime", "mono-mcs", "libmono-system-web4.0-cil", "libmono-system-web-extensions4.0-cil",
			"libnewtonsoft-json5.0-cil",
		},
		sources: "mono", compiled: "Reader", prepare: []string{"sh", "/srv/parsers/mono/build", folder},
		command: []string{"mono", folder + "/bin/Server.exe", folder, "{port}"},
		forms:   []string{"Form", "Item"}, documents: []string{"Newtonsoft-tree", "Newtonsoft-object", "JavaScriptSerializer"},
	}}
}
