package main

import "strconv"

// reply is a RESP2 reply being written.
type reply struct {
	bytes []byte
}

func (r *reply) number(kind byte, number int64) {
	r.bytes = append(r.bytes, kind)
	r.bytes = strconv.AppendInt(r.bytes, number, 10)
	r.bytes = append(r.bytes, "\r\n"...)
}

func (r *reply) ok()             { r.bytes = append(r.bytes, "+OK\r\n"...) }
func (r *reply) null()           { r.bytes = append(r.bytes, "$-1\r\n"...) }
func (r *reply) integer(n int64) { r.number(':', n) }
func (r *reply) array(count int) { r.number('*', int64(count)) }
func (r *reply) err(words string) {
	r.bytes = append(append(append(r.bytes, '-'), words...), "\r\n"...)
}
func (r *reply) bulk(value []byte) {
	r.number('$', int64(len(value)))
	r.bytes = append(append(r.bytes, value...), "\r\n"...)
}
