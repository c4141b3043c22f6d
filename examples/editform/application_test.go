package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

// An application has two replicas, each with its own client and network, behind
// the proxy.
type application struct {
	*testing.T
	pages    *mongo.Collection // past the faults
	nets     []*faultnet.Net
	url      string
	browser  *http.Client
	commands atomic.Int32 // of both replicas
}

func newApplication(t *testing.T) *application {
	t.Helper()
	a := &application{T: t, pages: mongotest.Database(t).Collection("pages"), browser: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     &http.Transport{},
	}}
	t.Cleanup(a.browser.CloseIdleConnections)
	monitor := &event.CommandMonitor{Started: func(context.Context, *event.CommandStartedEvent) { a.commands.Add(1) }}
	var replicas []*url.URL
	for i := range 2 {
		net := faultnet.New()
		client := mongotest.Client(t, options.Client().SetDialer(net).SetMonitor(monitor))
		r, err := newReplica(fmt.Sprint("replica ", i+1), client.Database(a.pages.Database().Name()).Collection(a.pages.Name()))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(r.routes())
		t.Cleanup(func() {
			server.Close()
			if err := r.locks.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		address, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		a.nets, replicas = append(a.nets, net), append(replicas, address)
	}
	front := httptest.NewServer(inTurn(replicas))
	t.Cleanup(front.Close)
	a.url = front.URL
	return a
}

// insert makes a page.
func (a *application) insert(id string) {
	a.Helper()
	if _, err := a.pages.InsertOne(a.Context(), page{ID: id}); err != nil {
		a.Fatal(err)
	}
}

// stored is a page as it is in the database.
func (a *application) stored(id string) (p page) {
	a.Helper()
	if err := a.pages.FindOne(a.Context(), doclock.ID(id)).Decode(&p); err != nil {
		a.Fatal(err)
	}
	return p
}

// A reply is what a browser gets.
type reply struct {
	status int
	body   string
}

// post sends what a form of the page has. It runs in any goroutine.
func (a *application) post(action string, f form, more ...string) reply {
	values := url.Values{"user": {f.User}, "token": {f.Token}, "text": {f.Text}, "saves": {strconv.Itoa(f.Saves)}}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	answer, err := a.browser.PostForm(a.url+"/"+f.ID+"/"+action, values)
	if err != nil {
		a.Error(err)
		return reply{}
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		a.Error(err)
	}
	return reply{answer.StatusCode, string(body)}
}

// hidden is the value of a hidden input.
func (r reply) hidden(name string) string {
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(r.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// why is the reason that a page gives.
func (r reply) why() string {
	m := regexp.MustCompile(`(?s)id="why">(.*?)</p>`).FindStringSubmatch(r.body)
	if m == nil {
		return ""
	}
	return m[1]
}

// open opens the form, and breaks the lock of whoever has it.
func (a *application) open(user, id string) form {
	a.Helper()
	f := form{page: page{ID: id}, User: user}
	got := a.post("edit", f)
	for range 5 {
		if got.status != http.StatusConflict {
			break
		}
		got = a.post("break", f, "entry", got.hidden("entry"))
	}
	f.Token = got.hidden("token")
	if got.status != http.StatusOK || f.Token == "" {
		a.Fatalf("opening the form: %d %s", got.status, got.body)
	}
	f.page = a.stored(id)
	return f
}
