package docs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/assert"
	"github.com/redis-ratelimit/caddy-redis-ratelimit/internal/caddytest"
)

const filmLength = 60_000_000

// serveUsage answers what reports its cost in the body, compressed for clients that accept it, and the
// download of a film.
func serveUsage(w http.ResponseWriter, r *http.Request) bool {
	switch r.URL.Path {
	case "/v1/chat/completions":
		question, _ := io.ReadAll(r.Body) // of a test
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.Contains(r.Header.Get("Accept-Encoding"), "gzip"):
			w.Header().Set("Content-Encoding", "gzip") // whatever it has
		case strings.HasPrefix(string(question), `{"costs":`):
			_, _ = fmt.Fprintf(w, `{"usage":{"total_tokens":%s`+"}", strings.TrimPrefix(string(question), `{"costs":`))
		case strings.Contains(string(question), `"small"`), strings.Contains(string(question), `"large"`):
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Hello."}}],"usage":{"prompt_tokens":1001,"completion_tokens":500,"prompt_tokens_details":{"cached_tokens":400}}}`)
		case strings.Contains(string(question), "include_usage"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"}}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"total_tokens\":5000}}\n\ndata: [DONE]\n\n")
		case strings.Contains(string(question), "stream"):
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"Hello.\"}}]}\n\ndata: [DONE]\n\n")
		default:
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Hello."}}],"usage":{"total_tokens":4000}}`)
		}
	case "/graphql":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":{"shop":{"name":"Caddy"}},"extensions":{"cost":{"requestedQueryCost":101,"actualQueryCost":12}}}`)
	case "/downloads/film":
		piece := make([]byte, 1<<20)
		for left := filmLength; left > 0; left -= len(piece) {
			piece = piece[:min(left, len(piece))]
			if _, err := w.Write(piece); err != nil {
				return true
			}
		}
	default:
		return false
	}
	return true
}

const (
	chatPath = "/v1/chat/completions"
	asAcme   = "Authorization: Bearer acme"
	asBolt   = "Authorization: Bearer bolt"
)

// ask sends a call of a model in JSON.
func (e recipeEnv) ask(t *testing.T, question string, headers ...string) caddytest.Response {
	t.Helper()
	return e.Send(t, http.MethodPost, e.URL+chatPath, question, append(headers, ofJSON)...)
}

func recipeGateway(t *testing.T, e recipeEnv) {
	for _, test := range []struct {
		client, question string
		cost             int64
	}{
		{"rest", `{"messages":[]}`, 4000},
		{"stream", `{"stream":true,"stream_options":{"include_usage":true}}`, 5000},
		{"hidden", `{"stream":true}`, 4000}, // the fallback
	} {
		a := e.ask(t, test.question, "Authorization: Bearer "+test.client, "Accept-Encoding: gzip").Want(t, 0, caddytest.Any, "Content-Encoding:") // the server asked for no compression
		caddytest.CheckQuota(t, a, 100_000, 96_000)
		e.WaitForRefund(t, "tokens", "Bearer "+test.client, 100_000-test.cost)
	}
	e.Get(t, "/v1/models", asAcme).WantFree(t)
	e.checkQuota(t, "rest", 96_000)
	for _, path := range []string{"/v1/messages/count_tokens", "/v1beta/models/m:countTokens", "/v1/responses/input_tokens", "/v1/files", "/v1/uploads/u/parts"} {
		e.Send(t, http.MethodPost, e.URL+path, "{}", asAcme).WantFree(t)
	}
	e.checkRetries(t)
	e.checkEstimates(t)
	e.checkLargeModels(t)
	e.checkOthersPass(t)
	e.checkPlaces(t)
}

// checkQuota checks what a client is told of its tokens, which costs it nothing.
func (e recipeEnv) checkQuota(t *testing.T, client string, left int64) {
	t.Helper()
	for range 70 { // more than calls
		e.Get(t, "/v1/quota", "Authorization: Bearer "+client).Want(t, http.StatusOK, fmt.Sprintf(`{"policies":[{"name":"tokens","limit":100000,"remaining":%d,*`, left))
	}
}

