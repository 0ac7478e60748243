// Command etcd-load puts values under random keys of an etcd store with many clients for some seconds, and prints
// the rate and the latencies as one line of JSON.
//
// Each client is a goroutine that sends its next put when the last one is answered. The clients share one connection
// to each endpoint, and each client keeps to one endpoint, as the clients of a store of several nodes do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// load says what to do.
type load struct {
	endpoints  []string
	clients    int
	valueBytes int
	keys       uint64
	seed       uint64
	warmUp     time.Duration
	duration   time.Duration
	timeout    time.Duration
}

// outcome is what is printed.
type outcome struct {
	Writes       int     `json:"writes"`
	OtherWrites  int     `json:"other_writes"`
	Seconds      float64 `json:"seconds"`
	WritesPerS   float64 `json:"writes_per_s"`
	P50Ms        float64 `json:"p50_ms"`
	P99Ms        float64 `json:"p99_ms"`
	Clients      int     `json:"clients"`
	ValueBytes   int     `json:"value_bytes"`
	KeysToChoose uint64  `json:"keys"`
}

func main() {
	work, err := arguments(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(work)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "etcd-load:", err)
		os.Exit(1)
	}
}

func arguments(args []string) (load, error) {
	var work load
	var endpoints string
	flags := flag.NewFlagSet("etcd-load", flag.ContinueOnError)
	flags.StringVar(&endpoints, "endpoints", "127.0.0.1:2379", "client addresses, separated by commas")
	flags.IntVar(&work.clients, "clients", 64, "clients, each with one put on its way")
	flags.IntVar(&work.valueBytes, "value-bytes", 1000, "bytes of a value")
	flags.Uint64Var(&work.keys, "keys", 1_000_000, "keys to choose from, uniformly")
	flags.Uint64Var(&work.seed, "seed", 42, "all random choices derive from it")
	flags.DurationVar(&work.warmUp, "warm-up", time.Second, "what does not count")
	flags.DurationVar(&work.duration, "duration", 10*time.Second, "how long it is measured")
	flags.DurationVar(&work.timeout, "timeout", 10*time.Second, "a put without an answer for so long fails the run")
	if err := flags.Parse(args); err != nil {
		return load{}, err
	}
	work.endpoints = strings.Split(endpoints, ",")
	if work.clients < 1 || work.valueBytes < 0 || work.keys < 1 || work.duration <= 0 || flags.NArg() > 0 {
		return load{}, errors.New("clients, keys and duration must be above 0, and nothing may follow the options")
	}
	return work, nil
}

func run(work load) error {
	connections := make([]*clientv3.Client, len(work.endpoints))
	for i, endpoint := range work.endpoints {
		connection, err := clientv3.New(clientv3.Config{
			Endpoints:   []string{endpoint},
			DialTimeout: work.timeout,
			Logger:      zap.NewNop(),
		})
		if err != nil {
			return fmt.Errorf("%s: %w", endpoint, err)
		}
		defer func() { _ = connection.Close() }()
		connections[i] = connection
	}
	begin := time.Now().Add(work.warmUp)
	end := begin.Add(work.duration)
	latencies := make([][]time.Duration, work.clients)
	others := make([]int, work.clients)
	failures := make([]error, work.clients)
	var clients sync.WaitGroup
	for number := range work.clients {
		clients.Go(func() {
			connection := connections[number%len(connections)]
			latencies[number], others[number], failures[number] = put(work, connection, uint64(number), begin, end)
		})
	}
	clients.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(summary(work, latencies, others))
}

// put is one client: the latencies of the puts that were answered between begin and end, and how many others there were.
func put(work load, connection *clientv3.Client, number uint64, begin, end time.Time) ([]time.Duration, int, error) {
	random := rand.New(rand.NewPCG(work.seed, number))
	value := make([]byte, work.valueBytes)
	var latencies []time.Duration
	other := 0
	for {
		fill(random, value)
		key := fmt.Sprintf("user%d", random.Uint64N(work.keys))
		sent := time.Now()
		if !sent.Before(end) {
			return latencies, other, nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), work.timeout)
		_, err := connection.Put(ctx, key, string(value))
		cancel()
		if err != nil {
			return nil, 0, fmt.Errorf("client %d: %w", number, err)
		}
		answered := time.Now()
		if !answered.Before(begin) && answered.Before(end) {
			latencies = append(latencies, answered.Sub(sent))
		} else {
			other++
		}
	}
}

// fill writes printable bytes that are new for each put.
func fill(random *rand.Rand, value []byte) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := 0; i < len(value); i += 10 {
		word := random.Uint64()
		for j := i; j < min(i+10, len(value)); j++ {
			value[j] = letters[word&63]
			word >>= 6
		}
	}
}

func summary(work load, latencies [][]time.Duration, others []int) outcome {
	other := 0
	for _, count := range others {
		other += count
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	return outcome{
		Writes:       len(all),
		OtherWrites:  other,
		Seconds:      work.duration.Seconds(),
		WritesPerS:   float64(len(all)) / work.duration.Seconds(),
		P50Ms:        quantile(all, 0.50),
		P99Ms:        quantile(all, 0.99),
		Clients:      work.clients,
		ValueBytes:   work.valueBytes,
		KeysToChoose: work.keys,
	}
}

// quantile is in milliseconds; 0 of nothing.
func quantile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	index := min(int(share*float64(len(sorted))), len(sorted)-1)
	return float64(sorted[index].Microseconds()) / 1000
}
