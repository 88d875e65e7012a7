package dial

import (
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// ErrURLParameters is the error of [ParseURL] about parameters of a URL. Those that other clients of Redis know have a
// [*URLError], which wraps it.
var ErrURLParameters = errors.New("redis URL: has parameters; set the fields of dial.Options instead")

// URLError is the error of [ParseURL] about a part of a URL that belongs elsewhere. It quotes nothing of the URL but
// the names of parameters that are known.
type URLError struct {
	// Problem says what is wrong.
	Problem string

	// Field is the field of [Connection] where that belongs, such as PoolSize or TLS.RootCAs. Empty: leave it out.
	Field string

	parameter bool
}

// Error implements error.
func (e *URLError) Error() string {
	if e.Field == "" {
		return e.Of("leave it out")
	}
	return e.Of("set " + e.Field + " of dial.Options")
}

// Of returns the problem with another remedy, for programs that call the fields otherwise.
func (e *URLError) Of(remedy string) string { return "redis URL: " + e.Problem + "; " + remedy }

// Is reports whether the error is [ErrURLParameters].
func (e *URLError) Is(target error) bool { return target == ErrURLParameters && e.parameter }

// foreignParameters are parameters of the URLs of redis-py, go-redis, Lettuce, ioredis, StackExchange.Redis, phpredis,
// redis-rb and what builds on these, in lower case without _ and -, and the fields that have the same here.
var foreignParameters = map[string]string{
	"ssl": "TLS", "tls": "TLS", "usetls": "TLS", "usessl": "TLS", "ssltls": "TLS",
	"sslcertreqs": "TLS.VerifyConnection", "sslcheckhostname": "TLS.VerifyConnection", "skipverify": "TLS.VerifyConnection",
	"tlsskipverify": "TLS.VerifyConnection", "insecure": "TLS.VerifyConnection", "insecureskipverify": "TLS.VerifyConnection",
	"sslverify": "TLS.VerifyConnection", "verifypeer": "TLS.VerifyConnection", "verifyhost": "TLS.VerifyConnection",
	"rejectunauthorized": "TLS.VerifyConnection",
	"sslcacerts":         "TLS.RootCAs", "sslcapath": "TLS.RootCAs", "sslcadata": "TLS.RootCAs", "sslca": "TLS.RootCAs",
	"cafile":      "TLS.RootCAs",
	"sslcertfile": "TLS.Certificates", "sslkeyfile": "TLS.Certificates", "sslcert": "TLS.Certificates", "sslkey": "TLS.Certificates",
	"servername": "TLS.ServerName", "sslhost": "TLS.ServerName", "tlsservername": "TLS.ServerName",
	"db": "DB", "database": "DB", "dbid": "DB", "dbindex": "DB", "defaultdatabase": "DB",
	"username": "Username", "user": "Username", "password": "Password", "auth": "Password", "pass": "Password",
	"timeout": "Timeout", "sockettimeout": "Timeout", "socketconnecttimeout": "Timeout", "readtimeout": "Timeout",
	"writetimeout": "Timeout", "dialtimeout": "Timeout", "connecttimeout": "Timeout", "connectiontimeout": "Timeout",
	"pooltimeout": "Timeout", "synctimeout": "Timeout", "asynctimeout": "Timeout",
	"poolsize": "PoolSize", "maxconnections": "PoolSize", "maxactiveconns": "PoolSize",
	"master": "Master", "mastername": "Master", "sentinelmasterid": "Master", "sentinelmaster": "Master", "servicename": "Master",
	"addr": "Addresses", "protocol": "", "clientname": "", "decoderesponses": "", "encoding": "", "maxretries": "", "retryontimeout": "",
	"healthcheckinterval": "", "minidleconns": "", "maxidleconns": "", "connmaxlifetime": "", "connmaxidletime": "", "family": "",
	"abortconnect": "", "persistent": "", "virtualhost": "", "socketkeepalive": "", "allowadmin": "",
}

// parameterError returns the error about the first parameter of a query that is known, otherwise nil.
func parameterError(query string) error {
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		name = strings.ToLower(name)
		if field, known := foreignParameters[strings.NewReplacer("_", "", "-", "").Replace(name)]; known {
			return &URLError{Problem: "the parameter " + name + " is one of other clients of Redis", Field: field, parameter: true}
		}
	}
	return nil
}

