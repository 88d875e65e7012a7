package deploy

import (
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/prometheus/prometheus/config"
	"go.yaml.in/yaml/v3"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/redistest"
)

// This file compares the files of monitoring/ with one another, as Docker Compose's, Prometheus's and Caddy's own code reads
// them, and runs its Caddy, Redis and traffic without containers.

// loadCompose reads a compose file as Docker Compose does: by the schema of the Compose Specification.
func loadCompose(t *testing.T, file string) *types.Project {
	t.Helper()
	return assert.NoError(loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: filepath.Dir(file), ConfigFiles: []types.ConfigFile{{Filename: file}},
		Environment: types.Mapping{"REDIS_PASSWORD": "example"},
	}, func(o *loader.Options) { o.SetProjectName("example", true) }))(t)
}

func TestCompose_files(t *testing.T) {
	files := assert.NoError(filepath.Glob("*/compose.yaml"))(t)
	assert.Equal(t, len(files), 3, "compose files: %v", files)
	for _, file := range files {
		for name, service := range loadCompose(t, file).Services {
			for _, v := range service.Volumes {
				if v.Type == types.VolumeTypeBind && !strings.HasPrefix(v.Source, "/var/run/") {
					assert.NoError(os.Stat(v.Source))(t)
				}
			}
			if service.Build != nil {
				assert.NoError(os.Stat(filepath.Join(service.Build.Context, "Dockerfile")))(t)
			}
			assert.ErrorIf(t, len(service.Ports)+len(service.Volumes)+len(service.Command)+len(service.Labels) == 0, "%s: %s does nothing", file, name)
		}
	}
}

var pinnedImage = regexp.MustCompile(`^[a-z/]+:v?\d+\.\d+[\w.-]*$`)

func TestMonitoring_containers(t *testing.T) {
	project := loadCompose(t, "monitoring/compose.yaml")
	published := []string{}
	for name, service := range project.Services {
		assert.ErrorIf(t, service.Build == nil && !pinnedImage.MatchString(service.Image), "%s: the image %s has no version", name, service.Image)
		for _, port := range service.Ports {
			assert.Equal(t, port.HostIP, "127.0.0.1", "%s: the address of port %s", name, port.Published)
			published = append(published, name+":"+strconv.Itoa(int(port.Target)))
		}
		for _, v := range service.Volumes {
			assert.ErrorIf(t, !v.ReadOnly, "%s may write to %s", name, v.Source)
		}
	}
	slices.Sort(published)
	assert.Equal(t, strings.Join(published, " "), "caddy:8080 grafana:3000 prometheus:9090", "published ports")
	for name, variable := range project.Services["traffic"].Environment {
		host := strings.TrimSuffix(strings.TrimPrefix(*variable, "http://"), ":8080")
		_, found := project.Services[host]
		assert.ErrorIf(t, !found, "%s=%s names no service", name, *variable)
	}
	for _, version := range grafanaVersions(t) {
		assert.Equal(t, project.Services["grafana"].Image, "grafana/grafana:"+version, "Grafana, beside the components that draw the picture")
	}
}

// grafanaVersions returns the versions of Grafana's components that draw the picture.
func grafanaVersions(t *testing.T) (versions []string) {
	t.Helper()
	text := assert.NoError(os.ReadFile("picture/package.json"))(t)
	for _, found := range regexp.MustCompile(`"@grafana/\w+": "(.+)"`).FindAllSubmatch(text, -1) {
		versions = append(versions, string(found[1]))
	}
	assert.FatalIf(t, len(versions) == 0, "no component of Grafana in picture/package.json")
	return versions
}

// mountedAt returns the file that a service sees at a path.
func mountedAt(t *testing.T, service types.ServiceConfig, target string) string {
	t.Helper()
	for _, v := range service.Volumes {
		if rest, found := strings.CutPrefix(target, v.Target); found && (rest == "" || rest[0] == '/') {
			return v.Source + rest
		}
	}
	t.Fatalf("%s has nothing at %s", service.Name, target)
	return ""
}

func sameFile(t *testing.T, a, b string) {
	t.Helper()
	same := os.SameFile(assert.NoError(os.Stat(a))(t), assert.NoError(os.Stat(b))(t))
	assert.ErrorIf(t, !same, "%s is not %s", a, b)
}

