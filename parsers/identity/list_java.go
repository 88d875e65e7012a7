package main

import (
	"strings"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/parsers/frameworks"
)

// javaServer returns a server whose main class is a file of the folder java, with the class that reads and the jars that it
// needs.
func javaServer(name, class, reader, suite string, libraries, jars []string) *server {
	version := map[string]string{frameworks.OldSuite: "17", frameworks.NewSuite: "25"}[suite]
	jdk := "/usr/lib/jvm/java-" + version + "-openjdk-amd64/bin/"
	path := []string{"/srv/identity/" + class}
	for _, jar := range jars {
		path = append(path, "/usr/share/java/"+jar+".jar")
	}
	prepare := []string{jdk + "javac", "-nowarn", "-d", path[0], "-cp", strings.Join(path, ":")}
	for _, source := range []string{class, "Answer", reader} {
		prepare = append(prepare, "/srv/parsers/identity/java/"+source+".java")
	}
	return &server{Program: frameworks.Program{
		Name: name, Suite: suite, Packages: append([]string{"openjdk-" + version + "-jdk-headless"}, libraries...),
		Sources: "identity/java", Compiled: class, Prepare: prepare,
		Command: []string{
			jdk + "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", strings.Join(path, ":"), class, "{port}",
		},
	}}
}

// tomcatJars are the jars of a Tomcat.
func tomcatJars(version string) (jars []string) {
	for _, name := range []string{
		"catalina", "coyote", "util", "util-scan", "servlet-api", "annotations-api", "juli", "api", "jni", "jaspic-api", "el-api",
		"jsp-api",
	} {
		jars = append(jars, "tomcat"+version+"-"+name)
	}
	return jars
}

func javaServers() []*server {
	return []*server{
		javaServer("tomcat", "TomcatServer", "Reader", frameworks.OldSuite, []string{"libtomcat10-java"}, tomcatJars("10")),
		javaServer("tomcat", "TomcatServer", "Reader", frameworks.NewSuite, []string{"libtomcat11-java"}, tomcatJars("11")),
		javaServer("jetty", "JettyNine", "OldReader", frameworks.OldSuite, []string{"libjetty9-java"}, []string{
			"jetty9-server", "jetty9-servlet", "jetty9-http", "jetty9-io", "jetty9-util", "jetty9-security", "servlet-api",
		}),
		javaServer("jetty", "JettyTwelve", "Reader", frameworks.NewSuite, []string{"libjetty12-java", "libslf4j-java"}, []string{
			"jetty12-ee10-servlet", "jetty12-ee", "jetty12-server", "jetty12-http", "jetty12-io", "jetty12-util", "jetty12-security",
			"jetty12-session", "slf4j-api", "slf4j-nop", "jakarta-servlet-api",
		}),
	}
}
