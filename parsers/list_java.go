package main

import (
	"slices"
	"strings"
)

// javaServer returns a server whose main class is a file of the folder java, with the sources and jars that it needs.
func javaServer(name, class, suite string, sources, jars, packages []string) *server {
	version := map[string]string{oldSuite: "17", newSuite: "25"}[suite]
	jdk := "/usr/lib/jvm/java-" + version + "-openjdk-amd64/bin/"
	path := []string{"/srv/classes/" + class}
	for _, jar := range slices.Concat([]string{"jackson-databind", "jackson-core", "jackson-annotations", "fastdoubleparser"}, jars) {
		path = append(path, "/usr/share/java/"+jar+".jar")
	}
	prepare := []string{jdk + "javac", "-nowarn", "-d", path[0], "-cp", strings.Join(path, ":")}
	for _, source := range append([]string{class, "Answer"}, sources...) {
		prepare = append(prepare, "/srv/parsers/java/"+source+".java")
	}
	return &server{
		name: name, suite: suite,
		packages: append([]string{"openjdk-" + version + "-jdk-headless", "libjackson2-databind-java"}, packages...),
		sources:  "java",
		compiled: class,
		prepare:  prepare,
		command:  []string{jdk + "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", strings.Join(path, ":"), class, "{port}"},
	}
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

func javaServers() (all []*server) {
	add := func(forms, documents []string, s *server) {
		s.forms, s.documents = forms, documents
		all = append(all, s)
	}
	form := []string{"form"}
	netty := []string{
		"netty-all", "netty-buffer", "netty-codec", "netty-codec-http", "netty-common", "netty-handler", "netty-resolver", "netty-transport",
	}
	spring := slices.Concat(tomcatJars("9"), []string{
		"spring3-core", "spring3-beans", "spring3-context", "spring3-aop", "spring3-expression", "spring3-web", "spring3-web.servlet",
		"spring3-jcl", "commons-logging",
	})
	for _, suite := range []string{oldSuite, newSuite} {
		version := map[string]string{oldSuite: "10", newSuite: "11"}[suite]
		add([]string{"utf-8", "bare"}, nil,
			javaServer("tomcat", "TomcatServer", suite, []string{"Reader"}, tomcatJars(version), []string{"libtomcat" + version + "-java"}))
		add([]string{"param", "bind", "body"}, []string{"json"}, javaServer("spring", "SpringServer", suite, nil, spring, []string{
			"libtomcat9-java", "libspring-web-java", "libspring-web-servlet-java", "libspring-context-java", "libcommons-logging-java",
		}))
		add(form, nil, javaServer("netty", "NettyServer", suite, nil, netty, []string{"libnetty-java"}))
		add([]string{"fileupload"}, []string{"jackson-object", "jackson-tree", "jackson-int", "gson-object", "gson-tree"},
			javaServer("commons-fileupload, parsers of JSON for Java", "Documents", suite, nil,
				[]string{"gson", "commons-fileupload", "commons-io", "servlet-api"},
				[]string{"libgoogle-gson-java", "libcommons-fileupload-java", "libservlet-api-java"}))
	}
	add(form, nil, javaServer("jetty", "JettyNine", oldSuite, nil, []string{
		"jetty9-server", "jetty9-servlet", "jetty9-http", "jetty9-io", "jetty9-util", "jetty9-security", "servlet-api",
	}, []string{"libjetty9-java"}))
	add(form, nil, javaServer("jetty", "JettyTwelve", newSuite, []string{"Reader"}, []string{
		"jetty12-ee10-servlet", "jetty12-ee", "jetty12-server", "jetty12-http", "jetty12-io", "jetty12-util", "jetty12-security",
		"jetty12-session",
		"slf4j-api", "slf4j-nop", "jakarta-servlet-api",
	}, []string{"libjetty12-java"}))
	add(form, nil, javaServer("undertow", "UndertowServer", newSuite, nil, []string{
		"undertow-core", "xnio-api", "xnio-nio", "jboss-logging", "jboss-threads", "wildfly-common", "wildfly-client-config",
	}, []string{"libundertow-java"}))
	return all
}

// clojureServers returns Ring, whose program is read as it is.
func clojureServers() []*server {
	var path []string
	for _, jar := range []string{
		"clojure-1.12", "spec.alpha", "core.specs.alpha", "ring-core", "ring-core-protocols", "ring-websocket-protocols", "ring-codec",
		"crypto-equality", "crypto-random", "commons-codec", "commons-io", "commons-fileupload2-core", "cheshire", "tigris", "jackson-core",
		"jackson-databind", "jackson-annotations", "jackson-dataformat-smile", "jackson-dataformat-cbor", "fastdoubleparser",
	} {
		path = append(path, "/usr/share/java/"+jar+".jar")
	}
	return inNew(server{
		name: "ring", packages: []string{"openjdk-25-jdk-headless", "libring-core-clojure", "libcheshire-clojure"},
		command: []string{
			"/usr/lib/jvm/java-25-openjdk-amd64/bin/java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
			strings.Join(path, ":"), "clojure.main", "/srv/parsers/clojure/server.clj", "{port}",
		},
		forms: []string{"params", "nested"}, documents: []string{"cheshire"},
	})
}