func TestMonitoring_prometheus(t *testing.T) {
	project := loadCompose(t, "monitoring/compose.yaml")
	const file = "/etc/prometheus/prometheus.yml" // of the image's command
	read := assert.NoError(config.LoadFile(mountedAt(t, project.Services["prometheus"], file), false, slog.New(slog.DiscardHandler)))(t)
	assert.Equal(t, len(read.RuleFiles), 1, "files of rules")
	rules := path.Join(path.Dir(file), filepath.Base(read.RuleFiles[0]))
	sameFile(t, mountedAt(t, project.Services["prometheus"], rules), rulesFile)
	caddyfile := string(assert.NoError(os.ReadFile(mountedAt(t, project.Services["caddy"], "/etc/caddy/Caddyfile")))(t))
	text := string(assert.NoError(os.ReadFile("monitoring/prometheus.yml"))(t))
	target := regexp.MustCompile(`targets: \["(\w+):(\d+)"\]`).FindStringSubmatch(text)
	assert.FatalIf(t, target == nil, "no target in %s", text)
	assert.Equal(t, target[1], "caddy", "the target")
	assert.ErrorIf(t, !strings.Contains(caddyfile, "\n:"+target[2]+" {\n\tmetrics\n}"), "no site of the Caddyfile has the metrics on %s", target[2])
	for _, port := range project.Services["caddy"].Ports {
		assert.ErrorIf(t, !strings.Contains(caddyfile, "\n:"+strconv.Itoa(int(port.Target))+" {"), "no site has the published port %d", port.Target)
	}
	assert.Equal(t, loadDatasource(t).JSONData.TimeInterval, read.GlobalConfig.ScrapeInterval.String(), "timeInterval, which is scrape_interval")
}

// datasource has the keys of a data source that monitoring/ uses, out of those that Grafana documents for files of provisioning.
type datasource struct {
	Name, UID, Type, Access, URL string
	IsDefault                    bool `yaml:"isDefault"`
	JSONData                     struct {
		TimeInterval string `yaml:"timeInterval"`
	} `yaml:"jsonData"`
}

// provider has the keys of a folder of dashboards.
type provider struct {
	Name, Type string
	Options    struct{ Path string }
}

// readProvisioning reads a file of provisioning. A key that the type lacks fails the test.
func readProvisioning(t *testing.T, file string, into any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(string(assert.NoError(os.ReadFile(file))(t))))
	decoder.KnownFields(true)
	assert.Must(t, decoder.Decode(into))
}

func loadDatasource(t *testing.T) datasource {
	t.Helper()
	var read struct {
		APIVersion  int `yaml:"apiVersion"`
		Datasources []datasource
	}
	readProvisioning(t, mountedAt(t, loadCompose(t, "monitoring/compose.yaml").Services["grafana"],
		"/etc/grafana/provisioning/datasources/datasource.yaml"), &read)
	assert.Equal(t, read.APIVersion, 1, "apiVersion")
	assert.FatalIf(t, len(read.Datasources) != 1, "data sources: %+v", read.Datasources)
	return read.Datasources[0]
}

func TestMonitoring_grafana(t *testing.T) {
	project := loadCompose(t, "monitoring/compose.yaml")
	source := loadDatasource(t)
	place := assert.NoError(url.Parse(source.URL))(t)
	_, found := project.Services[place.Hostname()]
	assert.ErrorIf(t, !found || place.Port() != "9090", "the data source %s is no service's", source.URL)
	assert.Equal(t, source.Access, "proxy", "access, which has Grafana's server ask and not the browser")

	// The dashboard has a variable as its data source. Grafana takes the default one of the variable's type.
	d := loadDashboard(t)
	assert.ErrorIf(t, !source.IsDefault, "the data source is not the default")
	choice := d.Templating.List[0]
	assert.Equal(t, strconv.Quote(source.Type), string(choice.Query), "the data source's type, as the dashboard's variable has it")
	for _, panel := range d.Panels {
		assert.ErrorIf(t, panel.Type != "row" && panel.Datasource.UID != "${"+choice.Name+"}", "%s asks %s", panel.Title, panel.Datasource.UID)
	}

	var read struct {
		APIVersion int `yaml:"apiVersion"`
		Providers  []provider
	}
	grafana := project.Services["grafana"]
	readProvisioning(t, mountedAt(t, grafana, "/etc/grafana/provisioning/dashboards/dashboards.yaml"), &read)
	assert.Equal(t, read.APIVersion, 1, "apiVersion")
	assert.FatalIf(t, len(read.Providers) != 1 || read.Providers[0].Type != "file", "providers: %+v", read.Providers)
	sameFile(t, mountedAt(t, grafana, path.Join(read.Providers[0].Options.Path, path.Base(dashboardFile))), dashboardFile)
	readme := string(assert.NoError(os.ReadFile("README.md"))(t))
	assert.ErrorIf(t, !strings.Contains(readme, "localhost:3000/d/"+d.UID+"?"), "README.md does not lead to the dashboard %s", d.UID)
}

