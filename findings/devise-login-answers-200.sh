#!/usr/bin/env bash
# The log-in of Devise, which most Rails applications have, answers a wrong password with 200, as it answers the form
# itself, and the right one with 302. Rails has no log-in of its own before version 8.
#
# Seen on 2026-11-27 with Debian 12's ruby-devise 4.8.1 and Rails 6.1.7.10: "form 200, wrong 200, right 302".
# Guess: 401 for a wrong password.
# Follows from it: the recipe "A log-in that answers 200" of docs/recipes.md.
# Ground: logins
#
# Use: devise-login-answers-200.sh [version of the Debian package]. Needs Debian 12's apt-get, dpkg, python3, curl,
# libsqlite3-0, libxslt1.1 and libyaml-0-2.
set -euo pipefail
version=${1:+=$1}
folder=$(mktemp -d)
trap 'kill "${server:-}" 2>/dev/null || true; rm -rf "$folder"' EXIT
cd "$folder"
apt-get -qq -o APT::Sandbox::User=root download "ruby-devise$version" \
	libruby3.1 racc rake ruby3.1 ruby-rubygems rubygems-integration \
	ruby-{actionpack,actionview,activemodel,activerecord,activesupport,bcrypt,builder,concurrent,crass,erubi,i18n,loofah} \
	ruby-{method-source,mini-portile2,minitest,nokogiri,orm-adapter,rack,rack-test,rails-dom-testing,rails-html-sanitizer,railties} \
	ruby-{responders,sqlite3,thor,tzinfo,warden,webrick,zeitwerk}
for package in *.deb; do dpkg -x "$package" packages; done
usr="$folder/packages/usr"
machine=$(basename "$(dirname "$usr"/lib/*/ruby)")
export LD_LIBRARY_PATH="$usr/lib/$machine"
export RUBYLIB="$usr/lib/ruby/vendor_ruby:$usr/lib/$machine/ruby/vendor_ruby/3.1.0:$usr/lib/ruby/3.1.0:$usr/lib/$machine/ruby/3.1.0"
export GEM_PATH="$usr/share/rubygems-integration/all:$usr/share/rubygems-integration/3.1.0:$usr/lib/$machine/rubygems-integration/3.1.0"
mkdir -p app/models config
echo 'class User < ActiveRecord::Base; devise :database_authenticatable; end' >app/models/user.rb
echo 'Rails.application.routes.draw { devise_for :users; root to: proc { [200, {}, ["home"]] } }' >config/routes.rb
cat >app.rb <<'RUBY'
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "devise"
require "devise/version"
require "devise/orm/active_record"
require "rack/handler/webrick"

ENV["DATABASE_URL"] = "sqlite3:finding.sqlite3"
Devise.setup { |config| config.secret_key = "0" * 64 }

class Finding < Rails::Application
  config.load_defaults 6.1
  config.root = __dir__
  config.eager_load = false
  config.secret_key_base = "0" * 64
  config.hosts.clear
  config.logger = Logger.new("rails.log")
end

class ApplicationController < ActionController::Base
  protect_from_forgery with: :exception
end

Finding.initialize!
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:users) { |t| t.string :email; t.string :encrypted_password } }
User.create!(email: "user@example.com", password: "right-password")
puts "Rails #{Rails.version}, Devise #{Devise::VERSION}"
$stdout.flush
Rack::Handler::WEBrick.run(Finding, Host: "127.0.0.1", Port: Integer(ARGV[0]), AccessLog: [])
RUBY
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$usr/bin/ruby3.1" app.rb "$port" >server.log 2>&1 &
server=$!
page="http://127.0.0.1:$port/users/sign_in"
form=$(curl -s --retry 45 --retry-connrefused --retry-delay 1 -o form.html -w '%{http_code}' "$page") || { head -n 5 server.log; exit 1; }
head -n 1 server.log
try() { # try PASSWORD: the status
	rm -f cookies
	token=$(curl -s -c cookies "$page" | sed -n 's/.*name="authenticity_token" value="\([^"]*\)".*/\1/p' | head -n 1)
	curl -s -o answer.html -w '%{http_code}' -b cookies --data-urlencode "authenticity_token=$token" -d "user[email]=user@example.com&user[password]=$1" "$page"
}
got="form $form, wrong $(try wrong), right $(try right-password)"
echo "$got"
[ "$got" = 'form 200, wrong 200, right 302' ] || { echo 'it has changed'; exit 1; }
