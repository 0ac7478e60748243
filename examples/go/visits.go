// Counts visits with go-redis. Argument: the port of a node.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	port := "7000"
	if len(os.Args) > 1 {
		port = os.Args[1]
	}
	ctx := context.Background()
	store := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs:    []string{"127.0.0.1:" + port},
		Password: os.Getenv("BASALT_PASSWORD"),
	})
	defer store.Close()

	if err := store.HSet(ctx, "{user:7}:session", "name", "Ada", "city", "London").Err(); err != nil {
		log.Fatal(err)
	}
	store.Expire(ctx, "{user:7}:session", time.Hour)

	// Both or neither: they are in one slot.
	var visits *redis.IntCmd
	_, err := store.TxPipelined(ctx, func(both redis.Pipeliner) error {
		visits = both.Incr(ctx, "{user:7}:visits")
		both.HSet(ctx, "{user:7}:session", "last", time.Now().Unix())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}

	fmt.Printf("visit %d of %s\n", visits.Val(), store.HGet(ctx, "{user:7}:session", "name").Val())
}
