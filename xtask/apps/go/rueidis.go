// rueidis with its defaults: client-side caching that is never stale once a write is answered and told, scripts, and its lock.
package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

const keys, rounds, holders, turns = 50, 8, 4, 15

func main() {
	ctx := context.Background()
	nodes := list("BASALT_CLUSTER")
	option := rueidis.ClientOption{InitAddress: nodes}
	reader, err := rueidis.NewClient(option)
	check(err == nil, "connecting: %v", err)
	writer, err := rueidis.NewClient(option)
	check(err == nil, "connecting: %v", err)
	name := func(number int) string { return fmt.Sprint("key-", number) }
	hits := 0
	for round := range rounds {
		if round == rounds/2 {
			half(name(0))
		}
		for number := range keys {
			again(func() error {
				return writer.Do(ctx, writer.B().Set().Key(name(number)).Value(fmt.Sprint(round)).Build()).Error()
			})
		}
		for number := range keys {
			read := func() (string, bool) {
				var value string
				var hit bool
				again(func() error {
					answer := reader.DoCache(ctx, reader.B().Get().Key(name(number)).Cache(), time.Minute)
					hit = answer.IsCacheHit()
					var err error
					value, err = answer.ToString()
					return err
				})
				return value, hit
			}
			// The invalidation comes right behind the write.
			until(func() bool { value, _ := read(); return value == fmt.Sprint(round) }, func() string { return name(number) + " stays stale" })
			if _, hit := read(); hit {
				hits++
			}
		}
	}
	check(hits > keys*rounds/2, "only %d hits of %d", hits, keys*rounds)
	add := rueidis.NewLuaScript(`return redis.call('INCRBY', KEYS[1], ARGV[1])`)
	var sum int64
	for range 10 {
		again(func() error {
			var err error
			sum, err = add.Exec(ctx, writer, []string{"sum"}, []string{"5"}).AsInt64()
			return err
		})
	}
	check(sum == 50 || killed && sum >= 50, "the script added up to %d", sum)

	// Unless it is told otherwise, it gives an attempt up after 20 ms, and nothing wakes the holder then: on a busy machine all sleep.
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: option, KeyMajority: 1, NoLoopTracking: true, TryNextAfter: 10 * time.Second,
	})
	check(err == nil, "the locker: %v", err)
	var held sync.Mutex
	var all sync.WaitGroup
	for range holders {
		all.Go(func() {
			for range turns {
				_, release, err := locker.WithContext(ctx, "lock")
				check(err == nil, "the lock: %v", err)
				check(held.TryLock(), "two hold the lock")
				time.Sleep(time.Millisecond)
				held.Unlock()
				release()
			}
		})
	}
	all.Wait()
	ok("%d keys cached over %d rounds, %d hits, none stale; %d turns under rueidislock%s", keys, rounds, hits, holders*turns, madeAgain())
}
