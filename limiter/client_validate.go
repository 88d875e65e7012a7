package limiter

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// Validate reports what is wrong with the options. Its errors name the option and quote no value: a
// secret may stand in the wrong one.
func (o *ClientOptions) Validate() error {
	switch {
	case len(o.Addresses) == 0:
		return errors.New("address: name at least one host:port")
	case o.Mode != "" && o.Mode != Standalone && o.Mode != Sentinel && o.Mode != Cluster:
		return errors.New("mode: use standalone, sentinel or cluster")
	case o.Mode == Sentinel && o.Master == "":
		return errors.New("master: mode sentinel needs the master's name")
	case o.Mode != Sentinel && o.Master != "":
		return errors.New("master: only mode sentinel has one")
	case o.Mode != Sentinel && (o.SentinelUsername != "" || o.SentinelPassword != ""):
		return errors.New("sentinel_username, sentinel_password: only mode sentinel has them")
	case o.Mode != Sentinel && o.SentinelPasswordFile != "":
		return errors.New("sentinel_password_file: only mode sentinel has it")
	case o.Password != "" && o.PasswordFile != "":
		return errors.New("password, password_file: leave one of them out")
	case o.SentinelPassword != "" && o.SentinelPasswordFile != "":
		return errors.New("sentinel_password, sentinel_password_file: leave one of them out")
	case o.Mode == Cluster && o.DB != 0:
		return errors.New("db: a cluster has only database 0")
	case o.DB < 0:
		return fmt.Errorf("db %d: use a number from 0", o.DB)
	case o.PoolSize < 0 || o.PoolSize > MaxPoolSize:
		return fmt.Errorf("pool_size %d: use a whole number from 1 to %d", o.PoolSize, MaxPoolSize)
	case (o.Mode == "" || o.Mode == Standalone) && len(o.Addresses) > 1:
		return errors.New("address: mode standalone has one; for several use mode sentinel or cluster")
	case o.Timeout < 0:
		return fmt.Errorf("timeout %v: use a duration above 0", o.Timeout)
	}
	if err := o.validNames(); err != nil {
		return err
	}
	return o.validAddresses()
}

func isSocket(address string) bool { return strings.HasPrefix(address, "/") }

// validNames refuses a URL in place of a name. Redis, its client and the commands repeat names in
// errors and advice, and a URL may have a password in it.
func (o *ClientOptions) validNames() error {
	switch {
	case strings.ContainsAny(o.Master, "@/"):
		return errors.New("master: use the name that the sentinels watch" + urlPlace)
	case strings.Contains(o.Username, "://"):
		return errors.New("username: use the name of an ACL user" + urlPlace)
	case strings.Contains(o.SentinelUsername, "://"):
		return errors.New("sentinel_username: use the name of an ACL user" + urlPlace)
	case strings.Contains(o.PasswordFile, "://"):
		return errors.New("password_file: use the path of a file" + urlPlace)
	case strings.Contains(o.SentinelPasswordFile, "://"):
		return errors.New("sentinel_password_file: use the path of a file" + urlPlace)
	}
	return nil
}

// urlPlace ends the errors about URLs.
const urlPlace = "; a URL stands behind the word redis itself"

func (o *ClientOptions) validAddresses() error {
	for i, address := range o.Addresses {
		option := "address"
		if len(o.Addresses) > 1 {
			option += " " + strconv.Itoa(i+1)
		}
		if problem := addressProblem(o.Mode, address); problem != "" {
			return errors.New(option + ": " + problem)
		}
	}
	return nil
}

// addressProblem returns what is wrong with an address; empty where nothing is.
func addressProblem(mode Mode, address string) string {
	switch {
	case strings.Contains(address, "://"), !isSocket(address) && strings.ContainsAny(address, "@/"):
		return "use host:port, or the absolute path of a socket" + urlPlace
	case isSocket(address) && (mode == Sentinel || mode == Cluster):
		return fmt.Sprintf("mode %s needs host:port", mode)
	case isSocket(address):
		return ""
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return "use host:port, or the absolute path of a socket"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "the port is no number from 1 to 65535"
	}
	return ""
}
