package docs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

// manifest is the part of an object of Kubernetes that deploy/kubernetes.yaml uses.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Selector map[string]any // of a service labels, of a deployment these as matchLabels
		Ports    []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace      int `yaml:"terminationGracePeriodSeconds"`
				Containers []container
				Volumes    []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
	}
}

type container struct {
	Args  []string
	Ports []struct {
		Name   string
		Number int `yaml:"containerPort"`
	}
	Env []struct {
		Name      string
		ValueFrom struct {
			Secret struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	Mounts []struct {
		Name string
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
	Readiness probe `yaml:"readinessProbe"`
	Liveness  probe `yaml:"livenessProbe"`
}

type probe struct {
	HTTP struct{ Path, Port string } `yaml:"httpGet"`
	Exec struct{ Command []string }
}

// port returns the number of a port by its name; 0 for none.
func (c *container) port(name string) int {
	for _, p := range c.Ports {
		if p.Name == name {
			return p.Number
		}
	}
	return 0
}

// secretOf returns the secret that a variable is read from; empty for none.
func (c *container) secretOf(variable string) string {
	for _, v := range c.Env {
		if v.Name == variable && v.ValueFrom.Secret.Name != "" {
			return v.ValueFrom.Secret.Name + "/" + v.ValueFrom.Secret.Key
		}
	}
	return ""
}

// cluster are the objects of deploy/kubernetes.yaml, by their kinds and names.
type cluster map[string]manifest

func readCluster(t *testing.T) cluster {
	t.Helper()
	objects, text := cluster{}, yaml.NewDecoder(strings.NewReader(caddytest.ReadFile(t, "deploy/kubernetes.yaml")))
	for {
		var m manifest
		if err := text.Decode(&m); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects[m.Kind+"/"+m.Metadata.Name] = m
	}
}

// containerOf returns the container of a deployment.
func (c cluster) containerOf(t *testing.T, name string) container {
	t.Helper()
	containers := c["Deployment/"+name].Spec.Template.Spec.Containers
	assert.FatalIf(t, len(containers) != 1, "deployment %s has %d containers, want 1", name, len(containers))
	return containers[0]
}

func (c cluster) caddyfile() string { return c["ConfigMap/caddy"].Data["Caddyfile"] }

// TestKubernetes compares the names of the objects with one another and with the Caddyfile.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	objects := readCluster(t)
	caddy, redis := objects.containerOf(t, "caddy"), objects.containerOf(t, "redis")
	for _, problem := range redisProblems(redis.Args, "$(REDIS_PASSWORD)") {
		t.Error(problem)
	}
	secret := redis.secretOf("REDIS_PASSWORD")
	assert.ErrorIf(t, secret == "" || secret != redis.secretOf("REDISCLI_AUTH") || secret != caddy.secretOf("REDIS_PASSWORD"), "the passwords are not all those of %q", secret)
	name, key, _ := strings.Cut(secret, "/")
	for _, file := range []string{"deploy/kubernetes.yaml", "docs/install.md"} {
		command := fmt.Sprintf("kubectl create secret generic %s --from-literal=%s=", name, key)
		assert.ErrorIf(t, !strings.Contains(caddytest.ReadFile(t, file), command), "%s lacks %q", file, command)
	}
	for _, deployment := range []string{"caddy", "redis"} {
		service, pods := objects["Service/"+deployment], objects["Deployment/"+deployment]
		labels := pods.Spec.Template.Metadata.Labels
		matched, _ := pods.Spec.Selector["matchLabels"].(map[string]any)
		assert.ErrorIf(t, len(labels) == 0 || fmt.Sprint(labels) != fmt.Sprint(matched) || fmt.Sprint(labels) != fmt.Sprint(service.Spec.Selector),
			"%s: labels %v, selected by the deployment %v, by the service %v", deployment, labels, matched, service.Spec.Selector)
		at := objects.containerOf(t, deployment)
		assert.ErrorIf(t, len(service.Spec.Ports) != 1 || at.port(service.Spec.Ports[0].TargetPort) == 0, "service %s leads to no port", deployment)
	}
	place := redisPlace.FindStringSubmatch(objects.caddyfile())
	assert.ErrorIf(t, len(place) != 3 || fmt.Sprint(objects["Service/"+place[1]].Spec.Ports[0].Port) != place[2], "the Caddyfile's Redis is no service: %q", place)
	volume := objects["Deployment/caddy"].Spec.Template.Spec.Volumes[0]
	assert.ErrorIf(t, volume.ConfigMap.Name != "caddy" || caddy.Mounts[0].Name != volume.Name || caddy.Mounts[0].Path != "/etc/caddy", "the Caddyfile is not mounted: %+v, %+v", volume, caddy.Mounts)
	for _, p := range []probe{caddy.Readiness, caddy.Liveness} {
		site := fmt.Sprintf("\n:%d {\n\trespond %s 204\n", caddy.port(p.HTTP.Port), p.HTTP.Path)
		assert.ErrorIf(t, !strings.Contains(objects.caddyfile(), site), "the Caddyfile lacks the site of a probe:%s", site)
	}
	for _, p := range []probe{redis.Readiness, redis.Liveness} {
		assert.ErrorIf(t, strings.Join(p.Exec.Command, " ") != "redis-cli -e ping", "a probe of Redis is %q", p.Exec.Command)
	}
	command := "kubectl exec deploy/caddy -- caddy redis-ratelimit check --config " + path.Join(caddy.Mounts[0].Path, "Caddyfile")
	assert.ErrorIf(t, !strings.Contains(caddytest.ReadFile(t, "docs/install.md"), command), "the page lacks %q", command)
	checkStop(t, objects.caddyfile(), time.Duration(objects["Deployment/caddy"].Spec.Template.Spec.Grace)*time.Second)
	caddytest.CheckCaddyfile(t, objects.caddyfile(), variables(objects.caddyfile()))
}

// TestKubernetes_node runs the Caddyfile and the Redis of the objects. Clients of the proxy in front count apart, and
// probes count nothing.
func TestKubernetes_node(t *testing.T) {
	t.Parallel()
	objects := readCluster(t)
	backend := caddytest.Serve(t, func(http.ResponseWriter, *http.Request) {})
	text := withoutContainer(objects.caddyfile(), startContainerRedis(t, objects.containerOf(t, "redis").Args))
	text = strings.NewReplacer("app:9000", backend, "\n:8081 {", "\nhttp://localhost:{$PORT} {").Replace(text)
	n := caddytest.Start(t, text, "REDIS_PASSWORD="+containerPassword)
	for _, test := range []struct {
		client string
		left   int64
	}{{"203.0.113.7", 99}, {"203.0.113.7", 98}, {"203.0.113.8", 99}, {"10.0.0.1, 203.0.113.8", 98}} {
		a := n.Get(t, "/", "X-Forwarded-For: "+test.client).Want(t, http.StatusOK, "")
		caddytest.CheckQuota(t, a, 100, test.left)
		n.Send(t, http.MethodGet, n.LocalhostURL()+"/healthz", "").Want(t, http.StatusNoContent, "", caddytest.NoQuota)
	}
}
