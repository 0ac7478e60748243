# Counts visits with redis-rb 4. Argument: the port of a node.
require "redis"

port = ARGV.fetch(0, "7000")
store = Redis.new(cluster: ["redis://127.0.0.1:#{port}"], password: ENV["BASALT_PASSWORD"])

store.hset("{user:7}:session", "name", "Ada", "city", "London")
store.expire("{user:7}:session", 3600)

# Both or neither: they are in one slot.
visits, = store.multi do |both|
  both.incr("{user:7}:visits")
  both.hset("{user:7}:session", "last", Time.now.to_i)
end

puts "visit #{visits} of #{store.hget('{user:7}:session', 'name')}"
