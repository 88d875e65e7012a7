package limiter

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
)

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