// ParseURL reads redis://, rediss:// and unix:// URLs: scheme://[[user]:password@]host[:port][/db]
// and unix://[[user]:password@]/path/to/socket[?db=n]. valkey:// and valkeys:// are other names of redis:// and rediss://.
// Its errors never quote the URL, which holds a password.
func ParseURL(text string) (Connection, error) {
	o := Connection{Mode: Standalone}
	if err := misplaced(text); err != nil {
		return o, err
	}
	u, err := url.Parse(text)
	if err != nil {
		return o, errors.New("redis URL: cannot be parsed; use redis://, rediss:// or unix://, with '%', '@', '/' and ':' in " +
			"user and password percent-encoded")
	}
	if u.Opaque != "" {
		return o, errors.New("redis URL: write // behind the scheme, such as redis://127.0.0.1:6379")
	}
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	switch u.Scheme {
	case "redis", "rediss", "valkey", "valkeys":
		err = o.fromHostURL(u)
	case "unix":
		err = o.fromSocketURL(u)
	default:
		err = errors.New("redis URL: the scheme must be redis://, rediss:// or unix://")
	}
	return o, err
}

// misplaced returns the error about a URL of several hosts, or one whose password ends it too early. For some of these
// a parser of URLs finds a host and a port.
func misplaced(text string) error {
	scheme, rest, found := strings.Cut(text, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority, rest := rest[:end], rest[end:]
	_, hosts, hasUser := strings.Cut(authority, "@")
	if !hasUser {
		hosts = authority
	}
	switch {
	case !found:
		return nil
	case strings.Contains(rest, "@") && (authority != "" || scheme != "unix"):
		return &URLError{Problem: "'/', '?' and '#' in user and password are written %2F, %3F and %23", Field: "Password"}
	case strings.Contains(hosts, ",") && scheme != "unix":
		return &URLError{Problem: "names several hosts", Field: "Addresses"}
	}
	return nil
}

func (o *Connection) fromHostURL(u *url.URL) error {
	host, port := u.Hostname(), u.Port()
	if db := strings.Trim(u.Path, "/"); host == "" && db != "" {
		if _, err := strconv.Atoi(db); err != nil {
			return errSocketURL
		}
	}
	if host == "" {
		host = "localhost"
	}
	if port == "" {
		port = "6379"
	}
	o.Addresses = []string{net.JoinHostPort(host, port)}
	if u.Scheme == "rediss" || u.Scheme == "valkeys" {
		o.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	if err := parameterError(u.RawQuery); err != nil {
		return err
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return ErrURLParameters
	}
	db := strings.Trim(u.Path, "/")
	return o.setDB(db)
}

var errSocketURL = errors.New("redis URL: a socket is written unix:///path/to/redis.sock")

func (o *Connection) fromSocketURL(u *url.URL) error {
	if u.Host != "" || u.Path == "" {
		return errSocketURL
	}
	o.Addresses = []string{u.Path}
	query := u.Query()
	db := query.Get("db")
	query.Del("db")
	if err := parameterError(query.Encode()); err != nil {
		return err
	}
	if len(query) > 0 || u.Fragment != "" {
		return errors.New("redis URL: the only parameter of a socket is db")
	}
	return o.setDB(db)
}

func (o *Connection) setDB(text string) error {
	if text == "" {
		return nil
	}
	db, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("redis URL: the database must be a number from 0")
	}
	o.DB = int(db)
	return nil
}
