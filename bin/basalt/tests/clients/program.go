// Uses a store of several nodes by go-redis, knowing the one on the port given. Prints KILL when a node is to die, OK at
// the end.
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
	keys          = 200
	resumesWithin = 5 * time.Second
	writesFor     = 4 * time.Second
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
		key := fmt.Sprint("key:", n)
		answer, err := client.Set(ctx, key, "of "+key, 0).Result()
		expect("SET", answer, err, "OK")
	}
	all := map[string]bool{}
	for n := range keys {
		key := fmt.Sprint("key:", n)
		all[key] = true
		answer, err := client.Get(ctx, key).Result()
		expect("GET", answer, err, "of "+key)
	}
	scanned, lock := map[string]bool{}, sync.Mutex{}
	err := client.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		pages := node.Scan(ctx, 0, "*", 10).Iterator()
		for pages.Next(ctx) {
			lock.Lock()
			scanned[pages.Val()] = true
			lock.Unlock()
		}
		return pages.Err()
	})
	expect("the keys of SCAN", scanned, err, all)
	size, err := client.DBSize(ctx).Result()
	expect("DBSIZE", size, err, int64(keys))
	fields := map[string]string{}
	for n := range 50 {
		fields[fmt.Sprint("field:", n)] = fmt.Sprint(n)
	}
	added, err := client.HSet(ctx, "hash", fields).Result()
	expect("HSET", added, err, int64(50))
	hash, err := client.HGetAll(ctx, "hash").Result()
	expect("HGETALL", hash, err, fields)
	var get *redis.StringCmd
	_, err = client.TxPipelined(ctx, func(transaction redis.Pipeliner) error {
		transaction.Set(ctx, "{tag}a", 1, 0)
		transaction.Incr(ctx, "{tag}a")
		get = transaction.Get(ctx, "{tag}a")
		return nil
	})
	expect("MULTI", get.Val(), err, "2")
}

func replicas() {
	client, deadline := connect(true), time.Now().Add(resumesWithin)
	for n := range keys {
		key := fmt.Sprint("key:", n)
		answer, err := client.Get(ctx, key).Result()
		for ; answer != "of "+key && time.Now().Before(deadline); answer, err = client.Get(ctx, key).Result() {
		}
		expect("GET from a replica", answer, err, "of "+key)
	}
}

func failover(client *redis.ClusterClient) {
	fmt.Println("KILL")
	written, longest := 0, time.Duration(0)
	for begun := time.Now(); time.Since(begun) < writesFor; written++ {
		key, start := fmt.Sprint("failover:", written), time.Now()
		err := client.Set(ctx, key, "of "+key, 0).Err()
		for ; err != nil && time.Since(start) < resumesWithin; err = client.Set(ctx, key, "of "+key, 0).Err() {
			time.Sleep(50 * time.Millisecond)
		}
		longest = max(longest, time.Since(start))
		expect("SET "+key+" in time", longest < resumesWithin, err, true)
		time.Sleep(2 * time.Millisecond)
	}
	for n := range written {
		key := fmt.Sprint("failover:", n)
		answer, err := client.Get(ctx, key).Result()
		expect("an acknowledged write", answer, err, "of "+key)
	}
	fmt.Println(written, "writes, the slowest in", longest)
}

func main() {
	client := connect(false)
	commands(client)
	replicas()
	failover(client)
	fmt.Println("OK")
}