// checkPlaces fills the places of the model with calls of one client, of which more wait, and has another's overtake these. Who
// waits holds no tokens.
func (e recipeEnv) checkPlaces(t *testing.T) {
	t.Helper()
	const many, few, held = "Authorization: Bearer many", "Authorization: Bearer few", "/v1/embeddings?hold"
	answers := e.fill(t, 8, http.MethodPost, held, many, ofJSON)
	for waiting := range 3 {
		answers = append(answers, e.wait(t, float64(waiting+1), http.MethodPost, held, many, ofJSON))
	}
	short := e.wait(t, 4, http.MethodPost, "/v1/embeddings", few, ofJSON)
	e.WaitForRefund(t, "tokens", "Bearer many", 100_000-8*4000)
	e.checkQuota(t, "few", 100_000)
	e.backend.holder.EndOne()
	e.CheckMetric(t, "held_requests", 3)
	e.backend.holder.EndOne()
	(<-short).Want(t, http.StatusOK, caddytest.Any, "X-Ratelimit-Limit: 100000")
	e.backend.holder.EndAll()
	for _, answer := range answers {
		(<-answer).Want(t, http.StatusOK, caddytest.Any)
	}
	_, most := e.backend.holder.Running()
	assert.Equal(t, most, 8, "the calls that the model answered at once, at most")
	e.WaitForRefund(t, "tokens", "Bearer few", 96_000)
}

// recipeGatewayInVain has calls wait longer than they may: they cost no tokens, but count as calls.
func recipeGatewayInVain(t *testing.T, e recipeEnv) {
	const patient = "Authorization: Bearer patient"
	answers := e.fill(t, 8, http.MethodPost, "/v1/embeddings?hold", "Authorization: Bearer many", ofJSON)
	for range 2 {
		refused := caddytest.CheckRefusal(t, e.ask(t, `{"max_tokens":100000}`, patient), http.StatusTooManyRequests)
		refused.Want(t, 0, caddytest.Any, "Retry-After: 1", "X-Ratelimit-Limit: 60")
	}
	e.checkQuota(t, "patient", 100_000)
	assert.Equal(t, e.Remaining(t, "calls", "Bearer patient"), 58, "the calls that are left")
	e.backend.holder.EndAll()
	for _, answer := range answers {
		(<-answer).Want(t, http.StatusOK, caddytest.Any)
	}
	e.CheckMetric(t, `running{policy="places"}`, 0)
	var passed caddytest.Response
	assert.Retry(t, "a place is free", func() (again bool, seen any) { // of which Redis learns later
		passed = e.ask(t, `{"max_tokens":100000}`, patient)
		return passed.Status == http.StatusTooManyRequests, passed
	})
	caddytest.CheckQuota(t, passed.Want(t, http.StatusOK, caddytest.Any), 100_000, 0)
	e.WaitForRefund(t, "tokens", "Bearer patient", 96_000)
}

// checkLargeModels calls a large model until its limit refuses more. What may hide the model is refused.
func (e recipeEnv) checkLargeModels(t *testing.T) {
	t.Helper()
	const client, question = "Authorization: Bearer large", `{"costs":1,"model":"claude-opus-9"}`
	left := e.Remaining(t, "large-models", "Bearer large")
	for _, path := range []string{chatPath, "/v1/responses", "/v1/messages"} {
		e.Send(t, http.MethodPost, e.URL+path, question, client, ofJSON).Want(t, http.StatusOK, caddytest.Any)
		left--
		assert.Equal(t, e.Remaining(t, "large-models", "Bearer large"), left, "the calls of large models that are left after %s", path)
	}
	for _, other := range []string{`{"model":"small"}`, `{}`, `{"messages":["\"model\":\"gpt-5\""]}`} {
		e.ask(t, other, client).Want(t, http.StatusOK, caddytest.Any)
	}
	for status, hidden := range map[int][2]string{
		http.StatusBadRequest:            {`{"model":"small","model":"gpt-5"}`, ofJSON},
		http.StatusRequestEntityTooLarge: {`{"model":"gpt-5","messages":["` + strings.Repeat("a", 1<<20) + `"]}`, ofJSON},
		http.StatusUnsupportedMediaType:  {`{"model":"gpt-5"}`, "Content-Type: text/plain"},
	} {
		e.Send(t, http.MethodPost, e.URL+chatPath, hidden[0], client, hidden[1]).Want(t, status, caddytest.Any, caddytest.NoQuota)
	}
	e.Send(t, http.MethodPost, e.URL+"/v1/audio/transcriptions", "", client, "Content-Type: multipart/form-data; boundary=b").Want(t, http.StatusOK, caddytest.Any)
	assert.Equal(t, e.Remaining(t, "large-models", "Bearer large"), left, "the calls of large models that are left")
	passed := 0
	for ; e.ask(t, question, client).Status == http.StatusOK; passed++ {
		assert.FatalIf(t, passed > 60, "%d calls of a large model passed", passed)
	}
	assert.Equal(t, e.Remaining(t, "large-models", "Bearer large"), 0, "the calls of large models that are left")
}

