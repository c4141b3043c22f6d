package admin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Each line for mongosh leaves the entries as the function of this package does, and
// tells the releases of holders no less.
func TestMongoshLines(t *testing.T) {
	for verb, does := range map[string]func(context.Context, *place) error{
		"break": func(ctx context.Context, p *place) error {
			return errOf(admin.Break(ctx, p.coll, p.inspect("A-17", p.clocked()).Entries[1]))
		},
		"break --owner": func(ctx context.Context, p *place) error {
			return errOf(admin.Remove(ctx, p.coll, admin.Query{Owner: "web-3/4711/api"}, p.clocked()))
		},
		"sweep": func(ctx context.Context, p *place) error {
			return errOf(admin.Sweep(ctx, p.coll, p.clocked()))
		},
	} {
		t.Run(verb, func(t *testing.T) {
			byFunction, byLine := newPlace(t), alone(t)
			orders(byFunction)
			orders(byLine)
			if err := errors.Join(does(t.Context(), byFunction), byLine.mongosh(verb)); err != nil {
				t.Error(err)
			}
			want, _ := byFunction.list(admin.Query{}, byFunction.clocked())
			got, _ := byLine.list(admin.Query{}, byLine.clocked())
			if diff := cmp.Diff(want, got); diff != "" || len(want) >= 7 {
				t.Errorf("%d of 7 entries are left (-function +line):\n%s", len(want), diff)
			}
			for _, id := range []string{"A-17", "A-18", "A-19", "A-20"} {
				fence, _ := byFunction.stored(id).Lookup("lock", "broken").AsInt64OK()
				if told, _ := byLine.stored(id).Lookup("lock", "broken").AsInt64OK(); told < fence {
					t.Errorf("%s: the function leaves lock.broken %d, and the line %d", id, fence, told)
				}
			}
		})
	}
}

// orders has entries that are held, waiting and expired, and some that differ from
// A-17's first one in one thing: the document, the fencing token, or the owner.
func orders(p *place) {
	shown := uuid.MustParse("f0ef0793-0c2c-4d0a-8c1b-6f1d2a3b4c5d")
	const fence = 1795448096117
	e := func(id uuid.UUID, by string, fence int64, left time.Duration) bson.D {
		return entry("", fence, fence, left, owner(by), bson.E{Key: "id", Value: binary(id)})
	}
	p.Insert(idIs("A-17"), lock(fence, tag("write", e(shown, "web-3/4711/api", fence, time.Hour), e(named("a"), "web-4/1/api", 0, time.Hour))))
	p.Insert(idIs("A-18"), lock(fence, tag("write", e(shown, "web-3/4711/api", fence, time.Hour), e(named("b"), "web-4/1/api", 6, 0))))
	p.Insert(idIs("A-19"), lock(fence, tag("write", e(shown, "web-30/4711/api", 7, time.Millisecond), e(named("c"), "web-4/1/api", 0, -time.Hour))))
	p.Insert(idIs("A-20"), lock(fence, tag("write", e(named("d"), "Web-3/4711/api", 7, time.Hour))))
}

// mongosh runs the line of a verb in docs/operations.md.
func (p *place) mongosh(verb string) error {
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		return err
	}
	block := regexp.MustCompile(`(?s)\n### ` + verb + "\n.*?```js\ndb\\.orders\\.update\\w+\\((.*?)\\)\n```").FindStringSubmatch(string(page))
	if block == nil {
		return fmt.Errorf("the page has no line of %s", verb)
	}
	text := block[1]
	for pattern, value := range map[string]string{
		`UUID\("([^"]+)"\)`: `{"$$uuid": "$1"}`,
		`Long\("(\d+)"\)`:   `{"$$numberLong": "$1"}`,
		`\bnow\b`:           fmt.Sprintf(`{"$$date": {"$$numberLong": "%d"}}`, p.clock.Now().UnixMilli()),
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, value)
	}
	var args struct{ Args bson.A }
	if err := bson.UnmarshalExtJSON([]byte(`{"args": [`+text+`]}`), false, &args); err != nil {
		return err
	}
	if diff := cmp.Diff(bson.D{{Key: "writeConcern", Value: bson.D{{Key: "w", Value: "majority"}}}}, args.Args[2]); diff != "" {
		return errors.New("its write concern: " + diff)
	}
	_, err = p.Hand.UpdateMany(p.Context(), args.Args[0], args.Args[1])
	return err
}