// monitored is the Caddy and the Redis of monitoring/, without containers.
type monitored struct {
	recording

	redis   *redistest.Server
	metrics string // URL that Prometheus reads
}

func startMonitored(t *testing.T) *monitored {
	t.Helper()
	text := string(assert.NoError(os.ReadFile("monitoring/conf/Caddyfile"))(t))
	caddytest.CheckCaddyfile(t, text, nil)
	m := &monitored{recording: recording{samples: newSamples(t), scene: &scene{}, end: begin}, redis: redistest.Start(t)}
	metrics, files := redistest.FreeAddr(t), t.TempDir()
	assert.Must(t, os.WriteFile(filepath.Join(files, "caddy"), make([]byte, 32<<20), 0o600))
	replacer := strings.NewReplacer("redis://redis:6379", "redis://"+m.redis.Addr, ":9180 {", "http://"+metrics+" {", ":8080 {", ":{$PORT} {",
		"root /usr/bin", "root "+files, "{\n\tredis_ratelimit {\n",
		"{\n\tadmin {$ADMIN}\n\tauto_https off\n\tpersist_config off\n\tdefault_bind 127.0.0.1\n\tgrace_period 1s\n\tredis_ratelimit {\n")
	m.scene.Node, m.metrics = caddytest.Start(t, replacer.Replace(text)), "http://"+metrics+"/metrics"
	return m
}

// play runs so many rounds of the traffic, with an outage in each if its seconds are not 0, and scrapes.
func (m *monitored) play(t *testing.T, rounds, outage int) {
	t.Helper()
	host, port, _ := strings.Cut(m.redis.Addr, ":")
	command := exec.CommandContext(t.Context(), "sh", "monitoring/traffic.sh")
	if busybox, err := exec.LookPath("busybox"); err == nil { // as the image has
		command = exec.CommandContext(t.Context(), busybox, "sh", "monitoring/traffic.sh")
	}
	command.WaitDelay = 5 * time.Second
	command.Env = append(os.Environ(), "SITE="+m.scene.URL, "REDIS="+host, "REDIS_PORT="+port, "ROUNDS="+strconv.Itoa(rounds))
	if outage > 0 {
		command.Env = append(command.Env, "OUTAGE_EVERY=1", "OUTAGE_SECONDS="+strconv.Itoa(outage))
	}
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	m.read(t)
}

// read stores what Prometheus would read.
func (m *monitored) read(t *testing.T) {
	t.Helper()
	m.add(t, m.scene.Send(t, "GET", m.metrics, "").Want(t, 200, caddytest.Any).Body, m.end)
	m.end = m.end.Add(scrapeEvery)
}

// TestMonitoring_traffic checks that the traffic fills every panel.
func TestMonitoring_traffic(t *testing.T) {
	m := startMonitored(t)
	assert.Retry(t, "units of a lease that has ended are counted", func() (again bool, seen any) {
		m.play(t, 1, 0) // on a busy machine one round may be too slow for a lease
		text := m.recording.metrics(t)
		return !strings.Contains(text, "caddy_redis_ratelimit_leased_units_total{"), text
	})
	m.play(t, 1, 4)
	m.scene.Await(t, "/payments", 200, caddytest.Any)
	m.waitForSeries(t, `settled_units_total{direction="outage"`)
	m.read(t)
	m.play(t, 1, 0)
	d := loadDashboard(t)
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			t.Run(panel.Title, func(t *testing.T) { m.checkShows(t, d.expand(target.Expr, "1m"), target.LegendFormat) })
		}
	}
}
