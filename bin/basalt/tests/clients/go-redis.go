// Uses a store of several nodes by go-redis, knowing the one on the port given.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	name          = "go-redis"
	keys          = 200
	resumesWithin = 5 * time.Second
)

var ctx = context.Background()

func expect(what string, found any, err error, wanted any) {
	if err != nil || !reflect.DeepEqual(found, wanted) {
		fmt.Fprintf(os.Stderr, "%s: %.300v (%v) instead of %.300v\n", what, found, err, wanted)
		os.Exit(1)
	}
}

func connect(readOnly bool) *redis.ClusterClient {
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:" + os.Args[1]}, ReadOnly: readOnly, RouteRandomly: readOnly,
		DialTimeout: time.Second, ReadTimeout: time.Second,
		// By itself the library asks again where slots are after a minute, or when it is sent elsewhere: a dead node sends
		// nobody.
		ClusterStateReloadInterval: time.Second,
	})
}

func commands(client *redis.ClusterClient) {
	for n := range keys {
		key := fmt.Sprint(name, ":key:", n)
		answer, err := client.Set(ctx, key, "of "+key, 0).Result()
		expect("SET", answer, err, "OK")
	}
	all := map[string]bool{}
	for n := range keys {
		key := fmt.Sprint(name, ":key:", n)
		all[key] = true
		answer, err := client.Get(ctx, key).Result()
		expect("GET", answer, err, "of "+key)
	}
	scanned, lock := map[string]bool{}, sync.Mutex{}
	err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		pages := node.Scan(ctx, 0, name+":key:*", 20).Iterator()
		for pages.Next(ctx) {
			lock.Lock()
			scanned[pages.Val()] = true
			lock.Unlock()
		}
		return pages.Err()
	})
	expect("the keys of SCAN", scanned, err, all)
	size, err := client.DBSize(ctx).Result()
	expect("DBSIZE of all nodes", size >= keys, err, true)
	fields := map[string]string{}
	for n := range 50 {
		fields[fmt.Sprint("field:", n)] = fmt.Sprint(n)
	}
	added, err := client.HSet(ctx, name+":hash", fields).Result()
	expect("HSET", added, err, int64(50))
	hash, err := client.HGetAll(ctx, name+":hash").Result()
	expect("HGETALL", hash, err, fields)
	var get *redis.StringCmd
	a := "{" + name + "}a"
	_, err = client.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		transaction.Set(ctx, a, 1, 0)
		transaction.Incr(ctx, a)
		get = transaction.Get(ctx, a)
		return nil
	})
	expect("MULTI", get.Val(), err, "2")
	answers, err := client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		for key := range all {
			pipeline.Get(ctx, key)
		}
		return nil
	})
	expect("pipeline", len(answers), err, keys)
}

func replicas(client *redis.ClusterClient, key string) {
	deadline := time.Now().Add(resumesWithin)
	answer, err := client.Get(ctx, key).Result()
	for ; answer != "of "+key && time.Now().Before(deadline); answer, err = client.Get(ctx, key).Result() {
	}
	expect("GET from a replica", answer, err, "of "+key)
}

func write(client *redis.ClusterClient, end string) {
	fmt.Println("WRITING")
	written, failures, longest := 0, 0, time.Duration(0)
	for ; ; written++ {
		if _, err := os.Stat(end); err == nil {
			break
		}
		key, start := fmt.Sprint(name, ":written:", written), time.Now()
		err := client.Set(ctx, key, "of "+key, 0).Err()
		for ; err != nil && time.Since(start) < resumesWithin; err = client.Set(ctx, key, "of "+key, 0).Err() {
			failures++
			time.Sleep(50 * time.Millisecond)
		}
		longest = max(longest, time.Since(start))
		expect("SET "+key+" in time", longest < resumesWithin, err, true)
		time.Sleep(3 * time.Millisecond)
	}
	for n := range written {
		key := fmt.Sprint(name, ":written:", n)
		answer, err := client.Get(ctx, key).Result()
		expect("an acknowledged write", answer, err, "of "+key)
	}
	fmt.Println(written, "writes, the slowest in", longest.Seconds(), "s,", failures, "tried again")
}

func main() {
	if os.Args[2] == "FOLLOWERS" {
		client := connect(true)
		for n := range 30 {
			key := fmt.Sprint("{", name, "}", n)
			answer, err := client.Set(ctx, key, "of "+key, 0).Result()
			expect("SET", answer, err, "OK")
			replicas(client, key)
		}
	} else {
		client := connect(false)
		commands(client)
		any := connect(true)
		for n := range keys {
			replicas(any, fmt.Sprint(name, ":key:", n))
		}
		write(client, os.Args[2])
	}
	fmt.Println("OK")
}
