package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// attemptTimeout bounds an attempt, from the look-up of the name to the end of the answer.
	attemptTimeout = 15 * time.Second

	// mostAnswer is how many bytes of an answer's body are read, so that its connection can be used again. mostHeader
	// bounds its header.
	mostAnswer = 4 << 10
	mostHeader = 64 << 10

	// mostErrorText bounds the text of an error, which may quote the receiver.
	mostErrorText = 200
)

var errURL = errors.New("the URL is none of http:// or https:// with a host; write one such as https://alerts.example.com/ratelimit")

// ParseURL reads the URL of a receiver. Loopback and private addresses are allowed. The error does not show the URL,
// which may hold a secret.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, errURL
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return nil, errURL
	}
	return u, nil
}

// receiver is where events are sent.
type receiver struct {
	url       *url.URL
	secret    Secret
	transport http.RoundTripper // and no client, which would read Location, and quote one that is wrong
	close     func()            // closes the connections that are not in use
}

func newReceiver(u *url.URL, secret Secret) *receiver {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true,
		MaxIdleConnsPerHost: deliveriesAtOnce, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: mostHeader,
	}
	return &receiver{u, secret, transport, transport.CloseIdleConnections}
}

// refusal is the error of an answer that takes no event.
type refusal struct {
	status int
	after  time.Duration // by Retry-After; 0: it does not say
}

// Error implements error.
func (r refusal) Error() string {
	if r.status/100 == 3 {
		return fmt.Sprintf("the answer is a redirect, status %d, which is not followed", r.status)
	}
	return "the answer has status " + strconv.Itoa(r.status)
}

// send sends an event once. Its error is a [refusal] if there was an answer.
func (r *receiver) send(ctx context.Context, id string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url.String(), bytes.NewReader(body))
	if err != nil {
		return shorten(err)
	}
	now := strconv.FormatInt(time.Now().Unix(), 10) //nolint:forbidigo // receivers compare it with their wall clock
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "caddy-redis-ratelimit", "Webhook-Id": id,
		"Webhook-Timestamp": now, "Webhook-Signature": r.secret.sign(id, now, body),
	} {
		request.Header.Set(name, value)
	}
	if user := r.url.User; user != nil {
		password, _ := user.Password() // without one it is empty
		request.SetBasicAuth(user.Username(), password)
	}
	response, err := r.transport.RoundTrip(request)
	if err != nil {
		return shorten(err)
	}
	defer response.Body.Close()
	_, _ = io.CopyN(io.Discard, response.Body, mostAnswer) // the status is known
	if response.StatusCode < 200 || response.StatusCode > 299 {
		seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16) // 0 for dates, which are not read
		return refusal{response.StatusCode, time.Duration(seconds) * time.Second}
	}
	return nil
}

// shorten returns an error without the URL, and not longer than a line.
func shorten(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		err = inURL.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("there was no answer within %v", attemptTimeout)
	}
	if text := err.Error(); len(text) > mostErrorText {
		return errors.New(text[:mostErrorText])
	}
	return err
}
