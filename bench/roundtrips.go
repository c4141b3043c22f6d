package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// probes are the shortest questions to each server.
var probes = []struct {
	server, subject string
	ask             func(context.Context, subject) error
}{
	{"mongodb", "plain", func(ctx context.Context, s subject) error { return s.ping(ctx) }},
	{"redis", "redislock", func(ctx context.Context, s subject) error { return s.(*redislockSubject).redis.Ping(ctx).Err() }},
	{"etcd", "etcd", func(ctx context.Context, s subject) error {
		_, err := s.(*etcdSubject).etcd.Get(ctx, "/doclock-bench", clientv3.WithSerializable())
		return err
	}},
}

// roundTripColumns are the columns of the table.
var roundTripColumns = []string{"asked_ms", "added_ms", "throughput_over_none"}

// throng is the result of many readers at a time.
const throng = "mongodb, 64 readers"

// roundTrips measures what a network adds to a round trip to each server, and
// what a network of 0 ms, which only passes messages on, costs many readers that
// send as fast as they can. Each is measured in turn with no network.
func roundTrips(latencies []time.Duration) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		none := track{name: "none"}
		passing := track{name: "0s", over: &network{}}
		tracks := []track{none, passing}
		for _, d := range latencies {
			tracks = append(tracks, track{name: d.String(), over: &network{d}})
		}
		for _, p := range probes {
			if b.servers.Absent[needs[p.subject]] != "" {
				continue
			}
			rounds, block := pick(b, 20, 5), pick(b, 20, 10)
			err := b.sideBySide(ctx, p.server, p.subject, tracks, rounds, func(s named) (round, error) {
				var r round
				for range block {
					begun := time.Now()
					if err := p.ask(ctx, s.subject); err != nil {
						return r, err
					}
					r.latencies = append(r.latencies, time.Since(begun))
					r.took += r.latencies[len(r.latencies)-1]
				}
				return r, nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", p.server, err)
			}
		}
		const readers, key = 64, "network"
		if err := b.servers.document(ctx, key, small); err != nil {
			return err
		}
		rounds, length := pick(b, 6, 3), pick(b, time.Second, 300*time.Millisecond)
		return b.sideBySide(ctx, throng, "plain", []track{none, passing}, rounds, func(s named) (round, error) {
			w, err := window(ctx, readers, length, s, func(ctx context.Context, _ int) error {
				_, err := s.subject.(*plain).read(ctx, key)
				return err
			})
			return w.round, err
		})
	}
}

// track is a network that is measured beside none.
type track struct {
	name string
	over *network
}

// sideBySide measures a subject over each track in turn, and compares it with
// the first one, in the same round.
func (b *bench) sideBySide(ctx context.Context, result, subject string, tracks []track, rounds int, measure func(named) (round, error)) error {
	subjects := map[string]named{}
	for _, t := range tracks {
		behind := b.servers
		behind.Network = t.over
		s, err := open(ctx, &behind, subject, ttl)
		if err != nil {
			return err
		}
		defer s.close()
		subjects[t.name] = named{subject, s}
		b.newResult("network", result).add("network", t.name)
	}
	for n := -1; n < rounds; n++ { // the first one warms up
		for _, t := range shuffled(tracks) {
			r, err := measure(subjects[t.name])
			if err != nil {
				return err
			}
			if n >= 0 {
				one := b.find("network", result, extra{"network", t.name})
				one.rounds = append(one.rounds, r)
			}
		}
	}
	none := b.find("network", result, extra{"network", tracks[0].name})
	for _, t := range tracks[1:] {
		one := b.find("network", result, extra{"network", t.name})
		if result == throng {
			s := ratio(one, none, round.perSecond)
			one.add("throughput_over_none", rounded(s.mid))
			one.add("throughput_over_none"+ofRounds, both(s))
			continue
		}
		s := difference(one, none, round.p50)
		one.add("asked_ms", micros(t.over.RoundTrip)/1000)
		one.add("added_ms", rounded(s.mid/1000))
		one.add("added_ms"+ofRounds, both(spread{s.mid / 1000, s.lo / 1000, s.hi / 1000}))
	}
	return nil
}
