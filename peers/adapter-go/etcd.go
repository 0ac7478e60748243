package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// transactionOpsMax is etcd's own default of --max-txn-ops: a record of more fields cannot be written as one.
const transactionOpsMax = 128

// etcd is a store of etcd.
type etcd struct {
	clients []*clientv3.Client
	timeout time.Duration
	// stale: reads that need not come from the leader are serializable.
	stale bool
	told  lines
}

func connectEtcd(greeting lines) (store, error) {
	place, err := parsePlace(greeting.get("target"))
	if err != nil {
		return nil, err
	}
	if asked := greeting.get("durability"); asked == "nosync" {
		return nil, errors.New("etcd syncs every write: leave --durability out, or ask for sync")
	}
	if asked := greeting.get("acks"); asked != "" && asked != "majority" {
		return nil, errors.New("etcd waits for a majority: leave --acks out, or ask for majority")
	}
	milliseconds, err := strconv.Atoi(greeting.get("timeout_ms"))
	if err != nil || milliseconds < 1 {
		return nil, errors.New("timeout_ms is not a time")
	}
	connections, err := strconv.Atoi(greeting.get("connections"))
	if err != nil || connections < 0 {
		return nil, errors.New("connections is not a number")
	}
	opened := &etcd{timeout: time.Duration(milliseconds) * time.Millisecond, stale: greeting.get("read_from") == "any"}
	endpoints := place.endpoints
	for range max(connections, 1) {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:          endpoints,
			DialTimeout:        opened.timeout,
			Username:           place.user,
			Password:           place.password,
			MaxCallRecvMsgSize: frameBytesMax,
			Logger:             zap.NewNop(),
		})
		if err != nil {
			opened.close()
			return nil, fmt.Errorf("%s: %w", strings.Join(endpoints, ","), err)
		}
		opened.clients = append(opened.clients, client)
	}
	if err := opened.ask(endpoints); err != nil {
		opened.close()
		return nil, fmt.Errorf("%s: %w", strings.Join(endpoints, ","), err)
	}
	return opened, nil
}

// place is where a store is and who asks.
type place struct {
	endpoints      []string
	user, password string
}

// parsePlace reads etcd://user:password@host:port,host:port. Its errors do not show the text, which may hold a password.
func parsePlace(text string) (place, error) {
	wrong := errors.New("expected etcd://[user:password@]host:port,host:port")
	_, rest, _ := strings.Cut(text, "://")
	rest = strings.TrimSuffix(rest, "/")
	var parsed place
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		user, password, found := strings.Cut(rest[:at], ":")
		var userErr, passwordErr error
		parsed.user, userErr = url.PathUnescape(user)
		parsed.password, passwordErr = url.PathUnescape(password)
		if !found || userErr != nil || passwordErr != nil {
			return place{}, wrong
		}
		rest = rest[at+1:]
	}
	for endpoint := range strings.SplitSeq(rest, ",") {
		if !strings.Contains(endpoint, ":") {
			endpoint += ":2379"
		}
		if host, port, err := net.SplitHostPort(endpoint); err != nil || host == "" || port == "" {
			return place{}, wrong
		}
		parsed.endpoints = append(parsed.endpoints, endpoint)
	}
	return parsed, nil
}

// ask has the store tell of itself.
func (e *etcd) ask(endpoints []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), e.timeout)
	defer cancel()
	members, err := e.clients[0].MemberList(ctx)
	if err != nil {
		return err
	}
	version := "of unknown version"
	var lastErr error
	for _, endpoint := range endpoints {
		state, err := e.clients[0].Status(ctx, endpoint)
		if err == nil {
			version = state.Version
			break
		}
		lastErr = err
	}
	if version == "of unknown version" && lastErr != nil {
		return lastErr
	}
	reads := "linearizable reads"
	if e.stale {
		reads = "serializable reads: any member, which may be behind"
	}
	voters := 0
	for _, member := range members.Members {
		if !member.IsLearner {
			voters++
		}
	}
	e.told = lines{
		{"system", "etcd " + version},
		{"durability", "fsync on a majority before every answer, unless its members were told otherwise"},
		{"replication", fmt.Sprintf("%d on %d nodes", voters, len(members.Members))},
		{"consistency", reads},
		{"compression", "none"},
		{"engine", "bbolt; all keys are in memory"},
	}
	for _, member := range members.Members {
		for _, address := range member.ClientURLs {
			if parsed, err := url.Parse(address); err == nil {
				e.told = append(e.told, [2]string{"node", parsed.Host})
				break
			}
		}
	}
	return nil
}

