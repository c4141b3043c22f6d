package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// startRedis starts Debian's redis-server at its highest durability: every
// command is on disk before its answer. There is one server, so a lock is lost
// with the machine only. With replicas it could be lost in a fail-over, because
// redis answers before the replicas have it.
func startRedis(ctx context.Context, say func(string, ...any)) (*daemon, error) {
	p, err := find(ctx, "redis-server", []string{"redis-server", "redis-tools", "liblzf1", "libjemalloc2"}, say)
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "doclock-bench-redis-")
	if err != nil {
		return nil, err
	}
	d, err := startDaemon(ctx, p, fmt.Sprintf("127.0.0.1:%d", port), dir, "--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always")
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(&redis.Options{Addr: d.address})
	defer func() { _ = client.Close() }()
	version := "of unknown version"
	if info, err := client.InfoMap(ctx, "server").Result(); err == nil {
		version = info["Server"]["redis_version"]
	}
	d.about = fmt.Sprintf("redis %s, one server, appendonly yes, appendfsync always (each command is on disk before its answer)", version)
	return d, nil
}

// onRedis locks in redis, and writes the document in MongoDB: the protected
// data is elsewhere, and MongoDB does not know of the lock.
type onRedis struct {
	base
	redis *redis.Client
}

func (r *onRedis) openRedis(s *servers, ttl time.Duration) error {
	if err := r.open(s, ttl); err != nil {
		return err
	}
	o := &redis.Options{Addr: s.Redis, PoolSize: 100} // as the driver's
	if s.Network != nil {
		o.Dialer = s.Network.DialContext
	}
	r.redis = redis.NewClient(o)
	r.redis.AddHook(&r.counter)
	return nil
}

func (r *onRedis) close() {
	_ = r.redis.Close()
	r.base.close()
}

// redislockSubject is bsm/redislock: SET NX PX in a script to obtain, a script
// to release. It waits with the retry strategy that it recommends for waiting,
// ExponentialBackoff, from the least time that its documentation recommends, 16
// ms, to 512 ms.
type redislockSubject struct {
	onRedis
	locks *redislock.Client
}

func openRedislock(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	r := &redislockSubject{}
	if err := r.openRedis(s, ttl); err != nil {
		return nil, err
	}
	r.locks = redislock.New(r.redis)
	return r, nil
}

func (r *redislockSubject) lock(ctx context.Context, key string) (unlock, error) {
	for {
		// Without a deadline of the caller's it gives up after a TTL.
		lock, err := r.locks.Obtain(ctx, key, r.ttl, &redislock.Options{
			RetryStrategy: redislock.ExponentialBackoff(16*time.Millisecond, 512*time.Millisecond)})
		switch {
		case err == nil:
			return lock.Release, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, redislock.ErrNotObtained):
			return nil, err
		}
	}
}

func (r *redislockSubject) increment(ctx context.Context, key string) error {
	return r.incrementUnder(ctx, key, r.lock)
}

// redsyncSubject is go-redsync/redsync on one server, with its own defaults for
// waiting: 50 to 250 ms at random, 32 times, and then again from the start. A
// failed try is two commands, because it deletes what it may have set.
type redsyncSubject struct {
	onRedis
	locks *redsync.Redsync
}

func openRedsync(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	r := &redsyncSubject{}
	if err := r.openRedis(s, ttl); err != nil {
		return nil, err
	}
	r.locks = redsync.New(goredis.NewPool(r.redis))
	return r, nil
}

func (r *redsyncSubject) lock(ctx context.Context, key string) (unlock, error) {
	mutex := r.locks.NewMutex("redsync:"+key, redsync.WithExpiry(r.ttl))
	for {
		err := mutex.LockContext(ctx)
		var taken *redsync.ErrTaken
		switch {
		case err == nil:
			return func(ctx context.Context) error { _, err := mutex.UnlockContext(ctx); return err }, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken):
			return nil, err
		}
	}
}

func (r *redsyncSubject) increment(ctx context.Context, key string) error {
	return r.incrementUnder(ctx, key, r.lock)
}
