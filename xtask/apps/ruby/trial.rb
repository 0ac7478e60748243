# What the programs share: where the store is, what they say, how calls are made again, and which jobs were done.
module Trial
  PORT = ENV.fetch('BASALT_PORT').to_i
  KILLED = ENV['BASALT_SITUATION'] == 'killed'
  # Workers are told by the environment.
  DONE = ENV.fetch('TRIAL_DONE') { "#{Dir.pwd}/done-#{ENV.fetch('BASALT_SITUATION')}" }
  File.write(DONE, '') unless ENV['TRIAL_DONE']
  ENV['TRIAL_DONE'] = DONE

  @failures = []

  class << self
    attr_reader :failures

    def say(line)
      $stdout.puts(line)
      $stdout.flush
    end

    # The node that leads the shard of the key, or of database 0, is to be killed now.
    def half(key = '')
      say("HALF #{key}".strip)
    end

    def check(holds, why)
      raise why unless holds
    end

    # Makes a call again where it fails, as an application does whose server is replaced. Counts failures.
    def again(*errors)
      tries = 60
      begin
        yield
      rescue *errors => error
        @failures << error.to_s
        warn "made again after #{error.class} #{error}"
        raise if (tries -= 1).zero? || !KILLED
        sleep 0.25
        retry
      end
    end

    def made_again
      @failures.empty? ? '' : "; #{@failures.size} calls made again"
    end

    # A job counts however the store behaves: a line each in a file.
    def done(name)
      File.open(DONE, 'a') { |file| file.syswrite("#{name}\n") }
    end

    def counts
      File.readlines(DONE, chomp: true).tally
    end

    def wait(seconds, why)
      finish = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
      until yield
        check(Process.clock_gettime(Process::CLOCK_MONOTONIC) < finish, why.respond_to?(:call) ? why.call : why)
        sleep 0.05
      end
    end
  end
end
