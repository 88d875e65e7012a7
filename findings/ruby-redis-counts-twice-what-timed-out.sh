#!/usr/bin/env bash
# The client redis for Ruby, as it is without options, sends a command again whose answer did not come in time, INCR too, and
# returns the second answer as if nothing had been. A counter, as of Rack::Attack, then counts the request twice.
#
# Seen on 2026-11-28 with Debian 12's ruby-redis 4.8.0, of one INCR whose first answer is lost: "silence: INCR 2 without an error,
# hang-up: INCR 2 without an error". ioredis and iovalkey, run by hand, do so after a hang-up, node-redis and phpredis never.
# Guess: the call raises an error, and the command has run once.
# Follows from it: this project sends nothing twice (docs/reliability.md, "The breaker"; DESIGN.md, "Nothing is sent twice").
# Ground: redis
#
# Use: ruby-redis-counts-twice-what-timed-out.sh [version of the Debian package]. Needs Debian 12's apt-get, dpkg and libyaml-0-2.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "ruby-redis${1:+=$1}" libruby3.1 ruby3.1 ruby-rubygems rubygems-integration
for package in *.deb; do dpkg -x "$package" packages; done
usr=$folder/packages/usr
machine=$(basename "$(dirname "$usr"/lib/*/ruby)")
export LD_LIBRARY_PATH="$usr/lib/$machine"
gem=$(echo "$usr"/share/rubygems-integration/all/gems/redis-*/lib)
export RUBYLIB="$gem:$usr/lib/ruby/vendor_ruby:$usr/lib/$machine/ruby/vendor_ruby/3.1.0:$usr/lib/ruby/3.1.0:$usr/lib/$machine/ruby/3.1.0"
cat >count.rb <<'END'
require "redis"
require "socket"

# A counter that speaks as much of Redis as INCR needs. It keeps its first answer to itself, or hangs up in its place.
def serve(socket, hangs_up, counts)
  loop do
    words = Array.new(socket.gets[1..].to_i) { socket.gets; socket.gets.chomp }
    if words[0].downcase != "incr"
      socket.write("+OK\r\n")
      next
    end
    counts << :run
    next socket.write(":#{counts.size}\r\n") if counts.size > 1
    break if hangs_up
  end
ensure
  socket.close
end

def outcome(hangs_up)
  counts = []
  server = TCPServer.new("127.0.0.1", 0)
  Thread.new { loop { Thread.new(server.accept) { |socket| serve(socket, hangs_up, counts) rescue nil } } }
  answer = Redis.new(host: "127.0.0.1", port: server.addr[1], timeout: 1).incr("counter")
  "INCR #{answer} without an error"
rescue Redis::BaseError => error
  "#{error.class}, run #{counts.size} times"
end

puts "redis #{Redis::VERSION}, ruby #{RUBY_VERSION}"
puts "silence: #{outcome(false)}, hang-up: #{outcome(true)}"
END
packages/usr/bin/ruby3.1 count.rb >out
cat out
[ "$(tail -1 out)" = 'silence: INCR 2 without an error, hang-up: INCR 2 without an error' ] || { echo 'it has changed'; exit 1; }
