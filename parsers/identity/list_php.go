package main

import "github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"

// phpServers returns PHP as it is served in four ways, with Symfony and Laravel. FPM is asked by Caddy itself.
func phpServers() (all []*server) {
	for _, release := range [][2]string{{frameworks.OldSuite, "php8.2"}, {frameworks.NewSuite, "php8.4"}} {
		suite, php := release[0], release[1]
		for _, serves := range []struct{ name, server, program string }{
			{"PHP", "cli-server", php + "-cli"}, {"PHP, FPM behind Caddy", "fpm", php + "-fpm"}, {"PHP, FPM behind nginx", "nginx", "nginx"},
			{"PHP, mod_php", "apache", "libapache2-mod-" + php},
		} {
			all = append(all, &server{Program: frameworks.Program{
				Name: serves.name, Suite: suite,
				Packages: []string{
					"dash", "coreutils", "util-linux", "apache2", "nginx", php + "-cli", php + "-fpm", php + "-mbstring",
					"php-symfony-http-foundation", "php-symfony-routing", "php-laravel-framework", serves.program,
				},
				Command: []string{"sh", "/srv/parsers/identity/php/serve", serves.server, php, "{port}"},
			}, scripts: true, fastCGI: serves.server == "fpm"})
		}
	}
	return all
}