func (e *etcd) facts() lines { return e.told }

func (e *etcd) close() {
	for _, client := range e.clients {
		_ = client.Close()
	}
}

func (e *etcd) open(wanted shape) (handler, lines, error) {
	if wanted.hash && len(wanted.fields) > transactionOpsMax {
		return nil, nil, fmt.Errorf("a record of %d fields does not fit one transaction of etcd: use basalt.record=string", len(wanted.fields))
	}
	return &records{etcd: e, shape: wanted}, lines{{"scans", "ordered"}}, nil
}

// records does requests on records. A string is a key of etcd; a hash is a key for each field, so that one field can be
// written without the others, and all of them in one transaction.
type records struct {
	*etcd
	shape
}

// between separates a record's key from its field. It sorts before everything that a key holds, so that records keep
// the order of their keys.
const between = "\x00"

func (r *records) do(asked request, out *reply) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout)
	defer cancel()
	client := r.clients[int(asked.token)%len(r.clients)]
	var key string
	if len(asked.args) > 1 {
		key = string(asked.args[1])
	}
	var reads []clientv3.OpOption
	if r.stale && asked.access == accessRead {
		reads = append(reads, clientv3.WithSerializable())
	}
	var err error
	switch name := string(asked.args[0]); {
	case (name == "GET" || name == "KV.GET") && len(asked.args) == 2:
		err = get(ctx, client, key, name == "KV.GET", reads, out)
	case name == "SET" && len(asked.args) == 3:
		if _, err = client.Put(ctx, key, string(asked.args[2])); err == nil {
			out.ok()
		}
	case name == "KV.PUT" && len(asked.args) == 5:
		err = putIf(ctx, client, key, asked.args[2], asked.args[4], out)
	case name == "DEL" && len(asked.args) == 2:
		err = r.remove(ctx, client, key, out)
	case name == "HGETALL" && len(asked.args) == 2:
		err = getAll(ctx, client, key, reads, out)
	case name == "HMGET" && len(asked.args) > 2:
		err = getSome(ctx, client, key, asked.args[2:], reads, out)
	case name == "HSET" && len(asked.args) > 3 && len(asked.args)%2 == 0:
		err = put(ctx, client, key, asked.args[2:], out)
	case name == "KV.RANGE" && len(asked.args) == 6:
		err = r.scan(ctx, client, key, string(asked.args[4]), reads, out)
	default:
		return fmt.Errorf("UNKNOWN request %s of %d arguments", name, len(asked.args))
	}
	return classified(err)
}

func get(ctx context.Context, client *clientv3.Client, key string, versioned bool, reads []clientv3.OpOption, out *reply) error {
	found, err := client.Get(ctx, key, reads...)
	switch {
	case err != nil:
	case len(found.Kvs) == 0:
		out.null()
	case versioned:
		out.array(2)
		out.bulk(found.Kvs[0].Value)
		out.integer(found.Kvs[0].ModRevision)
	default:
		out.bulk(found.Kvs[0].Value)
	}
	return err
}

func putIf(ctx context.Context, client *clientv3.Client, key string, value, version []byte, out *reply) error {
	expected, err := strconv.ParseInt(string(version), 10, 64)
	if err != nil {
		return errDamaged
	}
	unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", expected)
	done, err := client.Txn(ctx).If(unchanged).Then(clientv3.OpPut(key, string(value))).Commit()
	switch {
	case err != nil:
	case done.Succeeded:
		out.integer(done.Header.Revision)
	default:
		out.null()
	}
	return err
}

func (r *records) remove(ctx context.Context, client *clientv3.Client, key string, out *reply) error {
	first, options := key, []clientv3.OpOption(nil)
	if r.hash {
		first, options = fieldsOf(key)
	}
	removed, err := client.Delete(ctx, first, options...)
	if err == nil {
		out.integer(min(removed.Deleted, 1))
	}
	return err
}

// fieldsOf is the range of a record's fields.
func fieldsOf(key string) (string, []clientv3.OpOption) {
	return key + between, []clientv3.OpOption{clientv3.WithRange(key + "\x01")}
}

