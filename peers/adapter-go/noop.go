package main

import (
	"bytes"
	"fmt"
	"strconv"
)

// noop stores nothing: it shows what the way to and from an adapter costs.
type noop struct{}

func connectNoop(lines) (store, error) { return noop{}, nil }

func (noop) facts() lines {
	told := lines{{"system", "no-op adapter (Go)"}, {"stores", "nothing"}}
	for _, name := range []string{"durability", "replication", "consistency", "compression", "engine"} {
		told = append(told, [2]string{name, "n/a"})
	}
	return told
}

func (noop) open(wanted shape) (handler, lines, error) {
	var record, packed reply
	value := bytes.Repeat([]byte{'x'}, wanted.fieldBytes)
	record.array(2 * len(wanted.fields))
	for _, name := range wanted.fields {
		record.bulk(name)
		record.bulk(value)
	}
	packed.bulk(bytes.Repeat([]byte{'x'}, len(wanted.fields)*(wanted.fieldBytes+12)))
	return canned{shape: wanted, value: value, record: record.bytes, packed: packed.bytes}, lines{{"scans", "ordered"}}, nil
}

func (noop) close() {}

// canned answers every request with what is ready.
type canned struct {
	shape
	value          []byte
	record, packed []byte
}

func (c canned) do(asked request, out *reply) error {
	switch name := string(asked.args[0]); name {
	case "HGETALL":
		out.bytes = append(out.bytes, c.record...)
	case "HMGET":
		out.array(len(asked.args) - 2)
		for range asked.args[2:] {
			out.bulk(c.value)
		}
	case "GET":
		out.bytes = append(out.bytes, c.packed...)
	case "KV.GET":
		out.array(2)
		out.bytes = append(out.bytes, c.packed...)
		out.integer(1)
	case "SET":
		out.ok()
	case "HSET", "DEL", "KV.PUT":
		out.integer(1)
	case "KV.RANGE":
		rows, err := strconv.Atoi(string(asked.args[len(asked.args)-2]))
		if err != nil || rows < 0 || rows > 10_000 {
			return errDamaged
		}
		out.array(2)
		out.null()
		out.array(rows)
		for range rows {
			out.array(2)
			out.bulk([]byte("user0000000000000000000"))
			if c.hash {
				out.bytes = append(out.bytes, c.record...)
			} else {
				out.bytes = append(out.bytes, c.packed...)
			}
		}
	default:
		return fmt.Errorf("UNKNOWN request %s", name)
	}
	return nil
}