// checkOthersPass checks that a request that is no call of a model reaches the backend before its body has ended.
func (e recipeEnv) checkOthersPass(t *testing.T) {
	t.Helper()
	body, end := io.Pipe()
	before := len(e.backend.seen())
	request := assert.NoError(http.NewRequestWithContext(t.Context(), http.MethodPost, e.URL+"/upload", body))(t)
	ended := make(chan error)
	go func() {
		response, err := e.Client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		ended <- err
	}()
	assert.Retry(t, "the upload reaches the backend", func() (again bool, seen any) {
		now := len(e.backend.seen())
		return now == before, now
	})
	assert.Must(t, end.Close())
	assert.Must(t, <-ended)
}

// recipePictures sends calls with pictures, whose base64 weighs nothing, and uploads of files, which are not limited.
func recipePictures(t *testing.T, e recipeEnv) {
	picture := `{"messages":["` + strings.Repeat("a", 10_000_000) + `"],"max_tokens":5000}`
	a := e.ask(t, picture, asAcme).Want(t, http.StatusOK, caddytest.Any)
	caddytest.CheckQuota(t, a, 100_000, 95_000)
	e.WaitForRefund(t, "tokens", "Bearer acme", 96_000)
	for _, path := range []string{"/v1/files", "/v1/uploads/u/parts"} {
		e.Send(t, http.MethodPost, e.URL+path, strings.Repeat("a", 40_000_000), asAcme).WantFree(t)
	}
}

// checkEstimates checks what requests take in advance.
func (e recipeEnv) checkEstimates(t *testing.T) {
	t.Helper()
	const question = `{"model":"m","messages":[{"role":"user","content":"\"max_tokens\": 1"}],"max_tokens": 95000}`
	const texts = 5 // the tokens of m, user and the content's 15 bytes
	for i, left := range []int64{5000 - texts, 1000 - texts} {
		caddytest.CheckQuota(t, e.ask(t, question, asAcme), 100_000, left)
		e.WaitForRefund(t, "tokens", "Bearer acme", int64(100_000-4000*(i+1)))
	}
	caddytest.CheckRefusal(t, e.ask(t, question, asAcme), http.StatusTooManyRequests)
	for i, bound := range []string{`"max_tokens":5000`, `"max_completion_tokens":5000`, `"max_output_tokens":5000`, `"generationConfig":{"maxOutputTokens":5000}`,
		`"options":{"num_predict":5000}`, `"inferenceConfig":{"maxTokens":5000}`, `"max_tokens":2500,"n":2`, `"max_tok\u0065ns":5000`} {
		a := e.ask(t, "{"+bound+"}", asBolt)
		caddytest.CheckQuota(t, a, 100_000, int64(100_000-4000*i-5000))
		e.WaitForRefund(t, "tokens", "Bearer bolt", int64(100_000-4000*(i+1)))
	}
	a := e.ask(t, `{"max_tokens":100001}`, "Authorization: Bearer much")
	caddytest.CheckQuota(t, a.Want(t, http.StatusOK, caddytest.Any), 100_000, 0) // cut to the capacity
	e.WaitForRefund(t, "tokens", "Bearer much", 96_000)
}

func recipeMoney(t *testing.T, e recipeEnv) {
	const small, large, estimate = 421, 7003, 20_000
	left := int64(5_000_000)
	for _, test := range []struct {
		question string
		cost     int64
	}{
		{`{"model":"small","messages":[]}`, small},
		{`{"model" : "large","messages":[]}`, large},
		{`{"messages":[{"role":"user","content":"\"model\":\"large\" or model"}],"model":"small"}`, small},
		{`{"model":"medium","messages":["large"],"a":"large"}`, large},
		{`{"model":"sm\u0061ll","messages":["small"]}`, small},
		{`{"model":"small","Model":"large"}`, large},
		{`{"messages":{"model":"small"}}`, large},
		{`{"model":"small","model":"large"}`, large},
		{`{"model":"small","mod\u0065l":"large"}`, large},
		{`{"messages":["large"]}`, large},
		{`{"model":"small","stream":true}`, small},
		{`{"model":"other","stream":true}`, estimate},
	} {
		e.ask(t, test.question, asAcme).Want(t, http.StatusOK, caddytest.Any)
		left -= test.cost
		e.WaitForRefund(t, "money", "Bearer acme", left)
	}
	leave := e.holdCall(t, "/v1/held?hold", "Bearer acme")
	e.WaitForRefund(t, "money", "Bearer acme", left-estimate) // taken in advance
	leave()
	left -= estimate // which a client that leaves pays
	e.Get(t, "/v1/models", asAcme).WantFree(t)
	a := e.Get(t, "/v1/budget", asAcme)
	want := fmt.Sprintf(`"limit":5000000,"remaining":%d,`, left)
	assert.ErrorIf(t, !strings.Contains(a.Body, want), "got %v; want %s", a, want)
	e.CheckMetric(t, `invalid_values_total{option="cost",policy="money"}`, 1) // no usage
}

