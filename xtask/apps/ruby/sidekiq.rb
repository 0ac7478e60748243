# Sidekiq: jobs by two processes, in bulk, scheduled, retried, by weight of queues.
require_relative 'trial'
require 'sidekiq'

JOBS = 120
REDIS = { url: "redis://127.0.0.1:#{Trial::PORT}/0", timeout: 15, reconnect_attempts: 3 }.freeze
Sidekiq.configure_server { |config| config.redis = REDIS }
Sidekiq.configure_client { |config| config.redis = REDIS }

class Work
  include Sidekiq::Worker
  sidekiq_options retry: 3

  def perform(name)
    Trial.done(name)
    sleep 0.01
  end
end

class FailsOnce
  include Sidekiq::Worker
  sidekiq_options queue: 'urgent', retry: 3
  sidekiq_retry_in { 0 }

  def perform(name)
    Trial.done(name)
    raise 'the first time' if Trial.counts[name] == 1
  end
end

def main
  require 'sidekiq/api'
  command = ['sidekiq', '-r', './program.rb', '-c', '4', '-q', 'urgent,5', '-q', 'default,1']
  start = -> { spawn({ 'TRIAL_WORKER' => '1' }, *command, out: :err, in: File::NULL) }
  workers = [start.call, start.call]
  restarts = 0
  look_after = lambda do
    workers.map! do |worker|
      next worker unless Process.waitpid(worker, Process::WNOHANG)

      Trial.check(Trial::KILLED, 'a process of Sidekiq ended')
      restarts += 1
      start.call
    end
  end
  errors = [Redis::BaseError]
  push = ->(name) { Trial.again(*errors) { Work.perform_async(name) } }
  (0...JOBS / 2).each { |number| push.call("job-#{number}") }
  Trial.half
  (JOBS / 2...JOBS - 10).each { |number| push.call("job-#{number}") }
  Trial.again(*errors) { Work.perform_bulk((JOBS - 10...JOBS).map { |number| ["job-#{number}"] }) }
  Trial.again(*errors) { Work.perform_in(1, 'later') }
  Trial.again(*errors) { FailsOnce.perform_async('twice') }
  names = (0...JOBS).map { |number| "job-#{number}" } + %w[later twice]
  # Sidekiq takes a job from the list before it works: with the node, the answers to those who wait are lost.
  lost = -> { names - Trial.counts.keys }
  begin
    Trial.wait(Trial::KILLED ? 40 : 60, -> { "never done: #{lost.call.first(10)}, #{lost.call.size} in all" }) do
      look_after.call
      lost.call.empty? && (Trial.counts['twice'] || 0) >= 2
    end
  rescue RuntimeError
    raise unless Trial::KILLED && lost.call.size <= 8
  end
  counts = Trial.counts
  counts.delete('twice')
  more = counts.select { |_, often| often > 1 }
  # A push whose answer was lost is made again, and is a second job.
  Trial.check(more.empty? || more.size <= Trial.failures.size, "done more than once: #{more}")
  Trial.wait(20, 'jobs are left') { Sidekiq::Queue.new.size.zero? && Sidekiq::ScheduledSet.new.size.zero? }
  Trial.wait(20, -> { "Sidekiq counts #{Sidekiq::Stats.new.processed}" }) { Trial::KILLED || Sidekiq::Stats.new.processed >= JOBS + 2 }
  workers.each { |worker| Process.kill('KILL', worker) }
  missing = lost.call.size
  Trial.say("OK #{counts.size} jobs done, #{more.empty? ? 'each once' : "#{more.size} more than once"}" \
            "#{missing.zero? ? '' : "; #{missing} lost with the node"}#{restarts.zero? ? '' : "; #{restarts} workers started again"}#{Trial.made_again}")
end

main if $PROGRAM_NAME == __FILE__ && !ENV['TRIAL_WORKER']
