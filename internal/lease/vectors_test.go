package lease

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// silent answers no first attempt, and finds nothing at the second one. Reads show an image.
type silent struct {
	commands
	asked int
	image *engine.Image
}

func (s *silent) answer() (engine.Answer, error) {
	if s.asked++; s.asked == 1 {
		return engine.Answer{}, errors.New("the connection is broken")
	}
	return engine.Answer{Outcome: engine.Lost}, nil
}

func (s *silent) Write(context.Context, engine.Grant, *engine.Update, int64) (engine.Answer, error) {
	return s.answer()
}

func (s *silent) WriteAndRelease(context.Context, engine.Grant, *engine.Update) (engine.Answer, error) {
	return s.answer()
}

func (s *silent) Release(context.Context, engine.Grant) (engine.Answer, error) { return s.answer() }

func (s *silent) Read(context.Context, engine.Pin) (*engine.Image, error) { return s.image, nil }

// docs/vectors/verdicts.json has the verdicts on commands of unknown outcome, for clients in
// other languages. They are those of a lease.
func TestVerdictsOfVectors(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "vectors", "verdicts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Command, Name, LastDone, Verdict string
		Valid                            bool
		Read                             *struct {
			Fence  int64
			Broken int64
			Done   []string
			Tags   map[string][]struct {
				ID       string
				Fence, N int64
			}
		}
	}
	if err := json.Unmarshal(text, &all); err != nil || len(all) < 19 {
		t.Fatal(len(all), err)
	}
	id := func(name string) uuid.UUID { return uuid.NewSHA1(uuid.Nil, []byte(name)) }
	for _, v := range all {
		t.Run(v.Command+", "+v.Name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				commands := &silent{}
				if v.Read != nil {
					lock := engine.Lock{Fence: v.Read.Fence, Broken: v.Read.Broken}
					for _, name := range v.Read.Done {
						lock.Done = append(lock.Done, id(name))
					}
					for tag, entries := range v.Read.Tags {
						for _, e := range entries {
							lock.Entries = append(lock.Entries, engine.Entry{Tag: tag, ID: id(e.ID), Fence: e.Fence, Writes: e.N})
						}
					}
					commands.image = &engine.Image{Lock: lock}
				}
				r.commands = commands
				g := r.grant(7, "read")
				g.ID, g.Fence = id("me"), 7
				if v.LastDone != "" {
					g.LastDone = id(v.LastDone)
				}
				h := r.New(g, r.engine.Clocks())
				var err error
				applied := "applied"
				switch v.Command {
				case "write":
					err = h.Update(context.Background(), bson.M{"$set": bson.M{"a": 1}})
				case "write and release":
					err = h.UpdateAndRelease(context.Background(), bson.M{"$set": bson.M{"a": 1}})
				case "release":
					applied = "released"
					if !v.Valid {
						time.Sleep(ttl)
					}
					err = h.Release(context.Background())
				}
				got := applied
				switch {
				case errors.Is(err, doclock.ErrOutcomeUnknown):
					got = "unknown"
				case errors.Is(err, doclock.ErrLost):
					got = "lost"
				case err != nil:
					got = err.Error()
				}
				if got != v.Verdict {
					t.Errorf("%s, want %s", got, v.Verdict)
				}
			})
		})
	}
}