// holdCall begins a call that the model holds, and returns the function by which its client leaves.
func (e recipeEnv) holdCall(t *testing.T, path, authorization string) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	request := assert.NoError(http.NewRequestWithContext(ctx, http.MethodPost, e.URL+path, strings.NewReader("{}")))(t)
	request.Header.Set("Authorization", authorization)
	request.Header.Set("Content-Type", "application/json")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if response, err := e.Client.Do(request); err == nil {
			_ = response.Body.Close()
			t.Errorf("the call was answered with %d", response.StatusCode)
		}
	}()
	e.backend.holder.WaitRunning(t, 1)
	return func() {
		cancel()
		<-ended
	}
}

func recipeGraphQL(t *testing.T, e recipeEnv) {
	caddytest.CheckQuota(t, e.Send(t, http.MethodPost, e.URL+"/graphql", `{"query":"{ shop { name } }"}`, "X-Api-Key: acme"), 1000, 950)
	e.WaitForRefund(t, "cost", "acme", 988)
}

func recipeVolume(t *testing.T, e recipeEnv) {
	whole := e.Remaining(t, "volume", "127.0.0.1")
	for i := range 2 {
		response, err := e.Client.Get(e.URL + "/downloads/film") //nolint:noctx // ends with the node
		assert.Must(t, err)
		if n, err := io.Copy(io.Discard, response.Body); n != filmLength || err != nil {
			t.Fatalf("got %d bytes, %v", n, err)
		}
		_ = response.Body.Close()
		assert.Retry(t, "the film is charged", func() (again bool, seen any) {
			left, want := e.Remaining(t, "volume", "127.0.0.1"), max(0, whole-int64(i+1)*filmLength)
			return left > want || left < want-1000, left // what ran before may be charged meanwhile
		})
	}
	caddytest.CheckRefusal(t, e.Get(t, "/downloads/film"), http.StatusTooManyRequests)
}

func recipeTokens(t *testing.T, e recipeEnv) {
	const acme, bolt = "Authorization: Bearer acme", "Authorization: Bearer bolt"
	began := time.Now()
	for _, left := range []int{6000, 2000} {
		e.Get(t, "/v1/chat", acme).Want(t, http.StatusOK, caddytest.Any)
		e.waitForTokens(t, acme, left, began)
	}
	e.Get(t, "/v1/chat", acme).Want(t, http.StatusOK, caddytest.Any) // answered, into debt
	assert.WaitFor(t, "the debt counts", func() error {
		a := e.Get(t, "/v1/free", acme)
		if a.Status == http.StatusOK {
			return errors.New("more is answered")
		}
		if caddytest.CheckRefusal(t, a, http.StatusTooManyRequests); retryAfter(t, a) < 600 || retryAfter(t, a) > 900 {
			t.Errorf("got %v; want to wait for 12 minutes", a)
		}
		return nil
	})
	caddytest.CheckQuota(t, e.Get(t, "/v1/silent", bolt), 10000, 9999)
	e.waitForTokens(t, bolt, 9500, began)                              // the fallback
	e.Get(t, "/v1/chat").Want(t, http.StatusBadRequest, caddytest.Any) // requests without a customer refused
}

// waitForTokens waits until a customer has at most so many tokens left, and those that are refilled since the first request: three a
// second. The requests of the wait, which cost one each, are added back.
func (e recipeEnv) waitForTokens(t *testing.T, customer string, most int, began time.Time) {
	t.Helper()
	looks := 0
	assert.WaitFor(t, "the tokens are charged", func() error {
		a := e.Get(t, "/v1/free", customer)
		looks++
		left := remaining(t, a, 10000) + looks
		assert.FatalIf(t, left < most-10, "got %v; want about %d left", a, most)
		if left > most+10+3*int(time.Since(began).Seconds()) {
			return errors.New("the tokens are not charged yet")
		}
		return nil
	})
}