func getAll(ctx context.Context, client *clientv3.Client, key string, reads []clientv3.OpOption, out *reply) error {
	first, options := fieldsOf(key)
	found, err := client.Get(ctx, first, append(options, reads...)...)
	if err != nil {
		return err
	}
	out.array(2 * len(found.Kvs))
	for _, pair := range found.Kvs {
		out.bulk(pair.Key[len(first):])
		out.bulk(pair.Value)
	}
	return nil
}

func getSome(ctx context.Context, client *clientv3.Client, key string, fields [][]byte, reads []clientv3.OpOption, out *reply) error {
	operations := make([]clientv3.Op, len(fields))
	for i, field := range fields {
		operations[i] = clientv3.OpGet(key+between+string(field), reads...)
	}
	found, err := client.Txn(ctx).Then(operations...).Commit()
	if err != nil {
		return err
	}
	out.array(len(fields))
	for _, response := range found.Responses {
		if pairs := response.GetResponseRange().GetKvs(); len(pairs) > 0 {
			out.bulk(pairs[0].Value)
		} else {
			out.null()
		}
	}
	return nil
}

func put(ctx context.Context, client *clientv3.Client, key string, pairs [][]byte, out *reply) error {
	operations := make([]clientv3.Op, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		operations = append(operations, clientv3.OpPut(key+between+string(pairs[i]), string(pairs[i+1])))
	}
	var err error
	if len(operations) == 1 {
		_, err = client.Do(ctx, operations[0])
	} else {
		_, err = client.Txn(ctx).Then(operations...).Commit()
	}
	if err == nil {
		out.integer(int64(len(operations)))
	}
	return err
}

// errForeign: a scan has come upon records of another form, or upon what somebody else keeps here.
var errForeign = errors.New("FOREIGN a key in this store is none of this workload's")

// scan answers rows from a bound on: "[key" with the key, "(key" after it. It answers all rows at once, so it never
// tells where to go on.
func (r *records) scan(ctx context.Context, client *clientv3.Client, bound, limit string, reads []clientv3.OpOption, out *reply) error {
	rows, err := strconv.ParseInt(limit, 10, 32)
	if err != nil || rows < 1 || bound == "" || (bound[0] != '[' && bound[0] != '(') {
		return errDamaged
	}
	first, each := bound[1:], int64(1)
	if r.hash {
		each = int64(len(r.fields))
	}
	if bound[0] == '(' {
		first += map[bool]string{true: "\x01", false: "\x00"}[r.hash]
	}
	options := append(reads, clientv3.WithFromKey(), clientv3.WithLimit(rows*each))
	found, err := client.Get(ctx, first, options...)
	if err != nil {
		return err
	}
	var listed reply
	count := 0
	for at := 0; at < len(found.Kvs); count++ {
		key := string(found.Kvs[at].Key)
		listed.array(2)
		if !r.hash && strings.Contains(key, between) {
			return errForeign
		}
		if !r.hash {
			listed.bulk([]byte(key))
			listed.bulk(found.Kvs[at].Value)
			at++
			continue
		}
		key, _, _ = strings.Cut(key, between)
		end := at
		for end < len(found.Kvs) && strings.HasPrefix(string(found.Kvs[end].Key), key+between) {
			end++
		}
		if end == at {
			return errForeign
		}
		listed.bulk([]byte(key))
		listed.array(2 * (end - at))
		for ; at < end; at++ {
			listed.bulk(found.Kvs[at].Key[len(key)+len(between):])
			listed.bulk(found.Kvs[at].Value)
		}
	}
	out.array(2)
	out.null()
	out.array(count)
	out.bytes = append(out.bytes, listed.bytes...)
	return nil
}

// classified tells trouble from errors.
func classified(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, rpctypes.ErrNotCapable):
		return trouble{refused: true, word: "CLUSTERDOWN"}
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		return trouble{refused: true, word: "LOADING"}
	case errors.Is(err, rpctypes.ErrLeaderChanged), errors.Is(err, rpctypes.ErrStopped):
		return trouble{word: "disconnected"}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, rpctypes.ErrTimeout),
		errors.Is(err, rpctypes.ErrTimeoutDueToLeaderFail), errors.Is(err, rpctypes.ErrTimeoutDueToConnectionLost):
		return trouble{word: "timeout"}
	}
	switch status.Code(err) {
	case codes.Unavailable:
		return trouble{word: "disconnected"}
	case codes.DeadlineExceeded, codes.Canceled:
		return trouble{word: "timeout"}
	}
	return fmt.Errorf("ETCD %w", err)
}
