package subjects

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// openRedislock locks in redis, and writes the document in MongoDB, which does not
// know of the lock. It is bsm/redislock: SET NX PX in a script to obtain, a script
// to release. It waits with the retry strategy that it recommends for waiting,
// ExponentialBackoff, from the least time that its documentation recommends, 16
// ms, to 512 ms.
func openRedislock(s *Subject) error {
	o := &redis.Options{Addr: s.servers.Address["redis"], PoolSize: 100} // as the driver's
	client := redis.NewClient(o)
	client.AddHook(&s.Sent)
	s.closers = append(s.closers, func() { _ = client.Close() })
	locks := redislock.New(client)
	s.Lock = func(ctx context.Context, key string) (Unlock, error) {
		for {
			// Without a deadline of the caller's it gives up after a TTL.
			lock, err := locks.Obtain(ctx, key, s.ttl, &redislock.Options{
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
	return nil
}

// openEtcd is etcd's own concurrency.Mutex: waiters queue by key, and watch
// the one before them. A mutex belongs to a session (a lease that is kept
// alive), and within one session all holders count as one. So each goroutine
// that waits or holds has its own session. The sessions are made before the
// measurement, and reused.
func openEtcd(s *Subject) error {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.servers.Address["etcd"]}, DialOptions: s.Sent.Etcd(), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	s.closers = append(s.closers, func() { _ = client.Close() }) // the leases run out by themselves
	const most = 10_000                                          // more than any case has waiters
	idle := make(chan *concurrency.Session, most)
	session := func() (*concurrency.Session, error) {
		return concurrency.NewSession(client, concurrency.WithTTL(max(1, int(s.ttl.Seconds()))))
	}
	s.Warm = func(n int) error {
		for len(idle) < n {
			fresh, err := session()
			if err != nil {
				return err
			}
			idle <- fresh
		}
		return nil
	}
	s.Lock = func(ctx context.Context, key string) (_ Unlock, err error) {
		var own *concurrency.Session
		select {
		case own = <-idle:
		default:
			if own, err = session(); err != nil {
				return nil, err
			}
		}
		mutex := concurrency.NewMutex(own, "/doclock-bench/"+key)
		if err := mutex.Lock(ctx); err != nil {
			own.Orphan() // its entry in the queue ends with its lease
			_, _ = client.Revoke(context.WithoutCancel(ctx), own.Lease())
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, err
		}
		return func(ctx context.Context) error {
			defer func() { idle <- own }()
			return mutex.Unlock(ctx)
		}, nil
	}
	return nil
}
