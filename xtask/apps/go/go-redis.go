// go-redis: optimistic transactions, scripts, a stream with a group, publish and subscribe.
package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const entries, turns = 200, 25

func main() {
	ctx := context.Background()
	store := redis.NewClient(&redis.Options{Addr: address, ReadTimeout: 15 * time.Second})
	again(func() error { return store.XGroupCreateMkStream(ctx, "stream", "group", "0").Err() })
	news := store.Subscribe(ctx, "news")
	_, err := news.Receive(ctx)
	check(err == nil, "SUBSCRIBE: %v", err)
	var heard []int
	go func() {
		for message := range news.Channel() {
			number, _ := strconv.Atoi(message.Payload)
			heard = append(heard, number)
		}
	}()
	addOnce := redis.NewScript(`if redis.call('SADD', KEYS[2], ARGV[1]) == 1 then redis.call('XADD', KEYS[1], '*', 'number', ARGV[1]) end
		return redis.call('SCARD', KEYS[2])`)
	var lock sync.Mutex
	worked := map[string]int{}
	for _, name := range []string{"a", "b"} {
		go func() {
			from := ">"
			for {
				read, err := store.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "group", Consumer: name, Streams: []string{"stream", from}, Count: 5, Block: 500 * time.Millisecond}).Result()
				if err != nil && !errors.Is(err, redis.Nil) {
					check(killed, "XREADGROUP: %v", err)
					failed.Add(1)
					// What was given out unseen is still this consumer's.
					from = "0"
					time.Sleep(100 * time.Millisecond)
					continue
				}
				if len(read) == 0 || len(read[0].Messages) == 0 {
					from = ">"
					continue
				}
				for _, message := range read[0].Messages {
					lock.Lock()
					worked[message.Values["number"].(string)]++
					lock.Unlock()
					again(func() error { return store.XAck(ctx, "stream", "group", message.ID).Err() })
				}
			}
		}()
	}
	var adders sync.WaitGroup
	for range 3 {
		adders.Go(func() {
			for range turns {
				again(func() error {
					for {
						err := store.Watch(ctx, func(tx *redis.Tx) error {
							count, err := tx.Get(ctx, "watched").Int()
							if err != nil && !errors.Is(err, redis.Nil) {
								return err
							}
							_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, "watched", count+1, 0).Err() })
							return err
						}, "watched")
						if !errors.Is(err, redis.TxFailedErr) {
							return err
						}
					}
				})
			}
		})
	}
	for number := range entries {
		if number == entries/2 {
			half("")
		}
		again(func() error { return addOnce.Run(ctx, store, []string{"stream", "seen"}, number).Err() })
		again(func() error { return store.Publish(ctx, "news", number).Err() })
	}
	adders.Wait()
	count := func() int { lock.Lock(); defer lock.Unlock(); return len(worked) }
	until(func() bool { return count() == entries }, func() string { return strconv.Itoa(count()) + " entries were read" })
	until(func() bool {
		pending, err := store.XPending(ctx, "stream", "group").Result()
		return err == nil && pending.Count == 0
	}, func() string { return "entries stay pending" })
	more := 0
	for _, often := range worked {
		if often > 1 {
			more++
		}
	}
	check(killed || more == 0, "%d entries were read twice", more)
	total, err := store.Get(ctx, "watched").Int()
	check(err == nil && (total == 3*turns || killed && total > 3*turns && int64(total-3*turns) <= failed.Load()), "%d of %d watched, %v", total, 3*turns, err)
	if !killed {
		until(func() bool { return len(heard) == entries }, func() string { return strconv.Itoa(len(heard)) + " messages were heard" })
	}
	for at := 1; at < len(heard); at++ {
		check(heard[at] >= heard[at-1], "messages came out of order")
	}
	ok("%d entries read by a group, %d more than once; %d of %d messages; %d transactions%s", entries, more, len(heard), entries, 3*turns, madeAgain())
}
